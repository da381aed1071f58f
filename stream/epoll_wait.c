// SPDX-License-Identifier: BSD-2-Clause
/* epoll_wait.c - waiting on a set that may hold joined streams. */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "epoll.h"
#include "epollset.h"
#include "spin.h"
#include "stream.h"
#include "wait.h"

#define KERNEL_IDLE 8
#define KERNEL_AGAIN_NS 50000u
#define END_EVENTS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

/* poll(2)'s and epoll's bits have the same values for what matters here. */
_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
		       EPOLLHUP == POLLHUP && EPOLLPRI == POLLPRI && EPOLLRDHUP == POLLRDHUP &&
		       EPOLLRDNORM == POLLRDNORM && EPOLLWRNORM == POLLWRNORM,
	       "event bits");

/* This process's fd of the stream; -1: only others that share the set hold it, to whom it is left. */
static int fd_of(struct rsk_reg *r)
{
	if (r->key_fd >= 0 && rsk_fd_names(r->key_fd, r->stream))
		return r->key_fd;
	return rsk_stream_find_fd(r->stream);
}

/*
 * A stream whose ring is full, and whose writer waits here, goes back to TCP some time after: kept with the set, since
 * the registration may not be looked at again until then. lock held.
 */
static void relieve_later(struct rsk_epoll *e, struct rsk_stream *s)
{
	uint64_t at;
	bool full;

	rsk_lock(&s->tx_lock);
	full = s->tx.state == RSK_TX_ONRING && !rsk_tx_writable(&s->tx);
	at = full ? rsk_stream_full_until(s) : 0;
	rsk_unlock(&s->tx_lock);
	if (!full)
		return;
	if (!e->relief_ns || at < e->relief_ns)
		e->relief_ns = at;
}

/*
 * What of its interest is true now; -1: only other processes that share the set hold the stream, it is left to
 * them. Who finds no room is told when there is: by the peer, or by the kernel. lock held.
 * No pin: a registration is unlinked, under this lock, before its stream can be freed.
 */
short rsk_epoll_true_events(struct rsk_reg *r)
{
	short events = (short)(r->events & 0xffff), re;
	int fd = fd_of(r);

	if (fd < 0)
		return -1;
	r->index = rsk_ring_index(&r->stream->rx.ring);
	re = rsk_stream_poll(r->stream, fd, events, -1);
	if (re & EPOLLOUT)
		return re;
	if (r->events & EPOLLOUT) {
		rsk_stream_want_room(r->stream);
		re = rsk_stream_poll(r->stream, fd, events, -1);
		if (!(re & EPOLLOUT)) {
			relieve_later(r->set, r->stream);
			/* Only the mark tells of room for sure: the peer's word may be taken in by any call. */
			if (r->set->hot == r)
				r->set->hot = NULL;
		}
	}
	/* No room told: when the kernel tells of some, that is news. */
	if (!(re & EPOLLOUT))
		r->fresh = false;
	return re;
}

/*
 * Its mark may be looked past: the stream's only registration, and not one that waits for room, of which the mark tells
 * (the peer's word may be taken in by any call).
 */
static bool may_be_hot(const struct rsk_reg *r, short events)
{
	return __atomic_load_n(&r->stream->regs, __ATOMIC_RELAXED) == r &&
	       !__atomic_load_n(&r->next_of_stream, __ATOMIC_RELAXED) &&
	       (!(r->events & EPOLLOUT) || (events & EPOLLOUT));
}

/*
 * What the queued registrations have to tell, as ep_send_events() does; each once an answer. lock held.
 */
static int collect(struct rsk_epoll *e, struct epoll_event *evs, int max)
{
	struct rsk_reg *end = e->ready_tail, *r = NULL;
	int n = 0;

	/* Those that find no place stay, and come first the next time. */
	while (n < max && r != end && (r = e->ready)) {
		uint32_t shorts = rsk_stream_short_sends(r->stream);
		short re;

		rsk_epoll_take_ready(r);
		if (!r->armed)
			continue;
		re = r->answer == e->answer ? -1 : rsk_epoll_true_events(r);
		if (re < 0) {
			rsk_epoll_queue(r);
			continue;
		}
		if (!re)
			continue;
		evs[n].events = (uint16_t)re;
		evs[n].data.u64 = r->data;
		n++;
		r->answer = e->answer;
		e->last = r;
		if (re & EPOLLOUT)
			r->told_room = shorts + 1;
		r->told_ends |= (uint32_t)re & END_EVENTS;
		if (r->events & EPOLLONESHOT) {
			r->armed = false;
		} else if (!(r->events & EPOLLET)) {
			rsk_epoll_queue(r);
			if (may_be_hot(r, re))
				e->hot = r;
		}
	}
	return n;
}

