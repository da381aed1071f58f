// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn_ends.c - tests which ends are brought together by their first segment: only the two that
 * fit each other alone; which connecting ends are asked for it; and the limits.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>

#include "syn_ends.h"

#define SECOND 1000000000ull

static bool nobody_else;

static bool may(const void *ctx, const struct rsk_rendezvous_table_end *one,
		const struct rsk_rendezvous_table_end *other)
{
	cr_assert_neq(one->connecting, other->connecting);
	return !nobody_else || one->uid == other->uid;
}

static bool translated; /* by this host */
static uint32_t times_looked_up;

static bool is_ours(const void *ctx, const struct rsk_tuple *accepting)
{
	cr_assert_eq(accepting->local_port, 80);
	times_looked_up++;
	return translated;
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

static uint32_t asked, wrong; /* the process that was asked last, and how often; of the last look */
static uint32_t times_asked;

static void ask(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	cr_assert(end->connecting);
	asked = end->process;
	times_asked++;
}

static uint32_t refused, times_refused;

static void refuse(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	refused = end->process;
	times_refused++;
}

static void differ(void *ctx, const struct rsk_rendezvous_table_end *one,
		   const struct rsk_rendezvous_table_end *other)
{
	cr_assert_neq(one->process, other->process);
	wrong++;
}

static const struct rsk_syn_ends_calls calls = { .may = may,
						 .is_ours = is_ours,
						 .refuse = refuse,
						 .ask = ask,
						 .differ = differ };

static int look_with(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *e,
		     struct rsk_syn syn, uint64_t now, uint32_t *found)
{
	struct rsk_rendezvous_table_end other = { 0 };
	int rc;

	wrong = 0;
	rc = rsk_syn_ends_look(s, e, &syn, now, &calls, &other);
	*found = other.process;
	return rc;
}

/* The connecting end is asked first: an accepting end of that port, which it may meet, waits. */
static void have_asked(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *e)
{
	struct rsk_rendezvous_table_end a = *e;
	uint32_t found;

	a.process = a.cookie = 999;
	a.connecting = false;
	a.tuple.netns = 999;
	a.tuple.local_port = 80;
	a.tuple.peer_port = e->tuple.local_port;
	look_with(s, &a, (struct rsk_syn){ .seq = 1, .n = 1 }, 0, &found);
	look_with(s, e, (struct rsk_syn){ 0 }, 0, &found);
	rsk_syn_ends_gone(s, 999, a.uid);
}

/* All with one sequence number. */
static int look(struct rsk_syn_ends *s, const struct rsk_rendezvous_table_end *e, uint32_t mark,
		uint32_t n, uint64_t now, uint32_t *found)
{
	return look_with(s, e,
			 (struct rsk_syn){
				 .seq = 0xfffffff0, .mark = (uint16_t)mark, .n = (uint16_t)n },
			 now, found);
}

Test(syn_ends, the_two_that_fit_meet_whoever_comes_first)
{
	const uint32_t at[] = { 1000, 0, UINT16_MAX, UINT16_MAX - 1 };
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (int connecting_first = 0; connecting_first < 2; connecting_first++)
			for (uint32_t k = 0; k < 4; k++) {
				struct rsk_rendezvous_table_end c = end_of(1, true),
								a = end_of(2, false);

				/* The mark is the k-th of the four values. */
				if (connecting_first) {
					have_asked(&s, &c);
					cr_assert_eq(look(&s, &c, at[i], 4, 0, &found), 0);
					cr_assert_eq(look(&s, &a, at[i] + k, 1, 0, &found), 1);
					cr_assert_eq(found, 1);
				} else {
					cr_assert_eq(look(&s, &a, at[i] + k, 1, 0, &found), 0);
					have_asked(&s, &c);
					cr_assert_eq(look(&s, &c, at[i], 4, 0, &found), 1);
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

	have_asked(&s, &c);
	cr_assert_eq(look(&s, &c, 1000, 4, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 999, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 1004, 1, 0, &found), 0);
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
	cr_assert_eq(look(&s, &other, 900, 4, 0, &found), RSK_SYN_ENDS_ASKED,
		     "two connecting ends, of which this one was not asked yet");
	other = a;
	other.process = 1;
	other.cookie = 6;
	cr_assert_eq(look(&s, &other, 1002, 1, 0, &found), 0, "one process has both");
	rsk_syn_ends_fini(&s);
	cr_assert_eq(s.n, 0);
}

/* The containers of a pod. */
Test(syn_ends, one_network_namespace)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(3, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	a.tuple.netns = c.tuple.netns;
	have_asked(&s, &c);
	cr_assert_eq(look(&s, &c, 1000, 4, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 1001, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	cr_assert_eq(found, 3);
	cr_assert_eq(s.n, 0);
}

Test(syn_ends, two_that_fit_are_none)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), b = end_of(2, false),
					c = end_of(3, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	have_asked(&s, &c);
	cr_assert_eq(look(&s, &a, 1001, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &b, 1002, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 1000, 4, 0, &found), 0);
	cr_assert_eq(s.n, 3);
	/* One of them ends; the connecting end, which was asked, asks again. */
	rsk_syn_ends_gone(&s, 2, b.uid);
	cr_assert_eq(s.n, 2);
	cr_assert_eq(look(&s, &c, 1000, 4, 0, &found), 1);
	cr_assert_eq(found, 1);
	cr_assert_eq(s.n, 0);
}

Test(syn_ends, the_sequence_number_counts)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	have_asked(&s, &c);
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	for (uint32_t bit = 0; bit < 32; bit++) {
		struct rsk_syn syn = { .seq = 0xfffffff0 ^ 1u << bit, .mark = 1000, .n = 1 };

		cr_assert_eq(look_with(&s, &c, syn, 0, &found), 0);
		cr_assert_eq(wrong, 1);
	}
	cr_assert_eq(look(&s, &c, 1000, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	cr_assert_eq(wrong, 0);
}

/* The connecting end is asked when it is known that somebody waits, and no other. */
Test(syn_ends, who_is_asked)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true),
					other = end_of(3, true), b;
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	other.tuple.local_port = 4001;
	cr_assert_eq(look(&s, &other, 0, 0, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 0, 0, 0, &found), 0);
	cr_assert_eq(times_asked, 0, "nobody waits");
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert(times_asked == 1 && asked == 2 && !wrong);
	b = a;
	b.process = b.cookie = 4;
	cr_assert_eq(look(&s, &b, 2000, 1, 0, &found), 0);
	cr_assert_eq(times_asked, 1, "once is enough");
	cr_assert_eq(look(&s, &c, 1000, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	cr_assert_eq(wrong, 1, "with the other one it does not agree");
	rsk_syn_ends_gone(&s, 4, b.uid);
	/* Now the accepting end is there first. */
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert_eq(look(&s, &c, 0, 0, 0, &found), RSK_SYN_ENDS_ASKED);
	cr_assert(times_asked == 2 && asked == 2);
	cr_assert_eq(look(&s, &c, 1000, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	cr_assert_eq(s.n, 1, "the one with another port");
	rsk_syn_ends_fini(&s);
}

/* Who may not meet is not said to be wrong: he would keep others' streams on TCP. */
Test(syn_ends, others_users_wrong_segments_do_not_count)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	have_asked(&s, &c);
	nobody_else = true;
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), -EPERM);
	cr_assert_eq(look(&s, &c, 2000, 1, 0, &found), -EPERM);
	cr_assert_eq(wrong, 0);
	rsk_syn_ends_fini(&s);
}

/* What a connecting end says unasked is not compared with anything, now or later. */
Test(syn_ends, nobody_plants_guesses)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	for (uint32_t i = 0; i < RSK_SYN_ENDS_UNNAMED_OF_PORT; i++) {
		c.cookie = 100 + i;
		cr_assert_eq(look(&s, &c, 4 * i, 4, 0, &found), 0);
	}
	cr_assert_eq(look(&s, &a, 50, 1, 0, &found), 0);
	cr_assert_eq(times_asked, RSK_SYN_ENDS_UNNAMED_OF_PORT, "each of them is asked now");
	cr_assert_eq(wrong, 0);
	rsk_syn_ends_fini(&s);
}

/* Of one client port a user has few places for what is a guess each. */
Test(syn_ends, few_of_one_port)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	have_asked(&s, &c);
	for (uint32_t i = 0; i < 100; i++) {
		a.cookie = 100 + i;
		cr_assert_eq(look(&s, &a, i, 1, 0, &found), 0);
	}
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_PORT + 1);
	cr_assert_eq(look(&s, &c, 50, 1, 0, &found), 0, "it was pushed out");
	cr_assert_eq(wrong, RSK_SYN_ENDS_MOST_OF_PORT);
	a.cookie = 500;
	a.tuple.peer_port = 4001;
	cr_assert_eq(look(&s, &a, 1, 1, 0, &found), 0);
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_PORT + 2, "another port");
	cr_assert_eq(look(&s, &c, 99, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	rsk_syn_ends_fini(&s);
}

Test(syn_ends, users_who_may_not_meet)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	have_asked(&s, &c);
	nobody_else = true;
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), -EPERM);
	cr_assert(times_refused == 1 && refused == 2, "the one that waits is told, too");
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), -EPERM);
	cr_assert_eq(times_refused, 1, "once");
	cr_assert_eq(look(&s, &c, 998, 4, 0, &found), -EPERM);
	cr_assert(times_refused == 2 && refused == 1);
	cr_assert_eq(s.n, 2, "both wait for somebody else");
	c.uid = a.uid;
	have_asked(&s, &c);
	cr_assert_eq(look(&s, &c, 998, 4, 0, &found), 1);
	rsk_syn_ends_fini(&s);
}

