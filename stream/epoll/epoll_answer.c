// SPDX-License-Identifier: BSD-2-Clause
/*
 * epoll_answer.c - builds the result of one epoll_wait(): the kernel's events and those of rings,
 * in the order in which they became ready as far as that is known. epoll_wait.c calls it.
 *
 * The kernel's list is in order. If the doorbell was rung, its position in that list is the
 * position of the ring's data. Otherwise the order of two events between two checks is unknown;
 * then the kernel's come before the rings', since TCP data was most often sent by a connection that
 * is new, and not yet promoted, before the one that is.
 */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epoll_apart.h"
#include "epoll_order.h"
#include "full.h"
#include "ready.h"
#include "spin.h"
#include "stream.h"
#include "syn.h"
#include "wait.h"

#define KERNEL_IDLE 8
#define KERNEL_AGAIN_NS 50000u
#define KERNEL_TRIES 64
#define FEW_EVENTS 4
#define END_EVENTS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

/* poll(2)'s and epoll's bits have the same values for the events used here. */
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
		       EPOLLHUP == POLLHUP && EPOLLPRI == POLLPRI && EPOLLRDHUP == POLLRDHUP &&
		       EPOLLRDNORM == POLLRDNORM && EPOLLWRNORM == POLLWRNORM,
	       "event bits");

/*
 * This process's fd of the stream; -1: only other processes that share the set hold the stream, and
 * they handle it.
 */
static int fd_of(struct rsk_reg *r)
{
	if (r->key_fd >= 0 && rsk_fd_names(r->key_fd, r->stream))
		return r->key_fd;
	return rsk_stream_find_fd(r->stream);
}

/*
 * A stream whose ring is full, and whose writer waits here, falls back to TCP some time later. The
 * deadline is stored with the set, since the registration may not be checked again until then. The
 * set's lock is held.
 */
static void fall_back_full_later(struct rsk_epoll *e, struct rsk_stream *s)
{
	uint64_t at;
	bool full;

	rsk_lock(&s->tx_lock);
	full = s->tx.state == RSK_TX_ONRING && !rsk_stream_writable(s);
	at = full ? rsk_stream_full_until(s) : 0;
	rsk_unlock(&s->tx_lock);
	if (!full)
		return;
	if (!e->relief_ns || at < e->relief_ns)
		e->relief_ns = at;
}

/*
 * Which of the wanted events are true now; -1: only other processes that share the set hold the
 * stream, and they handle it. If there is no room, the peer or the kernel reports when there is.
 * The set's lock is held. No pin is needed: a registration is unlinked, under this lock, before its
 * stream can be freed.
 */
short rsk_epoll_true_events(struct rsk_reg *r)
{
	short events = (short)(r->events & 0xffff), re;
	int fd = fd_of(r);

	if (fd < 0)
		return -1;
	r->index = rsk_ring_index(&r->stream->rx.ring);
	r->shorts = rsk_stream_short_sends(r->stream);
	re = rsk_stream_poll(r->stream, fd, events, -1);
	if (re & EPOLLOUT)
		return re;
	if (r->events & EPOLLOUT) {
		rsk_stream_want_room(r->stream);
		re = rsk_stream_poll(r->stream, fd, events, -1);
		if (!(re & EPOLLOUT)) {
			fall_back_full_later(r->set, r->stream);
			/*
			 * Only the ready bit reports room reliably: any call may take in the peer's
			 * control word.
			 */
			if (r->set->busiest == r)
				r->set->busiest = NULL;
		}
	}
	/* No room was reported: an event of the kernel for it is news. */
	if (!(re & EPOLLOUT))
		r->fresh = false;
	return re;
}

/*
 * The ready bit may be ignored for a registration that is the stream's only one and does not wait
 * for room. Room is reported by the ready bit (any call may take in the peer's control word).
 */
static inline __attribute__((always_inline)) bool may_be_busiest(const struct rsk_reg *r,
								 short events)
{
	return __atomic_load_n(&r->stream->regs, __ATOMIC_RELAXED) == r &&
	       !__atomic_load_n(&r->next_of_stream, __ATOMIC_RELAXED) &&
	       (!(r->events & EPOLLOUT) || (events & EPOLLOUT));
}

/*
 * True: the event is an EPOLLOUT edge alone that was already reported. It appears again where the
 * stream has changed its path. No thread waits for it unless a send came short since.
 */