/* Is what the kernel says of the companion anything new for whoever waits on this registration? */
static bool is_news(struct rsk_reg *r, uint32_t events)
{
	uint32_t ends = events & END_EVENTS;
	bool fresh = r->fresh, on_ring;

	r->fresh = false;
	if (ends) {
		atomic_store(&r->stream->companion_news, 1);
		return ends & ~r->told_ends;
	}
	rsk_lock(&r->stream->tx_lock);
	on_ring = r->stream->tx.state == RSK_TX_ONRING;
	rsk_unlock(&r->stream->tx_lock);
	if (on_ring || fresh)
		events &= ~(uint32_t)EPOLLOUT;
	return events;
}

/*
 * An event of the kernel's: false when it is the application's. One of ours tells of a stream, which is queued; or
 * that a bell was rung, which is for the sake of waking. A named registration's gets the application's data. lock
 * held.
 */
bool rsk_epoll_news(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *ev)
{
	uint64_t d = ev->data.u64;
	struct rsk_reg *r;

	if ((d & RSK_EPOLL_TAG_MASK) != f->tag || e->collides)
		return false;
	if (d & RSK_EPOLL_BELL) {
		e->rang = true;
		return true;
	}
	r = rsk_arena_at((uint32_t)d);
	if (!r || __atomic_load_n(&r->set, __ATOMIC_RELAXED) != e || !r->live)
		return true;
	if (!r->tagged) {
		/* Oneshot, and it has fired; or one given back since, for which the kernel watched more. */
		return !rsk_epoll_told_back(r, ev);
	}
	if (is_news(r, ev->events))
		rsk_epoll_queue(r);
	return true;
}

/* Take our own events out of what the kernel returned. lock held. Returns what is left. */
static int translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
		     int n)
{
	int out = 0;

	for (int i = 0; i < n; i++)
		if (!rsk_epoll_news(f, e, &evs[i]))
			evs[out++] = evs[i];
	return out;
}

/* Bells of the set are to be rung from now on; the peers' ringing takes it back. */
void rsk_epoll_announce(struct rsk_epoll *e)
{
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (rsk_epoll_link_here(e, e->links[i].l))
			atomic_fetch_or(&rsk_seg_own_head(&e->links[i].l->seg)->asleep,
					1ull << e->links[i].bell);
	atomic_thread_fence(memory_order_seq_cst);
}

static void retract(struct rsk_epoll *e)
{
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (e->links[i].bell != RSK_SEG_SHARED_BELL &&
		    rsk_epoll_link_here(e, e->links[i].l))
			atomic_fetch_and(&rsk_seg_own_head(&e->links[i].l->seg)->asleep,
					 ~(1ull << e->links[i].bell));
}

/* What is still to be told: to who sleeps, or watches the set itself. lock held. */
static void leave_rest(struct rsk_epoll *e)
{
	rsk_epoll_show(e);
	if (e->sub < 0 && e->ready && e->sleepers)
		rsk_epoll_ring(e);
}

struct sleeper {
	struct rsk_epoll *e; /* NULL: not announced */
};

/* Also runs when the thread is cancelled in its sleep. */
static void wake_up(struct sleeper *sl)
{
	struct rsk_epoll *e = sl->e;

	if (!e)
		return;
	sl->e = NULL;
	rsk_lock(&e->lock);
	e->sleepers--;
	/* Others still sleep, or somebody polls the set: their announcement, which a ringing may have taken, stands. */
	if (e->sleepers || e->watched)
		rsk_epoll_announce(e);
	else
		retract(e);
	rsk_unlock(&e->lock);
}

