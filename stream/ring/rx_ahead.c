// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_ahead.c - the receiving machine hears slots that have overtaken the next one. Over several
 * rails slots land in any order. Each time that a reader finds nothing at the next index and would
 * wait, it looks at some of the cells behind, and passes the tag of each whole slot there to the
 * order machine (txn_tags.h). So a gap is known by name while the link works, too. Nothing is
 * delivered early. rx_recv.c and rx_peek.c call it.
 *
 * Design: docs/adr/ordered-delivery.md.
 */
#include "rx_parts.h"

/*
 * Maximum cost of one look: cells whose first word is read; bytes of payload that are hashed before
 * the last slot. After so many looks that saw nothing new, as those of a poll() at an idle stream,
 * fewer cells.
 */
#define LOOK_CELLS 64u
#define LOOK_BYTES RSK_SLOT_MAX_PAYLOAD
#define IDLE_LOOKS 16u
#define IDLE_CELLS 16u
/*
 * How far behind the highest slot seen slots are looked for. A rail carries consecutive slots for
 * 16 KiB, 256 cells, before another one gets the next (rails.c).
 */
#define AHEAD_CELLS 1024u
/* Gaps that are looked at first: one for each rail that may be late, and some. */
#define GAPS 8u

struct look {
	struct rsk_txn_tags_rx *tags;
	uint32_t cells; /* that may still be looked at */
	uint32_t bytes; /* that may still be hashed */
	uint32_t seen;	/* slots that were not seen before */
};

/*
 * Looks whether a slot begins at @at. Returns the index behind it, or behind the cell, if there is
 * none that is whole.
 */
static uint64_t look_at(const struct rsk_rx *rx, struct look *l, uint64_t at)
{
	struct rsk_ring_rx ring;
	struct rsk_slot_view v;

	l->cells--;
	if (__atomic_load_n(rsk_ring_place(&rx->ring, at), __ATOMIC_ACQUIRE) != at)
		return at + 1;
	ring = rx->ring;
	ring.next = at;
	if (!rsk_ring_peek(&ring, &v))
		return at + 1;
	l->bytes -= v.head.len < l->bytes ? v.head.len : l->bytes;
	if (!rsk_ring_whole(&rx->key, &v))
		return at + 1;
	l->seen += rsk_txn_tags_ahead(l->tags, &v.head);
	return at + rsk_slot_extent(&v.head, ring.cells);
}

static bool may_look(const struct look *l)
{
	return l->cells && l->bytes;
}

/* Looks at @at, and, as long as a slot was there, behind it: one rail's slots land in order. */
static void follow(const struct rsk_rx *rx, struct look *l, uint64_t at, uint64_t end)
{
	uint32_t seen;

	do {
		seen = l->seen;
		if (at < end && may_look(l))
			at = look_at(rx, l, at);
	} while (l->seen != seen);
}

/*
 * Most slots that come while one is missing are behind those that came before: at the beginning of
 * a gap, or behind the highest one. Nothing was seen at the next index.
 */
static void look_behind_seen(const struct rsk_rx *rx, struct look *l, uint64_t end)
{
	const struct rsk_order_rx *order = &l->tags->order;
	uint64_t from = rx->ring.next + 1, begin;

	if (order->top == order->base)
		return;
	for (uint32_t i = 0; i < GAPS && rsk_order_rx_gap(order, from, &begin, &from); i++)
		if (begin > rx->ring.next + 1)
			follow(rx, l, begin, end);
	follow(rx, l, order->top, end);
}

/* The first cell of [@at, @end) that claims to begin a slot, or where the look has to end. */
static uint64_t scan(const struct rsk_rx *rx, struct look *l, uint64_t at, uint64_t end)
{
	uint64_t from = at, to = end - at < l->cells ? end : at + l->cells;

	while (at < to && __atomic_load_n(rsk_ring_place(&rx->ring, at), __ATOMIC_RELAXED) != at)
		at++;
	l->cells -= (uint32_t)(at - from);
	return at;
}

/* Goes on where the last look has ended, over the cells that nothing was seen of. */
static void look_everywhere(const struct rsk_rx *rx, struct look *l, uint64_t end)
{
	const struct rsk_order_rx *order = &l->tags->order;
	uint64_t at = l->tags->ahead.at;

	if (at >= end)
		at = rx->ring.next + 1;
	while (at < end && may_look(l)) {
		uint64_t stop = end;

		if (!rsk_order_rx_gap(order, at, &at, &stop) && at < order->top)
			at = order->top;
		while (at < stop && may_look(l)) {
			at = scan(rx, l, at, stop);
			if (at < stop && l->cells)
				at = look_at(rx, l, at);
		}
	}
	l->tags->ahead.at = at;
}

static void look(const struct rsk_rx *rx, struct look *l)
{
	const struct rsk_order_rx *order = &l->tags->order;
	uint64_t end = order->top + AHEAD_CELLS, lap = order->base + order->cells;

	end = end < lap ? end : lap;
	look_behind_seen(rx, l, end);
	look_everywhere(rx, l, end);
}

static void count(struct rsk_stats_ahead *rec, uint32_t slots, uint64_t overtook)
{
	if (!rec)
		return;
	__atomic_store_n(&rec->slots, rec->slots + slots, __ATOMIC_RELAXED);
	__atomic_store_n(&rec->overtook, rec->overtook + overtook, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void look_now(struct rsk_rx *rx, bool several)
{
	struct rsk_txn_tags_rx *tags = rx->tags.machine;
	struct look l = { .tags = tags, .cells = LOOK_CELLS, .bytes = LOOK_BYTES };
	uint64_t next = rx->ring.next, overtook = tags->order.overtook;

	if (tags->ahead.next != next) {
		tags->ahead.next = next;
		tags->ahead.at = next + 1;
		tags->ahead.in_vain = 0;
	} else if (tags->ahead.in_vain >= IDLE_LOOKS) {
		l.cells = IDLE_CELLS;
	} else {
		tags->ahead.in_vain++;
	}
	if (several)
		look(rx, &l);
	if (l.seen) {
		count(tags->record, l.seen, tags->order.overtook - overtook);
		tags->ahead.in_vain = 0;
	} else if (tags->ahead.in_vain) {
		return; /* all is as it was */
	}
	rsk_txn_tags_name_gap(tags);
}

void rsk_rx_look(struct rsk_rx *rx)
{
	const struct rsk_rail *rail = rx->rail;
	bool several = rail->ops->several && rail->ops->several(rail);

	/* With one rail nothing overtakes; what was missing before has a name until it is here. */
	if (!several && !rx->tags.on)
		return;
	/* Nothing comes by a broken link; after it, another ring with another key begins. */
	if (rx->state < RSK_RX_DRAIN_TCP || rx->fin || rx->rail_loss.limit ||
	    rx->rail_loss.renew_seed || !rsk_rx_txn_tags_begin(rx))
		return;
	if (several || rx->tags.machine->ahead.gap.transactions)
		look_now(rx, several);
}
