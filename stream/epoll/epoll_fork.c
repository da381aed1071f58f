// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_fork.c - epoll sets across forks. Parent and child share the kernel's set but have separate
 * shadows. Before a fork every registration is therefore the kernel's own again, with the
 * application's data, and no doorbell is in the set. A stream is taken over again where it is this
 * process's alone, if its registrations are those that we know (epoll_apart.c). fork.c and family.c
 * call it.
 */
#include <errno.h>
#include <sys/epoll.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "over.h"

/* ---- around a fork ---- */

/* The set's lock and the family lock are held. */
static void restore_all(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct rsk_reg *r, *next;

	for (r = e->regs; r; r = next) {
		next = r->next_of_set;
		rsk_reg_restore(f, r);
	}
	if (e->sub >= 0) {
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->ready_fd, NULL);
		rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_DEL, e->sub, NULL);
		rsk_own_close(e->sub);
		rsk_own_close(e->ready_fd);
		e->sub = e->ready_fd = -1;
		e->lit = false;
	} else {
		rsk_epoll_links_unwatch(&e->links, NULL, rsk_epoll_kernel_set(e));
	}
	rsk_epoll_give_doorbells(e);
	rsk_epoll_apart_ends(e);
	e->relief_ns = 0;
	rsk_epoll_over_fork(f, e);
	e->doubtful = true;
}

void rsk_epoll_fork(struct rsk_epoll *const *sets, const int *fd, uint32_t n)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (uint32_t i = 0; i < n; i++) {
		rsk_lock(&sets[i]->lock);
		rsk_epoll_name(sets[i], fd[i]);
		restore_all(f, sets[i]);
	}
	rsk_lock(&f->chain);
}

void rsk_epoll_fork_over(struct rsk_epoll *const *sets, uint32_t n, bool child)
{
	struct rsk_epoll_family *f = rsk_epoll_family();

	if (!f)
		return;
	rsk_unlock(&f->chain);
	for (uint32_t i = 0; i < n; i++) {
		struct rsk_epoll *e = sets[i];

		if (child) {
			e->beacon = -1; /* closed with all fds of the library */
			atomic_store(&e->sleepers, 0);
			rsk_epoll_apart_forked(e);
		}
		rsk_unlock(&e->lock);
	}
	rsk_unlock(&f->lock);
}

bool rsk_epoll_tells(const struct rsk_stream *s)
{
	for (const struct rsk_reg *r = s->regs; r; r = r->next_of_stream)
		if (r->tagged || rsk_over_is(s))
			return true;
	return false;
}

/* ---- this process is the only holder again ---- */

int rsk_epoll_retake(struct rsk_stream *s)
{
	struct rsk_epoll_family *f =
		__atomic_load_n(&s->regs, __ATOMIC_RELAXED) ? rsk_epoll_family() : NULL;
	int rc = 0;

	if (!f)
		return 0;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r && rc == 0; r = r->next_of_stream) {
		rsk_lock(&r->set->lock);
		if (!r->tagged)
			rc = r->key_fd < 0 || r->set->collides ? -EBUSY : rsk_reg_take_over(f, r);
		rsk_unlock(&r->set->lock);
	}
	rsk_unlock(&f->lock);
	if (rc < 0)
		rsk_stats_set_reason(s->rec, RSK_REASON_EPOLL_SHARED);
	return rc;
}