static bool is_old_room(const struct rsk_reg *r, short events)
{
	return !(events & ~(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)) && r->told_room == r->shorts + 1;
}

/*
 * True: an edge that is already in this result has more to report. The thread that gets the result
 * has not seen it yet, and finds what has come since as well; only events that the entry lacks go
 * into the next result.
 */
static bool has_more(struct rsk_reg *r)
{
	short re = rsk_epoll_true_events(r);

	return re < 0 || ((uint16_t)re & ~(uint32_t)r->answered);
}

/*
 * Writes what @r, which is off the ready list, reports in this result, as ep_send_events() does.
 * False: nothing. Each registration is reported once per result: if there is more, it stays on the
 * list. The set's lock is held.
 */
static inline __attribute__((always_inline)) bool tell(struct rsk_epoll *e, struct rsk_reg *r,
						       struct epoll_event *ev)
{
	short re;

	if (!r->armed)
		return false;
	if (__builtin_expect(r->answer == e->answer, 0)) {
		if (!(r->events & EPOLLET) || has_more(r))
			rsk_epoll_queue(r);
		return false;
	}
	re = rsk_epoll_true_events(r);
	if (re < 0)
		rsk_epoll_queue(r);
	if (re <= 0 || ((r->events & EPOLLET) && is_old_room(r, re)))
		return false;
	ev->events = (uint16_t)re;
	ev->data.u64 = r->data;
	r->answer = e->answer;
	r->answered = (uint16_t)re;
	e->last = r;
	r->told_ends |= (uint32_t)re & END_EVENTS;
	if (r->events & EPOLLONESHOT) {
		r->armed = false;
	} else if (!(r->events & EPOLLET)) {
		rsk_epoll_queue(r);
		if (may_be_busiest(r, re))
			e->busiest = r;
	} else if (re & EPOLLOUT) {
		r->told_room = r->shorts + 1;
	}
	return true;
}

/*
 * Reports the registrations queued now; those that do not fit stay, and come first the next time.
 * The set's lock is held.
 */
static int collect(struct rsk_epoll *e, struct epoll_event *evs, int max)
{
	struct rsk_reg *end = e->ready_tail, *r = NULL;
	int n = 0;

	while (n < max && r != end && (r = e->ready)) {
		rsk_epoll_take_ready(r);
		n += tell(e, r, &evs[n]);
	}
	return n;
}

/* Whether a kernel event on the TCP socket is news for the waiter on this registration. */
static bool is_news(struct rsk_reg *r, uint32_t events)
{
	uint32_t ends = events & END_EVENTS;
	bool fresh = r->fresh, on_ring;

	r->fresh = false;
	if (ends) {
		atomic_store(&r->stream->tcp_news, 1);
		/* Completions of MSG_ZEROCOPY are read, and followed by others. */
		if ((ends & EPOLLERR) && !(ends & EPOLLHUP) &&
		    rsk_zerocopy_used(&r->stream->zerocopy))
			return true;
		return ends & ~r->told_ends;
	}
	rsk_lock(&r->stream->tx_lock);
	on_ring = r->stream->tx.state == RSK_TX_ONRING;
	rsk_unlock(&r->stream->tx_lock);
	if (on_ring || fresh)
		events &= ~(uint32_t)EPOLLOUT;
	return events;
}

/* The kinds of kernel events. */
enum news {
	NEWS_APPLICATION, /* the application's, with its data restored */
	NEWS_DOORBELL,	  /* a doorbell was rung */
	NEWS_STREAM,	  /* on a stream, which is queued */
	NEWS_NONE
};

static bool is_ours(const struct rsk_epoll_family *f, const struct rsk_epoll *e,
		    const struct epoll_event *ev)
{
	return (ev->data.u64 & RSK_EPOLL_TAG_MASK) == f->tag && !e->collides;
}

/* The set's lock is held. *of: the registration, for NEWS_STREAM. */
static enum news news(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev,
		      struct rsk_reg **of)
{
	uint64_t d = ev->data.u64;
	struct rsk_reg *r;

