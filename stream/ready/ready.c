// SPDX-License-Identifier: BSD-2-Clause
/*
 * ready.c - readiness of a paired stream as poll(2) reports it: from its rings, and from the kernel
 * where needed. See ready.h.
 */
#include "ready.h"

#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "credit.h"
#include "over.h"
#include "peer_reset.h"
#include "slot_repair.h"
#include "stream.h"
#include "syn.h"
#include "wait.h"

#define IN_EVENTS (POLLIN | POLLRDNORM)
#define OUT_EVENTS (POLLOUT | POLLWRNORM)
#define END_EVENTS (POLLERR | POLLHUP)
#define ENDS (POLLRDHUP | POLLHUP) /* orderly ends: of the peer's direction, of both */
#define QUIET_LOOKS 8
#define END_LOOKS 64
#define QUIET_NS 50000u

static short ask_kernel(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 ? p.revents : 0;
}

/*
 * POLLERR without an end has two causes: the kernel is in tcp_reset() (it sets the error, drops the
 * send queue, then sets the state), or the error queue has an entry, which persists. A thread that
 * the reset wakes never sees the intermediate state; a thread that the ring wakes may.
 */
static short ask_until_end(struct rsk_stream *s, int fd, short events, short kernel)
{
	bool shown = atomic_load(&s->syn.shown);

	/* A segment that is shown again may be there beside an end, too. */
	for (int i = 0; i < END_LOOKS &&
			((kernel & END_EVENTS) == POLLERR || (!i && shown && (kernel & POLLERR)));
	     i++) {
		if (shown)
			rsk_syn_take_shown(s, fd);
		kernel = ask_kernel(fd, events);
	}
	return kernel;
}

short rsk_stream_poll_unpaired(struct rsk_stream *s, int fd, short events, short kernel)
{
	return (kernel & POLLERR) && atomic_load(&s->syn.shown) ?
		       ask_until_end(s, fd, events, kernel) :
		       kernel;
}

/*
 * The kernel shows bytes of a peer that has closed. They may be its FIN, which the kernel counts
 * (tcp_queue_rcv()) before it records the end (tcp_fin()). A thread that the FIN wakes never sees
 * that state; a thread that the ring wakes may. A call that takes the socket's lock sees both or
 * neither.
 */
static bool is_at_end(struct rsk_stream *s, int fd)
{
	bool closed;
	char byte;

	rsk_lock(&s->tx_lock);
	closed = s->tx.reader != RSK_READER_THERE;
	rsk_unlock(&s->tx_lock);
	return closed && rsk_sys_recvfrom(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT, NULL, NULL) == 0;
}

/* rx_lock is held. */
static bool is_ready(struct rsk_stream *s)
{
	bool ready = rsk_rx_ready(&s->rx);

	if (__builtin_expect(rsk_rx_torn(&s->rx), 0))
		rsk_slot_repair_want(s);
	return ready;
}

/* Readable in TCP's sense: SO_RCVLOWAT bytes, or the end, or an error. rx_lock is held. */
static bool readable(struct rsk_stream *s, int fd)
{
	int low = atomic_load_explicit(&s->rcvlowat, memory_order_relaxed), queued = 0;
	uint64_t unread;
	bool alone;

	if (!is_ready(s))
		return false;
	if (low <= 1 || s->rx.fin || rsk_rx_ended(&s->rx) || s->rx.tcp.err)
		return true;
	unread = rsk_rx_pending(&s->rx, &alone);
	if (unread < (uint64_t)low && !alone && rsk_sys_ioctl(fd, FIONREAD, &queued) == 0)
		unread += (uint64_t)queued;
	return unread >= (uint64_t)low;
}

/*
 * Whether a send has room in the ring. If pacing holds it back, the progress thread adds to the
 * bucket and wakes whoever waits. tx_lock is held.
 */
