// SPDX-License-Identifier: BSD-2-Clause
/* ring_width.c - asks for wider rings, and widens them: see ring_width.h. */
#include "ring_width.h"

#include <errno.h>

#include "recovery.h"
#include "remote_parts.h"
#include "stream.h"

/*
 * A ring that was filled so often since it became as wide as it is may become wider. The first one
 * may at once: it has room for less than what many programs send before they look for an answer.
 */
#define FILLED 2u
/* After a peer that could not register more it is asked again, at the earliest. */
#define AGAIN_NS 5000000000ull
/* A sender that has put nothing for one to two times as long is at rest. */
#define REST_NS 5000000000ull
/* Between the steps by which its ring becomes narrow. */
#define SOON_NS 500000000ull

static uint32_t width(const struct rsk_stream *s)
{
	return s->tx.ring.lap_cells * RSK_CELL_BYTES;
}

void rsk_ring_width_full(struct rsk_stream *s, uint64_t now_ns)
{
	uint64_t since = s->tx.start.pos > s->wide.since_pos ? s->tx.start.pos : s->wide.since_pos;

	if (s->tx.ring.lap_cells == s->tx.ring.cells || s->wide.wants || now_ns < s->wide.again_ns)
		return;
	if (width(s) > RSK_SEG_FIRST_RING && s->tx.pos - since < FILLED * (uint64_t)width(s))
		return;
	s->wide.wants = rsk_seg_ring_wider(&s->link->seg.peer, width(s));
}

static bool is_up(const struct rsk_remote_rail *rail, uint32_t sid)
{
	return rail->state == RSK_REMOTE_RAIL_UP && sid < rail->ways.n;
}

uint32_t rsk_ring_width_used(const struct rsk_remote *r, uint32_t sid)
{
	struct rsk_stream *s = rsk_recovery_paired(r->l, sid);
	uint32_t used = 0;

	if (s) {
		rsk_lock(&s->tx_lock);
		used = width(s);
		rsk_unlock(&s->tx_lock);
		rsk_stream_unpin(s);
	}
	return used > RSK_SEG_FIRST_RING ? used : RSK_SEG_FIRST_RING;
}

void rsk_ring_width_work(struct rsk_remote *r, struct rsk_stream *s)
{
	uint32_t sid = s->sid, wants;

	rsk_lock(&s->tx_lock);
	wants = s->wide.wants;
	rsk_unlock(&s->tx_lock);
	if (!wants)
		return;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		struct rsk_remote_rail *rail = &r->rail[i];

		if (is_up(rail, sid) && rail->ways.at[sid].asked_bytes < wants) {
			rail->ways.at[sid].asked_bytes = wants;
			rsk_remote_ask_ring(rail, sid);
		}
	}
	rsk_ring_width_reached(r, sid);
}

/*
 * What all rails reach that reach the ring directly. Others carry nothing for it, or bring it in
 * their indirect buffers, which reach all of it. *answered: none has to say anything yet.
 */
static uint32_t reached(const struct rsk_remote *r, uint32_t sid, bool *answered)
{
	uint32_t bytes = 0;

	*answered = true;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		const struct rsk_remote_rail *rail = &r->rail[i];
		const struct rsk_ring_reg *w;

		if (!is_up(rail, sid))
			continue;
		w = &rail->ways.at[sid];
		if (!w->direct_bytes)
			continue;
		if (!bytes || w->direct_bytes < bytes)
			bytes = w->direct_bytes;
		*answered &= w->direct_bytes >= w->asked_bytes;
	}
	return bytes;
}

static void rest_later(struct rsk_remote *r, uint64_t now_ns)
{
	if (r->rest_ns == UINT64_MAX)
		r->rest_ns = now_ns + REST_NS;
}

