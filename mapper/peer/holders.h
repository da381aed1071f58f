/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * holders.h - whether any other process of this host has a socket. stream/pair/inherited.c asks
 * before a socket that came through exec may be promoted (docs/adr/fork-and-exec.md).
 *
 * The kernel does not tell how many descriptors lead to a socket: the descriptors of all processes
 * in /proc are compared with it.
 */
#ifndef RSK_MAPPER_HOLDERS_H
#define RSK_MAPPER_HOLDERS_H

#include <stdint.h>
#include <sys/types.h>

struct rsk_holder {
	pid_t pid;
	int fd;
};

/*
 * rsk_holders_look - looks for another process that has socket @inode, which a process of user @uid
 * made (fstat(2) of the socket gives both). Returns 0: none has it; 1: *who has it;
 * -EACCES: a process that may have it cannot be looked at, and will not be later; -EAGAIN: a
 * process ended meanwhile, look again; -ETIME: at CLOCK_MONOTONIC @until_ns it was not finished;
 * another -errno.
 *
 * Not found are: a descriptor of a thread with a table of its own (CLONE_FILES undone), one that is
 * in flight in a local socket, one that an io_uring has registered, a process in a pid namespace
 * above this one, and a program that has changed its user and that neither is an ancestor nor can
 * be read.
 *
 * Opens and closes descriptors; does not block; signal-safe.
 */
int rsk_holders_look(uint32_t inode, uid_t uid, uint64_t until_ns, struct rsk_holder *who);

#endif /* RSK_MAPPER_HOLDERS_H */
