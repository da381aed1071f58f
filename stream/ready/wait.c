// SPDX-License-Identifier: BSD-2-Clause
/* wait.c - see wait.h. */
#include "wait.h"

#include <errno.h>
#include <stddef.h>
#include <sys/single_threaded.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "full.h"
#include "fd_wait.h"
#include "operator_request.h"
#include "rdma.h"
#include "sleep.h"
#include "spin.h"
#include "stream.h"
#include "timeouts.h"

void rsk_wait_begin(struct rsk_wait *w, struct rsk_stream *s, int fd, uint32_t what)
{
	*w = (struct rsk_wait){ .s = s, .fd = fd, .what = what, .active = true };
	w->deadline_ns = UINT64_MAX;
	w->handled = rsk_sigdefer_handled;
	w->cut = rsk_sigdefer_cut;
}

static __thread int kept_fd; /* by rsk_wait_keep(), of the innermost call; 0: none */

bool rsk_wait_keep(struct rsk_wait *w, struct rsk_stream *s, int copy, uint32_t what)
{
	int outer = kept_fd;

	kept_fd = copy;
	atomic_signal_fence(memory_order_seq_cst);
	if (!rsk_fd_ours(copy)) { /* closed in the child of a fork in a signal handler before */
		kept_fd = outer;
		return false;
	}
	rsk_wait_begin(w, s, copy, what);
	w->own_fd = w->kept = true;
	w->outer_kept = outer;
	return true;
}

bool rsk_wait_keeps(int fd)
{
	return rsk_sleeps_on(fd) || (kept_fd && fd == kept_fd);
}

/* Goes on with the copy if the number was closed. 0, or -EBADF: no copy was made. */
static int get_up(struct rsk_wait *w)
{
	int refuge;

	if (!w->fd_wait)
		return 0;
	refuge = rsk_fd_wait_refuge(w->fd_wait);
	if (refuge == -1)
		return 0;
	rsk_fd_wait_end(w->fd_wait);
	w->fd_wait = NULL;
	if (refuge < 0)
		return -EBADF;
	w->fd = refuge;
	w->own_fd = true;
	return 0;
}

/*
 * The table entry disappeared after this thread registered its fd wait: the closing thread is about
 * to make the copy, and rings the doorbell then.
 */
static int await_refuge(struct rsk_wait *w)
{
	struct pollfd p = { .fd = w->by_time.on ? -1 : w->doorbell.fd, .events = POLLIN };
	int rc;

	while ((rc = get_up(w)) == 0 && !w->own_fd)
		if (w->by_time.on) {
			rsk_sleep_by_time(w, &p, UINT64_MAX);
		} else if (rsk_sleep_on(w, &p, 1, UINT64_MAX) > 0) {
			rsk_doorbell_rang(&w->doorbell, RSK_NEWS_ITSELF);
			rsk_doorbell_ready(&w->doorbell); /* before the next check */
		}
	return rc;
}

/*
 * The kernel holds the file while a call is under way; another thread may close our number
 * meanwhile. 0; -EBADF: it has, so early that the close may count as before the call. If no
 * descriptor is left for a copy, the wait goes on with the number, until still_there() finds that
 * it has another file.
 */
static int hold_fd(struct rsk_wait *w)
{
	int copy;

	if (w->own_fd || __libc_single_threaded)
		return 0;
	copy = rsk_own_fd_copy(w->fd);
	/*
	 * The table's entry is removed before the number is closed: if it is still there, the copy
	 * is of the right file.
	 */
	if (!rsk_fd_names(w->fd, w->s)) {
		rsk_own_close(copy);
		return w->fd_wait ? await_refuge(w) : -EBADF;
	}
	if (copy >= 0) {
		w->fd = copy;
		w->own_fd = true;
	}
	return 0;
}

/*
 * After a sleep: false if no copy could be made, and the number is no longer the stream's.
 */
static bool still_there(const struct rsk_wait *w)
{
	return w->own_fd || w->fd_wait || __libc_single_threaded || rsk_fd_names(w->fd, w->s);
}

/* The same for a thread that also sleeps on a doorbell, which can wake it. */
static int lie_down(struct rsk_wait *w)
{
	int rc = get_up(w);

	if (rc < 0 || w->own_fd || w->fd_wait || __libc_single_threaded)
		return rc;
	w->fd_wait = rsk_fd_wait_begin(w->s, w->fd, w->doorbell.index);
	if (!w->fd_wait)
		return hold_fd(w);
	return rsk_fd_names(w->fd, w->s) ? 0 : -EBADF;
}

