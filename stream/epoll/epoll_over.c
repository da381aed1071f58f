// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_over.c - reports bytes that neither the kernel nor the ring of a taken-over registration
 * reports: those in overread files (over.h), and those in the ring of a stream that is falling back
 * (fallback.c), in a set in which it cannot be taken over. epoll_wait.c, epoll_nest.c and the fork
 * code call it.
 *
 * Each wait on the set reports them itself. A thread that sleeps on the set when they come, or
 * watches it from outside, is notified by an eventfd in the set (beacon). It is edge-triggered: if
 * another process holds the set, a wait there takes the edge away and does not return again and
 * again.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "epoll_apart.h"
#include "epollset.h"
#include "over.h"

static bool falls_back(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->fallback_due, memory_order_relaxed) &&
	       rsk_stream_phase(s) == RSK_PHASE_PAIRED;
}

bool rsk_epoll_over_lies(const struct rsk_stream *s)
{
	return rsk_over_is(s) || falls_back(s);
}

static bool lies_over(const struct rsk_epoll *e)
{
	for (const struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		if (rsk_epoll_over_lies(r->stream))
			return true;
	return false;
}

/* Whether bytes lie there unread. *@mark: differs if bytes have come since. */
static bool is_unread(struct rsk_stream *s, uint64_t *mark)
{
	uint64_t ring;

	*mark = s->over.bytes;
	if (rsk_over_unread(s))
		return true;
	if (!falls_back(s))
		return false;
	rsk_lock(&s->rx_lock);
	ring = rsk_rx_pending(&s->rx, NULL);
	*mark = s->rx.ring_bytes + ring;
	rsk_unlock(&s->rx_lock);
	return ring;
}

static bool is_due(struct rsk_reg *r)
{
	uint64_t mark;

	if (!r->armed || !(r->events & (EPOLLIN | EPOLLRDNORM)) || r->tagged)
		return false;
	return is_unread(r->stream, &mark) && (!(r->events & EPOLLET) || r->over_told != mark);
}

static bool any_due(const struct rsk_epoll *e)
{
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set)
		if (is_due(r))
			return true;
	return false;
}

static void light(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET,
				  .data.u64 = f->tag | RSK_EPOLL_DOORBELL };
	uint64_t n = 1;

	if (e->beacon >= 0) {
		rsk_sys_write(e->beacon, &n, sizeof(n));
		return;
	}
	e->beacon = rsk_own_fd(rsk_sys_eventfd2(1, EFD_NONBLOCK | EFD_CLOEXEC));
	if (e->beacon < 0)
		return;
	atomic_store(&e->belled, true);
	rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_ADD, e->beacon, &ev);
}

void rsk_epoll_over_fork(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	rsk_own_close(e->beacon);
	e->beacon = -1;
	atomic_store(&e->over, lies_over(e));
	/*
	 * From now on the waits of both processes remove our events: the other process may signal
	 * its eventfd.
	 */
	atomic_store(&e->belled, true);
	if (e->over && (e->sleepers || e->watched))
		light(f, e);
}

void rsk_epoll_over_paired(const struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_reg *r)
{
	r->over_told = 0;
	atomic_store(&e->over, true);
	if (is_due(r))
		light(f, e);
}

void rsk_epoll_falls_back(struct rsk_stream *s)
{
	struct rsk_epoll_family *f = rsk_epoll_family_of(s);

	if (!f)
		return;
	rsk_lock(&f->lock);
	for (struct rsk_reg *r = s->regs; r; r = r->next_of_stream) {
		rsk_lock(&r->set->lock);
		if (!r->tagged)
			rsk_epoll_over_paired(f, r->set, r);
		rsk_unlock(&r->set->lock);
	}
	rsk_unlock(&f->lock);
}

void rsk_epoll_over_show(const struct rsk_epoll_family *f, struct rsk_epoll *e)
{
	struct pollfd p = { .fd = e->epfd, .events = POLLIN };
	uint64_t n;

	if (!any_due(e)) {
		if (e->beacon >= 0)
			rsk_sys_read(e->beacon, &n, sizeof(n));
	} else if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0) {
		/*
		 * Not while the set shows an event: that would be one more edge for outside
		 * watchers.
		 */
		light(f, e);
	}
}

static void told(const struct rsk_epoll_family *f, struct rsk_epoll *e, struct rsk_reg *r,
		 bool by_kernel)
{
	struct epoll_event ev;

	is_unread(r->stream, &r->over_told);
	if (!(r->events & EPOLLONESHOT))
		return;
	r->armed = false;
	if (by_kernel)
		return;
	r->mute = r->named = true;
	ev = rsk_reg_plain_event(f, r);
	rsk_sys_epoll_ctl(e->epfd, EPOLL_CTL_MOD, r->key_fd, &ev);
}

int rsk_epoll_tell_over(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
			struct epoll_event *evs, int max)
{
	int n, had;

	rsk_lock(&e->lock);
	if (!lies_over(e)) {
		atomic_store(&e->over, false);
		rsk_unlock(&e->lock);
		return 0;
	}
	if (!any_due(e)) {
		rsk_unlock(&e->lock);
		return 0;
	}
	n = rsk_epoll_ask_set(f, e, epfd, evs, max);
	had = n = n > 0 ? rsk_epoll_translate(f, e, evs, n) : 0;
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		int i = 0;

		if (!is_due(r))
			continue;
		while (i < had && evs[i].data.u64 != r->data)
			i++;
		if (i < had) {
			evs[i].events |= r->events & (EPOLLIN | EPOLLRDNORM);
			told(f, e, r, true);
		} else if (n < max) {
			evs[n].events = r->events & (EPOLLIN | EPOLLRDNORM);
			evs[n++].data.u64 = r->data;
			told(f, e, r, false);
		}
	}
	rsk_unlock(&e->lock);
	return n;
}
