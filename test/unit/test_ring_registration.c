// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring_registration.c - tests the initiator's automaton of the dynamic transfer, path by path:
 * a valid acknowledgement: direct. An invalid one: indirect. None: the request again; at the second
 * timeout: indirect. While indirect: the request again and again. Then any order of answers and of
 * the clock.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "dice.h"
#include "ring_registration.h"

#define T RSK_RING_REG_TIMEOUT_NS

static uint64_t counts[RSK_STATS_REG_COUNT];
static struct rsk_ring_reg way;

static void begin(uint64_t now)
{
	memset(counts, 0, sizeof(counts));
	way = (struct rsk_ring_reg){ 0 };
	rsk_ring_reg_begin(&way, now, counts);
}

static void counted(uint64_t valid, uint64_t invalid, uint64_t first, uint64_t second,
		    uint64_t late)
{
	cr_expect_eq(counts[RSK_STATS_REG_REQUESTED], 1);
	cr_expect_eq(counts[RSK_STATS_REG_VALID], valid);
	cr_expect_eq(counts[RSK_STATS_REG_INVALID], invalid);
	cr_expect_eq(counts[RSK_STATS_REG_FIRST_TIMEOUT], first);
	cr_expect_eq(counts[RSK_STATS_REG_SECOND_TIMEOUT], second);
	cr_expect_eq(counts[RSK_STATS_REG_LATE_VALID], late);
}

Test(ring_registration, valid_is_direct)
{
	begin(100);
	cr_assert_eq(way.state, RSK_RING_REG_ASKED);
	cr_assert_eq(way.due_ns, 100 + T);
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_DIRECT);
	cr_assert_eq(way.state, RSK_RING_REG_DIRECT);
	/* The clock has no effect any more, nor has the same answer again, nor an older one. */
	cr_assert_eq(rsk_ring_reg_tick(&way, UINT64_MAX, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(way.state, RSK_RING_REG_DIRECT);
	counted(1, 0, 0, 0, 0);
}

Test(ring_registration, invalid_is_indirect_until_a_valid_one)
{
	begin(0);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_INDIRECT);
	cr_assert_eq(way.state, RSK_RING_REG_INDIRECT);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_DIRECT);
	counted(0, 1, 0, 0, 1);
}

/* From @now on: after the last request's time, then after twice as long each time, to 6.4 s. */
static void is_requested_again(uint64_t now)
{
	for (uint64_t wait = T, i = 0; i < 12; i++) {
		cr_assert_eq(rsk_ring_reg_next(&way), now + wait);
		cr_assert_eq(rsk_ring_reg_tick(&way, now + wait - 1, counts),
			     RSK_RING_REG_DO_NOTHING);
		now += wait;
		cr_assert_eq(rsk_ring_reg_tick(&way, now, counts), RSK_RING_REG_DO_REQUEST);
		cr_assert_eq(way.state, RSK_RING_REG_INDIRECT);
		wait = wait < 6400000000ull ? 2 * wait : wait;
		/* The same answer once more does not make it later. */
		cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_NOTHING);
	}
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_DIRECT);
	cr_assert_eq(rsk_ring_reg_next(&way), UINT64_MAX);
}

Test(ring_registration, while_it_is_indirect_the_request_is_repeated)
{
	begin(7);
	rsk_ring_reg_answer(&way, false, counts);
	is_requested_again(7);
	counted(0, 1, 0, 0, 1);

	begin(7);
	rsk_ring_reg_tick(&way, 7 + T, counts);
	rsk_ring_reg_tick(&way, 7 + 2 * T, counts);
	is_requested_again(7 + 2 * T);
	counted(0, 0, 1, 1, 1);
}

Test(ring_registration, none_is_the_request_again_then_indirect)
{
	begin(7);
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 + T - 1, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 + T, counts), RSK_RING_REG_DO_REQUEST);
	cr_assert_eq(way.state, RSK_RING_REG_ASKED);
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 + T, counts), RSK_RING_REG_DO_NOTHING,
		     "the clock starts anew");
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 + 2 * T - 1, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 + 2 * T, counts), RSK_RING_REG_DO_INDIRECT);
	counted(0, 0, 1, 1, 0);
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_DIRECT);
	counted(0, 0, 1, 1, 1);
}

Test(ring_registration, an_answer_to_the_second_request)
{
	begin(0);
	cr_assert_eq(rsk_ring_reg_tick(&way, T, counts), RSK_RING_REG_DO_REQUEST);
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_DIRECT);
	counted(1, 0, 1, 0, 0);

	begin(0);
	cr_assert_eq(rsk_ring_reg_tick(&way, T, counts), RSK_RING_REG_DO_REQUEST);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_INDIRECT);
	cr_assert_eq(rsk_ring_reg_tick(&way, 2 * T - 1, counts), RSK_RING_REG_DO_NOTHING);
	counted(0, 1, 1, 0, 0);
}

