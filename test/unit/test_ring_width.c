// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring_width.c - tests how much of a ring between hosts is used: what the progress thread asks
 * the other end for, and when laps become wider (stream/remote/ring_width.c, remote_rings.c).
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "credit.h"
#include "links.h"
#include "remote_kit.h"
#include "ring_width.h"

#define SECOND_NS 1000000000ull
#define FIRST RSK_SEG_FIRST_RING

static struct kit k;
static struct kit_stream at;
static uint64_t now_ns;

static void set(void)
{
	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	kit_rail_up(&k, 1);
	now_ns = rsk_now_ns();
	at = kit_stream(&k, true);
	k.r->listed = true;
	rsk_remote_want_ring(k.r, at.s->sid);
}

static uint32_t width(void)
{
	return at.s->tx.ring.lap_cells * RSK_CELL_BYTES;
}

/* The other end has registered @bytes of its ring for rail @rail. */
static void registered(uint32_t rail, uint32_t bytes)
{
	const struct rsk_remote_msg m = { .type = RSK_REMOTE_RING,
					  .rail = rail,
					  .sid = at.s->sid,
					  .way = RSK_VERBS_DIRECT,
					  .ring_rkey = bytes,
					  .ring_bytes = bytes };

	rsk_remote_on_ring(k.r, &m);
}

/* The sender finds its ring full, having sent @bytes since it began. */
static void full(uint64_t bytes)
{
	rsk_lock(&at.s->tx_lock);
	at.s->tx.pos += bytes;
	rsk_ring_width_full(at.s, now_ns);
	rsk_credit_want(at.s);
	rsk_unlock(&at.s->tx_lock);
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns);
	now_ns += SECOND_NS;
	rsk_credit_work(k.r, now_ns);
}

/* The bytes that the other end was asked for since the last call; 0: for none. */
static uint32_t asked(uint32_t rail)
{
	struct rsk_remote_msg m;
	uint32_t bytes = 0;

	kit_turn(&k);
	while (kit_hear(&k, &m))
		if (m.type == RSK_REMOTE_RING_REQ && m.sid == at.s->sid && m.rail == rail)
			bytes = m.ring_bytes;
	return bytes;
}

static void set_direct(void)
{
	set();
	registered(0, FIRST);
	registered(1, FIRST);
	cr_assert_eq(width(), FIRST);
	cr_assert_eq(asked(0), 0);
}

Test(ring_width, a_ring_that_flows_and_is_full_is_asked_for_and_becomes_wider)
{
	set_direct();
	full(100);
	cr_assert_eq(asked(0), 8 * FIRST);
	cr_assert_eq(width(), FIRST);
	registered(0, 8 * FIRST);
	cr_assert_eq(width(), FIRST, "the other rail does not reach so far");
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
	full(8 * FIRST);
	cr_assert_eq(asked(1), 0, "it was full once since it is so wide: a burst");
	full(8 * FIRST);
	cr_assert_eq(asked(1), 64 * FIRST);
	registered(1, 64 * FIRST);
	registered(0, 64 * FIRST);
	cr_assert_eq(width(), 64 * FIRST);
}

Test(ring_width, a_peer_that_cannot_register_more_is_not_asked_all_the_time)
{
	set_direct();
	full(2 * FIRST);
	cr_assert_eq(asked(0), 8 * FIRST);
	registered(0, FIRST);
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), FIRST);
	full(2 * FIRST);
	cr_assert_eq(asked(0), 0);
	now_ns += 60 * SECOND_NS;
	full(2 * FIRST);
	cr_assert_eq(asked(0), 8 * FIRST);
	registered(0, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_width, a_rail_that_comes_later_has_to_reach_as_much)
{
	set_direct();
	full(2 * FIRST);
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	asked(0);
	kit_rail_up(&k, 2);
	cr_assert_eq(asked(2), 8 * FIRST);
	registered(2, FIRST);
	cr_assert_eq(k.r->rail[2].ways.at[at.s->sid].state, RSK_RING_REG_INDIRECT,
		     "it does not reach what is used, but its indirect buffer does");
	registered(2, 8 * FIRST);
	cr_assert_eq(k.r->rail[2].ways.at[at.s->sid].state, RSK_RING_REG_DIRECT);
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_width, a_ring_that_is_registered_whole_becomes_no_wider)
{
	set_direct();
	for (uint32_t bytes = FIRST; bytes < k.r->l->seg.peer.ring_bytes;) {
		bytes = rsk_seg_ring_wider(&k.r->l->seg.peer, bytes);
		full(2 * (uint64_t)bytes);
		registered(0, bytes);
		registered(1, bytes);
		cr_assert_eq(width(), bytes);
	}
	asked(0);
	full(4 * (uint64_t)width());
	cr_assert_eq(asked(0), 0);
	cr_assert_eq(width(), k.r->l->seg.peer.ring_bytes);
}