static bool has_room(struct rsk_stream *s)
{
	bool room = rsk_stream_writable(s);

	if (!room && s->tx.state == RSK_TX_ONRING && rsk_tx_paced(&s->tx))
		rsk_credit_want(s);
	return room;
}

/*
 * Answers from the ring alone when both directions are on the ring, the TCP socket is quiet, and no
 * control word is new. Takes one lock if the caller waits for bytes only. False: ask in full.
 */
static bool poll_fast_path(struct rsk_stream *s, short events, short *revents)
{
	bool fast, in, out = false;

	if (atomic_load_explicit(&s->tcp_news, memory_order_relaxed) ||
	    atomic_load_explicit(&s->rcvlowat, memory_order_relaxed) > 1 ||
	    atomic_load_explicit(&s->rd_shut, memory_order_relaxed) ||
	    atomic_load_explicit(&s->wr_shut, memory_order_relaxed) || rsk_stream_failed(s) ||
	    rsk_zerocopy_unread(&s->zerocopy))
		return false;
	rsk_lock(&s->rx_lock);
	fast = rsk_rx_on_fast_path(&s->rx) && !s->rx.tcp.eof && !s->rx.tcp.err;
	in = fast && is_ready(s);
	fast = fast && rsk_rx_on_fast_path(&s->rx); /* a command at the head was executed */
	rsk_unlock(&s->rx_lock);
	if (!fast)
		return false;
	if (!(events & OUT_EVENTS)) {
		fast = !rsk_control_word_fresh(s->tx.answer.at, rsk_tx_answer_seen(&s->tx));
	} else {
		rsk_lock(&s->tx_lock);
		fast = rsk_tx_on_fast_path(&s->tx);
		out = has_room(s);
		rsk_unlock(&s->tx_lock);
	}
	*revents = (short)((in ? events & IN_EVENTS : 0) | (out ? events & OUT_EVENTS : 0));
	return fast;
}

/*
 * Counts checks in which the kernel had nothing for the TCP socket of a stream that is on the ring,
 * which is nearly always the case. rx_lock is held.
 */
static void note_quiet(struct rsk_stream *s, int kernel)
{
	if (kernel & (POLLIN | POLLRDHUP | POLLPRI | END_EVENTS)) {
		s->quiet.looks = 0;
		return;
	}
	if (s->quiet.looks < QUIET_LOOKS && ++s->quiet.looks < QUIET_LOOKS)
		return;
	s->quiet.kernel_calls = rsk_kernel_calls_so_far();
	s->quiet.ns = rsk_now_ns();
}

bool rsk_stream_poll_rings(struct rsk_stream *s, short events, uint64_t now_ns, short *revents)
{
	bool quiet;

	rsk_lock(&s->rx_lock);
	quiet = s->quiet.looks == QUIET_LOOKS &&
		s->quiet.kernel_calls == rsk_kernel_calls_so_far() &&
		now_ns - s->quiet.ns < QUIET_NS;
	rsk_unlock(&s->rx_lock);
	return quiet && poll_fast_path(s, events, revents);
}

/* The current state, for a caller that does not hold tx_lock. */
static uint8_t tx_state(struct rsk_stream *s)
{
	uint8_t state;

	rsk_lock(&s->tx_lock);
	state = s->tx.state;
	rsk_unlock(&s->tx_lock);
	return state;
}

/* Whether a send could use room on the TCP socket. */
static bool tx_goes(struct rsk_stream *s)
{
	bool goes;

	rsk_lock(&s->tx_lock);
	goes = !rsk_tx_held_back(&s->tx);
	rsk_unlock(&s->tx_lock);
	return goes;
}

