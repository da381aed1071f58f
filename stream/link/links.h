/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * links.h - the links of this process, see links.c. All with the join lock held, but those that say so.
 */
#ifndef RSK_LINKS_H
#define RSK_LINKS_H

#include "link.h"

struct rsk_link_ref {
	struct rsk_link *l;
};

/* Process's own memory. Written under the join lock; n and at also read without, by rsk_links_have(). */
extern struct rsk_links {
	struct rsk_link_ref *_Atomic at;
	_Atomic(uint32_t) n; /* stored after what it counts */
	uint32_t room;
} rsk_links;

int rsk_links_add(struct rsk_link *l); /* one that this process made; 0 or -ENOMEM */
void rsk_links_sweep(void);	       /* drop those that are dead and unused */
/* Without the lock: does no process hold its other end (asks the kernel)? Is it one of this process's? */
bool rsk_link_peer_gone(const struct rsk_link *l);
bool rsk_links_have(const struct rsk_link *l);

/* In the child of a fork: none of them is this process's (rsk_link_forked()). */
void rsk_links_forked(bool asleep);

/* This process is about to end. Mappings and fds stay, for threads that still run, and go with the process. */
void rsk_links_leave(void);

/* Is told of a link that is about to go, which must not be in any set of epoll then; set once, or NULL. */
extern void (*rsk_links_gone)(struct rsk_link *l);

#endif