void rsk_ring_width_reached(struct rsk_remote *r, uint32_t sid)
{
	bool answered, wider = false;
	uint32_t bytes = reached(r, sid, &answered);
	struct rsk_stream *s = bytes ? rsk_recovery_paired(r->l, sid) : NULL;

	if (!s)
		return;
	rsk_lock(&s->tx_lock);
	if (s->wide.wants && rsk_stream_phase(s) == RSK_PHASE_PAIRED) {
		if (bytes > s->wide.wants)
			bytes = s->wide.wants;
		wider = bytes > width(s);
		if (wider) {
			rest_later(r, rsk_now_ns());
			rsk_ring_tx_widen(&s->tx.ring, bytes / RSK_CELL_BYTES);
			s->wide.since_pos = s->tx.pos;
		}
		if (answered) {
			if (!wider)
				s->wide.again_ns = rsk_now_ns() + AGAIN_NS;
			s->wide.wants = 0;
		}
	}
	rsk_unlock(&s->tx_lock);
	if (wider)
		rsk_recovery_stir(s);
	rsk_stream_unpin(s);
}

/* ---- at rest ---- */

/* What has become of a sender's laps. */
enum rest {
	RESTS_NOT,
	RESTS,	      /* the receiver has yet to take something, or to say that it has */
	RESTS_NARROW, /* nothing is put beyond the first bytes any more, nor unread there */
};

static enum rest made_narrow(struct rsk_stream *s)
{
	int fd = rsk_stream_find_fd(s);
	enum rest is = RESTS_NOT;
	bool call = false, put;
	struct rsk_kernel_tcp k;
	uint64_t next;
	int rc = 0;

	rsk_lock(&s->tx_lock);
	/* What the receiver has read, if our program has made no call since. */
	rsk_kernel_tcp_init(&k, s, fd);
	if (fd >= 0 && rsk_stream_phase(s) == RSK_PHASE_PAIRED)
		rc = rsk_tx_serve(&s->tx, &k.c);
	next = s->tx.ring.next;
	if (rsk_stream_phase(s) == RSK_PHASE_PAIRED && !s->wide.wants &&
	    s->wide.rest_pos == s->tx.pos)
		is = rsk_tx_narrow(&s->tx) ? RESTS_NARROW : RESTS;
	s->wide.rest_pos = s->tx.pos;
	put = s->tx.ring.next != next;
	if (is == RESTS) {
		call = s->tx.ring.credit != s->tx.ring.next;
		/* Nothing was read since it was looked at last: there is no hurry. */
		if (!put && s->wide.told == s->tx.ring.credit)
			is = RESTS_NOT;
		s->wide.told = s->tx.ring.credit;
	}
	rsk_unlock(&s->tx_lock);
	if (rc == -EPROTO)
		rsk_stream_fail(s, fd);
	if (put)
		rsk_stream_notify(s, RSK_WAKE_RX);
	/*
	 * A receiver says only of large parts that it has read them, and its program may make no
	 * call: its progress thread says it, and takes the slot that was put.
	 */
	if (call)
		rsk_recovery_call(s);
	return is;
}

static bool is_wide(const struct rsk_remote *r, uint32_t sid)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (is_up(&r->rail[i], sid) &&
		    r->rail[i].ways.at[sid].direct_bytes > RSK_SEG_FIRST_RING)
			return true;
	return false;
}

/* By one rail, if everything that was put has arrived. */
static void narrow_rail(struct rsk_remote_rail *rail, uint32_t sid)
{
	struct rsk_ring_reg *w = &rail->ways.at[sid];

	if (w->direct_bytes <= RSK_SEG_FIRST_RING || !w->first_rkey)
		return;
	if (rsk_rdma_module->narrow_window(rail->rail, sid, w->first_rkey, RSK_SEG_FIRST_RING) < 0)
		return;
	w->direct_bytes = w->asked_bytes = RSK_SEG_FIRST_RING;
	rsk_remote_say_narrow(rail, sid, RSK_SEG_FIRST_RING);
}

/* Returns whether it is worth looking again soon. */
static bool rest(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_stream *s = rsk_recovery_paired(r->l, sid);
	enum rest is = s ? made_narrow(s) : RESTS_NARROW;

	if (s)
		rsk_stream_unpin(s);
	if (is != RESTS_NARROW)
		return is == RESTS;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (is_up(&r->rail[i], sid))
			narrow_rail(&r->rail[i], sid);
	if (is_wide(r, sid))
		return true;
	rsk_seg_drop_window(&r->l->seg, sid, RSK_SEG_FIRST_RING);
	return false;
}

/* ---- our rings ---- */

