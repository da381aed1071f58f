/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * links.h - the list of this process's links. pair/, remote/ and the fork code call it. All
 * functions need the pairing lock, except those that say otherwise.
 */
#ifndef RSK_LINKS_H
#define RSK_LINKS_H

#include "link.h"

struct rsk_link_ref {
	struct rsk_link *l;
};

/*
 * Private to the process. Written under the pairing lock; n and at are also read without, by
 * rsk_links_have().
 */
extern struct rsk_links {
	struct rsk_link_ref *_Atomic at;
	_Atomic(uint32_t) n; /* stored after the entries it counts */
	uint32_t room;
} rsk_links;

int rsk_links_add(struct rsk_link *l); /* adds a link that this process made; 0 or -ENOMEM */
void rsk_links_sweep(void);	       /* drops links that are dead and unused */
/*
 * Without the lock. rsk_link_peer_gone - whether no process holds the link's other end (asks the
 * kernel). rsk_links_have - whether it is one of this process's links.
 */
bool rsk_link_peer_gone(const struct rsk_link *l);
bool rsk_links_have(const struct rsk_link *l);

/* In the child of a fork: removes all links, which are the parent's (rsk_link_forked()). */
void rsk_links_forked(bool asleep);

/*
 * This process is about to end. Mappings and fds stay, for threads that still run, and are freed
 * with the process.
 */
void rsk_links_leave(void);

/*
 * Called for a link that is about to be dropped, to remove it from all epoll sets; set once, or
 * NULL.
 */
extern void (*rsk_links_gone)(struct rsk_link *l);

#endif
