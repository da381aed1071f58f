// SPDX-License-Identifier: BSD-2-Clause
/* epoll_wait.c - waiting on a set that may hold joined streams. */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "cpu.h"
#include "epoll.h"
#include "epollset.h"
#include "stream.h"
#include "wait.h"

#define LOOKS_PER_CLOCK 16
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
static void relieve_later(struct rsk_epoll *e, const struct rsk_stream *s)
{
	uint64_t at;

	if (s->tx.state != RSK_TX_ONRING || rsk_tx_writable(&s->tx))
		return;
	at = rsk_stream_full_until(s);
	if (!e->relief_ns || at < e->relief_ns)
		e->relief_ns = at;
}

/* What the queued registrations have to tell, as ep_send_events() does. lock held. */
static int collect(struct rsk_epoll *e, struct epoll_event *evs, int max)
{
	struct rsk_reg *r = e->ready, *last = e->ready_tail, *next, *rest = NULL;
	int n = 0;

	e->ready = e->ready_tail = NULL;
	for (; r; r = next) {
		short events = (short)(r->events & 0xffff), re;
		int fd;

		next = r->next_ready;
		r->queued = false;
		if (n == max) {
			r->queued = true;
			rest = r;
			break;
		}
		if (!r->armed)
			continue;
		fd = fd_of(r);
		if (fd < 0) {
			rsk_epoll_queue(r);
			continue;
		}
		/* No pin: a registration is unlinked, under this lock, before its stream can be freed. */
		re = rsk_stream_poll(r->stream, fd,
				     (short)(events | (short)(r->events & EPOLLRDHUP)), -1);
		if ((r->events & EPOLLOUT) && !(re & EPOLLOUT)) {
			rsk_stream_want_room(r->stream);
			re = rsk_stream_poll(r->stream, fd,
					     (short)(events | (short)(r->events & EPOLLRDHUP)), -1);
			if (!(re & EPOLLOUT))
				relieve_later(e, r->stream);
		}
		/* No room told: when the kernel tells of some, that is news. */
		if (!(re & EPOLLOUT))
			r->fresh = false;
		if (!re)
			continue;
		evs[n].events = (uint16_t)re;
		evs[n].data.u64 = r->data;
		n++;
		r->told_ends |= (uint32_t)re & END_EVENTS;
		if (r->events & EPOLLONESHOT)
			r->armed = false;
		else if (!(r->events & EPOLLET))
			rsk_epoll_queue(r);
	}
	/* Those that found no place come first the next time. */
	if (rest) {
		last->next_ready = e->ready;
		if (!e->ready)
			e->ready_tail = last;
		e->ready = rest;
	}
	return n;
}

/* Is what the kernel says of the companion anything new for whoever waits on this registration? */
static bool is_news(struct rsk_reg *r, uint32_t events)
{
	uint32_t ends = events & END_EVENTS;
	bool fresh = r->fresh;

	r->fresh = false;
	if (ends) {
		atomic_store(&r->stream->companion_news, 1);
		return ends & ~r->told_ends;
	}
	if (r->stream->tx.state == RSK_TX_ONRING || fresh)
		events &= ~(uint32_t)EPOLLOUT;
	return events;
}

/* Take our own tags out of what the kernel returned; what they mean is queued. lock held. Returns what is left. */
static int translate(struct rsk_epoll_family *f, struct rsk_epoll *e, struct epoll_event *evs,
		     int n, struct rsk_link **rung)
{
	int out = 0;

	for (int i = 0; i < n; i++) {
		uint64_t d = evs[i].data.u64;
		struct rsk_reg *r;

		if ((d & RSK_EPOLL_TAG_MASK) != f->tag || e->collides) {
			evs[out++] = evs[i];
			continue;
		}
		if (d & RSK_EPOLL_BELL) {
			*rung = (struct rsk_link *)-1;
			continue;
		}
		r = rsk_arena_at((uint32_t)d);
		if (!r || !r->live || r->set != e)
			continue;
		if (is_news(r, evs[i].events))
			rsk_epoll_queue(r);
	}
	return out;
}

static void drain(struct rsk_epoll *e)
{
	atomic_fetch_add(&rsk_link_users, 1);
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (rsk_epoll_link_here(e, e->links[i].l))
			rsk_link_drain_ready(e->links[i].l);
	atomic_fetch_sub(&rsk_link_users, 1);
}

