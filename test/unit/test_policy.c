// SPDX-License-Identifier: BSD-2-Clause
/* test_policy.c - tests when a stream has earned promotion and when it looks up its peer. */
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

/*
 * How much later is a peer found that comes at @come_ns, if the program calls every @call_ns?
 * UINT64_MAX: never.
 */
static uint64_t found_after(const struct rsk_policy *p, uint64_t come_ns, uint64_t call_ns,
			    unsigned int *looks)
{
	struct rsk_policy_search s = { 0 };

	for (uint64_t now = 1000; !rsk_policy_given_up(p, &s, now); now += call_ns) {
		if (!rsk_policy_check_due(p, &s, now))
			continue;
		if (now >= 1000 + come_ns) {
			*looks = s.looks;
			return now - 1000 - come_ns;
		}
		rsk_policy_looked(p, &s, now);
	}
	*looks = s.looks;
	return UINT64_MAX;
}

Test(policy, found_soon_after_it_came)
{
	const struct rsk_policy p = RSK_POLICY_DEFAULT;
	unsigned int looks;

	for (uint64_t call_ns = 1000; call_ns < 100000000; call_ns *= 7)
		for (uint64_t come_ns = 0; come_ns < 2000000000; come_ns = come_ns * 3 + 10000) {
			uint64_t late = found_after(&p, come_ns, call_ns, &looks);

			cr_assert_leq(late, p.look_ns + come_ns / RSK_POLICY_LATE_SHARE + call_ns,
				      "came after %lu ns, calls every %lu ns",
				      (unsigned long)come_ns, (unsigned long)call_ns);
		}
}

Test(policy, few_looks_and_no_hurry_to_give_up)
{
	const struct rsk_policy p = RSK_POLICY_DEFAULT;
	unsigned int looks;

	cr_assert_eq(found_after(&p, UINT64_MAX / 2, 10000, &looks), UINT64_MAX);
	cr_assert_eq(looks, p.looks_max);
	/* Ten seconds after promotion was earned the peer may still come. */
	cr_assert_neq(found_after(&p, 10000000000u, 10000, &looks), UINT64_MAX);
}

Test(policy, somebody_answers_and_is_asked_again)
{
	const struct rsk_policy p = RSK_POLICY_DEFAULT;
	struct rsk_policy_search s = { .lasting = true };
	const uint64_t day_ns = 86400000000000u;
	uint64_t now = 1000;

	for (unsigned int i = 0; now < day_ns; i++) {
		cr_assert(rsk_policy_check_due(&p, &s, now));
		cr_assert(!rsk_policy_given_up(&p, &s, now));
		rsk_policy_looked(&p, &s, now);
		now = s.next_ns;
		cr_assert_lt(i, 1000, "looks in a day");
	}
	s.lasting = false;
	cr_assert(rsk_policy_given_up(&p, &s, now));
}

Test(policy, no_look_at_all)
{
	const struct rsk_policy p = { .look_ns = 16, .looks_max = 0 };
	struct rsk_policy_search s = { 0 };

	cr_assert(!rsk_policy_check_due(&p, &s, UINT64_MAX));
	cr_assert(rsk_policy_given_up(&p, &s, 0));
}

Test(policy, the_next_look_never_moves_back)
{
	struct rsk_policy p = { .look_ns = UINT32_MAX, .looks_max = UINT32_MAX };
	struct rsk_policy_search s = { 0 };
	uint64_t before = 0;

	for (unsigned int i = 0; i < 100; i++) {
		rsk_policy_looked(&p, &s, UINT64_MAX - 1000 + i);
		cr_assert_geq(s.next_ns, before);
		before = s.next_ns;
	}
}
