// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_harm.c - bits flip in slots that have landed and are unread, in the next one most often,
 * and the receiver's progress thread checks what does not become whole
 * (../../stream/remote/slot_repair.c). A slot is harmed less often than the sender is asked for it,
 * so no stream may end.
 */
#include "duplex_parts.h"

#define HARMS 4u /* of one slot: each costs up to two of RSK_RX_REPAIRS */

/* A random one of the next whole slots; false: there is none. */
static bool pick(struct way *w, struct rsk_ring_rx *ring, struct rsk_slot_view *v)
{
	*ring = w->rx.ring;
	for (uint64_t n = chance(w->d, 60) ? 0 : below(w->d, 8);; n--) {
		if (!rsk_ring_peek(ring, v) || !rsk_ring_whole(&w->rx.key, v))
			return false;
		if (!n)
			return true;
		rsk_ring_consume(ring, v);
	}
}

static void flip(struct way *w)
{
	struct duplex *d = w->d;
	struct rsk_ring_rx ring;
	struct rsk_slot_view v;
	uint64_t place, at, is;

	if (w->rx.state != RSK_RX_ONRING || w->rx.rail_loss.limit || w->rx.fin || w->rx.fell_back ||
	    !pick(w, &ring, &v))
		return;
	if (v.head.index > w->harmed_at)
		w->harmed = 0;
	if (w->harmed == HARMS || v.head.index < w->harmed_at)
		return;
	w->harmed_at = v.head.index;
	w->harmed++;
	place = RING_OFF + rsk_ring_cell(ring.cells, v.head.index) * (uint64_t)RSK_CELL_BYTES;
	at = chance(d, 20) ? below(d, sizeof(is)) : below(d, rsk_slot_bytes(v.head.len));
	d->segment[!w->id][place + at] ^= (uint8_t)(1u << below(d, 8));
	/*
	 * Not so that it looks like another lap's: nobody would ask for what an earlier one has
	 * left, and for what shows when a later one has come, though it was not put, too often.
	 */
	memcpy(&is, d->segment[!w->id] + place, sizeof(is));
	if (rsk_ring_cell(ring.cells, is - v.head.index) == 0)
		memcpy(d->segment[!w->id] + place, &v.head.index, sizeof(is));
	d->sums->harmed++;
}

void duplex_harm_step(struct duplex *d)
{
	struct way *w = &d->way[below(d, 2)];
	int rc;

	if (w->in_rx)
		return;
	if (chance(d, d->finishing || d->calm ? 1 : 40))
		flip(w);
	if (!rsk_rx_torn(&w->rx) && !rsk_rx_repair_open(&w->rx))
		return;
	if (chance(d, 5))
		rsk_rx_ask_answer(&w->rx);
	rc = rsk_rx_recheck(&w->rx);
	CHECK(d, rc >= 0, "recheck: %d, in vain %u, gave up %d, limit %" PRIu64 " at %" PRIu64, rc,
	      w->rx.repair.vain, w->rx.repair.gave_up, w->rx.rail_loss.limit, w->rx.ring.next);
	CHECK(d, rsk_rx_validate(&w->rx), "rx is not valid");
}

void duplex_owe(struct way *w, uint64_t to, uint64_t ring_end)
{
	if (rsk_rx_owe(&w->rx, to, ring_end) == 0)
		return;
	CHECK(w->d, w->harmed_at >= w->rx.ring.next, "nothing was damaged");
	w->d->over = true;
	w->d->sums->harm_ends++;
}