static bool may_stir(struct rsk_epoll *e)
{
	bool stirs = e->ready;

	atomic_fetch_add(&rsk_link_users, 1);
	for (uint32_t i = 0; i < e->nlinks && !stirs; i++)
		if (rsk_epoll_link_here(e, e->links[i].l))
			stirs = atomic_load_explicit(&rsk_shm_own_head(&e->links[i].l->shm)
							      ->ready_sum,
						     memory_order_relaxed);
	atomic_fetch_sub(&rsk_link_users, 1);
	return stirs;
}

/* The peers' ready maps, for as long as that has paid lately. */
static bool spin(struct rsk_epoll *e)
{
	uint64_t start;
	struct rsk_stats_process *me;

	if (!e->spin_ns || !e->nlinks)
		return may_stir(e);
	me = rsk_stats_self();
	rsk_stats_add_shared(&me->spins, 1);
	start = rsk_now_ns();
	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			if (may_stir(e)) {
				rsk_stats_add_shared(&me->spins_useful, 1);
				return true;
			}
			rsk_pause();
		}
	} while (rsk_now_ns() - start < e->spin_ns);
	return false;
}

static void learn(struct rsk_epoll *e, uint64_t began_ns)
{
	uint64_t took = rsk_now_ns() - began_ns;

	if (took <= rsk_knobs.spin_ns)
		e->spin_ns = rsk_knobs.spin_ns;
	else
		e->spin_ns = e->spin_ns / 2 < 1000 ? 0 : e->spin_ns / 2;
}

/* Bells of the set are to be rung from now on; the peers' ringing takes it back. */
static void announce(struct rsk_epoll *e)
{
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (rsk_epoll_link_here(e, e->links[i].l))
			atomic_fetch_or(&rsk_shm_own_head(&e->links[i].l->shm)->asleep,
					1ull << e->links[i].bell);
	atomic_thread_fence(memory_order_seq_cst);
}

static void retract(struct rsk_epoll *e)
{
	for (uint32_t i = 0; i < e->nlinks; i++)
		if (e->links[i].bell != RSK_SHM_SHARED_BELL &&
		    rsk_epoll_link_here(e, e->links[i].l))
			atomic_fetch_and(&rsk_shm_own_head(&e->links[i].l->shm)->asleep,
					 ~(1ull << e->links[i].bell));
}

/* Keep on the ready list only what is ready: for whoever polls the set itself. lock held. */
static void prune(struct rsk_epoll *e)
{
	struct rsk_reg *r = e->ready, *next;
	int fd;

	e->ready = e->ready_tail = NULL;
	for (; r; r = next) {
		next = r->next_ready;
		r->queued = false;
		fd = fd_of(r);
		if (fd < 0 || rsk_stream_poll(r->stream, fd, (short)(r->events & 0xffff), -1))
			rsk_epoll_queue(r);
	}
}

void rsk_epoll_watch(int epfd)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e = rsk_epoll_of(epfd);

	if (!f || !e)
		return;
	rsk_lock(&f->lock);
	e->watched = true;
	announce(e);
	rsk_unlock(&f->lock);
	drain(e);
	rsk_lock(&f->lock);
	prune(e);
	if (e->ready)
		rsk_epoll_ring(e);
	rsk_unlock(&f->lock);
}

struct sleeper {
	struct rsk_epoll_family *f;
	struct rsk_epoll *e; /* NULL: not announced */
};

/* Also runs when the thread is cancelled in its sleep. */
static void wake_up(struct sleeper *sl)
{
	struct rsk_epoll *e = sl->e;

	if (!e)
		return;
	sl->e = NULL;
	rsk_lock(&sl->f->lock);
	e->sleepers--;
	/* Others still sleep, or somebody polls the set: their announcement, which a ringing may have taken, stands. */
	if (e->sleepers || e->watched)
		announce(e);
	else
		retract(e);
	rsk_unlock(&sl->f->lock);
}