	if (!is_ours(f, e, ev))
		return NEWS_APPLICATION;
	if (d & RSK_EPOLL_DOORBELL) {
		e->rang = true;
		rsk_epoll_links_rang(e, (uint32_t)(d & ~RSK_EPOLL_DOORBELL));
		return NEWS_DOORBELL;
	}
	r = rsk_arena_at((uint32_t)d);
	if (!r || __atomic_load_n(&r->set, __ATOMIC_RELAXED) != e || !r->live)
		return NEWS_NONE;
	/*
	 * Either a oneshot that has fired, or one that was given back, for which the kernel watches
	 * more events than were asked for.
	 */
	if (!r->tagged)
		return rsk_epoll_told_back(r, ev) ? NEWS_APPLICATION : NEWS_NONE;
	if (!is_news(r, ev->events))
		return NEWS_NONE;
	rsk_epoll_queue(r);
	*of = r;
	return NEWS_STREAM;
}

void rsk_epoll_news(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev)
{
	struct rsk_reg *r;

	news(f, e, ev, &r);
}

/*
 * Translates the kernel's events to what the application gets: our events are removed, and with
 * @in_place the events of their streams take their places. *doorbell_at: the index, among the
 * remaining events, before which a doorbell was first rung; -1: none. The set's lock is held.
 * Returns how many are left.
 */
static int translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
		     int n, bool in_place, int *doorbell_at)
{
	int out = 0;

	*doorbell_at = -1;
	for (int i = 0; i < n; i++) {
		struct epoll_event ev = evs[i];
		struct rsk_reg *r = NULL;
		enum news what = news(f, e, &ev, &r);

		if (what == NEWS_APPLICATION) {
			if (__builtin_expect(ev.events & EPOLLERR, 0) &&
			    !rsk_epoll_unshow(f, e, &ev))
				continue;
			evs[out++] = ev;
		} else if (what == NEWS_DOORBELL && *doorbell_at < 0) {
			*doorbell_at = out;
		} else if (what == NEWS_STREAM && in_place && r->queued) {
			rsk_epoll_take_ready(r);
			out += tell(e, r, &evs[out]);
		}
	}
	return out;
}

int rsk_epoll_translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
			int n)
{
	int doorbell_at;

	n = translate(f, e, evs, n, false, &doorbell_at);
	if (doorbell_at >= 0 && e->sleepers) /* as leave_rest() */
		rsk_epoll_ring(e);
	return n;
}

/* Moves the first @k of @n events behind the others. */
static void put_behind(struct epoll_event *evs, int k, int n)
{
	const int ends[3][2] = { { 0, k }, { k, n }, { 0, n } };

	if (k <= 0 || k >= n)
		return;
	for (int i = 0; i < 3; i++)
		for (int a = ends[i][0], b = ends[i][1] - 1; a < b; a++, b--) {
			struct epoll_event ev = evs[a];

			evs[a] = evs[b];
			evs[b] = ev;
		}
}

void rsk_epoll_fall_back_full(struct rsk_epoll *e)
{
	if (!e->relief_ns || rsk_now_ns() < e->relief_ns)
		return;
	e->relief_ns = 0;
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		int fd = fd_of(r);

		if (!r->tagged || !(r->events & EPOLLOUT) || fd < 0)
			continue;
		if (rsk_stream_fall_back_full(r->stream, fd))
			rsk_epoll_queue(r);
		else
			fall_back_full_later(e, r->stream);
	}
}

/*
 * Notifies sleepers, and watchers of the set itself, of what is not reported yet. The caller may
 * itself be counted as a sleeper, and about to sleep. The set's lock is held.
 */
static void leave_rest(struct rsk_epoll *e)
{
	rsk_epoll_show(e);
	if (e->sub >= 0 || !e->sleepers || (!e->ready && !e->taken))
		return;
	e->taken = false;
	rsk_epoll_ring(e);
}

/*
 * Rings are ready. The kernel is asked in each result as well, unless it had nothing many times in
 * a row, was asked a moment ago, and this thread has made no kernel call since that could show
 * there. Then events that others cause are reported that moment later.
 */
static bool kernel_is_due(struct rsk_epoll *e)
{
	uint64_t now;

	if (e->kernel_idle < KERNEL_IDLE || e->kernel_calls != rsk_kernel_calls_so_far())
		return true;
	now = rsk_now_ns();
	if (now - e->kernel_ns < KERNEL_AGAIN_NS)
		return false;
	e->kernel_ns = now;
	return true;
}

/*
 * The kernel's events now, without ours; *told: it had some, possibly only ours. If our events
 * filled the array, others may be behind them, so it asks again. The set's lock is held.
 */
