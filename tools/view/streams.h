/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h - the connections of a target (rsock why, demote, promote), as their near ends see
 * them.
 */
#ifndef RSK_TOOLS_STREAMS_H
#define RSK_TOOLS_STREAMS_H

#include "host.h"
#include "target.h"

/* Owned: streams_free(). netns is 0. */
struct streams {
	struct rsk_tuple *at;
	size_t count;
};

/* Adds one. 0 or -ENOMEM. */
int streams_add(struct streams *all, const struct rsk_tuple *tuple);
/* Sorts them and removes duplicates. */
void streams_settle(struct streams *all);
void streams_free(struct streams *all);

/* The next three add what they find, which may be nothing. 0 or -ENOMEM. */

/* The connected sockets that a process holds, and the streams in its records. */
int streams_of_process(const struct host *host, pid_t pid, struct streams *out);
/*
 * The stream of one descriptor. *inode: of the socket, 0: not a socket or unreadable. *row: its
 * row in the kernel's table, NULL: not in this namespace.
 */
int streams_of_descriptor(const struct host *host, pid_t pid, int fd, struct streams *out,
			  uint64_t *inode, const struct sock_row **row);
/* The streams to or from an address; each from its server's end if that is on this host. */
int streams_of_address(const struct host *host, const struct addresses *where, uint16_t port,
		       struct streams *out);

#endif /* RSK_TOOLS_STREAMS_H */
