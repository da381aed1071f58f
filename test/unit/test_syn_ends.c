// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn_ends.c - tests which ends are brought together by the time stamp of their first segment:
 * only the two that fit each other alone; and the limits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>

#include "syn_ends.h"

#define SECOND 1000000000ull

static bool nobody_else;

static bool may(const void *ctx, uint32_t uid, uint32_t other, uint16_t service)
{
	cr_assert_eq(service, 80);
	return !nobody_else || uid == other;
}

/* Of process @n: the connecting end has port 4000, as it sees it; the service is 80, or 8080. */
static struct rsk_rendezvous_table_end end_of(uint32_t n, bool connecting)
{
	struct rsk_rendezvous_table_end e = {
		.process = n, .uid = n, .cookie = n, .fd = (int)n, .connecting = connecting
	};

	e.tuple.family = AF_INET;
	e.tuple.netns = n;
	e.tuple.local_port = connecting ? 4000 : 80;
	e.tuple.peer_port = connecting ? 8080 : 4000;
	return e;
}

static int look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *e, uint32_t first,
		uint32_t n, uint64_t now, uint32_t *found)
{
	struct rsk_rendezvous_table_end other = { 0 };
	const struct rsk_syn_range range = { first, n };
	int rc = rsk_syn_ends_look(s, e, &range, now, may, NULL, &other);

	*found = other.process;
	return rc;
}

Test(syn_ends, the_two_that_fit_meet_whoever_comes_first)
{
	const uint32_t at[] = { 1000, 0, UINT32_MAX, UINT32_MAX - 1 };
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (int connecting_first = 0; connecting_first < 2; connecting_first++)
			for (uint32_t k = 0; k < 5; k++) {
				struct rsk_rendezvous_table_end c = end_of(1, true),
								a = end_of(2, false);

				/* The stamp is the k-th of the five values. */
				if (connecting_first) {
					cr_assert_eq(look(&s, &c, at[i], 5, 0, &found), 0);
					cr_assert_eq(look(&s, &a, at[i] + k, 1, 0, &found), 1);
					cr_assert_eq(found, 1);
				} else {
					cr_assert_eq(look(&s, &a, at[i] + k, 1, 0, &found), 0);
					cr_assert_eq(look(&s, &c, at[i], 5, 0, &found), 1);
					cr_assert_eq(found, 2);
				}
				cr_assert_eq(s.n, 0);
			}
}

Test(syn_ends, whoever_does_not_fit_waits)
{
	struct rsk_rendezvous_table_end c = end_of(1, true), a = end_of(2, false), other;
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &c, 1000, 5, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 999, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 1005, 1, 0, &found), 0);
	cr_assert_eq(s.n, 2, "the same end's last word counts");
	other = a;
	other.process = other.cookie = 3;
	other.tuple.peer_port = 4001;
	cr_assert_eq(look(&s, &other, 1002, 1, 0, &found), 0, "another client port");
	other = a;
	other.process = other.cookie = 4;
	other.tuple.family = AF_INET6;
	cr_assert_eq(look(&s, &other, 1002, 1, 0, &found), 0, "another family");
	other = c;
	other.process = other.cookie = 5;
	cr_assert_eq(look(&s, &other, 900, 5, 0, &found), 0, "two connecting ends");
	other = a;
	other.process = 1;
	other.cookie = 6;
	cr_assert_eq(look(&s, &other, 1002, 1, 0, &found), 0, "one process has both");
	other = a;
	other.process = other.cookie = 7;
	other.tuple.netns = c.tuple.netns;
	cr_assert_eq(look(&s, &other, 1002, 1, 0, &found), 0, "one network namespace");
	rsk_syn_ends_fini(&s);
	cr_assert_eq(s.n, 0);
}

Test(syn_ends, two_that_fit_are_none)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), b = end_of(2, false),
					c = end_of(3, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &a, 1001, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &b, 1002, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 1000, 5, 0, &found), 0);
	cr_assert_eq(s.n, 3);
	/* One of them ends; the connecting end asks again. */
	rsk_syn_ends_gone(&s, 2);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(look(&s, &c, 1000, 5, 0, &found), 1);
	cr_assert_eq(found, 1);
	cr_assert_eq(s.n, 0);
}

Test(syn_ends, many_values_at_once_are_a_guess)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 1000, RSK_SYN_RANGE_MOST + 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 0, UINT32_MAX, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 1000, 0, 0, &found), 0);
	cr_assert_eq(s.n, 1, "it does not even wait");
	/* The accepting end knows the value. */
	cr_assert_eq(look(&s, &a, 1000, 2, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 1000 - (RSK_SYN_RANGE_MOST - 1), RSK_SYN_RANGE_MOST, 0, &found),
		     1);
	rsk_syn_ends_fini(&s);
}

Test(syn_ends, users_who_may_not_meet)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	nobody_else = true;
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 998, 5, 0, &found), -EPERM);
	cr_assert_eq(s.n, 1, "the one who was there first still waits");
	c.uid = a.uid;
	cr_assert_eq(look(&s, &c, 998, 5, 0, &found), 1);
}

Test(syn_ends, they_wait_for_a_while)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &a, 1000, 1, SECOND, &found), 0);
	cr_assert_eq(look(&s, &c, 1000, 1, SECOND + RSK_SYN_ENDS_WAIT_NS + 1, &found), 0);
	cr_assert_eq(s.n, 1, "the older one is forgotten");
	rsk_syn_ends_fini(&s);
}

Test(syn_ends, a_user_pushes_out_its_own)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), e = end_of(2, true),
					c = end_of(3, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &a, 7, 1, 0, &found), 0);
	for (uint32_t i = 0; i < RSK_SYN_ENDS_MOST_OF_ONE + 50; i++) {
		e.cookie = 100 + i;
		cr_assert_eq(look(&s, &e, 5000 + i * 100, 5, 0, &found), 0);
	}
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_ONE + 1);
	cr_assert_eq(look(&s, &c, 5, 5, 0, &found), 1, "another user's is there");
	cr_assert_eq(found, 1);
	rsk_syn_ends_fini(&s);
}
