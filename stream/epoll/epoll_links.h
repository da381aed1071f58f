/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll_links.h - the links of an epoll set. epollset.h includes it; the functions are in
 * epoll_links.c, and the other epoll*.c files call them.
 *
 * A set with no more than RSK_EPOLL_POLLED links polls them all: a wait looks at each ready map,
 * announces each doorbell before it sleeps, and retracts that when it wakes.
 *
 * A set may have links to thousands of peer processes, of which few have news at a time. What a
 * wait costs must not grow with their number, so most of them stay announced, also while no thread
 * sleeps, and are not looked at: the peer rings the doorbell for news whatever this process does,
 * and the kernel reports which link it is. Such a link is polled from then on, until a thread has
 * slept (its announcement is then left as it is), or until RSK_EPOLL_POLLED others have rung. This
 * is what network drivers do with interrupts (NAPI).
 *
 * The order is that of a sleeper (fabric/segment.h): announce, fence, drain the ready map. News
 * that the drain does not find comes after the announcement, so that the peer rings. That event
 * stays in the kernel's set until a thread takes it out, which then puts the link on the list of
 * rung ones. Each thread that is about to sleep empties that list, after its own announcement
 * (rsk_epoll_drain()). A thread that takes an event out after that check wakes a sleeper
 * (rsk_epoll.taken), which may be itself.
 */
#ifndef RSK_EPOLL_LINKS_H
#define RSK_EPOLL_LINKS_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_epoll;
struct rsk_epoll_family;
struct rsk_link;

/*
 * Links of one set: more than a process can have, since each reserves 32 GiB of its address space
 * (fabric/segment.h).
 */
#define RSK_EPOLL_LINKS 4096u
#define RSK_EPOLL_POLLED 64u
#define RSK_EPOLL_NONE 0x7fffffffu /* no index */

/* An entry of the table. Its index stays the same as long as the link is in the set. */
struct rsk_epoll_link {
	struct rsk_link *l; /* borrowed until rsk_epoll_link_gone(); NULL: free */
	uint8_t doorbell;
	bool polled;
	bool rung;     /* on the list of rung links; also a free one, which the list still has */
	uint32_t next; /* rung: the next one there; free: the next free one */
};

struct rsk_epoll_polled {
	struct rsk_link *l;
	uint32_t doorbell;
	uint32_t at; /* its index in the table */
};

/*
 * All zero: no link. The polled ones are changed under the set's lock and the chain lock, read
 * under either of the two; a thread that spins reads @n, @npolled and the polled links without,
 * relaxed (rsk_links_use()). The rest is under the set's lock.
 */
struct rsk_epoll_links {
	uint32_t npolled; /* 0: the set has no link */
	uint32_t turn;	  /* modulo RSK_EPOLL_POLLED: the polled one that makes room next */
	struct rsk_epoll_polled polled[RSK_EPOLL_POLLED];
	uint32_t n;		      /* links */
	uint32_t used, room;	      /* entries of the table */
	uint32_t free, rung;	      /* lists: an index + 1; 0: empty */
	uint32_t checked;	      /* where the next recheck begins */
	struct rsk_epoll_link *table; /* [room], arena memory, owned */
};

/* All functions below need the set's lock. */

/* The number of the link's doorbell in the set; -ENOENT: the link is not in the set. */
int rsk_epoll_links_doorbell(const struct rsk_epoll_links *k, const struct rsk_link *l);
/*
 * Makes room for one more link. Returns the index that it will have; -E2BIG: there are
 * RSK_EPOLL_LINKS; -ENOMEM.
 */
int rsk_epoll_links_room(struct rsk_epoll_links *k);
/*
 * Adds a link whose doorbell is in the kernel's set, at the index from rsk_epoll_links_room(). The
 * chain lock is held.
 */
void rsk_epoll_links_add(struct rsk_epoll *e, struct rsk_link *l, uint32_t doorbell);
/* Takes a link out, if it is there. The chain lock is held. */
void rsk_epoll_links_drop(struct rsk_epoll *e, const struct rsk_link *l);
/* Takes all links out, gives their doorbells back, and frees the table. The chain lock is held. */
void rsk_epoll_links_clear(struct rsk_epoll *e);

/*
 * Adds the doorbells of all links to the kernel's set @set: 0 or -errno. unwatch removes them, of
 * all links or of @only.
 */
int rsk_epoll_links_watch(const struct rsk_epoll_links *k, int set, uint64_t tag);
void rsk_epoll_links_unwatch(const struct rsk_epoll_links *k, const struct rsk_link *only, int set);

/* The kernel has reported the doorbell of the link at index @at, which may be out of date. */
void rsk_epoll_links_rang(struct rsk_epoll *e, uint32_t at);
/* Drains the ready maps of the links that rang, and polls or announces them. */
void rsk_epoll_links_take_rung(struct rsk_epoll_family *f, struct rsk_epoll *e);

/*
 * After a sleep, for which all polled links were announced, of a set with more links than can be
 * polled: those that did not ring stay announced, and are not polled any more. One always is.
 */
void rsk_epoll_links_woken(struct rsk_epoll *e);
/*
 * An event of the kernel's that was taken out is lost if its thread is cancelled, or leaves by a
 * longjmp() from a handler, before it has translated it. Puts those of the next @count links in the
 * table on the list of rung ones that are neither polled nor announced. The set has links.
 */
void rsk_epoll_links_recheck(struct rsk_epoll *e, uint32_t count);

bool rsk_epoll_links_validate(const struct rsk_epoll_links *k);

#endif
