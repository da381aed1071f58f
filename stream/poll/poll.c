// SPDX-License-Identifier: BSD-2-Clause
/*
 * poll.c - poll(2) on lists of descriptors that contain paired streams. The hooks of poll() and
 * ppoll(), and select.c, call it.
 */
#include <errno.h>
#include <string.h>

#include <rsock/sys.h>

#include "epoll.h"
#include "full.h"
#include "poll_set.h"
#include "rdma.h"
#include "ready.h"
#include "spin.h"
#include "stream.h"
#include "wait.h"

bool rsk_poll_concerns(const struct pollfd *fds, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (fds[i].fd >= 0 && rsk_fd_tracked(fds[i].fd))
			return true;
	return false;
}

/* After a sleep by time: takes the completions that a doorbell would have reported. */
static void take_completions(const struct rsk_poll_set *p)
{
	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].paired && p->items[i].s->link->remote) {
			rsk_rdma_poll(true);
			return;
		}
}

/*
 * Fills the kernel's copy of the list and polls it; with @sleep until @until_ns. Returns the
 * kernel's count or -errno.
 */
static int ask(struct rsk_poll_set *p, bool sleep, uint64_t until_ns, const sigset_t *mask)
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
				(struct pollfd){ .fd = rsk_doorbell_fd(&p->doorbells[i], p->news),
						 .events = POLLIN };
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
static bool is_another(const struct rsk_poll_item *it, struct pollfd *f, short told)
{
	struct pollfd anew = *f;

	if (!told || it->s->rx.state != RSK_RX_ONRING || rsk_stream_is_at(it->s, f->fd))
		return false;
	rsk_sys_ppoll(&anew, 1, &(struct timespec){ 0 }, NULL);
	f->revents = anew.revents;
	return true;
}

/* Merges the streams' events with the kernel's. Returns the number of ready fds. */
static int merge(struct rsk_poll_set *p)
{
	int ready = 0;

	for (nfds_t i = 0; i < p->n; i++)
		p->fds[i].revents = p->kernel[i].revents;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *f = &p->fds[p->items[i].at];
		bool asked = p->kernel[p->items[i].at].fd >= 0;

		if (!p->items[i].paired) {
			if (__builtin_expect(f->revents & POLLERR, 0) &&
			    rsk_fd_names(f->fd, p->items[i].s))
				f->revents = rsk_stream_poll_unpaired(p->items[i].s, f->fd,
								      f->events, f->revents);
			continue;
		}
		if (!(asked && is_another(&p->items[i], f, f->revents)))
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
static int rings_alone(struct rsk_poll_set *p)
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
	const struct rsk_poll_set *p = arg;

	for (uint32_t i = 0; i < p->nitems; i++)
		if (p->items[i].paired && rsk_stream_stirs(p->items[i].s, RSK_WAKE_RX))
			return true;
	return false;
}

/* The spin budget of this thread's polls, adjusted by each wait. */
static __thread uint32_t spin_ns = UINT32_MAX;

static bool spin(struct rsk_poll_set *p)
{
	bool same_cpu = false;

	if (spin_ns == UINT32_MAX)
		spin_ns = rsk_knobs.spin_ns;
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct rsk_stream *s = p->items[i].s;

		if (p->items[i].paired)
			same_cpu |= !rsk_spin_peer_elsewhere(s, rsk_stream_publish_cpu(s));
	}
	return rsk_spin(spin_ns, same_cpu, ring_stirs, p);
}

/*
 * A writer that waits for a full ring falls back to TCP after a while. Returns the earliest such
 * time; with @now, lets the writers whose time has come fall back.
 */
static uint64_t relief(struct rsk_poll_set *p, bool now)
{
	uint64_t at = UINT64_MAX;

	for (uint32_t i = 0; i < p->nitems; i++) {
		struct pollfd *f = &p->fds[p->items[i].at];
		struct rsk_stream *s = p->items[i].s;

		if (!p->items[i].paired || !(f->events & RSK_POLL_OUT_EVENTS) ||
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
static bool look_at_epolls(struct rsk_poll_set *p, uint64_t *until_ns)
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
	struct rsk_poll_set p __attribute__((cleanup(rsk_poll_set_fini)));
	bool at_once = timeout && !timeout->tv_sec && !timeout->tv_nsec, epolls;
	/*
	 * An epoll set that shows an event is checked once more: events that make nothing ready are
	 * gone then.
	 */
	bool again = false, final, told;
	uint64_t began = 0, news = 0, until = UINT64_MAX, relief_ns, look_ns, wake_ns;
	uint32_t handled = rsk_sigdefer_handled, spins = 0;
	enum rsk_news by;
	int rc;

	rc = rsk_poll_set_init(&p, fds, n);
	if (rc < 0)
		return rc;
	if (timeout && !at_once)
		until = rsk_until_ns(rsk_now_ns(), timeout);
	for (;;) {
		bool last = at_once || (until != UINT64_MAX && until <= rsk_now_ns());

		look_ns = UINT64_MAX;
		if (p.pairs && !last)
			rsk_poll_set_pair(&p);
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
				/* below RLIMIT_NOFILE there is no room for those */
				rsk_poll_set_go_by_time(&p);
				continue;
			}
			p.heard = rc > 0 && p.npairing;
			told = rc > 0;
			rc = merge(&p);
			if (final && (rc || last || !told))
				return rc;
			/*
			 * Events that are none for the program. A handler may have run while that
			 * was found out.
			 */
			if (final && !mask && rsk_sigdefer_handled != handled)
				return -EINTR;
			if (final)
				continue;
			if (rc)
				break;
		}
		again = false;
		if (p.npaired && !p.announced && !p.by_time.on && spins < RSK_SPINS_OF_A_WAIT) {
			spins++;
			if (spin(&p))
				continue;
			spins = RSK_SPINS_OF_A_WAIT;
		}
		/*
		 * A handler ran while this thread spun, and nothing is ready. (With a mask it may
		 * be one that has to wait.)
		 */
		if (p.npaired && !mask && rsk_sigdefer_handled != handled)
			return -EINTR;
		if (p.npaired && !p.announced && !p.by_time.on) {
			news = rsk_now_ns();
			began = news - rsk_spin_spent_ns;
			rsk_poll_set_announce(&p);
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
		rsk_poll_set_asleep(&p);
		rc = ask(&p, true, wake_ns, mask);
		by = p.news;
		rsk_poll_set_awake(&p);
		if (rc == -EINVAL && !p.by_time.on && p.ndoorbells + p.npairing) {
			rsk_poll_set_go_by_time(&p);
			continue;
		}
		if (p.by_time.on)
			take_completions(&p);
		rsk_poll_set_retract(&p);
		spins = 0;
		news = rsk_now_ns();
		for (uint32_t i = 0; i < p.ndoorbells; i++)
			if (p.kernel[p.n + i].revents) {
				news = rsk_spin_woken(p.doorbells[i].l, began);
				rsk_doorbell_rang(&p.doorbells[i], by);
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
