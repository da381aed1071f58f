// SPDX-License-Identifier: BSD-2-Clause
/* test_deadline.c - tests deadlines against a list that is searched linearly. */
#include "deadline.h"

#include "dice.h"

#define THINGS 300
#define TICK RSK_DEADLINE_TICK_NS

struct thing {
	struct rsk_deadline d; /* must be first */
	uint64_t due;	       /* 0: not set */
};

static uint64_t first(const struct thing *t)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < THINGS; i++)
		if (t[i].due && t[i].due < least)
			least = t[i].due;
	return least;
}

/* Near and far times: from the same tick to beyond the wheel's reach. */
static uint64_t some_time(uint64_t *dice, uint64_t scale)
{
	return 1 + dice_roll(dice) % scale;
}

static void history(uint64_t scale, uint64_t most_ahead)
{
	uint64_t dice = dice_seed("deadline"), now = 12345678901234;
	struct rsk_deadlines q = { 0 };
	struct thing t[THINGS] = { 0 };

	for (int step = 0; step < 20000; step++) {
		struct thing *one = &t[dice_roll(&dice) % THINGS];
		struct rsk_deadline *d;

		switch (dice_roll(&dice) % 4) {
		case 0:
		case 1:
			one->due = now + some_time(&dice, most_ahead);
			rsk_deadline_set(&q, &one->d, one->due);
			break;
		case 2:
			one->due = 0;
			rsk_deadline_clear(&q, &one->d);
			break;
		default:
			now += some_time(&dice, scale);
			while ((d = rsk_deadlines_take(&q, now))) {
				one = (struct thing *)d;
				cr_assert(one->due && one->due <= now, "never early");
				/* In the order of ticks. */
				cr_assert_leq(one->due, first(t) + TICK);
				one->due = 0;
			}
			cr_assert_gt(first(t), now - TICK, "no more than a tick late");
		}
		cr_assert(rsk_deadlines_validate(&q));
		if (first(t) == UINT64_MAX)
			cr_assert_eq(rsk_deadlines_next(&q), UINT64_MAX);
		else
			cr_assert_lt(rsk_deadlines_next(&q), first(t) + TICK);
	}
	while (rsk_deadlines_any(&q))
		;
	cr_assert_eq(q.n, 0);
	cr_assert_eq(rsk_deadlines_next(&q), UINT64_MAX);
	cr_assert(rsk_deadlines_validate(&q));
}

Test(deadline, within_a_tick)
{
	history(TICK / 4, TICK);
}

Test(deadline, within_a_second)
{
	history(20000000, 1000000000);
}

Test(deadline, within_minutes)
{
	history(3000000000, 255000000000);
}

Test(deadline, beyond_the_reach)
{
	history(3600000000000, 90000000000000);
}

/* Going from one next() to the following one expires everything, in few steps. */
Test(deadline, next_leads_there)
{
	uint64_t now = 987654321, due = now + 200000000000, steps = 0;
	struct rsk_deadlines q = { 0 };
	struct rsk_deadline d = { 0 };

	cr_assert_null(rsk_deadlines_take(&q, now));
	rsk_deadline_set(&q, &d, due);
	while (!rsk_deadlines_take(&q, now)) {
		cr_assert_geq(rsk_deadlines_next(&q), now);
		now = rsk_deadlines_next(&q);
		cr_assert_lt(steps++, 8);
	}
	cr_assert_geq(now, due);
	cr_assert_lt(now, due + TICK);
}
