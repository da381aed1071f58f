/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epoll_apart.h - sets that another process holds, too: epoll_apart.c describes them. The other
 * epoll*.c files call it. Functions marked + need the family lock and the set's lock.
 */
#ifndef RSK_EPOLL_APART_H
#define RSK_EPOLL_APART_H

#include <rsock/sys.h>

#include "epollset.h"

/*
 * + 0: a registration @r of a set that is not watched can be taken over, into
 * rsk_epoll_kernel_set(); or -errno.
 */
int rsk_epoll_make_place(const struct rsk_epoll_family *f, struct rsk_reg *r);
/* + 0: the entries of ours are (again) in the set itself; or -EBUSY: it stands apart. */
int rsk_epoll_apart_home(const struct rsk_epoll_family *f, struct rsk_epoll *e);
/* + No entry of ours is left in the private set: waits go to the set itself. */
void rsk_epoll_apart_ends(struct rsk_epoll *e);
void rsk_epoll_apart_closed(struct rsk_epoll *e); /* + the set is closed */
void rsk_epoll_apart_forked(struct rsk_epoll *e); /* in the child */
/*
 * The calling thread is about to sleep: on which kernel set. rsk_epoll_slept() must follow; it
 * does nothing if @e is NULL, or the thread has not said that it sleeps there. No lock is held.
 */
int rsk_epoll_sleeps_at(struct rsk_epoll *e, int epfd);
void rsk_epoll_slept(struct rsk_epoll *e);
/*
 * @n events of the private set are in @evs: the set's own events are added in place of the entry
 * that stands for it. Returns how many there are then.
 */
int rsk_epoll_add_theirs(const struct rsk_epoll_family *f, int epfd, struct epoll_event *evs, int n,
			 int max);

/* The kernel set that shows all events of the set that the library wants, and of the program. */
static inline int rsk_epoll_shown_by(const struct rsk_epoll *e, int epfd)
{
	return __builtin_expect(atomic_load(&e->apart), 0) ? e->private_set : epfd;
}

/* The kernel's events now, ours and the program's: as epoll_wait() without a timeout. */
static inline int rsk_epoll_ask_set(const struct rsk_epoll_family *f, const struct rsk_epoll *e,
				    int epfd, struct epoll_event *evs, int max)
{
	int at = rsk_epoll_shown_by(e, epfd), n = rsk_sys_epoll_pwait(at, evs, max, 0, NULL);

	return __builtin_expect(at != epfd, 0) ? rsk_epoll_add_theirs(f, epfd, evs, n, max) : n;
}

#endif
