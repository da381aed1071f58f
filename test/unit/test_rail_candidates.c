// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rail_candidates.c - tests rail candidates: what the accepting end reports of its devices,
 * and which rails the initiator makes of it.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "remote_kit.h"

/* The other end sends @m, and the progress thread looks for paths. */
static void hear_of(struct kit *k, struct rsk_remote_msg m)
{
	kit_say(k, m);
	rsk_remote_candidates_work(k->r);
}

static struct rsk_remote_msg candidate(uint32_t number, uint32_t of)
{
	return (struct rsk_remote_msg){ .type = RSK_REMOTE_CANDIDATE,
					.rail = RSK_RAILS_MOST,
					.gaps = number,
					.generation = of,
					.candidate = kit_candidate((uint8_t)number, 2,
								   (uint16_t)number) };
}

static struct rsk_remote_msg none(void)
{
	return (struct rsk_remote_msg){ .type = RSK_REMOTE_CANDIDATE, .rail = RSK_RAILS_MOST };
}

/* An initiator with devices in @networks networks, whose first rail is up. */
static void initiator(struct kit *k, uint32_t networks)
{
	kit_init();
	kit_candidates_n = networks;
	for (uint32_t i = 0; i < networks; i++)
		kit_candidates[i] = kit_candidate((uint8_t)i, 1, (uint16_t)i);
	kit_link(k, true);
	k->r->rail[0].from = kit_candidates[0].addr;
	kit_rail_up(k, 0);
}

static void acceptor(struct kit *k, uint32_t devices)
{
	struct rsk_remote_msg m;

	kit_init();
	kit_candidates_n = devices;
	for (uint32_t i = 0; i < devices; i++)
		kit_candidates[i] = kit_candidate((uint8_t)i, 2, (uint16_t)i);
	kit_link(k, false);
	kit_rail_up(k, 0);
	/* It has reported its devices as they are now. */
	while (kit_hear(k, &m))
		;
}

static bool has_way(const struct kit *k, uint32_t i)
{
	return k->r->rail[i].to.family;
}

/* Collects all messages after a change of the devices. Returns their number. */
static uint32_t said(struct kit *k, struct rsk_remote_msg out[static RSK_REMOTE_CANDIDATES])
{
	struct rsk_remote_msg m;
	uint32_t n = 0;

	k->r->candidates_due = true;
	rsk_remote_rails_work(k->r, rsk_now_ns());
	while (kit_hear(k, &m))
		if (m.type == RSK_REMOTE_CANDIDATE && n < RSK_REMOTE_CANDIDATES)
			out[n++] = m;
	return n;
}

Test(remote_places, all_are_said)
{
	struct rsk_remote_msg m[RSK_REMOTE_CANDIDATES];
	struct kit k;

	acceptor(&k, 3);
	cr_assert_eq(said(&k, m), 3);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect_eq(m[i].generation, 3);
		cr_expect_eq(m[i].gaps, i);
		cr_expect_arr_eq(&m[i].candidate, &kit_candidates[i], sizeof(m[i].candidate));
	}
}

/* An empty list is reported too; otherwise the peer would go on with the old one. */
Test(remote_places, none_is_said_as_well)
{
	struct rsk_remote_msg m[RSK_REMOTE_CANDIDATES];
	struct kit k;

	acceptor(&k, 2);
	kit_candidates_n = 0;
	cr_assert_eq(said(&k, m), 1, "nothing says that there are none");
	cr_expect_eq(m[0].generation, 0);
	cr_expect_eq(m[0].gaps, 0);
	kit_candidates_n = 1;
	cr_assert_eq(said(&k, m), 1);
	cr_expect_eq(m[0].generation, 1);
}

Test(remote_places, none_ends_what_is_tried)
{
	struct rsk_verbs_addr first;
	struct kit k;

	initiator(&k, 3);
	first = k.r->rail[0].to;
	for (uint32_t i = 0; i < 3; i++)
		hear_of(&k, candidate(i, 3));
	cr_assert(has_way(&k, 1) && has_way(&k, 2));
	kit_rail_up(&k, 1);
	rsk_remote_rails_work(k.r, rsk_now_ns());
	cr_assert(kit_connecting(&k, 2));

	hear_of(&k, none());
	cr_expect_eq(k.r->candidates, 0);
	cr_expect(has_way(&k, 1) && k.r->rail[1].state == RSK_REMOTE_RAIL_UP,
		  "one that is up stays");
	cr_expect_eq(k.r->rail[2].state, RSK_REMOTE_RAIL_COMING, "one that comes is not cut off");
	kit_rail_down(&k, 2, -ECONNREFUSED);
	cr_expect_neq(k.r->rail[2].due_ns, UINT64_MAX);
	rsk_remote_rails_work(k.r, k.r->rail[2].due_ns);
	cr_expect_not(kit_connecting(&k, 2), "it is dialed without end");
	cr_expect_eq(k.r->rail[2].due_ns, UINT64_MAX);
	cr_expect_arr_eq(&k.r->rail[0].to, &first, sizeof(first),
			 "the first one's is the mapping's");
	cr_expect_eq(k.r->state, RSK_REMOTE_UP);

	/* The candidates come again, in another order. */
	for (uint32_t i = 0; i < 2; i++) {
		struct rsk_remote_msg m = candidate(i, 2);

		m.candidate = kit_candidate((uint8_t)(2 - i), 2, (uint16_t)(2 - i));
		hear_of(&k, m);
	}
	cr_assert(has_way(&k, 2));
	cr_expect_eq(k.r->rail[2].to.ip[2], 2);
	rsk_remote_rails_work(k.r, rsk_now_ns());
	cr_expect(kit_connecting(&k, 2));
}

/* The rail is idle when the empty list arrives. */
Test(remote_places, none_forgets_the_idle)
{
	struct kit k;

	initiator(&k, 2);
	hear_of(&k, candidate(0, 2));
	hear_of(&k, candidate(1, 2));
	cr_assert(has_way(&k, 1));
	cr_assert_eq(k.r->rail[1].state, RSK_REMOTE_RAIL_IDLE);
	hear_of(&k, none());
	cr_expect_not(has_way(&k, 1));
	cr_expect_eq(k.r->rail[1].due_ns, UINT64_MAX);
	hear_of(&k, none());
	cr_expect_eq(k.r->state, RSK_REMOTE_UP);
}

/* If a new list begins before the former one is complete, nothing of the former one is kept. */
Test(remote_places, none_in_the_middle)
{
	struct kit k;

	initiator(&k, 3);
	hear_of(&k, candidate(0, 3));
	hear_of(&k, candidate(1, 3));
	hear_of(&k, none());
	hear_of(&k, candidate(2, 3));
	cr_expect_eq(k.r->candidates, 0, "a list begins with its first");
	cr_expect_not(has_way(&k, 1));
	cr_expect_eq(k.r->state, RSK_REMOTE_UP);
}