static int ask_kernel(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		      struct epoll_event *evs, int max, bool *told)
{
	int n, out, doorbell_at, tries = KERNEL_TRIES;

	do {
		n = rsk_epoll_ask_set(f, e, epfd, evs, max);
		out = translate(f, e, evs, n, true, &doorbell_at);
		*told |= n > 0;
		e->taken |= doorbell_at >= 0;
	} while (!out && n == max && --tries);
	return out;
}

/* The same, if the kernel is to be asked for this result. */
static int ask_if_due(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		      struct epoll_event *evs, int max, bool *told)
{
	int n;

	*told = false;
	if (max <= 0 || !kernel_is_due(e))
		return 0;
	e->kernel_calls = rsk_kernel_calls_so_far();
	n = ask_kernel(f, e, epfd, evs, max, told);
	e->kernel_idle = *told ? 0 : e->kernel_idle + (e->kernel_idle < KERNEL_IDLE);
	return n;
}

/*
 * Where rings have events, the kernel's come first, followed by as many of the rings' as there is
 * room for. The kernel is asked after the rings, which costs nothing if these have no events after
 * all; but before them where they could fill the result. Neither side keeps the other out: the side
 * that filled a result comes last in the next one. The set's lock is held.
 */
static int gather_both(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		       struct epoll_event *evs, int max)
{
	bool first = e->ready && (max <= FEW_EVENTS || e->filled == RSK_EPOLL_BY_RINGS) &&
		     e->filled != RSK_EPOLL_BY_KERNEL;
	int n, rings;
	bool told;

	if (first) {
		n = ask_if_due(f, e, epfd, evs, max, &told);
		e->filled = n == max ? RSK_EPOLL_BY_KERNEL : RSK_EPOLL_BY_NONE;
		rings = collect(e, evs + n, max - n);
		if (n && rings)
			rsk_epoll_arrange(e, evs, n, n + rings);
		return n + rings;
	}
	rings = collect(e, evs, max);
	e->filled = rings == max ? RSK_EPOLL_BY_RINGS : RSK_EPOLL_BY_NONE;
	if (!rings || rings == max)
		return rings;
	n = ask_if_due(f, e, epfd, evs + rings, max - rings, &told);
	if (n) {
		put_behind(evs, rings, rings + n);
		rsk_epoll_arrange(e, evs, n, n + rings);
	}
	n += rings;
	return told ? n + collect(e, evs + n, max - n) : n; /* includes ours */
}

int rsk_epoll_gather(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int max, struct rsk_epoll_spot *spot)
{
	int n;

	rsk_lock(&e->lock);
	rsk_epoll_take_in(f, e);
	e->answer++;
	rsk_epoll_fall_back_full(e);
	n = gather_both(f, e, epfd, evs, max);
	if (n)
		rsk_epoll_remember(e, evs, n);
	else
		rsk_epoll_check_at(spot, e);
	leave_rest(e);
	rsk_unlock(&e->lock);
	return n;
}

int rsk_epoll_settle(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		     struct epoll_event *evs, int n, int max, uint32_t takeovers, uint64_t began_ns)
{
	int told = n, doorbell_at, rings;
	bool same, more = false;

	rsk_lock(&e->lock);
	if (began_ns)
		e->spin_ns = rsk_spin_learn(e->spin_ns, rsk_epoll_woken(e, began_ns) - began_ns);
	rsk_epoll_fall_back_full(e);
	e->answer++;
	/*
	 * An event that the kernel reported before the takeover is not reported twice in one
	 * result.
	 */
	same = takeovers == atomic_load(&e->takeovers);
	n = translate(f, e, evs, told, same, &doorbell_at);
	if (!n && told == max)
		n = ask_kernel(f, e, epfd, evs, max, &more);
	if (n)
		e->kernel_idle = 0;
	if (n < max || e->sub >= 0 || e->besides) {
		rsk_links_use();
		rsk_epoll_take_in(f, e);
		rsk_links_let_go();
	}
	if (n < max && (!n || same)) {
		rings = collect(e, evs + n, max - n);
		if (doorbell_at >= 0 && began_ns)
			put_behind(evs + doorbell_at, n - doorbell_at, n - doorbell_at + rings);
		n += rings;
	}
	rsk_epoll_remember(e, evs, n);
	leave_rest(e);
	rsk_unlock(&e->lock);
	return n;
}
