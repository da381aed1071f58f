// SPDX-License-Identifier: BSD-2-Clause
/*
 * poll.c - poll(2) on lists of descriptors that contain paired streams. The hooks of poll() and
 * ppoll(), and select.c, call it.
 */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "arena.h"
#include "by_time.h"
#include "epoll.h"
#include "full.h"
#include "pairing.h"
#include "rdma.h"
#include "ready.h"
#include "spin.h"
#include "stream.h"
#include "wait.h"

#define OUT_EVENTS (POLLOUT | POLLWRNORM)
#define SMALL_SET 32
/*
 * Limits for streams that are being paired: how many of their descriptors the kernel polls as well,
 * and how many pairing rounds one call makes.
 */
#define PAIRING_FDS 4
#define PAIRING_ROUNDS 16

struct item {
	nfds_t at;
	struct rsk_stream *s; /* pinned */
	bool paired;
	uint32_t doorbell; /* index in doorbells[] */
};

struct set {
	struct pollfd *fds;
	struct pollfd *kernel; /* [n + doorbells + PAIRING_FDS] */
	nfds_t n;
	struct item *items;
	uint32_t nitems, npaired, nepolls, room;
	nfds_t nasked;			/* entries with an fd */
	struct rsk_doorbell *doorbells; /* one for each link; there are at most as many as items */
	uint32_t ndoorbells;
	struct pollfd pairing[PAIRING_FDS];
	uint32_t npairing, rounds;
	bool pairs; /* one of them is being paired */
	bool heard; /* a pairing descriptor had an event */
	bool announced;
	uint32_t nannounced; /* the items before this one */
	struct rsk_by_time by_time;
	void *memory; /* arena, if the set is large */
	struct pollfd small_fds[SMALL_SET * 2 + PAIRING_FDS];
	struct item small_items[SMALL_SET];
	struct rsk_doorbell small_doorbells[SMALL_SET];
};

bool rsk_poll_concerns(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].fd >= 0 && rsk_fd_tracked(fds[i].fd))
			return true;
	return false;
}

static uint32_t wakes(short events)
{
	uint32_t what = RSK_WAKE_RX;

	if (events & OUT_EVENTS)
		what |= RSK_WAKE_TX;
	return what;
}

static void retract_all(struct set *p)
{
	for (uint32_t i = 0; p->announced && i < p->nannounced; i++) {
		struct item *it = &p->items[i];

		if (it->paired)
			it->s->link->seg.rail.ops->retract(&it->s->link->seg.rail, it->s->sid,
							   wakes(p->fds[it->at].events),
							   p->doorbells[it->doorbell].index);
	}
	p->announced = false;
}

/* Cleanup handler: also runs when the thread is cancelled in its sleep. */
static void set_fini(struct set *p)
{
	retract_all(p);
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_give(&p->doorbells[i]);
	for (uint32_t i = 0; i < p->nitems; i++) {
		if (!p->items[i].paired)
			atomic_fetch_sub(&p->items[i].s->plain.rx, 1);
		rsk_stream_unpin(p->items[i].s);
	}
	p->nitems = p->ndoorbells = 0;
	if (p->memory)
		rsk_arena_free(p->memory);
	p->memory = NULL;
	rsk_by_time_end(&p->by_time);
}

static int set_init(struct set *p, struct pollfd *fds, nfds_t n)
{
	uint32_t tracked = 0;

	p->fds = fds;
	p->n = n;
	for (nfds_t i = 0; i < n; i++) {
		p->nasked += fds[i].fd >= 0;
		tracked += fds[i].fd >= 0 && rsk_fd_tracked(fds[i].fd);
	}
	p->kernel = p->small_fds;
	p->items = p->small_items;
	p->doorbells = p->small_doorbells;
	if (n > SMALL_SET) {
		size_t fd_bytes = (n + tracked + PAIRING_FDS) * sizeof(struct pollfd);

		fd_bytes = (fd_bytes + 63) & ~63ul;
		p->memory = rsk_arena_alloc_raw(fd_bytes + tracked * sizeof(struct item) +
						tracked * sizeof(struct rsk_doorbell));
		if (!p->memory)
			return -ENOMEM;
		p->kernel = p->memory;
		p->items = (struct item *)(void *)((uint8_t *)p->memory + fd_bytes);
		p->doorbells = (struct rsk_doorbell *)(void *)(p->items + tracked);
	}
	p->room = tracked;
	for (nfds_t i = 0; i < n && p->nitems < tracked; i++) {
		struct rsk_stream *s;
		bool paired;

		if (fds[i].fd < 0 || !rsk_fd_tracked(fds[i].fd))
			continue;
		if (rsk_fd_word(fds[i].fd) & RSK_FD_EPOLL) {
			p->nepolls++;
			continue;
		}
		s = rsk_stream_of(fds[i].fd);
		if (!s)
			continue;
		paired = rsk_stream_phase(s) == RSK_PHASE_PAIRED;
		if (!paired) {
			/*
			 * As in rsk_op_begin(): counted, so that the peer is not told that this end
			 * watches the ring.
			 */
			atomic_fetch_add(&s->plain.rx, 1);
			atomic_thread_fence(memory_order_seq_cst);
			if (rsk_stream_phase(s) == RSK_PHASE_PAIRED) {
				atomic_fetch_sub(&s->plain.rx, 1);
				paired = true;
			}
			p->pairs |= rsk_stream_is_paired_now(s);
		}
		p->items[p->nitems++] = (struct item){ .at = i, .s = s, .paired = paired };
		p->npaired += paired;
	}
	return 0;
}