void rsk_ring_width_given(struct rsk_remote *r, uint32_t sid, uint32_t bytes)
{
	struct rsk_stream *s = rsk_recovery_paired(r->l, sid);

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (is_up(&r->rail[i], sid) && r->rail[i].ways.at[sid].given_bytes > bytes)
			bytes = r->rail[i].ways.at[sid].given_bytes;
	if (!s)
		return;
	rsk_lock(&s->rx_lock);
	if (rsk_stream_phase(s) >= RSK_PHASE_PAIRING)
		rsk_rx_reach(&s->rx, bytes / RSK_CELL_BYTES);
	rsk_unlock(&s->rx_lock);
	rsk_stream_unpin(s);
}

/*
 * Is nothing unread behind the first bytes? All has arrived that was put there, so the next slot
 * would show. rx_lock is held.
 */
static bool is_read(const struct rsk_rx *rx)
{
	const struct rsk_ring_rx *ring = &rx->ring;

	if (rx->rail_loss.limit || rx->partial.len)
		return false;
	if (rx->state < RSK_RX_DRAIN_TCP || rx->fin)
		return true;
	return rx->state == RSK_RX_ONRING &&
	       __atomic_load_n(rsk_ring_place(ring, ring->next), __ATOMIC_ACQUIRE) != ring->next &&
	       rsk_ring_cell(ring->cells, ring->next) < RSK_SEG_FIRST_RING / RSK_CELL_BYTES &&
	       ring->lap_cells <= RSK_SEG_FIRST_RING / RSK_CELL_BYTES;
}

/* Frees the pages that no rail reaches any more; true: not yet. */
static bool drop_later(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_stream *s;
	bool due = false, read = true;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (is_up(&r->rail[i], sid)) {
			due |= r->rail[i].ways.at[sid].drop_due;
			read &= r->rail[i].ways.at[sid].given_bytes <= RSK_SEG_FIRST_RING;
		}
	if (!due || !read)
		return due;
	s = rsk_recovery_paired(r->l, sid);
	if (s) {
		rsk_lock(&s->rx_lock);
		read = rsk_stream_phase(s) == RSK_PHASE_PAIRED && is_read(&s->rx);
	}
	if (read)
		rsk_seg_drop_ring(&r->l->seg, sid, RSK_SEG_FIRST_RING);
	if (read && s)
		rsk_rx_reach(&s->rx, RSK_SEG_FIRST_RING / RSK_CELL_BYTES);
	if (s) {
		rsk_unlock(&s->rx_lock);
		rsk_stream_unpin(s);
	}
	for (uint32_t i = 0; read && i < RSK_RAILS_MOST; i++)
		if (is_up(&r->rail[i], sid))
			r->rail[i].ways.at[sid].drop_due = false;
	return !read;
}

void rsk_ring_width_give_back(struct rsk_remote_rail *rail, uint32_t sid, uint32_t bytes)
{
	struct rsk_ring_reg *w = &rail->ways.at[sid];

	if (w->given_bytes <= bytes)
		return;
	rsk_rdma_module->narrow_ring(rail->rail, sid, bytes);
	w->given_bytes = bytes;
	w->narrowed_ns = rsk_now_ns();
	w->drop_due = true;
	if (drop_later(rail->r, sid))
		rest_later(rail->r, rsk_now_ns());
}

/* The streams of which a rail knows anything have ids below that. */
static uint32_t known(const struct rsk_remote *r)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		n = r->rail[i].ways.n > n ? r->rail[i].ways.n : n;
	return n;
}

void rsk_ring_width_rest(struct rsk_remote *r, uint64_t now_ns)
{
	if (now_ns < r->rest_ns)
		return;
	r->rest_ns = UINT64_MAX;
	for (uint32_t sid = 0; r->state == RSK_REMOTE_UP && sid < known(r); sid++) {
		if (drop_later(r, sid))
			rest_later(r, now_ns);
		if (!is_wide(r, sid))
			continue;
		if (rest(r, sid) && now_ns + SOON_NS < r->rest_ns)
			r->rest_ns = now_ns + SOON_NS;
		if (is_wide(r, sid))
			rest_later(r, now_ns);
	}
}