static void read_deadline(struct rsk_wait *w)
{
	uint64_t us;

	w->have_deadline = true;
	if (atomic_load(w->what == RSK_WAKE_RX ? &w->s->timeouts.rx_none :
						 &w->s->timeouts.tx_none)) {
		w->deadline_ns = w->begin_ns;
		return;
	}
	us = rsk_stream_timeout(w->s, w->fd, w->what == RSK_WAKE_RX);
	if (us) {
		w->deadline_ns = w->begin_ns + us * 1000u;
		w->timed = true;
	}
}

static bool held_back(struct rsk_stream *s)
{
	bool held;

	if (!s->link || !s->link->remote)
		return false;
	rsk_lock(&s->tx_lock);
	held = rsk_tx_held_back(&s->tx);
	rsk_unlock(&s->tx_lock);
	return held;
}

/*
 * Events to watch on the TCP socket. 0: nothing that it could show would be news, not even its end.
 * Bytes are no news in the case of rsk_rx_not_due().
 */
static short tcp_events(struct rsk_wait *w)
{
	const struct rsk_rx *rx = &w->s->rx;

	if (w->what == RSK_WAKE_RX && (rx->tcp.eof || rsk_rx_not_due(rx)))
		return rx->tcp.eof || w->s->link->remote ? 0 : POLLRDHUP;
	if (w->what == RSK_WAKE_RX)
		return POLLIN;
	return w->s->tx.state == RSK_TX_ONRING || held_back(w->s) ? 0 : POLLOUT;
}

/* A handler has run in the spin, or since. */
static bool is_cut(const struct rsk_wait *w)
{
	return rsk_sigdefer_handled != w->handled;
}

/* A handler ran in the sleep, or in the spin before it. Nothing is learnt of such a wait. */
static int interrupted(struct rsk_wait *w)
{
	bool cut = rsk_sigdefer_cut != w->cut;

	w->in_time = false;
	w->begin_ns = 0;
	w->handled = rsk_sigdefer_handled;
	w->cut = rsk_sigdefer_cut;
	return w->timed || cut ? -EINTR : -ERESTART;
}

int rsk_wait_tcp(struct rsk_wait *w)
{
	struct pollfd p = { .events = w->what == RSK_WAKE_RX ? POLLIN : POLLOUT };
	int rc;

	rc = get_up(w);
	if (rc == 0)
		rc = hold_fd(w);
	if (rc < 0)
		return rc;
	p.fd = w->fd;
	if (!w->begin_ns)
		w->begin_ns = rsk_now_ns();
	if (!w->have_deadline)
		read_deadline(w);
	if (!w->by_time.on) {
		rc = rsk_sleep_on(w, &p, 1, w->deadline_ns);
		if (rc == -EINVAL)
			rsk_by_time_begin(&w->by_time);
	}
	if (w->by_time.on)
		rc = rsk_sleep_by_time(w, &p, w->deadline_ns);
	if (!still_there(w))
		return -EBADF;
	if (rc < 0)
		return rc == -EINTR ? interrupted(w) : rc;
	return rc || rsk_now_ns() < w->deadline_ns ? 1 : -EAGAIN;
}

static void hear_edge(const struct rsk_wait *w)
{
	struct epoll_event ev;

	rsk_sys_epoll_pwait(w->edge, &ev, 1, 0, NULL);
}

/*
 * Bytes lie unread on the TCP socket that the call leaves there, and the kernel would report them
 * all the time. Makes an epoll set that reports only what comes from now on: the caller checks once
 * more.
 */
static bool begin_edge(struct rsk_wait *w)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };
	int fd = rsk_own_fd(rsk_sys_epoll_create1(EPOLL_CLOEXEC));

	if (fd < 0)
		return false;
	if (rsk_sys_epoll_ctl(fd, EPOLL_CTL_ADD, w->fd, &ev) < 0) {
		rsk_own_close(fd);
		return false;
	}
	w->edge = fd;
	hear_edge(w);
	return true;
}

/* Whether the sleep that comes next can be on a set. */
static int find_set(struct rsk_wait *w, struct rsk_link *l)
{
	if (l->remote || w->what != RSK_WAKE_RX || w->own_fd || w->peeked || w->by_time.on ||
	    w->doorbell.l != l || w->doorbell.index == RSK_SEG_SHARED_DOORBELL || l->hollow ||
	    tcp_events(w) != POLLIN)
		return -1;
	return rsk_sleep_set_for(l, w->doorbell.index, w->s->cookie, w->fd);
}