/*
 * Continues the pairing of streams in the list while this call waits for them, so that it takes as
 * many messages as the pairing has, not as many calls of the two programs. A program that exchanges
 * a first message, and then forks, is paired by then.
 */
static void pair_on(struct set *p)
{
	bool heard = p->heard;

	p->npairing = 0;
	p->heard = false;
	if (p->rounds++ >= PAIRING_ROUNDS)
		return;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct item *it = &p->items[i];

		if (it->paired)
			continue;
		p->npairing += rsk_pairing_watch(it->s, p->fds[it->at].fd, heard,
						 p->pairing + p->npairing,
						 PAIRING_FDS - p->npairing);
		if (rsk_stream_phase(it->s) != RSK_PHASE_PAIRED)
			continue;
		atomic_fetch_sub(&it->s->plain.rx, 1);
		it->paired = true;
		p->npaired++;
	}
}

/* @index: where the doorbell was the last time. False: no descriptor is left. */
static bool doorbell_for(struct set *p, struct rsk_link *l, uint32_t *index)
{
	if (*index < p->ndoorbells && p->doorbells[*index].l == l)
		return true;
	for (*index = 0; *index < p->ndoorbells; ++*index)
		if (p->doorbells[*index].l == l)
			return true;
	if (rsk_doorbell_take(&p->doorbells[p->ndoorbells], l) < 0)
		return false;
	rsk_doorbell_ready(&p->doorbells[p->ndoorbells++]);
	return true;
}

/* From now on no doorbell is waited for, and no descriptor of a pairing. */
static void go_by_time(struct set *p)
{
	retract_all(p);
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_give(&p->doorbells[i]);
	p->ndoorbells = p->npairing = 0;
	p->rounds = PAIRING_ROUNDS;
	rsk_by_time_begin(&p->by_time);
}

/* After a sleep by time: takes the completions that a doorbell would have reported. */
static void take_completions(const struct set *p)
{
	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].paired && p->items[i].s->link->remote) {
			rsk_rdma_poll(true);
			return;
		}
}

static void announce_all(struct set *p)
{
	p->nannounced = 0;
	p->announced = true;
	for (uint32_t i = 0; i < p->ndoorbells; i++)
		rsk_doorbell_ready(&p->doorbells[i]);
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct item *it = &p->items[i];

		if (!it->paired)
			continue;
		if (!doorbell_for(p, it->s->link, &it->doorbell)) {
			go_by_time(p);
			return;
		}
		it->s->link->seg.rail.ops->announce(&it->s->link->seg.rail, it->s->sid,
						    wakes(p->fds[it->at].events),
						    p->doorbells[it->doorbell].index);
		p->nannounced = i + 1;
	}
	atomic_thread_fence(memory_order_seq_cst);
}

/*
 * Fills the kernel's copy of the list and polls it; with @sleep until @until_ns. Returns the
 * kernel's count or -errno.
 */