/* Else each user could have all others' streams show their segments. */
Test(syn_ends, who_may_not_meet_is_not_asked)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	nobody_else = true;
	cr_assert_eq(look(&s, &c, 1000, 0, 0, &found), 0);
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), -EPERM);
	cr_assert_eq(look(&s, &c, 1000, 0, 0, &found), -EPERM);
	cr_assert_eq(times_asked, 0);
	rsk_syn_ends_fini(&s);
}

/* Two connections with the same client port are nothing to each other. */
Test(syn_ends, addresses_fit)
{
	static const struct {
		uint8_t near[2], far[2]; /* own address, and the peer's, as each end sees them */
		bool translated, fit;
	} rows[] = {
		{ { 1, 2 }, { 2, 1 }, false, true },  /* not translated */
		{ { 1, 9 }, { 2, 1 }, false, true },  /* a published port */
		{ { 1, 2 }, { 2, 8 }, false, true },  /* masqueraded */
		{ { 1, 9 }, { 2, 8 }, false, false }, /* anything */
		{ { 1, 9 }, { 2, 8 }, true, true },   /* both, by this host */
	};
	uint32_t found;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
		struct rsk_syn_ends s = { 0 };

		c.tuple.local[0] = rows[i].near[0];
		c.tuple.peer[0] = rows[i].near[1];
		a.tuple.local[0] = rows[i].far[0];
		a.tuple.peer[0] = rows[i].far[1];
		translated = rows[i].translated;
		times_asked = 0;
		cr_assert_eq(look(&s, &c, 1000, 0, 0, &found), 0);
		cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
		cr_assert_eq(times_asked, rows[i].fit, "%zu", i);
		cr_assert_eq(look(&s, &c, 2000, 1, 0, &found), 0);
		cr_assert_eq(wrong, rows[i].fit, "%zu", i);
		rsk_syn_ends_fini(&s);
	}
}

