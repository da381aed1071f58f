/* SPDX-License-Identifier: BSD-2-Clause */
/* holders.h - which processes hold which sockets, as far as /proc/PID/fd can be read. */
#ifndef RSK_TOOLS_HOLDERS_H
#define RSK_TOOLS_HOLDERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct holder {
	uint64_t inode;
	pid_t pid;
	int fd;
};

/* Owned: holders_free(). */
struct holders {
	struct holder *by_inode; /* sorted by inode, pid, fd */
	size_t count;
	size_t unreadable; /* processes whose descriptors could not be read */
};

/* Reads /proc/PID/fd of all processes. 0 or -errno. */
int holders_scan(struct holders *out);
void holders_free(struct holders *h);

/* The holders of one socket, as an array of *n. Borrowed; NULL: none was found. */
const struct holder *holders_of(const struct holders *h, uint64_t inode, size_t *n);

/* The inode of the socket that a process has as @fd; 0: not a socket, or it cannot be read. */
uint64_t socket_inode(pid_t pid, int fd);

#endif /* RSK_TOOLS_HOLDERS_H */
