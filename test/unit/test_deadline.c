// SPDX-License-Identifier: BSD-2-Clause
/* test_deadline.c - deadlines against a list that is looked through each time. */
#include "deadline.h"

#include "dice.h"

#define THINGS 300

struct thing {
	struct rsk_deadline d;
	uint64_t due; /* 0: not set */
};

static uint64_t first(const struct thing *t)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < THINGS; i++)
		if (t[i].due && t[i].due < least)
			least = t[i].due;
	return least;
}

Test(deadline, as_a_list_would)
{
	uint64_t dice = dice_seed("deadline"), now = 1;
	struct rsk_deadlines q = { 0 };
	struct thing t[THINGS] = { 0 };

	for (int step = 0; step < 20000; step++) {
		struct thing *one = &t[dice_roll(&dice) % THINGS];
		struct rsk_deadline *d;

		switch (dice_roll(&dice) % 4) {
		case 0:
		case 1:
			one->due = now + 1 + dice_roll(&dice) % 1000;
			cr_assert_eq(rsk_deadline_set(&q, &one->d, one->due), 0);
			break;
		case 2:
			one->due = 0;
			rsk_deadline_clear(&q, &one->d);
			break;
		default:
			now += dice_roll(&dice) % 20;
			while ((d = rsk_deadlines_take(&q, now))) {
				one = (struct thing *)d;
				cr_assert_eq(one->due, first(t));
				one->due = 0;
			}
			cr_assert_gt(first(t), now);
		}
		cr_assert_eq(rsk_deadlines_next(&q), first(t));
		cr_assert(rsk_deadlines_validate(&q));
	}
	rsk_deadlines_fini(&q);
	cr_assert_eq(t[0].d.at, 0);
}
