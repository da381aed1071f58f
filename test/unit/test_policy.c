// SPDX-License-Identifier: BSD-2-Clause
/* test_policy.c - when a stream has earned promotion and when it looks for its peer. */
#include "policy.h"

#include <criterion/criterion.h>

Test(policy, earned_by_calls_or_bytes)
{
	const struct rsk_policy p = { .earn_calls = 16, .earn_bytes = 65536 };

	cr_assert(!rsk_policy_earned(&p, 0, 0));
	cr_assert(!rsk_policy_earned(&p, 15, 65535));
	cr_assert(rsk_policy_earned(&p, 16, 0));
	cr_assert(rsk_policy_earned(&p, 1, 65536));
	cr_assert(rsk_policy_earned(&p, UINT64_MAX, UINT64_MAX));
}

Test(policy, a_way_can_be_closed)
{
	const struct rsk_policy bytes = { .earn_bytes = 10 }, calls = { .earn_calls = 2 },
				no = { 0 };

	cr_assert(!rsk_policy_earned(&bytes, 1000000, 9));
	cr_assert(rsk_policy_earned(&bytes, 0, 10));
	cr_assert(!rsk_policy_earned(&calls, 1, UINT64_MAX));
	cr_assert(rsk_policy_earned(&calls, 2, 0));
	cr_assert(!rsk_policy_earned(&no, UINT64_MAX, UINT64_MAX));
}

Test(policy, looks_are_spaced_by_doubling_gaps)
{
	const struct rsk_policy p = { .look_calls = 16, .looks_max = 5 };
	const uint64_t want[] = { 16, 32, 64, 128, 256 };
	struct rsk_policy_search s = { 0 };
	uint64_t calls = 40, last = 40;
	unsigned int looks = 0;

	cr_assert(rsk_policy_look_due(&p, &s, calls), "the first look is due at once");
	for (; calls < 100000; calls++) {
		if (!rsk_policy_look_due(&p, &s, calls))
			continue;
		if (looks)
			cr_assert_eq(calls - last, want[looks - 1], "look %u", looks);
		last = calls;
		looks++;
		rsk_policy_looked(&p, &s, calls);
	}
	cr_assert_eq(looks, 5);
	cr_assert(rsk_policy_given_up(&p, &s));
}

Test(policy, no_look_at_all)
{
	const struct rsk_policy p = { .look_calls = 16, .looks_max = 0 };
	struct rsk_policy_search s = { 0 };

	cr_assert(!rsk_policy_look_due(&p, &s, UINT64_MAX));
	cr_assert(rsk_policy_given_up(&p, &s));
}

Test(policy, absurd_knobs_do_no_harm)
{
	struct rsk_policy p = { .look_calls = UINT32_MAX, .looks_max = UINT32_MAX };
	struct rsk_policy_search s = { 0 };
	uint64_t before = 0;

	cr_assert(!rsk_policy_validate(&p));
	cr_assert_leq(p.looks_max, 32);
	for (unsigned int i = 0; i < 100; i++) {
		rsk_policy_looked(&p, &s, UINT64_MAX - 1000 + i);
		cr_assert_geq(s.next_at_calls, before, "the next look never moves back");
		before = s.next_at_calls;
	}
	p = (struct rsk_policy){ .look_calls = 0, .looks_max = 3 };
	cr_assert(!rsk_policy_validate(&p));
	cr_assert_eq(p.look_calls, 1);
	p = (struct rsk_policy)RSK_POLICY_DEFAULT;
	cr_assert(rsk_policy_validate(&p));
}