static int kernel_wait(int epfd, struct epoll_event *evs, int max, uint64_t until_ns,
		       bool poll_only, const sigset_t *mask)
{
	int saved = errno, rc, ms = -1;

	if (poll_only) {
		ms = 0;
	} else if (until_ns != UINT64_MAX) {
		uint64_t now = rsk_now_ns(), left;

		left = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
		ms = left > INT32_MAX ? INT32_MAX : (int)left;
	}
	rc = rsk_host->epoll_pwait(epfd, evs, max, ms, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	return rc;
}

void rsk_epoll_relieve(struct rsk_epoll *e)
{
	if (!e->relief_ns || rsk_now_ns() < e->relief_ns)
		return;
	e->relief_ns = 0;
	for (struct rsk_reg *r = e->regs; r; r = r->next_of_set) {
		int fd = fd_of(r);

		if (!r->tagged || !(r->events & EPOLLOUT) || fd < 0)
			continue;
		if (rsk_stream_relieve(r->stream, fd))
			rsk_epoll_queue(r);
		else
			relieve_later(e, r->stream);
	}
}

/*
 * Sets in it have been looked into; does the kernel show nothing? What comes behind the look may be
 * news that make nobody ready (a word, credit), and an answer that tells of them cannot be taken
 * back: so there is a second look.
 */
static bool shows_nothing(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd)
{
	struct pollfd p = { .fd = epfd, .events = POLLIN };
	uint64_t never = UINT64_MAX;

	if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0)
		return true;
	rsk_epoll_look_inside(f, e, &never);
	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) == 0;
}

/*
 * With sets in it that hold streams: what the kernel shows of those can be ahead of the truth, so that it is asked for
 * events only after a look. The sleep itself takes no event away.
 */
