// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_links.c - the table of an epoll set's links, which of them are polled and which are
 * announced: see epoll_links.h.
 */
#include "epoll_links.h"

#include <errno.h>
#include <string.h>

#include "arena.h"
#include "epollset.h"

#define FIRST_ROOM 16u
#define RECHECKED 4u /* links after a sleep */

int rsk_epoll_links_doorbell(const struct rsk_epoll_links *k, const struct rsk_link *l)
{
	for (uint32_t i = 0; i < k->used; i++)
		if (k->table[i].l == l)
			return k->table[i].doorbell;
	return -ENOENT;
}

static int grow(struct rsk_epoll_links *k)
{
	uint32_t room = k->room ? k->room * 2 : FIRST_ROOM;
	struct rsk_epoll_link *table = rsk_arena_alloc(room * sizeof(*table));

	if (!table)
		return -ENOMEM;
	if (k->table)
		memcpy(table, k->table, k->used * sizeof(*table));
	rsk_arena_free(k->table);
	k->table = table;
	k->room = room;
	return 0;
}

int rsk_epoll_links_room(struct rsk_epoll_links *k)
{
	int rc;

	if (k->n == RSK_EPOLL_LINKS)
		return -E2BIG;
	if (k->free)
		return (int)(k->free - 1);
	rc = k->used == k->room ? grow(k) : 0;
	return rc < 0 ? rc : (int)k->used;
}

/* ---- polled and announced ---- */

/* What a thread that spins reads without a lock is stored relaxed: see epoll_links.h. */
static void count(uint32_t *word, uint32_t n)
{
	__atomic_store_n(word, n, __ATOMIC_RELAXED);
}

static void put_polled(struct rsk_epoll_links *k, uint32_t place, struct rsk_epoll_polled p)
{
	__atomic_store_n(&k->polled[place].l, p.l, __ATOMIC_RELAXED);
	k->polled[place].doorbell = p.doorbell;
	k->polled[place].at = p.at;
}

/* The news of the link is found by its ready map from now on, which the caller drains. */
static void poll_link(struct rsk_epoll_links *k, uint32_t place, uint32_t at)
{
	put_polled(k, place,
		   (struct rsk_epoll_polled){ k->table[at].l, k->table[at].doorbell, at });
	k->table[at].polled = true;
}

/* The same as one more. */
static void poll_too(struct rsk_epoll_links *k, uint32_t at)
{
	poll_link(k, k->npolled, at);
	count(&k->npolled, k->npolled + 1);
}

/*
 * From here on the peer rings for news, whether a thread sleeps or not. The drain finds what came
 * before, for which it did not.
 */
static void announce_link(const struct rsk_epoll *e, const struct rsk_epoll_link *entry)
{
	atomic_fetch_or(&rsk_seg_own_head(&entry->l->seg)->asleep, 1ull << entry->doorbell);
	atomic_thread_fence(memory_order_seq_cst);
	rsk_epoll_drain_link(e, entry->l);
}

/* A thread sleeps on the set, or a poll of it is to wake: all of its links are announced. */
static bool is_slept_on(const struct rsk_epoll *e)
{
	return atomic_load(&e->sleepers) || atomic_load(&e->watched);
}

/* Without room the link takes the place of the one that has been polled longest. */
static void poll_another(struct rsk_epoll *e, uint32_t at)
{
	struct rsk_epoll_links *k = &e->links;
	uint32_t place, out;

	if (k->npolled < RSK_EPOLL_POLLED) {
		poll_too(k, at);
		return;
	}
	place = k->turn++ % RSK_EPOLL_POLLED;
	out = k->polled[place].at;
	poll_link(k, place, at);
	k->table[out].polled = false;
	announce_link(e, &k->table[out]);
}

/* False: the peer has taken the announcement back, and rings or has rung. */
static bool is_announced(const struct rsk_link *l, uint32_t doorbell)
{
	return atomic_load(&rsk_seg_own_head(&l->seg)->asleep) & 1ull << doorbell;
}

void rsk_epoll_links_recheck(struct rsk_epoll *e, uint32_t count)
{
	struct rsk_epoll_links *k = &e->links;

	for (; count; count--) {
		const struct rsk_epoll_link *entry;

		k->checked = k->checked < k->used ? k->checked : 0;
		entry = &k->table[k->checked];
		if (entry->l && !is_announced(entry->l, entry->doorbell))
			rsk_epoll_links_rang(e, k->checked);
		k->checked++;
	}
}

void rsk_epoll_links_woken(struct rsk_epoll *e)
{
	struct rsk_epoll_links *k = &e->links;

	uint32_t n = 0;

	for (uint32_t i = 0; i < k->npolled; i++) {
		struct rsk_epoll_polled p = k->polled[i];

		/* The last one stays, so that there is one whose eventfd wakes sleepers. */
		if (is_announced(p.l, p.doorbell) && (n || i + 1 < k->npolled))
			k->table[p.at].polled = false;
		else
			put_polled(k, n++, p);
	}
	count(&k->npolled, n);
	k->turn = 0;
	rsk_epoll_links_recheck(e, RECHECKED);
}

void rsk_epoll_links_add(struct rsk_epoll *e, struct rsk_link *l, uint32_t doorbell)
{
	struct rsk_epoll_links *k = &e->links;
	uint32_t at = k->free ? k->free - 1 : k->used++;

	if (k->free)
		k->free = k->table[at].next;
	k->table[at] = (struct rsk_epoll_link){ .l = l, .doorbell = (uint8_t)doorbell };
	count(&k->n, k->n + 1);
	if (k->npolled < RSK_EPOLL_POLLED)
		poll_too(k, at);
	else
		announce_link(e, &k->table[at]);
}