/* As much as is asked for, or what can be had. */
Test(ring_width, we_register_what_the_peer_asks_for)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ, .ring_bytes = 64 * FIRST };
	uint32_t before;

	set_direct();
	m.sid = at.s->sid;
	before = kit_fabric.rings;
	rsk_remote_on_ring_req(k.r, &m);
	cr_assert_eq(kit_fabric.rings, before + 1);
	kit_turn(&k);
	while (kit_hear(&k, &m))
		if (m.type == RSK_REMOTE_RING)
			break;
	cr_assert_eq(m.ring_bytes, 64 * FIRST);
	cr_assert_eq(m.way, RSK_VERBS_DIRECT);
	kit_fabric.registers = -ENOMEM;
	m = (struct rsk_remote_msg){ .type = RSK_REMOTE_RING_REQ,
				     .sid = at.s->sid,
				     .ring_bytes = 64 * FIRST };
	rsk_remote_on_ring_req(k.r, &m);
	kit_turn(&k);
	while (kit_hear(&k, &m))
		;
	cr_assert_eq(m.way, RSK_VERBS_INDIRECT);
}

/* ---- at rest ---- */

static void wide(void)
{
	set_direct();
	full(2 * FIRST);
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
	asked(0);
}

static void later(void)
{
	cr_assert_leq(k.r->rest_ns, now_ns + 60 * SECOND_NS, "nobody wakes for it");
	now_ns += 60 * SECOND_NS;
	rsk_ring_width_rest(k.r, now_ns);
}

/* The receiver has taken everything. */
static void taken(void)
{
	at.s->tx.ring.credit = at.s->tx.ring.told = at.s->tx.ring.next;
}

Test(ring_width, a_sender_at_rest_gives_back_what_it_does_not_use)
{
	const struct rsk_ring_tx *ring;
	uint64_t lap;

	wide();
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
	cr_assert_eq(asked(1), FIRST, "the peer is told how much is used");
	full(2 * FIRST);
	cr_assert_eq(asked(0), 8 * FIRST, "it may become wide again");
	registered(0, 8 * FIRST);
	registered(1, 8 * FIRST);
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_width, a_sender_that_puts_something_stays_wide)
{
	wide();
	at.s->tx.ring.next += 300;
	taken();
	for (int i = 0; i < 5; i++) {
		at.s->tx.pos += 64;
		later();
	}
	cr_assert_eq(width(), 8 * FIRST);
}

Test(ring_width, a_ring_without_a_stream_is_given_back)
{
	wide();
	rsk_link_set_stream(k.r->l, at.s->sid, NULL);
	later();
	cr_assert_eq(asked(0), FIRST);
	cr_assert_eq(k.r->rest_ns, UINT64_MAX);
}

/* The other end rests: its registrations go, and it has asked for nothing. */
Test(ring_width, we_give_back_what_the_peer_does_not_use)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ, .ring_bytes = 64 * FIRST };

	set_direct();
	m.sid = at.s->sid;
	rsk_remote_on_ring_req(k.r, &m);
	asked(0);
	cr_assert_eq(kit_fabric.narrowed, 0);
	m.ring_bytes = FIRST;
	rsk_remote_on_ring_req(k.r, &m);
	cr_assert_eq(kit_fabric.narrowed, 1);
	kit_turn(&k);
	while (kit_hear(&k, &m))
		cr_assert_neq(m.type, RSK_REMOTE_RING);
	m = (struct rsk_remote_msg){ .type = RSK_REMOTE_RING_REQ,
				     .sid = at.s->sid,
				     .ring_bytes = FIRST };
	rsk_remote_on_ring_req(k.r, &m);
	cr_assert_eq(kit_fabric.narrowed, 1, "there was no more");
}