static int nested_wait(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		       struct epoll_event *evs, int max, uint64_t until_ns, const sigset_t *mask)
{
	struct pollfd p = { .fd = epfd, .events = POLLIN };
	uint64_t now = rsk_now_ns(), left = until_ns > now ? until_ns - now : 0, never = UINT64_MAX;
	struct timespec ts = { .tv_sec = (time_t)(left / 1000000000u),
			       .tv_nsec = (long)(left % 1000000000u) };
	int saved = errno, rc;

	rc = rsk_host->ppoll(&p, 1, until_ns == UINT64_MAX ? NULL : &ts, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	if (rc < 0)
		return rc;
	rsk_epoll_look_inside(f, e, &never);
	return shows_nothing(f, e, epfd) ? 0 : rsk_sys_epoll_pwait(epfd, evs, max, 0, NULL);
}

/*
 * Rings are ready. The kernel is asked as well in each answer; unless it had nothing many times in a row, was asked a
 * moment ago, and this thread has done nothing since that could show there: then what others do is told that moment
 * later.
 */
static bool kernel_is_due(struct rsk_epoll *e)
{
	uint64_t now;

	if (e->kernel_idle < KERNEL_IDLE || e->kernel_acts != rsk_acts_so_far())
		return true;
	now = rsk_now_ns();
	if (now - e->kernel_ns < KERNEL_AGAIN_NS)
		return false;
	e->kernel_ns = now;
	return true;
}

/* What the kernel has now, less ours; *told: it had something, which may have been of ours. lock held. */
static int ask_kernel(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		      struct epoll_event *evs, int max, bool *told)
{
	int n = 0;

	if (max > 0 && kernel_is_due(e)) {
		e->kernel_acts = rsk_acts_so_far();
		n = rsk_sys_epoll_pwait(epfd, evs, max, 0, NULL);
		e->kernel_idle = n ? 0 : e->kernel_idle + (e->kernel_idle < KERNEL_IDLE);
	}
	*told = n > 0;
	return n > 0 ? translate(f, e, evs, n) : 0;
}

/* Ring and queued news: as many as there are now, the kernel's as well. None: @spot is where to spin. */
static int gather(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		  struct epoll_event *evs, int max, struct rsk_epoll_spot *spot)
{
	bool first, told = false;
	int n = 0;

	rsk_lock(&e->lock);
	rsk_epoll_take_in(f, e);
	e->answer++;
	rsk_epoll_relieve(e);
	/* In turn the kernel's come first, so that ready rings cannot keep them out when there is little room. */
	first = e->ready && (e->turn++ & 1);
	if (first)
		n = ask_kernel(f, e, epfd, evs, max, &told);
	if (n < max)
		n += collect(e, evs + n, max - n);
	if (!first && n && n < max) {
		n += ask_kernel(f, e, epfd, evs + n, max - n, &told);
		if (told) /* of ours, too */
			n += collect(e, evs + n, max - n);
	}
	if (!n)
		rsk_epoll_look_at(spot, e);
	leave_rest(e);
	rsk_unlock(&e->lock);
	return n;
}

/*
 * What the kernel has told, of which some may be ours, and what our rings have; @takeovers: as it was before the
 * kernel was asked; @began: when the wait did, 0: nothing is to be learnt from it.
 */
static int settle(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs, int n,
		  int max, uint32_t takeovers, uint64_t began)
{
	rsk_lock(&e->lock);
	if (began)
		e->spin_ns = rsk_spin_learn(e->spin_ns, rsk_epoll_woken(e, began) - began);
	rsk_epoll_relieve(e);
	n = translate(f, e, evs, n);
	if (n)
		e->kernel_idle = 0;
	if (n < max || e->sub >= 0)
		rsk_epoll_take_in(f, e);
	e->answer++;
	/* What the kernel told of before it was taken over is not told twice in one answer. */
	if (n < max && (!n || takeovers == atomic_load(&e->takeovers)))
		n += collect(e, evs + n, max - n);
	leave_rest(e);
	rsk_unlock(&e->lock);
	return n;
}

int rsk_epoll_wait(int epfd, struct epoll_event *evs, int max, const struct timespec *timeout,
		   const sigset_t *mask)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e = rsk_epoll_of(epfd);
	struct sleeper sl __attribute__((cleanup(wake_up))) = { NULL };
	uint64_t began = 0, until = UINT64_MAX, wake_ns;
	struct rsk_epoll_spot spot;
	bool poll_only = timeout && !timeout->tv_sec && !timeout->tv_nsec;
	int n;

	if (rsk_fd_not_yours(epfd))
		return -EBADF;
	if (timeout && !poll_only) {
		began = rsk_now_ns();
		until = began + (uint64_t)timeout->tv_sec * 1000000000u +
			(uint64_t)timeout->tv_nsec;
	}
	if (!e || !f || max <= 0 || (uintptr_t)evs < 4096)
		return kernel_wait(epfd, evs, max, until, poll_only, mask);
	rsk_epoll_name(e, epfd);
	if (e->home != rsk_pid)
		atomic_store(&e->shared, true);
	/* Nothing of ours in it: the kernel's, unless that changes meanwhile. */
	if (!e->tagged && !e->ninner && until == UINT64_MAX) {
		uint32_t takeovers = atomic_load(&e->takeovers);

		n = kernel_wait(epfd, evs, max, until, poll_only, mask);
		if (n >= 0 && e->belled)
			n = settle(f, e, evs, n, max, takeovers, 0);
		if (n || poll_only)
			return n;
	}
	for (;;) {
		uint32_t takeovers = atomic_load(&e->takeovers);
		bool nested;

		wake_ns = until;
		nested = rsk_epoll_look_inside(f, e, &wake_ns);
		if (e->tagged) {
			n = gather(f, e, epfd, evs, max, &spot);
			if (!n && !poll_only && rsk_epoll_spin(&spot))
				n = gather(f, e, epfd, evs, max, &spot);
			if (n) {
				atomic_store_explicit(&e->spin_ns, rsk_spin_longest(),
						      memory_order_relaxed);
				return n;
			}
			if (!poll_only) {
				began = rsk_now_ns() - rsk_spin_spent_ns;
				rsk_lock(&e->lock);
				e->sleepers++;
				rsk_epoll_announce(e);
				rsk_unlock(&e->lock);
				sl.e = e;
				/* The last look: what came before the announcement rang nobody. */
				n = gather(f, e, epfd, evs, max, &spot);
				if (n) {
					wake_up(&sl);
					return n;
				}
			}
		}
		if (e->tagged && e->relief_ns && e->relief_ns < wake_ns)
			wake_ns = e->relief_ns;
		if (nested && !poll_only)
			n = nested_wait(f, e, epfd, evs, max, wake_ns, mask);
		else if (nested && shows_nothing(f, e, epfd))
			n = 0;
		else
			n = kernel_wait(epfd, evs, max, wake_ns, poll_only, mask);
		wake_up(&sl);
		if (n < 0)
			return n;
		/* Also after the last joined stream has left. */
		if (e->belled) {
			n = settle(f, e, evs, n, max, takeovers, began);
		}
		if (n || poll_only || rsk_now_ns() >= until)
			return n;
	}
}