short rsk_stream_poll(struct rsk_stream *s, int fd, short events, int kernel)
{
	bool rx_ring, tx_ring, in, room = false, fin;
	enum rsk_rx_end end = RSK_RX_END_TCP;
	struct rsk_kernel_tcp k;
	short r = 0;

	if (kernel < 0 && poll_fast_path(s, events, &r))
		return r;
	if (kernel > 0 && (kernel & POLLNVAL))
		return POLLNVAL; /* closed by another thread */
	if (rsk_stream_failed(s))
		return (short)((events & (IN_EVENTS | OUT_EVENTS | POLLRDHUP)) | END_EVENTS);
	rsk_stream_serve(s, fd);
	rsk_kernel_tcp_init(&k, s, fd);
	tx_ring = tx_state(s) == RSK_TX_ONRING;
	rsk_lock(&s->rx_lock);
	in = readable(s, fd);
	rx_ring = s->rx.state == RSK_RX_ONRING;
	if (kernel < 0)
		kernel = rx_ring && tx_ring && !atomic_load(&s->tcp_news) ?
				 0 :
				 ask_kernel(fd, (short)(events | POLLIN | POLLRDHUP));
	if (kernel >= 0 && (kernel & POLLERR))
		kernel = ask_until_end(s, fd, (short)(events | POLLIN | POLLRDHUP), (short)kernel);
	/* These bytes count as if in the socket's queue, before all others. */
	if (rsk_over_unread(s))
		kernel |= POLLIN;
	if (kernel >= 0)
		note_quiet(s, kernel);
	/*
	 * The caller may now read until EAGAIN without another event: that read must check the TCP
	 * socket.
	 */
	if (kernel & (POLLRDHUP | END_EVENTS))
		atomic_store(&s->tcp_news, 1);
	if (rx_ring && !in && (kernel & (POLLIN | POLLRDHUP | END_EVENTS))) {
		/* The TCP socket shows the end: it counts when the ring has nothing before it. */
		atomic_store(&s->tcp_news, 1);
		rsk_rx_check_tcp(&s->rx, &k.c);
		in = readable(s, fd);
		rx_ring = s->rx.state == RSK_RX_ONRING;
	}
	fin = s->rx.fin || s->rx.tcp.eof; /* checked after the kernel was asked */
	/*
	 * The check of the TCP socket took its error from the kernel: it shows here until it is
	 * reported.
	 */
	if (s->rx.tcp.err)
		kernel |= POLLERR;
	/*
	 * Between hosts the kernel's FIN may arrive first: the ring's end, and the bytes before it,
	 * are in flight.
	 */
	if (s->link->remote && !(kernel & POLLERR) && !atomic_load(&s->rd_shut) &&
	    (fin || (kernel & ENDS) || atomic_load(&s->tcp_news) || rsk_rx_not_due(&s->rx)))
		end = rsk_rx_end(&s->rx);
	rsk_unlock(&s->rx_lock);
	if (__builtin_expect(kernel & POLLHUP, 0))
		rsk_stream_hung_up(s);
	/* What shows after a reset was found is asked for anew; a reset is found once. */
	if (!(kernel & END_EVENTS) && (fin || (kernel & POLLRDHUP) || atomic_load(&s->tcp_news)) &&
	    rsk_stream_see_reset(s, fd))
		return rsk_stream_poll(s, fd, events, -1);
	/* An aborted connection has no end of the ring to wait for. */
	if (end == RSK_RX_END_BEHIND && rsk_stream_is_aborted(s, kernel))
		end = RSK_RX_END_TCP;
	if (end == RSK_RX_END_BEHIND) {
		if (kernel & POLLHUP)
			atomic_store(&s->hup_behind, 1);
		kernel &= ~(rx_ring ? ENDS : ENDS | POLLIN);
	}
	if (tx_ring) {
		rsk_lock(&s->tx_lock);
		room = has_room(s);
		tx_ring = s->tx.state == RSK_TX_ONRING;
		rsk_unlock(&s->tx_lock);
	}
	if (in || atomic_load(&s->rd_shut) || (!rx_ring && (kernel & POLLIN)))
		r |= (short)(events & IN_EVENTS);
	/* The sender fell back after the kernel was asked, so POLLOUT was not asked for. */
	if (!tx_ring && (events & OUT_EVENTS) && !(kernel & POLLOUT))
		kernel |= ask_kernel(fd, POLLOUT) & POLLOUT;
	/*
	 * A sender that has proposed still sends by TCP; one that retransmits, or has lost its
	 * rail, accepts no bytes now.
	 */
	if (tx_ring ? room : (kernel & POLLOUT) && tx_goes(s))
		r |= (short)(events & OUT_EVENTS);
	if (atomic_load(&s->wr_shut))
		r |= (short)(events & OUT_EVENTS);
	r |= (short)(kernel & (END_EVENTS | POLLNVAL));
	/*
	 * A TCP socket that hangs up has ended in this direction too. A thread that asks while the
	 * kernel is in tcp_done() (which sets the state, then the shutdown flags) may see one
	 * without the other; a thread that it wakes never does.
	 */
	if (kernel & POLLHUP)
		r |= (short)(events & (IN_EVENTS | POLLRDHUP));
	if ((kernel & (POLLIN | POLLRDHUP)) == POLLIN && (events & POLLRDHUP))
		fin = fin || is_at_end(s, fd);
	if ((fin && end != RSK_RX_END_BEHIND) || end == RSK_RX_END_HERE)
		kernel |= POLLRDHUP;
	/* The kernel's FIN of either direction may be behind the stream's end. */
	if ((kernel & POLLRDHUP) && atomic_load(&s->wr_shut))
		r |= POLLHUP;
	/* The end of the stream ends a wait for SO_RCVLOWAT bytes. */
	if (kernel & POLLRDHUP)
		r |= (short)(events & IN_EVENTS);
	r |= (short)(kernel & events & (POLLRDHUP | POLLPRI));
	/* As the kernel for an entry of its error queue: whether it was asked for or not. */
	if (rsk_zerocopy_unread(&s->zerocopy))
		r |= POLLERR;
	return r;
}

