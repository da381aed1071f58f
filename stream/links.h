/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * links.h - the links of this process, see links.c. All with the join lock held, but those that say so.
 */
#ifndef RSK_LINKS_H
#define RSK_LINKS_H

#include "link.h"

struct rsk_link_ref {
	struct rsk_link *l;
	struct rsk_seg
		inherited; /* what of another's link was mapped and open here at the fork: it may have more since */
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

/* Before a fork, the lock kept over it: count the child as a holder, note what it gets. @undo: there was no child. */
void rsk_links_fork(bool undo);

/*
 * This process is about to end, or another program to take its place: it holds no inherited link any more, nor any
 * @own. Mappings and fds stay, for threads that still run, and go with the process.
 */
void rsk_links_leave(bool own);

#endif
