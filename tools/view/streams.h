/* SPDX-License-Identifier: BSD-2-Clause */
/* streams.h - the connections that a target stands for, as their near ends see them. */
#ifndef RSK_TOOLS_STREAMS_H
#define RSK_TOOLS_STREAMS_H

#include "host.h"
#include "target.h"

/* Owned: streams_free(). netns is 0. */
struct streams {
	struct rsk_tuple *at;
	size_t count;
};

/* One more. 0 or -ENOMEM. */
int streams_add(struct streams *all, const struct rsk_tuple *tuple);
/* In order, each once. */
void streams_settle(struct streams *all);
void streams_free(struct streams *all);

/* Each adds what there is, which may be nothing. 0 or -ENOMEM. */

/* Those of the sockets that a process holds, and those that the library says it has. */
int streams_of_process(const struct host *host, pid_t pid, struct streams *out);
/* *inode: of the socket, 0: none that can be seen; *row: the kernel's of it, NULL: none of this namespace. */
int streams_of_descriptor(const struct host *host, pid_t pid, int fd, struct streams *out,
			  uint64_t *inode, const struct sock_row **row);
/* From their server's end where that is here. */
int streams_of_address(const struct host *host, const struct addresses *where, uint16_t port,
		       struct streams *out);

#endif /* RSK_TOOLS_STREAMS_H */