static int ask(struct set *p, bool sleep, uint64_t until_ns, const sigset_t *mask)
{
	nfds_t n = p->n;
	uint64_t now;
	struct timespec ts = { 0 };
	sigset_t own;
	int saved = errno, rc;

	memcpy(p->kernel, p->fds, p->n * sizeof(*p->kernel));
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *k = &p->kernel[p->items[i].at];
		int events;

		if (!p->items[i].paired)
			continue;
		events = rsk_stream_kernel_events(p->items[i].s, k->events);
		k->events = (short)events;
		if (events < 0)
			k->fd = -1;
	}
	for (nfds_t i = 0; i < p->n; i++)
		if (rsk_fd_not_yours(p->fds[i].fd))
			/* POLLNVAL, as for any number that is not open */
			p->kernel[i].fd = INT32_MAX;
	if (sleep) {
		for (uint32_t i = 0; i < p->ndoorbells; i++)
			p->kernel[n++] =
				(struct pollfd){ .fd = p->doorbells[i].fd, .events = POLLIN };
		for (uint32_t i = 0; i < p->npairing; i++)
			p->kernel[n++] = p->pairing[i];
		now = rsk_now_ns();
		if (until_ns != UINT64_MAX && until_ns > now) {
			ts.tv_sec = (time_t)((until_ns - now) / 1000000000u);
			ts.tv_nsec = (long)((until_ns - now) % 1000000000u);
		}
	}
	if (!mask)
		mask = rsk_by_time_mask(&p->by_time, &own);
	rc = rsk_host->ppoll(p->kernel, n, sleep && until_ns == UINT64_MAX ? NULL : &ts, mask);
	if (rc < 0)
		rc = -errno;
	errno = saved;
	return rc;
}

/*
 * True: the kernel reports an event for a stream whose bytes come by the ring, and the number now
 * belongs to another file, whose events are stored.
 */
static bool is_another(const struct item *it, struct pollfd *f, short told)
{
	struct pollfd anew = *f;

	if (!told || it->s->rx.state != RSK_RX_ONRING || rsk_stream_is_at(it->s, f->fd))
		return false;
	rsk_sys_ppoll(&anew, 1, &(struct timespec){ 0 }, NULL);
	f->revents = anew.revents;
	return true;
}

/* Merges the streams' events with the kernel's. Returns the number of ready fds. */
static int merge(struct set *p)
{
	int ready = 0;

	for (nfds_t i = 0; i < p->n; i++)
		p->fds[i].revents = p->kernel[i].revents;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *f = &p->fds[p->items[i].at];
		bool asked = p->kernel[p->items[i].at].fd >= 0;

		if (p->items[i].paired && !(asked && is_another(&p->items[i], f, f->revents)))
			f->revents = rsk_stream_poll(p->items[i].s, f->fd, f->events,
						     asked ? (unsigned short)f->revents : -1);
	}
	for (nfds_t i = 0; i < p->n; i++)
		ready += p->fds[i].revents != 0;
	return ready;
}

/*
 * For a list of paired streams only. Returns the number of ready fds; -1: the kernel has to be
 * asked.
 */
static int rings_alone(struct set *p)
{
	uint64_t now;
	int ready = 0;

	if (p->npaired != p->nasked)
		return -1;
	now = rsk_now_ns();
	for (nfds_t i = 0; i < p->n; i++)
		p->fds[i].revents = 0;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *f = &p->fds[p->items[i].at];

		if (!rsk_stream_poll_rings(p->items[i].s, f->events, now, &f->revents))
			return -1;
		ready += f->revents != 0;
	}
	return ready;
}

static bool ring_stirs(void *arg)
{
	const struct set *p = arg;

	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].paired && rsk_stream_stirs(p->items[i].s, RSK_WAKE_RX))
			return true;
	return false;
}

/* The spin budget of this thread's polls, adjusted by each wait. */
static __thread uint32_t spin_ns = UINT32_MAX;

static bool spin(struct set *p)
{
	bool same_cpu = false;

	if (spin_ns == UINT32_MAX)
		spin_ns = rsk_knobs.spin_ns;
	for (uint32_t i = 0; i < p->nitems; i++)
		same_cpu |= p->items[i].paired && !rsk_spin_pays(p->items[i].s);
	return rsk_spin(spin_ns, same_cpu, ring_stirs, p);
}

/*
 * A writer that waits for a full ring falls back to TCP after a while. Returns the earliest such
 * time; with @now, lets the writers whose time has come fall back.
 */
static uint64_t relief(struct set *p, bool now)
{
	uint64_t at = UINT64_MAX;

	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *f = &p->fds[p->items[i].at];
		struct rsk_stream *s = p->items[i].s;

		if (!p->items[i].paired || !(f->events & OUT_EVENTS) ||
		    s->tx.state != RSK_TX_ONRING)
			continue;
		if (now)
			rsk_stream_fall_back_full(s, f->fd);
		else if (!rsk_tx_writable(&s->tx)) {
			uint64_t full_until = rsk_stream_full_until(s);

			at = full_until < at ? full_until : at;
		}
	}
	return at;
}

