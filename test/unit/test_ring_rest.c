// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring_rest.c - tests how a ring between hosts that rests is given back, and what must not be
 * (stream/remote/ring_width.c, remote_rings.c).
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "links.h"
#include "ring_width.h"
#include "width_kit.h"

Test(ring_rest, a_sender_at_rest_gives_back_what_it_does_not_use)
{
	const struct rsk_ring_tx *ring;
	uint64_t lap;

	become_wide();
	ring = &at.s->tx.ring;
	lap = ring->next;
	at.s->tx.ring.next += 300;
	later();
	later();
	cr_assert_eq(ring->next, lap + 300, "something is unread");
	taken();
	later();
	cr_assert_eq(ring->next, lap + ring->cells, "a slot that ends the lap");
	cr_assert_eq(width(), 8 * FIRST);
	later();
	cr_assert_eq(width(), 8 * FIRST, "the receiver has not taken that slot");
	taken();
	kit_fabric.narrows = -EAGAIN;
	later();
	cr_assert_eq(width(), FIRST);
	cr_assert_eq(asked(0), 0, "something is still under way");
	kit_fabric.narrows = 0;
	later();
	cr_assert_eq(k.r->rest_ns, UINT64_MAX, "nothing is wide any more");
	cr_assert_eq(asked(1), 0);
	cr_assert(used[0] == FIRST && used[1] == FIRST, "the peer is told how much is used");
	full(2 * FIRST);
	cr_assert_eq(asked(0), 8 * FIRST, "it may become wide again");
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_rest, a_sender_that_puts_something_stays_wide)
{
	become_wide();
	at.s->tx.ring.next += 300;
	taken();
	for (int i = 0; i < 5; i++) {
		at.s->tx.pos += 64;
		later();
	}
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_rest, a_ring_without_a_stream_is_given_back)
{
	become_wide();
	rsk_link_set_stream(k.r->l, at.s->sid, NULL);
	later();
	asked(0);
	cr_assert(used[0] == FIRST && used[1] == FIRST);
	cr_assert_eq(k.r->rest_ns, UINT64_MAX);
}

/* The other end rests: its registrations go, and it has asked for nothing. */
Test(ring_rest, we_give_back_what_the_peer_does_not_use)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ, .ring_bytes = 64 * FIRST };

	set_direct();
	m.sid = at.s->sid;
	rsk_remote_on_ring_req(k.r, &m);
	asked(0);
	cr_assert_eq(kit_fabric.narrowed, 0);
	m.ring_bytes = FIRST;
	rsk_remote_on_narrow(k.r, &m);
	cr_assert_eq(kit_fabric.narrowed, 1);
	kit_turn(&k);
	while (kit_hear(&k, &m))
		cr_assert_neq(m.type, RSK_REMOTE_RING);
	m = (struct rsk_remote_msg){ .sid = at.s->sid, .ring_bytes = FIRST };
	rsk_remote_on_narrow(k.r, &m);
	cr_assert_eq(kit_fabric.narrowed, 1, "there was no more");
}

/* ---- what must not be given back ---- */

static uint8_t *own_ring(void)
{
	const struct rsk_seg *seg = &k.r->l->seg;

	return seg->rail.segment + rsk_seg_ring_off(&seg->own, at.s->sid);
}

/* The other end's sender, whose next slot is our next one; it writes into our memory. */
static void other_end(struct rsk_ring_tx *t, struct rsk_rail *local)
{
	const struct rsk_ring_rx *ring = &at.s->rx.ring;

	*local = (struct rsk_rail){ .ops = k.r->rail[0].puts.ops,
				    .window = k.r->l->seg.rail.segment,
				    .window_bytes = k.r->l->seg.rail.segment_bytes };
	rsk_ring_tx_init(t, local, rsk_seg_ring_off(&k.r->l->seg.own, at.s->sid), ring->cells, 0);
	t->next = t->credit = t->told = t->data_end = ring->next;
}

/*
 * The peer's program has closed its stream; all has arrived here, and our program has not read
 * it yet. The peer's rest pass finds no stream and gives the wide ring back.
 */
