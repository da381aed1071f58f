// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_quota.c - tests quotas of sessions: the arithmetic of holders (quota.h) and owners
 * (claims.h). test_quota_random.c has both together.
 */
#include "quota.h"

#include <string.h>

#include "claims_kit.h"

#define SECOND 1000000000ull

/* ---- holders ---- */

Test(quota, what_is_wanted)
{
	struct rsk_quota q = { 0 };
	uint64_t now = 100 * SECOND;

	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 0, "never used");
	rsk_quota_begin(&q, now);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 5);
	cr_assert_eq(rsk_quota_wanted(&q, 32, now), 3, "a sixteenth");
	cr_assert_eq(rsk_quota_wanted(&q, 1, now), 2, "one at the least");
	rsk_quota_seen(&q, 5);
	for (int i = 0; i < 2; i++)
		rsk_quota_begin(&q, now);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 5, "near enough: 2 of 4 ahead");
	rsk_quota_begin(&q, now);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 8);
	rsk_quota_seen(&q, 13);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 8, "far too many");
	now += RSK_QUOTA_IDLE_NS;
	rsk_quota_seen(&q, 5);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 4, "nothing ahead");
	for (int i = 0; i < 4; i++)
		rsk_quota_end(&q);
	cr_assert_eq(rsk_quota_wanted(&q, 1000, now), 0);
	rsk_quota_end(&q);
	cr_assert_eq(q.used, 0, "no more ends than begins");
}

Test(quota, what_is_left)
{
	const struct rsk_quota_claim some[] = { { 3, 0 }, { 0, 4 }, { 2, 5 }, { 6, 1 } };
	const struct rsk_quota_claim huge[] = { { UINT64_MAX, 0 }, { UINT64_MAX, UINT64_MAX } };
	struct rsk_quota q = { .held = 4, .most = 4 };

	cr_assert_eq(rsk_quota_available(20, 0, some, 4), 2);
	cr_assert_eq(rsk_quota_available(18, 0, some, 4), 0);
	cr_assert_eq(rsk_quota_available(17, 3, some, 4), 3, "ours anyway");
	cr_assert_eq(rsk_quota_available(UINT64_MAX, 0, huge, 2), 0, "sums that would wrap");
	cr_assert_eq(rsk_quota_available(0, 0, NULL, 0), 0);
	cr_assert_eq(rsk_quota_grant(&q, 8, 6), 6, "what there is");
	cr_assert_eq(rsk_quota_grant(&q, 8, 2), 4, "never less than is held");
	cr_assert_eq(rsk_quota_grant(&q, 3, 0), 3, "given back");
	rsk_quota_write(&q, 2);
	cr_assert(q.held == 2 && q.most == 4, "not used any more, but perhaps still there");
	rsk_quota_write(&q, 9);
	cr_assert(q.held == 2 && q.most == 9 && rsk_quota_validate(&q));
	cr_assert(!rsk_quota_has_room(&q, 5, 5) && rsk_quota_has_room(&q, 4, 5), "its time");
}

/* ---- owners ---- */

/* What is being published counts as claimed, and covers nothing before etcd has it. */
Test(quota, what_is_not_sure)
{
	static const struct rsk_claims_quota one = { .quota = 1, .published = 4, .unsure = 2 };
	static const struct rsk_claims_quota wrong = { .published = 1, .unsure = 9 };
	struct rsk_claims c = { 0 };

	claims_set(&c, 0, &one, 1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 4);
	cr_assert_eq(claims_beside(&c, 0), 0, "a quota");
	claims_book(&c, 0, 1);
	cr_assert_eq(claims_beside(&c, 0), 2, "it would be one of the three that are kept");
	claims_book(&c, 0, 1);
	cr_assert_eq(claims_beside(&c, 0), 2, "all of the two that are kept");
	claims_book(&c, 0, 1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 2, "the third one is beside the claim");
	claims_book(&c, 0, -1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 2);
	claims_book(&c, 0, -1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 3);
	claims_set(&c, 0, &wrong, 1);
	cr_assert_eq(claims_beside(&c, 0), 1, "no more than that");
	claims_set(&c, 4, &one, 1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 6, "etcd may give all of the offer to others before");
	rsk_claims_fini(&c);
}