/* One who claims many ends makes nobody else's lookup expensive. */
Test(syn_ends, the_kernel_is_asked_seldom)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), c = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	c.tuple.local[0] = c.tuple.peer[0] = 1; /* no address is the same */
	a.tuple.local[0] = a.tuple.peer[0] = 2;
	for (uint32_t i = 0; i < 10; i++) {
		c.cookie = 100 + i;
		cr_assert_eq(look(&s, &c, 1000, 0, 0, &found), 0);
	}
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert_eq(times_looked_up, 1, "once for one accepting end");
	nobody_else = true;
	cr_assert_eq(look(&s, &a, 1000, 1, 0, &found), 0);
	cr_assert_eq(times_looked_up, 1, "not for ends of users who may not meet");
	rsk_syn_ends_fini(&s);
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
		e.tuple.local_port = (uint16_t)(4000 + i);
		cr_assert_eq(look(&s, &e, 0, 0, 0, &found), i ? 0 : RSK_SYN_ENDS_ASKED);
	}
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_ONE + 1);
	have_asked(&s, &c);
	cr_assert_eq(look(&s, &c, 5, 4, 0, &found), 1, "another user's is there");
	cr_assert_eq(found, 1);
	rsk_syn_ends_fini(&s);
}

/* Each user's are looked through by others who have that port. */
Test(syn_ends, few_unnamed_of_one_port)
{
	struct rsk_rendezvous_table_end a = end_of(1, false), e = end_of(2, true),
					c = end_of(3, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	cr_assert_eq(look(&s, &c, 0, 0, 0, &found), 0);
	for (uint32_t i = 0; i < 3 * RSK_SYN_ENDS_UNNAMED_OF_PORT; i++) {
		e.cookie = 100 + i;
		cr_assert_eq(look(&s, &e, 0, 0, 0, &found), 0);
	}
	cr_assert_eq(s.n, RSK_SYN_ENDS_UNNAMED_OF_PORT + 1, "its own oldest have been pushed out");
	cr_assert_eq(look(&s, &a, 7, 1, 0, &found), 0);
	cr_assert_eq(times_asked, RSK_SYN_ENDS_UNNAMED_OF_PORT + 1);
	cr_assert_eq(look(&s, &c, 7, 1, 0, &found), RSK_SYN_ENDS_FOUND);
	rsk_syn_ends_fini(&s);
}

/* One process's are dropped with it, of all its ports, and no other's. */
Test(syn_ends, a_process_that_has_gone)
{
	struct rsk_rendezvous_table_end e = end_of(1, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	for (uint32_t i = 0; i < 30; i++) {
		e.process = 1 + i % 3;
		e.uid = i % 3 ? 1 : 2;
		e.cookie = 100 + i;
		e.tuple.local_port = (uint16_t)(4000 + i % 7);
		cr_assert_eq(look(&s, &e, 0, 0, 0, &found), 0);
	}
	rsk_syn_ends_gone(&s, 2, 1);
	cr_assert_eq(s.n, 20);
	rsk_syn_ends_gone(&s, 2, 1);
	cr_assert_eq(s.n, 20);
	rsk_syn_ends_gone(&s, 3, 1);
	rsk_syn_ends_gone(&s, 1, 2);
	cr_assert(!s.n && !s.users && !s.ports && !s.oldest);
	rsk_syn_ends_fini(&s);
}

/* Users without number, as one has who has a range of them. */
Test(syn_ends, few_of_one_port_in_all)
{
	struct rsk_rendezvous_table_end e = end_of(2, true);
	struct rsk_syn_ends s = { 0 };
	uint32_t found;

	nobody_else = true;
	for (uint32_t i = 0; i < 3 * RSK_SYN_ENDS_MOST_OF_PORT_IN_ALL; i++) {
		e.process = e.uid = e.cookie = 100 + i;
		cr_assert_eq(look(&s, &e, 0, 0, 0, &found), 0);
	}
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_PORT_IN_ALL);
	e.tuple.local_port++;
	e.cookie++;
	cr_assert_eq(look(&s, &e, 0, 0, 0, &found), 0);
	cr_assert_eq(s.n, RSK_SYN_ENDS_MOST_OF_PORT_IN_ALL + 1, "another port");
	rsk_syn_ends_fini(&s);
}