/*
 * A receiver has announced itself: whether another look would find what the fast path of a receive
 * has found, nothing. All that another thread, or a peer, may have changed before it could see the
 * announcement, and what only a look finds: slots that overtook, or do not show.
 */
static bool nothing_yet(const struct rsk_wait *w)
{
	struct rsk_stream *s = w->s;
	bool nothing;

	if (w->what != RSK_WAKE_RX || w->peeked || rsk_stream_phase(s) != RSK_PHASE_PAIRED ||
	    rsk_stream_failed(s) || rsk_stream_requested(s) || rsk_stream_stirs(s, RSK_WAKE_RX) ||
	    atomic_load_explicit(&s->fallback_due, memory_order_relaxed) ||
	    atomic_load_explicit(&s->rd_shut, memory_order_relaxed) ||
	    atomic_load_explicit(&s->tcp_news, memory_order_relaxed) ||
	    atomic_load_explicit(&s->fork.shared, memory_order_relaxed) ||
	    !rsk_trylock(&s->rx_lock))
		return false;
	nothing = rsk_rx_on_fast_path(&s->rx) && !s->rx.partial.len && !s->rx.tcp.eof &&
		  !s->rx.tcp.err && !s->rx.rail_loss.lost && !rsk_rx_is_quiesced(&s->rx) &&
		  !rsk_rx_txn_tags(&s->rx) && !rsk_rx_torn(&s->rx) &&
		  !rsk_stream_stirs(s, RSK_WAKE_RX);
	rsk_unlock(&s->rx_lock);
	return nothing;
}

static void end_news(struct rsk_wait *w)
{
	rsk_news_sleep_end(w->news);
	w->news = RSK_NEWS_AWAKE;
}