Test(quota, what_is_kept)
{
	static const struct rsk_claims_quota two[] = {
		{ .holder = 0, .quota = 2 }, { .holder = 1, .quota = 1, .published = 3 }
	};
	const uint8_t six[16] = { 10 };
	struct rsk_claims c = { 0 };

	cr_assert_eq(rsk_claims_kept(&c, 7), 0, "nothing is claimed");
	claims_set(&c, 7, two, 2);
	cr_assert_eq(rsk_claims_kept(&c, 7), 7, "what is offered");
	cr_assert_eq(rsk_claims_kept(&c, 8), 0, "another RNIC");
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(claims_beside(&c, 0), i < 2 ? 0 : 5);
		claims_book(&c, 0, 1);
	}
	cr_assert_eq(rsk_claims_kept(&c, 7), 5, "less what is covered");
	claims_book(&c, 1, 1);
	claims_book(&c, 9, 1); /* nobody's */
	cr_assert_eq(rsk_claims_kept(&c, 7), 4);
	claims_book(&c, 0, -1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 4, "the one beyond the claim");
	claims_book(&c, 0, -1);
	cr_assert_eq(rsk_claims_kept(&c, 7), 5);
	cr_assert_eq(rsk_claims_kept_beside(&c, 7, 4, NULL), 5);
	cr_assert_eq(rsk_claims_kept_beside(&c, 7, 6, six), 5, "the same bytes as an IPv6 address");
	claims_set(&c, 2, two, 2);
	cr_assert_eq(rsk_claims_kept(&c, 7), 5, "more is claimed than offered");
	rsk_claims_fini(&c);
}

Test(quota, claims_that_would_wrap)
{
	static const struct rsk_claims_quota two[] = { { .holder = 0, .quota = UINT64_MAX },
						       { .holder = 1, .quota = UINT64_MAX } };
	struct rsk_claims c = { 0 };

	claims_set(&c, 7, two, 2);
	cr_assert_eq(rsk_claims_kept(&c, 7), UINT64_MAX);
	cr_assert(rsk_claims_next(&c, 0, 5, 64).is_full);
	rsk_claims_fini(&c);
}

Test(quota, what_is_offered)
{
	static const struct rsk_claims_quota one = { .quota = 4 };
	struct rsk_claims c = { 0 };

	claims_set(&c, 0, &one, 1);
	cr_assert_eq(rsk_claims_next(&c, 0, 0, 64).sessions, 56);
	cr_assert_eq(rsk_claims_due(&c, 0, 0, 64, false), RSK_CLAIMS_LATER);
	cr_assert_eq(rsk_claims_next(&c, 0, 0, 1).sessions, 1);
	cr_assert_eq(rsk_claims_next(&c, 0, 0, 2).sessions, 1);
	cr_assert_eq(rsk_claims_next(&c, 0, 10, 64).sessions, 46, "others use ten");
	cr_assert_eq(rsk_claims_next(&c, 0, 60, 64).sessions, 0);
	claims_set(&c, 56, &one, 1);
	cr_assert_eq(rsk_claims_due(&c, 0, 3, 64, false), RSK_CLAIMS_FINE);
	cr_assert_eq(rsk_claims_due(&c, 0, 4, 64, false), RSK_CLAIMS_NOW, "half of what is free");
	cr_assert(!rsk_claims_next(&c, 0, 8, 64).is_full, "less can be offered");
	claims_set(&c, 4, &one, 1);
	cr_assert(!rsk_claims_next(&c, 0, 59, 64).is_full);
	cr_assert(rsk_claims_next(&c, 0, 60, 64).is_full, "the rest is claimed");
	cr_assert_eq(rsk_claims_due(&c, 0, 60, 64, false), RSK_CLAIMS_NOW);
	claims_book(&c, 0, 1);
	cr_assert_eq(rsk_claims_due(&c, 0, 53, 64, false), RSK_CLAIMS_LATER, "to be published");
	cr_assert_eq(rsk_claims_publish(rsk_claims_at(&c, 0, 0), 64), 4);
	cr_assert_eq(rsk_claims_publish(rsk_claims_at(&c, 0, 0), 4), 3);
	rsk_claims_fini(&c);
}
