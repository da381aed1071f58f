// SPDX-License-Identifier: BSD-2-Clause
/* full.c - see full.h. */
#include "full.h"

#include "credit.h"
#include "links.h"
#include "ring_width.h"
#include "upcall.h"

#define WORTH_RINGS 4

static void start_again(struct rsk_stream *s, const struct rsk_tcp *c, uint64_t now)
{
	s->full.since_ns = now;
	s->full.credit = s->tx.ring.credit;
	s->full.unacked = rsk_tx_reached(&s->tx) ? 0 : rsk_kernel_unacked(c->fd);
}

/*
 * True: the receiver has not reached the ring, and TCP has delivered some of the bytes before it
 * since the last look. What falls back waits behind them.
 */
static bool tcp_delivers(struct rsk_stream *s, const struct rsk_tcp *c)
{
	uint32_t had = s->full.unacked;

	if (!had || rsk_tx_reached(&s->tx))
		return false;
	s->full.unacked = rsk_kernel_unacked(c->fd);
	return s->full.unacked < had;
}

/*
 * True: the ring has been full without progress for too long. tx_lock is held.
 *
 * The peer cannot have consumed slots that are still in flight: the time counts from their arrival.
 * That ends, since a rail that delivers nothing breaks. Nor can it have consumed any before the
 * bytes that are on their way by TCP; they get fewer each time, or the wait ends. Nor does the
 * sender fall back to a TCP path that may deliver nothing (link->tcp_doubted); that ends with the
 * first message on the control connection, or with the last rail.
 */
static bool full_too_long(struct rsk_stream *s, const struct rsk_tcp *c)
{
	uint64_t now = rsk_now_ns();

	/* It is not full: the progress thread wakes the sender when pacing makes room. */
	if (rsk_tx_paced(&s->tx)) {
		start_again(s, c, now);
		if (s->link->remote)
			rsk_ring_width_full(s, now); /* it bounds what may be put at once */
		rsk_credit_want(s);
		return false;
	}
	if (!s->full.since_ns || s->full.credit != s->tx.ring.credit) {
		start_again(s, c, now);
		if (s->link->remote) {
			rsk_ring_width_full(s, now);
			rsk_credit_want(s);
		}
		return false;
	}
	if (now < rsk_stream_full_until(s))
		return false;
	if (!rsk_tx_under_way(&s->tx) && !atomic_load(&s->link->tcp_doubted) && !tcp_delivers(s, c))
		return true;
	s->full.since_ns = now;
	return false;
}

/*
 * False: fallback is not possible now; the next attempt comes after the same time. tx_lock is held.
 */
static bool fall_back_because_full(struct rsk_stream *s, struct rsk_tcp *c)
{
	if (rsk_tx_fall_back(&s->tx, c) < 0) {
		/*
		 * The receiver has ended the promotion, and the peer process died before it
		 * reported how far it had read.
		 */
		if (!rsk_tx_owes(&s->tx) || s->tx.state != RSK_TX_ONRING ||
		    !rsk_link_peer_gone(s->link)) {
			s->full.since_ns = rsk_now_ns();
			return false;
		}
		rsk_tx_to_tcp(&s->tx);
	}
	s->full.since_ns = 0;
	/* A promotion that carried many bytes was worth it: the next one does not wait long. */
	if (s->tx.pos - s->tx.start.pos >=
	    WORTH_RINGS * (uint64_t)s->tx.ring.lap_cells * RSK_CELL_BYTES)
		s->full.fallbacks = 0;
	s->full.fallbacks += s->full.fallbacks < 10;
	s->full.repropose_work =
		rsk_stream_work(s) + ((uint64_t)RSK_REPROPOSE_WORK << s->full.fallbacks);
	rsk_stream_note(s, true, RSK_REASON_RING_FULL);
	return true;
}

bool rsk_full_fell_back(struct rsk_stream *s, struct rsk_tcp *c)
{
	return full_too_long(s, c) && fall_back_because_full(s, c);
}

bool rsk_stream_fall_back_full(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_tcp k;
	bool moved;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, &k.c);
	moved = s->tx.state == RSK_TX_ONRING && !rsk_stream_writable(s) &&
		rsk_full_fell_back(s, &k.c);
	rsk_unlock(&s->tx_lock);
	if (moved) {
		rsk_stream_notify(s, RSK_WAKE_RX);
		rsk_upcalls->changed(s); /* waiters for room there have TCP's now */
	}
	rsk_sigdefer_exit();
	return moved;
}

void rsk_full_want_room(struct rsk_stream *s)
{
	atomic_store_explicit(&rsk_seg_own_ctl(&s->link->seg, s->sid)->room_at,
			      rsk_ring_tx_half(&s->tx.ring), memory_order_relaxed);
}
