// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_doorbell.c - the links of an epoll set: one doorbell of each link is in the set (its peer
 * end rings it, edge-triggered) and wakes the set's sleepers. Also decides which links may be in a
 * set that several processes hold. The other epoll*.c files and link.c call it.
 */
#include <errno.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epollset.h"

void rsk_epoll_leaving(struct rsk_epoll *e)
{
	atomic_fetch_sub(&e->fds, 1);
}

void rsk_epoll_stays(struct rsk_epoll *e)
{
	atomic_fetch_add(&e->fds, 1);
}

uint64_t rsk_epoll_doorbell_bit(const struct rsk_epoll *e, const struct rsk_link *l)
{
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (e->links[i].l == l)
			return 1ull << e->links[i].doorbell;
	return 0;
}

/* The chain lock is held. */
static void drop_link(struct rsk_epoll *e, uint32_t i)
{
	e->links[i] = e->links[--e->nlinks];
}

int rsk_epoll_ensure_doorbell(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_link *l)
{
	uint32_t i;
	int rc;

	if (rsk_epoll_doorbell_bit(e, l))
		return 0;
	if (!rsk_epoll_is_ours_again(e))
		return -EBUSY;
	if (e->nlinks == RSK_EPOLL_LINKS)
		return -ENOSPC;
	i = rsk_link_take_doorbell(l, 0);
	/*
	 * Stored before the kernel knows the doorbell: a thread that sleeps in the set may return
	 * with its first event.
	 */
	atomic_store(&e->belled, true);
	rc = rsk_link_watch(l, i, rsk_epoll_kernel_set(e), f->tag | RSK_EPOLL_DOORBELL);
	if (rc < 0) {
		rsk_link_give_doorbell(l, i);
		return rc;
	}
	rsk_lock(&f->chain);
	e->remote |= l->remote;
	e->links[e->nlinks].l = l;
	e->links[e->nlinks].doorbell = i;
	e->nlinks++;
	rsk_unlock(&f->chain);
	return 0;
}

/*
 * The peer holds the doorbell as well, so closing it does not remove it from a set. The set's lock
 * is held.
 */
static void leave_set(const struct rsk_epoll *e, const struct rsk_link *l)
{
	if (l->maker != rsk_pid)
		return;
	for (uint32_t k = 0; k < e->nlinks; k++)
		if (e->links[k].l == l)
			rsk_link_unwatch(l, e->links[k].doorbell, rsk_epoll_kernel_set(e));
}

void rsk_epoll_link_gone(struct rsk_link *l)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	uint32_t high = rsk_fd_high();

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (uint32_t i = 0; i < high; i++) {
		struct rsk_epoll *e = rsk_epoll_of((int)i);

		if (!e)
			continue;
		rsk_lock(&e->lock);
		leave_set(e, l);
		rsk_lock(&f->chain);
		for (uint32_t k = 0; k < e->nlinks; k++)
			if (e->links[k].l == l)
				drop_link(e, k--);
		rsk_unlock(&f->chain);
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_give_doorbells(struct rsk_epoll *e)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	rsk_lock(&f->chain);
	for (uint32_t i = 0; i < e->nlinks; i++)
		rsk_link_give_doorbell(e->links[i].l, e->links[i].doorbell);
	e->nlinks = 0;
	rsk_unlock(&f->chain);
}
