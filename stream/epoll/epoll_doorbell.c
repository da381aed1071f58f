// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_doorbell.c - links get into an epoll set and out of it: one doorbell of each link is in the
 * kernel's set (its peer end rings it, edge-triggered) and wakes the set's sleepers. Also decides
 * which links may be in a set that several processes hold. The other epoll*.c files and links.c
 * call it.
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

int rsk_epoll_ensure_doorbell(struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_link *l)
{
	int rc = rsk_epoll_links_doorbell(&e->links, l), at;
	uint32_t i;

	if (rc >= 0)
		return rc;
	at = rsk_epoll_links_room(&e->links);
	if (at < 0)
		return at;
	i = rsk_link_take_doorbell(l, 0);
	/*
	 * Stored before the kernel knows the doorbell: a thread that sleeps in the set may return
	 * with its first event.
	 */
	atomic_store(&e->belled, true);
	rc = rsk_link_watch(l, i, rsk_epoll_kernel_set(e),
			    f->tag | RSK_EPOLL_DOORBELL | (uint32_t)at);
	if (rc < 0) {
		rsk_link_give_doorbell(l, i);
		return rc;
	}
	rsk_lock(&f->chain);
	if (l->remote)
		__atomic_store_n(&e->besides, e->besides | RSK_EPOLL_REMOTE, __ATOMIC_RELAXED);
	rsk_epoll_links_add(e, l, i);
	rsk_unlock(&f->chain);
	return (int)i;
}

/*
 * The peer holds the doorbell as well, so closing it does not remove it from a set. The set's lock
 * is held.
 */
static void leave_set(const struct rsk_epoll *e, const struct rsk_link *l)
{
	if (l->maker == rsk_pid)
		rsk_epoll_links_unwatch(&e->links, l, rsk_epoll_kernel_set(e));
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
		rsk_epoll_links_drop(e, l);
		rsk_unlock(&f->chain);
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_give_doorbells(struct rsk_epoll *e)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	rsk_lock(&f->chain);
	rsk_epoll_links_clear(e);
	rsk_unlock(&f->chain);
}