static int kernel_wait(int epfd, struct epoll_event *evs, int max, uint64_t until_ns,
		       bool poll_only, const sigset_t *mask)
{
	uint64_t now = rsk_now_ns(), left;
	int saved = errno, rc, ms = -1;

	if (poll_only) {
		ms = 0;
	} else if (until_ns != UINT64_MAX) {
		left = until_ns > now ? (until_ns - now + 999999) / 1000000 : 0;
		ms = left > INT32_MAX ? INT32_MAX : (int)left;
	}
	rc = rsk_host->epoll_pwait(epfd, evs, max, ms, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	return rc;
}

/* lock held */
static void relieve(struct rsk_epoll *e)
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

/* Ring and queued news: as many as there are now, the kernel's as well. */
static int gather(struct rsk_epoll_family *f, struct rsk_epoll *e, int epfd,
		  struct epoll_event *evs, int max)
{
	struct rsk_link *rung = NULL;
	int n = 0, k;

	if (e->watched)
		announce(e);
	drain(e);
	rsk_lock(&f->lock);
	relieve(e);
	/* In turn the kernel's come first, so that ready rings cannot keep them out when there is little room. */
	if (e->ready && (e->turn++ & 1)) {
		k = rsk_sys_epoll_pwait(epfd, evs, max, 0, NULL);
		if (k > 0)
			n = translate(f, e, evs, k, &rung);
		if (n < max)
			n += collect(e, evs + n, max - n);
	} else {
		n = collect(e, evs, max);
		k = n && n < max ? rsk_sys_epoll_pwait(epfd, evs + n, max - n, 0, NULL) : 0;
		if (k > 0)
			n += translate(f, e, evs + n, k, &rung);
	}
	if (e->ready && e->watched)
		prune(e);
	if (e->ready && (e->sleepers || e->watched))
		rsk_epoll_ring(e);
	rsk_unlock(&f->lock);
	return n;
}

int rsk_epoll_wait(int epfd, struct epoll_event *evs, int max, const struct timespec *timeout,
		   const sigset_t *mask)
{
	struct rsk_epoll_family *f = rsk_epoll_family();
	struct rsk_epoll *e = rsk_epoll_of(epfd);
	struct sleeper sl __attribute__((cleanup(wake_up))) = { f, NULL };
	uint64_t began = 0, until = UINT64_MAX, wake_ns;
	bool poll_only = timeout && !timeout->tv_sec && !timeout->tv_nsec;
	int n;

	if (rsk_fd_ours(epfd))
		return -EBADF;
	if (timeout && !poll_only) {
		began = rsk_now_ns();
		until = began + (uint64_t)timeout->tv_sec * 1000000000u +
			(uint64_t)timeout->tv_nsec;
	}
	if (!e || !f || max <= 0 || (uintptr_t)evs < 4096)
		return kernel_wait(epfd, evs, max, until, poll_only, mask);
	e->epfd = epfd;
	if (e->home != rsk_pid)
		atomic_store(&e->shared, true);
	for (;;) {
		struct rsk_link *rung = NULL;

		wake_ns = until;
		if (e->tagged) {
			began = rsk_now_ns();
			n = gather(f, e, epfd, evs, max);
			if (!n && !poll_only && spin(e))
				n = gather(f, e, epfd, evs, max);
			if (n) {
				learn(e, began);
				return n;
			}
			if (!poll_only) {
				rsk_lock(&f->lock);
				e->sleepers++;
				announce(e);
				rsk_unlock(&f->lock);
				sl.e = e;
				/* The last look: what came before the announcement rang nobody. */
				n = gather(f, e, epfd, evs, max);
				if (n) {
					wake_up(&sl);
					return n;
				}
			}
		}
		if (e->tagged && e->relief_ns && e->relief_ns < until)
			wake_ns = e->relief_ns;
		n = kernel_wait(epfd, evs, max, wake_ns, poll_only, mask);
		wake_up(&sl);
		if (n < 0)
			return n;
		/* Also after the last joined stream has left: its link's bell is still in the set. */
		if (e->nlinks || e->tagged) {
			learn(e, began);
			rsk_lock(&f->lock);
			relieve(e);
			n = translate(f, e, evs, n, &rung);
			rsk_unlock(&f->lock);
			if (n < max)
				drain(e);
			rsk_lock(&f->lock);
			if (n < max)
				n += collect(e, evs + n, max - n);
			if (e->ready && e->watched)
				prune(e);
			if (e->ready && (e->sleepers || e->watched))
				rsk_epoll_ring(e);
			rsk_unlock(&f->lock);
		}
		if (n || poll_only || rsk_now_ns() >= until)
			return n;
	}
}