Test(ring_rest, unread_bytes_survive_that_the_ring_is_given_back)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ, .ring_bytes = 8 * FIRST };
	struct rsk_rx *rx;
	struct rsk_rail local;
	struct rsk_ring_tx t;
	uint8_t bytes[1000];
	struct iovec iov = { bytes, sizeof(bytes) };
	struct rsk_iovcur src;

	set_direct();
	rx = &at.s->rx;
	m.sid = at.s->sid;
	rsk_remote_on_ring_req(k.r, &m);
	/* The receiver is in the middle of a wide lap, with one slot unread. */
	memset(bytes, 7, sizeof(bytes));
	rx->state = RSK_RX_ONRING;
	rx->counts.promotions = 1;
	rx->ring.next += 2 * FIRST / RSK_CELL_BYTES;
	rx->credit.sent = rx->ring.next;
	other_end(&t, &local);
	rsk_iovcur_init(&src, &iov, 1);
	cr_assert_eq(rsk_ring_put_data(&t, &rx->key, &src, sizeof(bytes)), (ssize_t)sizeof(bytes));
	cr_assert_eq(rsk_rx_pending(rx, NULL), sizeof(bytes));
	rx->whole.to = 0;
	m.ring_bytes = FIRST;
	rsk_remote_on_narrow(k.r, &m);
	cr_assert_eq(rsk_rx_pending(rx, NULL), sizeof(bytes), "unread bytes are gone");
}

/* The receiver has looked at nothing of that lap yet, and does not know how wide it is. */
Test(ring_rest, what_is_unread_behind_an_unread_slot_survives)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ, .ring_bytes = 8 * FIRST };
	static uint8_t bytes[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_rail local;
	struct rsk_ring_tx t;
	struct rsk_rx *rx;

	set_direct();
	rx = &at.s->rx;
	m.sid = at.s->sid;
	rsk_remote_on_ring_req(k.r, &m);
	rx->state = RSK_RX_ONRING;
	rx->counts.promotions = 1;
	cr_assert_eq(rsk_ring_cell(rx->ring.cells, rx->ring.next), 0);
	other_end(&t, &local);
	for (int i = 0; i < 3; i++) {
		struct iovec iov = { bytes, sizeof(bytes) };
		struct rsk_iovcur src;

		rsk_iovcur_init(&src, &iov, 1);
		cr_assert_eq(rsk_ring_put_data(&t, &rx->key, &src, sizeof(bytes)),
			     (ssize_t)sizeof(bytes));
	}
	cr_assert_eq(rsk_rx_pending(rx, NULL), 3 * sizeof(bytes));
	rx->whole.to = 0;
	rx->counted.to = rx->counted.bytes = 0;
	m.ring_bytes = FIRST;
	rsk_remote_on_narrow(k.r, &m);
	cr_assert_eq(rsk_rx_pending(rx, NULL), 3 * sizeof(bytes), "unread bytes are gone");
}

/* Rails that came later have no used_bytes: with the first ones goes what is used. */
Test(ring_rest, what_is_used_is_known_when_the_rails_of_then_are_gone)
{
	become_wide();
	kit_rail_up(&k, 2);
	registered(2, FIRST);
	registered(2, 8 * FIRST);
	cr_assert_eq(k.r->rail[2].ways.at[at.s->sid].direct_bytes, 8 * FIRST);
	kit_rail_down(&k, 0, -EIO);
	kit_rail_down(&k, 1, -EIO);
	cr_assert_eq(k.r->state, RSK_REMOTE_UP);
	cr_assert_eq(width(), 8 * FIRST, "laps are as wide as they were");
	kit_rail_up(&k, 3);
	registered(3, FIRST);
	cr_assert_neq(k.r->rail[3].ways.at[at.s->sid].state, RSK_RING_REG_DIRECT,
		      "slots are put beyond what that rail reaches");
}

