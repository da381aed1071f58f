// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring_width.c - tests when a ring between hosts becomes wider: what the progress thread asks
 * the other end for, and when laps do (stream/remote/ring_width.c, remote_rings.c).
 */
#include <criterion/criterion.h>

#include "width_kit.h"

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