/* An invalid answer after the second timeout changes nothing. */
Test(ring_registration, a_late_invalid_one)
{
	begin(0);
	rsk_ring_reg_tick(&way, T, counts);
	rsk_ring_reg_tick(&way, 2 * T, counts);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(way.state, RSK_RING_REG_INDIRECT);
	counted(0, 0, 1, 1, 0);
}

Test(ring_registration, nobody_asked)
{
	memset(counts, 0, sizeof(counts));
	way = (struct rsk_ring_reg){ 0 };
	cr_assert_eq(rsk_ring_reg_answer(&way, true, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_answer(&way, false, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_tick(&way, UINT64_MAX, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(way.state, RSK_RING_REG_NONE);
	for (int i = 0; i < RSK_STATS_REG_COUNT; i++)
		cr_expect_eq(counts[i], 0);
}

Test(ring_registration, another_rail_begins_anew)
{
	begin(0);
	rsk_ring_reg_tick(&way, T, counts);
	rsk_ring_reg_tick(&way, 2 * T, counts);
	rsk_ring_reg_begin(&way, 5 * T, counts);
	cr_assert_eq(way.state, RSK_RING_REG_ASKED);
	cr_assert_eq(way.timeouts, 0);
	cr_assert_eq(rsk_ring_reg_tick(&way, 6 * T - 1, counts), RSK_RING_REG_DO_NOTHING);
	cr_assert_eq(rsk_ring_reg_tick(&way, 6 * T, counts), RSK_RING_REG_DO_REQUEST);
	cr_assert_eq(rsk_ring_reg_tick(&way, 7 * T, counts), RSK_RING_REG_DO_INDIRECT);
	cr_assert_eq(counts[RSK_STATS_REG_REQUESTED], 2);
}

/* The paper's rules for any history of answers, formulated a second time with booleans. */
static void walk(uint64_t *dice)
{
	uint64_t now = dice_roll(dice) % 1000, asked = now, wait = T;
	bool valid = false, any = false;
	uint32_t requests = 1;

	begin(now);
	for (int i = 0; i < 40; i++) {
		enum rsk_ring_reg_action did;

		if (dice_roll(dice) % 3 == 0) {
			bool v = dice_roll(dice) % 2;

			did = rsk_ring_reg_answer(&way, v, counts);
			cr_assert_eq(did == RSK_RING_REG_DO_DIRECT, v && !valid);
			cr_assert_eq(did == RSK_RING_REG_DO_INDIRECT,
				     !v && !valid && !any && requests < 3);
			valid |= v;
			any = true;
		} else {
			bool indirect = any || requests == 3, due;

			now += dice_roll(dice) % T;
			due = !valid && now >= asked + wait;
			did = rsk_ring_reg_tick(&way, now, counts);
			cr_assert_eq(did == RSK_RING_REG_DO_REQUEST,
				     due && (indirect || requests == 1));
			cr_assert_eq(did == RSK_RING_REG_DO_INDIRECT,
				     due && !indirect && requests == 2);
			if (due) {
				asked = now;
				requests += !indirect;
				wait = indirect && wait < 32 * T ? 2 * wait : wait;
			}
		}
		cr_assert_eq(way.state, valid		     ? RSK_RING_REG_DIRECT :
					any || requests == 3 ? RSK_RING_REG_INDIRECT :
							       RSK_RING_REG_ASKED);
		/* Each transfer has one first cause for its mode, and at most one late one. */
		cr_assert_eq(counts[RSK_STATS_REG_VALID] + counts[RSK_STATS_REG_INVALID] +
				     counts[RSK_STATS_REG_SECOND_TIMEOUT],
			     valid || any || requests == 3);
		cr_assert_leq(counts[RSK_STATS_REG_LATE_VALID], 1);
	}
}

Test(ring_registration, any_history)
{
	uint64_t dice = dice_seed("ring_registration");

	for (int i = 0; i < 300; i++)
		walk(&dice);
}

Test(ring_registration, the_table_grows_and_keeps)
{
	struct rsk_ring_regs all = { 0 };

	memset(counts, 0, sizeof(counts));
	rsk_ring_reg_begin(rsk_ring_regs_at(&all, 3), 9, counts);
	rsk_ring_regs_at(&all, 0)->owed = true;
	cr_assert_not_null(rsk_ring_regs_at(&all, 32767));
	cr_assert_geq(all.n, 32768);
	cr_assert_eq(rsk_ring_regs_at(&all, 3)->state, RSK_RING_REG_ASKED);
	cr_assert(rsk_ring_regs_at(&all, 0)->owed);
	for (uint32_t i = 4; i < all.n; i++)
		cr_assert(all.at[i].state == RSK_RING_REG_NONE && !all.at[i].owed);
	rsk_ring_regs_free(&all);
	cr_assert(!all.at && !all.n);
}