/* A peer with rings of 2 MiB and room for 1 MiB answers 256 KiB, which it has in 1 MiB. */
Test(ring_rest, a_ring_that_could_not_become_wider_becomes_narrow)
{
	become_wide();
	full(16 * FIRST);
	full(16 * FIRST);
	cr_assert_eq(asked(0), 64 * FIRST);
	registered(0, 4 * FIRST);
	registered(1, 4 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
	at.s->tx.ring.next += 300;
	taken();
	for (int i = 0; i < 6 && k.r->rest_ns != UINT64_MAX; i++) {
		later();
		taken();
	}
	cr_assert_eq(width(), FIRST);
	asked(0);
	cr_assert_eq(used[0], FIRST, "the peer's registration is never given back");
	cr_assert_eq(k.r->rest_ns, UINT64_MAX,
		     "the progress thread looks twice a second, for ever");
}

/* Our window cannot be registered so wide (RLIMIT_MEMLOCK here). */
Test(ring_rest, a_window_that_cannot_be_registered_is_an_answer)
{
	set_direct();
	full(2 * FIRST);
	kit_fabric.sets = -ENOMEM;
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	kit_fabric.sets = 0;
	cr_assert_eq(width(), FIRST);
	asked(0);
	cr_assert_eq(at.s->wide.wants, 0, "it is never asked for again, nor given back");
}

static void no_gap(void *arg, uint64_t from, uint64_t to)
{
}

static uint32_t pages_in(void)
{
	unsigned char in[RSK_SEG_MAX_RING / 4096];
	uint32_t pages = k.r->l->seg.own.ring_bytes / 4096, n = 0;

	cr_assert_eq(mincore((void *)((uintptr_t)own_ring() & ~4095ul), (size_t)pages * 4096, in),
		     0);
	for (uint32_t i = 0; i < pages; i++)
		n += in[i] & 1;
	return n;
}

/* The same when a stream goes to TCP, as all do at a fork. */
Test(ring_rest, a_fork_costs_no_memory_for_each_stream)
{
	set_direct();
	at.s->rx.state = RSK_RX_ONRING;
	at.s->rx.counts.promotions = 1;
	cr_assert_eq(rsk_rx_quiesce(&at.s->rx), -EAGAIN);
	cr_assert_leq(pages_in(), 2 * FIRST / 4096,
		      "%u pages of an idle, narrow ring have memory now", pages_in());
}

/* One of several rails fails: what is missing is looked for in all of each stream's ring. */
Test(ring_rest, a_rail_that_fails_costs_no_memory_for_each_stream)
{
	static uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_txn_tags_missing missing;

	set_direct();
	at.s->rx.state = RSK_RX_ONRING;
	at.s->rx.counts.promotions = 1;
	rsk_rx_missing(&at.s->rx, scratch, &missing, no_gap, NULL);
	cr_assert_leq(pages_in(), 2 * FIRST / 4096,
		      "%u pages of an idle, narrow ring have memory now", pages_in());
}

/* It rests exactly at the end of a lap, as one of eight does with slots of 16 KiB. */
Test(ring_rest, a_sender_that_rests_at_the_end_of_a_lap_becomes_narrow)
{
	become_wide();
	cr_assert_eq(rsk_ring_cell(at.s->tx.ring.cells, at.s->tx.ring.next), 0);
	for (int i = 0; i < 6 && k.r->rest_ns != UINT64_MAX; i++) {
		later();
		taken();
	}
	cr_assert_eq(width(), FIRST);
}

/*
 * A rail that came later repeats its request before the wide answer is here: the peer takes that
 * for "I use no more", and deregisters what it has just offered.
 */
Test(ring_rest, a_request_that_is_repeated_does_not_give_back)
{
	struct rsk_remote_rail *rail;

	become_wide();
	kit_rail_up(&k, 2);
	cr_assert_eq(asked(2), 8 * FIRST);
	registered(2, FIRST);
	rail = &k.r->rail[2];
	rsk_remote_rings_work(rail, rsk_now_ns() + 10 * SECOND_NS);
	cr_assert_eq(asked(2), 8 * FIRST,
		     "the peer, which has 8 * FIRST registered, gives it back");
}

/*
 * The next stream of that id begins while the ring is still wide: both ends offer the first
 * bytes again, as for every stream. A request for less than the peer has given means that the rest
 * is given back, but the rail's key is that of the widest registration.
 */
Test(ring_rest, the_next_stream_of_an_id_does_not_give_back_what_it_writes_to)
{
	uint32_t bytes;

	become_wide();
	full(16 * FIRST);
	full(16 * FIRST);
	registered(0, 64 * FIRST);
	registered(1, 64 * FIRST);
	cr_assert_eq(width(), 64 * FIRST);
	asked(0);
	/* As rsk_pm_transaction_attach() and the message that pairs it do. */
	rsk_tx_laps(&at.s->tx, FIRST / RSK_CELL_BYTES);
	memset(&at.s->wide, 0, sizeof(at.s->wide));
	rsk_remote_want_ring(k.r, at.s->sid);
	registered(0, FIRST);
	registered(1, FIRST);
	asked(0);
	full(2 * FIRST);
	cr_assert_eq(width(), 8 * FIRST, "the rails reach so far");
	bytes = asked(0);
	cr_assert(!bytes || bytes >= k.r->rail[0].ways.at[at.s->sid].direct_bytes,
		  "the peer gives back all but %u bytes, and slots go by the key of more", bytes);
}

/* The answer to an earlier request comes when the peer knows already that it is not used. */
Test(ring_rest, a_key_that_was_given_back_is_not_used)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING,
				    .way = RSK_VERBS_DIRECT,
				    .ring_rkey = 9,
				    .ring_bytes = 8 * FIRST };

	become_wide();
	while (k.r->rest_ns != UINT64_MAX) {
		later();
		taken();
	}
	cr_assert_eq(told(0), 1);
	m.sid = at.s->sid;
	rsk_remote_on_ring(k.r, &m);
	cr_assert_eq(k.r->rail[0].ways.at[at.s->sid].direct_bytes, FIRST);
}