/*
 * The polled link at @place has gone. If it was the only one, an announced link is polled instead,
 * and stays announced until a thread wakes up, which costs at most one needless event.
 */
static void drop_polled(struct rsk_epoll_links *k, uint32_t place)
{
	count(&k->npolled, k->npolled - 1);
	put_polled(k, place, k->polled[k->npolled]);
	for (uint32_t i = 0; i < k->used && !k->npolled; i++)
		if (k->table[i].l)
			poll_too(k, i);
}

void rsk_epoll_links_drop(struct rsk_epoll *e, const struct rsk_link *l)
{
	struct rsk_epoll_links *k = &e->links;
	uint32_t at = 0;

	while (at < k->used && k->table[at].l != l)
		at++;
	if (at == k->used)
		return;
	k->table[at].l = NULL;
	count(&k->n, k->n - 1);
	for (uint32_t i = 0; i < k->npolled; i++)
		if (k->polled[i].at == at) {
			drop_polled(k, i);
			break;
		}
	k->table[at].polled = false;
	if (k->table[at].rung)
		return; /* the list of rung ones still has it */
	k->table[at].next = k->free;
	k->free = at + 1;
}

void rsk_epoll_links_clear(struct rsk_epoll *e)
{
	struct rsk_epoll_links *k = &e->links;

	for (uint32_t i = 0; i < k->used; i++)
		if (k->table[i].l)
			rsk_link_give_doorbell(k->table[i].l, k->table[i].doorbell);
	rsk_arena_free(k->table);
	k->table = NULL;
	k->used = k->room = k->free = k->rung = k->turn = 0;
	count(&k->n, 0);
	count(&k->npolled, 0); /* a thread that spins may still read polled[] */
	__atomic_store_n(&e->besides, 0, __ATOMIC_RELAXED);
}

/* ---- doorbells in the kernel's set ---- */

int rsk_epoll_links_watch(const struct rsk_epoll_links *k, int set, uint64_t tag)
{
	int rc = 0;

	for (uint32_t i = 0; i < k->used && rc == 0; i++)
		if (k->table[i].l)
			rc = rsk_link_watch(k->table[i].l, k->table[i].doorbell, set,
					    tag | RSK_EPOLL_DOORBELL | i);
	return rc;
}

void rsk_epoll_links_unwatch(const struct rsk_epoll_links *k, const struct rsk_link *only, int set)
{
	for (uint32_t i = 0; i < k->used; i++)
		if (k->table[i].l && (!only || k->table[i].l == only))
			rsk_link_unwatch(k->table[i].l, k->table[i].doorbell, set);
}

void rsk_epoll_links_rang(struct rsk_epoll *e, uint32_t at)
{
	struct rsk_epoll_links *k = &e->links;
	struct rsk_epoll_link *entry = at < k->used ? &k->table[at] : NULL;

	if (!entry || !entry->l || entry->polled || entry->rung)
		return;
	entry->rung = true;
	entry->next = k->rung;
	k->rung = at + 1;
	__atomic_store_n(&e->besides, e->besides | RSK_EPOLL_RUNG, __ATOMIC_RELAXED);
}

void rsk_epoll_links_take_rung(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct rsk_epoll_links *k = &e->links;

	rsk_lock(&f->chain);
	while (k->rung) {
		uint32_t at = k->rung - 1;
		struct rsk_epoll_link *entry = &k->table[at];

		k->rung = entry->next;
		entry->rung = false;
		if (!entry->l) {
			entry->next = k->free;
			k->free = at + 1;
		} else if (is_slept_on(e)) {
			announce_link(e, entry);
		} else {
			if (!entry->polled) /* drop_polled() may have made it so */
				poll_another(e, at);
			rsk_epoll_drain_link(e, entry->l);
		}
	}
	rsk_unlock(&f->chain);
	__atomic_store_n(&e->besides, e->besides & ~RSK_EPOLL_RUNG, __ATOMIC_RELAXED);
}

/* ---- checks ---- */

/* The length of a list; UINT32_MAX: it has an index that is out of range, or a cycle. */
static uint32_t length(const struct rsk_epoll_links *k, uint32_t first, bool rung)
{
	uint32_t n = 0;

	for (uint32_t i = first; i; i = k->table[i - 1].next)
		if (i > k->used || n++ > k->used || k->table[i - 1].rung != rung ||
		    (!rung && k->table[i - 1].l))
			return UINT32_MAX;
	return n;
}

bool rsk_epoll_links_validate(const struct rsk_epoll_links *k)
{
	uint32_t n = 0, polled = 0, rung = 0, nfree = 0;

	if (k->used > k->room || k->n > k->used || k->npolled > RSK_EPOLL_POLLED)
		return false;
	for (uint32_t i = 0; i < k->used; i++) {
		const struct rsk_epoll_link *entry = &k->table[i];

		n += entry->l != NULL;
		polled += entry->polled;
		rung += entry->rung;
		nfree += !entry->l && !entry->rung;
		if (entry->polled && !entry->l)
			return false;
	}
	for (uint32_t i = 0; i < k->npolled; i++) {
		const struct rsk_epoll_polled *p = &k->polled[i];

		if (p->at >= k->used || !k->table[p->at].polled || k->table[p->at].l != p->l ||
		    k->table[p->at].doorbell != p->doorbell)
			return false;
	}
	return n == k->n && polled == k->npolled && !k->npolled == !n &&
	       length(k, k->rung, true) == rung && length(k, k->free, false) == nfree;
}
