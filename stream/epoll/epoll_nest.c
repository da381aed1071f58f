// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_nest.c - a set that is watched itself: polled, selected, or registered in another set.
 * poll.c, select.c, epoll_ctl.c and epoll_wait.c call it.
 *
 * What the kernel shows of such a set must be true although no thread waits on it. So our own
 * entries (TCP sockets, doorbells) move to a kernel set of their own, the sub-set, and an eventfd,
 * the ready eventfd, is readable while the ready list holds a registration that is ready. The
 * watched set contains only these two of ours, level-triggered. A thread that waits on an outer
 * set, or polls this one, checks first: it takes in what the sub-set has, keeps only ready
 * registrations on the ready list, and sets the ready eventfd; after that the kernel's answer is
 * exact. Between two checks the sub-set shows that there is news, which wakes sleepers; they check
 * and ask again.
 *
 * A check harvests the sub-set (which resets its doorbells), announces (fence), drains the ready
 * maps, and asks the streams, in this order. A doorbell that was harvested had its ready bit set
 * before, so the drain finds it; one that comes later stays in the sub-set, which wakes the next
 * sleeper. Announcing before harvesting would lose a doorbell in between.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "stream.h"
#include "upcall.h"

#define DEPTH_MAX 8 /* the kernel allows five */
#define HARVEST 16
#define HARVEST_ROUNDS 64

void rsk_epoll_show(struct rsk_epoll *e)
{
	struct rsk_reg *r = e->ready, *next;

	if (e->sub < 0)
		return;
	__atomic_store_n(&e->ready, NULL, __ATOMIC_RELAXED);
	e->ready_tail = NULL;
	for (; r; r = next) {
		next = r->next_ready;
		r->queued = false;
		if (r->armed && rsk_epoll_true_events(r))
			rsk_epoll_queue(r);
	}
	rsk_epoll_sub_light(e, e->ready);
}

void rsk_epoll_take_in(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct epoll_event evs[HARVEST];
	int n, rounds = HARVEST_ROUNDS;

	if (e->sub >= 0) {
		do {
			n = rsk_sys_epoll_pwait(e->sub, evs, HARVEST, 0, NULL);
			for (int i = 0; i < n; i++)
				rsk_epoll_news(f, e, &evs[i]);
		} while (n == HARVEST && --rounds);
		rsk_epoll_announce(e);
	}
	rsk_epoll_drain(f, e);
}

/* ---- watching a set ---- */

/*
 * The sub-set could not be created: its streams fall back to TCP, where the kernel alone decides.
 */
static void fall_back_all(struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	for (uint32_t tries = e->tagged; tries; tries--) {
		struct rsk_reg *r;
		int fd = -1;

		rsk_lock(&e->lock);
		for (r = e->regs; r && fd < 0; r = r->next_of_set)
			if (r->tagged)
				fd = r->key_fd >= 0 ? r->key_fd : rsk_stream_find_fd(r->stream);
		rsk_unlock(&e->lock);
		if (fd >= 0)
			rsk_upcalls->leave(fd, RSK_REASON_EPOLL_SHARED);
	}
	rsk_lock(&f->lock);
	rsk_lock(&e->lock);
	/* Streams that only other processes hold continue with the doorbells. */
	if (!e->tagged) {
		rsk_epoll_sub_empty(e);
		rsk_epoll_give_doorbells(e);
		rsk_epoll_apart_ends(e);
	}
	rsk_unlock(&e->lock);
	rsk_unlock(&f->lock);
}

static void watch(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd)
{
	int rc = 0;

	if (atomic_load_explicit(&e->watched, memory_order_relaxed))
		return;
	rsk_lock(&f->lock);
	rsk_lock(&e->lock);
	rsk_epoll_name(e, epfd);
	atomic_store(&e->watched, true);
	if (e->tagged || e->links.n)
		rc = rsk_epoll_apart_home(f, e) < 0 ? -EBUSY : rsk_epoll_sub(f, e);
	rsk_unlock(&e->lock);
	rsk_unlock(&f->lock);
	if (rc < 0)
		fall_back_all(f, e);
}

/* ---- checking ---- */

static struct rsk_epoll *nth_inner(struct rsk_epoll_family *f, const struct rsk_epoll *e,
				   uint32_t i)
{
	struct rsk_epoll *inner = NULL;

	rsk_lock(&f->lock);
	for (struct rsk_nest *n = f->nests; n; n = n->next)
		if (n->outer == e && !i--) {
			inner = n->inner;
			break;
		}
	rsk_unlock(&f->lock);
	return inner;
}

static bool look(struct rsk_epoll_family *f, struct rsk_epoll *e, uint64_t *until_ns, int depth)
{
	struct rsk_epoll *inner;
	bool streams = __atomic_load_n(&e->regs, __ATOMIC_RELAXED);

	for (uint32_t i = 0; e->ninner && depth && (inner = nth_inner(f, e, i)); i++)
		streams |= look(f, inner, until_ns, depth - 1);
	if (atomic_load_explicit(&e->over, memory_order_relaxed)) {
		rsk_lock(&e->lock);
		rsk_epoll_over_show(f, e);
		rsk_unlock(&e->lock);
	}
	if (e->sub < 0)
		return streams;
	rsk_links_use();
	rsk_lock(&e->lock);
	rsk_epoll_take_in(f, e);
	rsk_links_let_go();
	rsk_epoll_fall_back_full(e);
	rsk_epoll_show(e);
	if (e->relief_ns && e->relief_ns < *until_ns)
		*until_ns = e->relief_ns;
	rsk_unlock(&e->lock);
	return true;
}

bool rsk_epoll_check(int epfd, uint64_t *until_ns)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e = rsk_epoll_of(epfd);

	if (!f || !e)
		return false;
	watch(f, e, epfd);
	return look(f, e, until_ns, DEPTH_MAX);
}

bool rsk_epoll_check_inside(struct rsk_epoll_family *f, struct rsk_epoll *e, uint64_t *until_ns)
{
	struct rsk_epoll *inner;
	bool streams = false;

	for (uint32_t i = 0; e->ninner && (inner = nth_inner(f, e, i)); i++)
		streams |= look(f, inner, until_ns, DEPTH_MAX);
	return streams;
}

/* ---- nested sets ---- */

int rsk_epoll_nest_ctl(struct rsk_epoll_family *f, int epfd, int op, int fd, struct epoll_event *ev)
{
	struct rsk_epoll *outer = rsk_epoll_of(epfd), *inner = rsk_epoll_of(fd);
	struct rsk_nest *n, **p;
	uint64_t never = UINT64_MAX;
	int rc;

	if (op == EPOLL_CTL_ADD)
		rsk_epoll_check(fd, &never);
	rc = rsk_sys_epoll_ctl(epfd, op, fd, ev);
	if (rc < 0 || !outer)
		return rc;
	if (op == EPOLL_CTL_ADD && rsk_kin_shares(&inner->kin))
		rsk_kin_changed(&inner->kin);
	rsk_lock(&f->lock);
	if (op == EPOLL_CTL_ADD) {
		n = rsk_arena_alloc(sizeof(*n));
		if (n) {
			*n = (struct rsk_nest){ outer, inner, fd, f->nests };
			f->nests = n;
			outer->ninner++;
		}
	} else if (op == EPOLL_CTL_DEL) {
		for (p = &f->nests; (n = *p); p = &n->next)
			if (n->outer == outer && n->inner == inner && n->key_fd == fd) {
				*p = n->next;
				outer->ninner--;
				rsk_arena_free(n);
				break;
			}
	}
	rsk_unlock(&f->lock);
	return rc;
}