/* Brings up to date what the epoll sets in the list show the kernel. True: they hold streams. */
static bool look_at_epolls(struct set *p, uint64_t *until_ns)
{
	uint32_t left = p->nepolls;
	bool streams = false;

	for (nfds_t i = 0; left && i < p->n; i++)
		if (p->fds[i].fd >= 0 && (rsk_fd_word(p->fds[i].fd) & RSK_FD_EPOLL)) {
			streams |= rsk_epoll_check(p->fds[i].fd, until_ns);
			left--;
		}
	return streams;
}

int rsk_poll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
	struct set p __attribute__((cleanup(set_fini)));
	bool at_once = timeout && !timeout->tv_sec && !timeout->tv_nsec, spun = false, epolls;
	/*
	 * An epoll set that shows an event is checked once more: events that make nothing ready are
	 * gone then.
	 */
	bool again = false, final;
	uint64_t began = 0, news = 0, until = UINT64_MAX, relief_ns, look_ns, wake_ns;
	int rc;

	p.nitems = p.ndoorbells = p.npaired = p.nepolls = p.npairing = p.rounds = 0;
	p.nasked = 0;
	p.announced = p.pairs = p.heard = false;
	p.by_time = (struct rsk_by_time){ 0 };
	p.memory = NULL;
	rc = set_init(&p, fds, n);
	if (rc < 0)
		return rc;
	if (timeout && !at_once)
		until = rsk_until_ns(rsk_now_ns(), timeout);
	for (;;) {
		bool last = at_once || (until != UINT64_MAX && until <= rsk_now_ns());

		look_ns = UINT64_MAX;
		if (p.pairs && !last)
			pair_on(&p);
		epolls = look_at_epolls(&p, &look_ns);
		rc = rings_alone(&p);
		if (rc > 0)
			break;
		final = (!p.npaired && !epolls) || last;
		if (final || rc < 0) {
			rc = ask(&p, final && !last, until, final || p.by_time.on ? mask : NULL);
			if (rc > 0 && epolls && !again) {
				again = true;
				continue;
			}
			if (rc < 0) {
				if (rc != -EINVAL || !p.npairing)
					return rc;
				go_by_time(&p); /* below RLIMIT_NOFILE there is no room for those */
				continue;
			}
			p.heard = rc > 0 && p.npairing;
			rc = merge(&p);
			if (final && (rc || !p.heard))
				return rc;
			if (final)
				continue; /* events of a pairing only */
			if (rc)
				break;
		}
		again = false;
		if (p.npaired && !p.announced && !p.by_time.on && !spun) {
			spun = true;
			if (spin(&p))
				continue;
		}
		if (p.npaired && !p.announced && !p.by_time.on) {
			news = rsk_now_ns();
			began = news - rsk_spin_spent_ns;
			announce_all(&p);
			continue; /* check once more, then sleep */
		}
		relief_ns = relief(&p, false);
		if (look_ns < relief_ns)
			relief_ns = look_ns;
		rsk_stats_add_shared(&rsk_stats_self()->sleeps, 1);
		rsk_spun_tell();
		wake_ns = relief_ns < until ? relief_ns : until;
		if (p.by_time.on && p.npaired)
			wake_ns = rsk_by_time_check(wake_ns);
		rc = ask(&p, true, wake_ns, mask);
		if (rc == -EINVAL && !p.by_time.on && p.ndoorbells + p.npairing) {
			go_by_time(&p);
			continue;
		}
		if (p.by_time.on)
			take_completions(&p);
		retract_all(&p);
		spun = false;
		news = rsk_now_ns();
		for (uint32_t i = 0; i < p.ndoorbells; i++)
			if (p.kernel[p.n + i].revents) {
				news = rsk_spin_woken(p.doorbells[i].l, began);
				rsk_doorbell_rang(&p.doorbells[i]);
			}
		p.heard = rc > 0 && p.npairing;
		if (rc < 0)
			return rc;
		if (relief_ns <= rsk_now_ns())
			relief(&p, true);
		/*
		 * The kernel may have shown an event of an epoll set that is none for the
		 * application.
		 */
		if (epolls)
			continue;
		rc = merge(&p);
		if (rc)
			break;
	}
	spin_ns = began ? rsk_spin_learn(spin_ns, news - began) : rsk_spin_longest();
	return rc;
}