/*
 * The TCP socket shows its end, or may, but unread ring data precedes it: the ring's doorbell
 * reports when the end counts.
 */
static bool end_is_behind(struct rsk_stream *s)
{
	bool behind;

	if (!s->link->remote || !atomic_load(&s->tcp_news) || atomic_load(&s->rd_shut))
		return false;
	rsk_lock(&s->rx_lock);
	behind = rsk_rx_end(&s->rx) == RSK_RX_END_BEHIND;
	rsk_unlock(&s->rx_lock);
	return behind;
}

int rsk_stream_kernel_events(struct rsk_stream *s, short events)
{
	bool behind = end_is_behind(s);

	if (behind && atomic_load(&s->hup_behind))
		return -1; /* the kernel would report HUP all the time */
	if (behind)
		events &= (short)~(POLLRDHUP | IN_EVENTS);
	if (s->tx.state == RSK_TX_ONRING ||
	    (s->link->remote && (events & OUT_EVENTS) && !tx_goes(s)))
		events &= (short)~OUT_EVENTS;
	/*
	 * A peer that is killed with bytes unread shows the same end as one that closes: which of
	 * the two it is is determined then.
	 */
	if (!behind && !atomic_load(&s->tcp_news))
		events |= POLLRDHUP;
	/*
	 * The kernel would report bytes that are not due all the time, and the end is behind them.
	 */
	if (rsk_rx_not_due(&s->rx)) {
		events &= (short)~IN_EVENTS;
		return (unsigned short)(s->link->remote ? events : events | POLLRDHUP);
	}
	/*
	 * Once the TCP socket has shown its end, the kernel reports it for ever: wait for it only
	 * the first time.
	 */
	if (s->rx.state == RSK_RX_ONRING && (events & IN_EVENTS) && !atomic_load(&s->tcp_news))
		events |= POLLIN;
	return (unsigned short)events;
}