int rsk_wait_more(struct rsk_wait *w)
{
	struct rsk_stream *s = w->s;
	struct rsk_link *l = s->link;
	struct rsk_stats_process *me;
	struct pollfd fds[2];
	enum rsk_news news;
	bool unread, cut;
	uint64_t until;
	int rc;

	if (!w->announced && rsk_wait_spin(w))
		return 0;
	if (!w->begin_ns)
		w->begin_ns = rsk_now_ns();
	w->in_time = false;
	if (!w->announced) {
		if (!w->doorbell.l && !w->by_time.on && rsk_doorbell_take(&w->doorbell, l) < 0)
			rsk_by_time_begin(&w->by_time);
		w->set = find_set(w, l);
		if (!w->by_time.on) {
			if (w->set < 0)
				rsk_doorbell_ready(&w->doorbell);
			l->seg.rail.ops->announce(&l->seg.rail, s->sid, w->what, w->doorbell.index);
		}
		/*
		 * Pairs with the fence of due(): either the peer sees the announcement, or our next
		 * check sees its slot.
		 */
		atomic_thread_fence(memory_order_seq_cst);
		w->announced = true;
		if (!nothing_yet(w)) {
			rsk_stream_serve(s, w->fd);
			return 0;
		}
	}
	/*
	 * Whose is the number? A set does not watch the file that has it now, nor do other sleeps
	 * notice that it has something to read. Where they do, it is asked then.
	 */
	if ((w->set >= 0 || tcp_events(w) != POLLIN) && !w->own_fd && !rsk_stream_is_at(s, w->fd))
		return is_cut(w) ? interrupted(w) : -RSK_EKERNEL;
	rc = lie_down(w);
	if (rc < 0)
		return is_cut(w) ? interrupted(w) : rc;
	if (__builtin_expect(w->peeked != 0, 0) && !w->edge && !w->by_time.on) {
		if (begin_edge(w))
			return 0;
		rsk_by_time_begin(&w->by_time);
	}
	if (!w->have_deadline)
		read_deadline(w);
	until = w->deadline_ns;
	/*
	 * After a fallback there is no room in the ring to wait for, and that time may be long
	 * over.
	 */
	if (w->what == RSK_WAKE_TX && s->tx.state == RSK_TX_ONRING && s->full.since_ns &&
	    rsk_stream_full_until(s) < until)
		until = rsk_stream_full_until(s);
	/* What the kernel has by now comes first. */
	cut = is_cut(w);
	if (__builtin_expect(cut, 0))
		until = 0;
	fds[0] = (struct pollfd){ .fd = w->fd, .events = tcp_events(w) };
	unread = w->peeked && !w->edge; /* by time: the kernel would report what is there */
	if ((!fds[0].events && w->what == RSK_WAKE_RX) || __builtin_expect(unread, 0))
		fds[0].fd = -1;
	else if (__builtin_expect(w->edge != 0, 0))
		fds[0] = (struct pollfd){ .fd = w->edge, .events = POLLIN };
	if (l->remote && !w->by_time.on)
		w->news = rsk_news_sleep_begin(rsk_doorbell_needs_progress(&w->doorbell));
	news = w->news;
	fds[1] = (struct pollfd){ .fd = -1, .events = POLLIN };
	if (w->doorbell.l)
		fds[1].fd = rsk_doorbell_fd(&w->doorbell, news);
	me = rsk_stats_self();
	rsk_stats_add_shared(&me->sleeps, 1);
	rsk_spun_tell();
	if (w->set >= 0 && fds[0].fd == w->fd && fds[0].events == POLLIN) {
		rc = rsk_sleep_on_set(w, fds, until);
	} else if (!w->by_time.on) {
		rc = rsk_sleep_on(w, fds, 2, until);
		if (rc == -EINVAL)
			rsk_by_time_begin(&w->by_time);
	}
	if (w->by_time.on)
		rc = rsk_sleep_by_time(w, fds, until);
	end_news(w);
	w->announced = false;
	w->spins = w->by_time.on ? RSK_SPINS_OF_A_WAIT : 0;
	w->news_ns = 0;
	if (w->by_time.on && l->remote)
		rsk_rdma_poll(true);
	else if (rc > 0 && fds[1].revents) {
		/*
		 * A thread that takes completions in a moment is not to ring the wake eventfd for
		 * us.
		 */
		if (l->remote)
			l->seg.rail.ops->retract(&l->seg.rail, s->sid, w->what, w->doorbell.index);
		w->news_ns = rsk_spin_woken(l, w->begin_ns);
		rsk_doorbell_rang(&w->doorbell, news);
	}
	if (__builtin_expect(w->edge != 0, 0) && rc > 0 && fds[0].revents) {
		if (fds[0].revents & POLLNVAL)
			/*
			 * in the child of a fork in a signal handler, where the library's
			 * descriptors are closed
			 */
			w->edge = 0;
		else
			hear_edge(w);
	}
	rsk_stats_add_shared(&me->wakes, 1);
	/* The kernel has an event: it is asked by a descriptor that stays open. */
	if (get_up(w) < 0)
		return -EBADF;
	if (rc > 0 && fds[0].revents && !w->own_fd && !rsk_stream_is_at(s, w->fd))
		return -RSK_EKERNEL;
	if ((rc > 0 && fds[0].revents && hold_fd(w) < 0) || !still_there(w))
		return -EBADF;
	/* Its caller looks at all that the peer's sender says. */
	if (w->what != RSK_WAKE_RX || rsk_wait_heard_receiver(s))
		rsk_stream_serve(s, w->fd);
	if (rc < 0)
		return rc == -EINTR ? interrupted(w) : rc;
	if (rc == 0 && cut)
		return interrupted(w);
	if (rc == 0) {
		if (rsk_now_ns() >= w->deadline_ns)
			return -EAGAIN;
		if (w->what == RSK_WAKE_TX)
			rsk_stream_fall_back_full(s, w->fd);
	}
	return fds[0].revents || unread ? 1 : 0;
}

void rsk_wait_end(struct rsk_wait *w)
{
	struct rsk_link *l;

	if (!w->active)
		return;
	l = w->s->link;
	w->active = false;
	end_news(w);
	if (w->doorbell.l) {
		l->seg.rail.ops->retract(&l->seg.rail, w->s->sid, w->what, w->doorbell.index);
		rsk_doorbell_give(&w->doorbell);
	}
	if (w->fd_wait)
		rsk_own_close(rsk_fd_wait_end(w->fd_wait));
	if (w->own_fd)
		rsk_own_close(w->fd);
	if (w->kept)
		kept_fd = w->outer_kept;
	if (w->edge)
		rsk_own_close(w->edge);
	rsk_by_time_end(&w->by_time);
	rsk_wait_learn(w);
}

void rsk_stream_want_room(struct rsk_stream *s)
{
	struct rsk_seg_ctl *ctl = rsk_seg_own_ctl(&s->link->seg, s->sid);
	uint64_t epolls = atomic_load(&ctl->epolls_rx);

	if (epolls)
		atomic_fetch_or(&ctl->epolls_tx, epolls);
	atomic_thread_fence(memory_order_seq_cst);
}
