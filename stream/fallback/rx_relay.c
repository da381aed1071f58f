// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_relay.c - the receiving machine hands what lies in its ring to a relay (relay.h).
 * relay_fallback.c calls it.
 */
#include <errno.h>
#include <string.h>

#include "arena.h"
#include "relay.h"
#include "rx_parts.h"

size_t rsk_rx_relay_copy(struct rsk_rx *rx, struct rsk_ring_rx ring, uint8_t *to, size_t room)
{
	uint8_t *scratch = to ? rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD) : NULL;
	uint64_t end = ring.next + 2 * (uint64_t)ring.cells;
	struct rsk_slot_view v;
	size_t n = 0;

	while (ring.next < end && rsk_rx_peek(rx, &ring, &v) && rsk_slot_is_data(v.head.kind)) {
		if (to && (!scratch || v.head.len > room - n ||
			   !rsk_ring_copy(&ring, &rx->key, &v, scratch)))
			break;
		if (to)
			memcpy(to + n, scratch, v.head.len);
		n += v.head.len;
		rsk_ring_consume(&ring, &v);
	}
	rsk_arena_free(scratch);
	return n;
}

size_t rsk_rx_relay_bytes(struct rsk_rx *rx)
{
	return 2 * (size_t)rx->ring.cells * RSK_CELL_BYTES + RSK_SLOT_MAX_PAYLOAD +
	       rx->overread.len;
}

/*
 * True if a command that ends the ring has come: only then is it known that what follows comes by
 * TCP.
 */
static bool ends(struct rsk_rx *rx)
{
	struct rsk_ring_rx ring = rx->ring;
	uint64_t end = ring.next + 2 * (uint64_t)ring.cells;
	struct rsk_slot_command cmd;
	struct rsk_slot_view v;

	while (ring.next < end && rsk_rx_peek(rx, &ring, &v)) {
		if (!rsk_slot_is_data(v.head.kind))
			return v.head.len == sizeof(cmd) &&
			       rsk_ring_copy(&ring, &rx->key, &v, (uint8_t *)&cmd);
		rsk_ring_consume(&ring, &v);
	}
	return false;
}

int rsk_rx_relay_plan(struct rsk_rx *rx, struct rsk_relay *r)
{
	bool on_ring = rx->state >= RSK_RX_DRAIN_TCP && !rx->fin;

	/*
	 * On a fabric where a put takes time a FALLBACK_RX causes no fallback race, and a child
	 * cannot read the control word's memory.
	 */
	if (rsk_rx_is_quiesced(rx) || rx->rail_loss.limit || rsk_rx_unreported(rx) ||
	    (rsk_rx_in_race(rx) && rx->rail->ops->arrived) || rx->state == RSK_RX_WATCH ||
	    (rx->overread.len && rx->skip) || (on_ring && !r->last && !ends(rx)))
		return -EAGAIN;
	if (rx->state == RSK_RX_DRAIN_TCP)
		r->before = rx->switch_at.pos - rx->pos;
	if (rx->partial.len) {
		r->down_bytes = rx->partial.len - rx->partial.off;
		memcpy(r->data, rx->partial.bytes + rx->partial.off, r->down_bytes);
	}
	if (on_ring) {
		size_t there = rsk_rx_relay_copy(rx, rx->ring, NULL, 0);

		/* a slot is incomplete, although a command comes after it */
		if (rsk_rx_relay_copy(rx, rx->ring, r->data + r->down_bytes, there) != there)
			return -EAGAIN;
		r->down_bytes += there;
	}
	r->ring_end = (on_ring && rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos : rx->pos) +
		      r->down_bytes;
	if (rx->overread.len) {
		memcpy(r->data + r->down_bytes, rx->overread.bytes + rx->overread.off,
		       rx->overread.len - rx->overread.off);
		r->down_bytes += rx->overread.len - rx->overread.off;
	}
	r->skip = rx->skip;
	r->reset = rx->tcp.err;
	if (rsk_rx_in_race(rx)) {
		r->word = rx->word.at;
		r->key = rx->key;
		r->gen = rx->gen;
		r->fallback_pos = rx->fallback.pos;
	}
	return 0;
}

void rsk_rx_relay_done(struct rsk_rx *rx, struct rsk_relay *r)
{
	struct iovec iov = { r->block[0], sizeof(r->block[0]) };
	struct rsk_iovcur sink;

	/*
	 * Reads the ring to its end, so that the peer finds all of it consumed; the loop ends with
	 * what was there.
	 */
	if (rx->state == RSK_RX_DRAIN_TCP) {
		rx->pos = rx->switch_at.pos;
		rsk_rx_arrive(rx);
	}
	for (size_t got = 0; got <= r->down_bytes && rx->state == RSK_RX_ONRING && !rx->fin;) {
		ssize_t n;

		rsk_iovcur_init(&sink, &iov, 1);
		n = rsk_rx_recv_ring(rx, &sink);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	rsk_rx_run_commands(rx);
	rsk_rx_free_overread(rx);
	rsk_rx_free_partial(rx);
	rx->skip = 0;
	rx->fallback.step = RSK_FALLBACK_NONE;
	rx->fell_back = true;
	rx->tcp.err = 0;
	if (!rx->fin)
		rsk_rx_to_tcp(rx);
}
