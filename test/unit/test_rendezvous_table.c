// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rendezvous_table.c - tests the rendezvous table: an end that looks up its peer finds it,
 * once; nothing of a process outlives it; the number of waiting ends is bounded.
 */
#include "rendezvous_table.h"

#include "dice.h"

#define NOW 1000000000u

/* One end of connection @conn; the two ends mirror each other. */
static struct rsk_rendezvous_table_end end_of(uint32_t conn, bool connecting, uint32_t process)
{
	struct rsk_rendezvous_table_end e = { .cookie = (uint64_t)conn * 2 + connecting,
					      .process = process,
					      .fd = (int32_t)(conn % 1000),
					      .connecting = connecting };

	e.tuple = (struct rsk_tuple){ .netns = 1, .local_port = 80, .family = AF_INET };
	memcpy(e.tuple.local, "\x0a\0\0\1", 4);
	memcpy(e.tuple.peer, "\x0a\0\0\2", 4);
	memcpy(e.tuple.peer + 1, &conn, 3);
	e.tuple.peer_port = (uint16_t)(conn % 65535 + 1);
	if (connecting)
		e.tuple = rsk_tuple_mirror(&e.tuple);
	return e;
}

static bool same_end(const struct rsk_rendezvous_table_end *a,
		     const struct rsk_rendezvous_table_end *b)
{
	return !memcmp(&a->tuple, &b->tuple, sizeof(a->tuple)) && a->cookie == b->cookie &&
	       a->process == b->process && a->fd == b->fd && a->connecting == b->connecting;
}

/* Looks up the peer, and validates the table. */
static int look_up(struct rsk_rendezvous_table *m, struct rsk_rendezvous_table_end e, uint64_t now,
		   struct rsk_rendezvous_table_end *other)
{
	int rc = rsk_rendezvous_table_lookup(m, &e, now, other);

	cr_assert(rsk_rendezvous_table_validate(m));
	return rc;
}

static bool waits(const struct rsk_rendezvous_table *m, struct rsk_rendezvous_table_end e)
{
	return rsk_rendezvous_table_waits(m, &e.tuple);
}

static void add_up(void *ctx, const struct rsk_rendezvous_table_end *end)
{
	*(uint64_t *)ctx += end->cookie;
}

Test(meeting, all_ends_of_a_process)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other;
	uint64_t sum = 0;

	rsk_rendezvous_table_each(&m, 1, add_up, &sum);
	cr_assert_eq(sum, 0);
	for (uint32_t conn = 1; conn <= 3; conn++)
		look_up(&m, end_of(conn, false, 1), NOW, &other);
	look_up(&m, end_of(50, false, 2), NOW, &other);
	look_up(&m, end_of(2, true, 3), NOW, &other); /* has found its peer: neither waits */
	rsk_rendezvous_table_each(&m, 1, add_up, &sum);
	cr_assert_eq(sum, 2 + 6);
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, two_ends_meet_once)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other;

	for (int first = 0; first < 2; first++) {
		cr_assert_eq(look_up(&m, end_of(7, first, 1), NOW, &other), 0);
		cr_assert_eq(rsk_rendezvous_table_count(&m), 1);
		cr_assert(waits(&m, end_of(7, first, 1)) && !waits(&m, end_of(7, !first, 2)));
		cr_assert_eq(look_up(&m, end_of(7, !first, 2), NOW, &other), 1);
		cr_assert_eq(other.process, 1);
		cr_assert_eq(other.cookie, 14u + (uint64_t)first);
		cr_assert_eq(other.connecting, first);
		cr_assert_eq(rsk_rendezvous_table_count(&m), 0, "neither waits any more");
		cr_assert_eq(look_up(&m, end_of(7, !first, 2), NOW, &other), 0, "a second time");
		cr_assert_eq(look_up(&m, end_of(7, first, 1), NOW, &other), 1);
	}
	cr_assert_eq(m.met, 4);
	cr_assert_null(m.of, "nothing is kept of a process that nothing is left of");
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, not_everything_that_mirrors_meets)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other, odd = end_of(7, false, 2);

	cr_assert_eq(look_up(&m, end_of(7, true, 1), NOW, &other), 0);
	cr_assert_eq(look_up(&m, end_of(8, false, 2), NOW, &other), 0, "another connection");
	odd.tuple.netns = 2;
	cr_assert_eq(look_up(&m, odd, NOW, &other), 0, "another network namespace");
	odd = end_of(7, false, 2);
	odd.tuple.family = AF_INET6;
	cr_assert_eq(look_up(&m, odd, NOW, &other), 0, "another family");
	odd = end_of(7, false, 2);
	odd.connecting = true;
	cr_assert_eq(look_up(&m, odd, NOW, &other), 0, "both say that they connected");
	cr_assert_eq(look_up(&m, end_of(7, false, 1), NOW, &other), 0, "one process has both ends");
	/*
	 * The scope is not part of the key: the ends of a link-local connection have different
	 * ones.
	 */
	odd = end_of(7, false, 2);
	odd.tuple.scope = 9;
	cr_assert_eq(look_up(&m, odd, NOW, &other), 1);
	cr_assert_eq(other.process, 1);
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, the_newest_word_of_a_tuple_counts)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other, again = end_of(7, true, 3);

	again.cookie = 99;
	cr_assert_eq(look_up(&m, end_of(7, true, 1), NOW, &other), 0);
	cr_assert_eq(look_up(&m, again, NOW + 1, &other), 0);
	cr_assert_eq(rsk_rendezvous_table_count(&m), 1);
	cr_assert_eq(rsk_rendezvous_table_waits(&m, &again.tuple)->cookie, 99);
	rsk_rendezvous_table_gone(&m, 1);
	cr_assert(rsk_rendezvous_table_validate(&m));
	cr_assert_eq(look_up(&m, end_of(7, false, 2), NOW, &other), 1,
		     "the first one's end is no loss");
	cr_assert_eq(other.cookie, 99);
	cr_assert_eq(other.process, 3);
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, links_are_of_a_pair)
{
	struct rsk_rendezvous_table m = { 0 };

	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 2), 0);
	cr_assert_eq(rsk_rendezvous_table_link_set(&m, 2, 1, 77), 0);
	cr_assert_eq(rsk_rendezvous_table_link_set(&m, 2, 3, 78), 0);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 2), 77);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 2, 1), 77);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 3), 0);
	cr_assert_eq(rsk_rendezvous_table_link_set(&m, 1, 2, 79), 0, "again: it is replaced");
	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 2), 79);
	cr_assert(rsk_rendezvous_table_validate(&m));
	rsk_rendezvous_table_link_lost(&m, 1, 77);
	rsk_rendezvous_table_link_lost(&m, 3, 79);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 2), 79,
		     "neither a former one, nor by somebody else");
	rsk_rendezvous_table_link_lost(&m, 2, 79);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 1, 2), 0);
	cr_assert(rsk_rendezvous_table_validate(&m));
	rsk_rendezvous_table_gone(&m, 3);
	cr_assert_eq(rsk_rendezvous_table_link(&m, 2, 3), 0);
	cr_assert(rsk_rendezvous_table_validate(&m));
	cr_assert_null(m.of);
	cr_assert_null(m.links);
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, a_process_pushes_out_its_own_oldest)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other;

	cr_assert_eq(look_up(&m, end_of(0, true, 9), NOW, &other), 0);
	for (uint32_t i = 1; i <= RSK_RENDEZVOUS_TABLE_MOST_OF_ONE; i++) {
		struct rsk_rendezvous_table_end e = end_of(i, true, 1);

		cr_assert_eq(rsk_rendezvous_table_lookup(&m, &e, NOW + i, &other), 0);
	}
	cr_assert_eq(m.pushed_out, 0);
	cr_assert_eq(look_up(&m, end_of(1, true, 1), NOW + 5000, &other), 0,
		     "the same again is no more");
	cr_assert_eq(m.pushed_out, 0);
	cr_assert_eq(look_up(&m, end_of(100000, true, 1), NOW + 5001, &other), 0);
	cr_assert_eq(m.pushed_out, 1);
	cr_assert(!waits(&m, end_of(2, true, 1)), "its oldest");
	cr_assert(waits(&m, end_of(1, true, 1)), "renewed, hence young");
	cr_assert(waits(&m, end_of(0, true, 9)), "another's is older, and stays");
	rsk_rendezvous_table_fini(&m);
}

Test(meeting, all_together_push_out_the_oldest)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other;
	uint32_t i;

	for (i = 0; i < RSK_RENDEZVOUS_TABLE_MOST; i++) {
		struct rsk_rendezvous_table_end e = end_of(i, true, 1 + i / 4000);

		cr_assert_eq(rsk_rendezvous_table_lookup(&m, &e, NOW + i, &other), 0);
	}
	cr_assert_eq(m.pushed_out, 0);
	cr_assert_eq(look_up(&m, end_of(i, true, 500), NOW + i, &other), 0);
	cr_assert_eq(m.pushed_out, 1);
	cr_assert_eq(rsk_rendezvous_table_count(&m), RSK_RENDEZVOUS_TABLE_MOST);
	cr_assert(!waits(&m, end_of(0, true, 1)) && waits(&m, end_of(1, true, 1)));
	rsk_rendezvous_table_fini(&m);
	cr_assert(rsk_rendezvous_table_validate(&m));
}

Test(meeting, what_waits_too_long_goes)
{
	struct rsk_rendezvous_table m = { 0 };
	struct rsk_rendezvous_table_end other;

	cr_assert_eq(look_up(&m, end_of(1, true, 1), NOW, &other), 0);
	cr_assert_eq(look_up(&m, end_of(2, true, 1), NOW + 5, &other), 0);
	cr_assert_eq(look_up(&m, end_of(3, true, 2), NOW + RSK_RENDEZVOUS_TABLE_WAIT_NS, &other),
		     0);
	cr_assert_eq(m.expired, 0);
	cr_assert_eq(look_up(&m, end_of(4, true, 3), NOW + RSK_RENDEZVOUS_TABLE_WAIT_NS + 1,
			     &other),
		     0);
	cr_assert_eq(m.expired, 1);
	cr_assert(!waits(&m, end_of(1, true, 1)) && waits(&m, end_of(2, true, 1)));
	cr_assert_eq(look_up(&m, end_of(5, true, 1), NOW + 3 * RSK_RENDEZVOUS_TABLE_WAIT_NS,
			     &other),
		     0);
	cr_assert_eq(m.expired, 4);
	cr_assert_eq(rsk_rendezvous_table_count(&m), 1);
	rsk_rendezvous_table_expire(&m, NOW + 4 * RSK_RENDEZVOUS_TABLE_WAIT_NS);
	cr_assert_eq(rsk_rendezvous_table_count(&m), 1);
	rsk_rendezvous_table_expire(&m, NOW + 4 * RSK_RENDEZVOUS_TABLE_WAIT_NS + 1);
	cr_assert_eq(rsk_rendezvous_table_count(&m), 0);
	cr_assert(rsk_rendezvous_table_validate(&m));
	rsk_rendezvous_table_fini(&m);
}

/* ---- against a plain oracle ---- */

#define CONNS 24u
#define PROCESSES 5u

struct oracle {
	bool there[CONNS][2];
	struct rsk_rendezvous_table_end end[CONNS][2];
	uint64_t since[CONNS][2];
	uint64_t link[PROCESSES + 1][PROCESSES + 1];
};

static void oracle_expire(struct oracle *o, uint64_t now)
{
	for (uint32_t c = 0; c < CONNS; c++)
		for (int k = 0; k < 2; k++)
			if (now - o->since[c][k] > RSK_RENDEZVOUS_TABLE_WAIT_NS)
				o->there[c][k] = false;
}

static void random_lookup(struct rsk_rendezvous_table *m, struct oracle *o, uint64_t *dice,
			  uint64_t now)
{
	uint32_t conn = (uint32_t)(dice_roll(dice) % CONNS);
	bool k = dice_roll(dice) & 1;
	struct rsk_rendezvous_table_end e = end_of(conn, k,
						   (uint32_t)(dice_roll(dice) % PROCESSES) + 1),
					other;
	const struct rsk_rendezvous_table_end *facing = &o->end[conn][!k];
	int rc = look_up(m, e, now, &other);

	if (o->there[conn][!k] && facing->process != e.process) {
		cr_assert_eq(rc, 1);
		cr_assert(same_end(&other, facing));
		o->there[conn][!k] = o->there[conn][k] = false;
		return;
	}
	cr_assert_eq(rc, 0);
	oracle_expire(o, now);
	o->there[conn][k] = true;
	o->end[conn][k] = e;
	o->since[conn][k] = now;
}

static void random_link(struct rsk_rendezvous_table *m, struct oracle *o, uint64_t *dice)
{
	uint32_t a = (uint32_t)(dice_roll(dice) % PROCESSES) + 1;
	uint32_t b = a % PROCESSES + 1;
	uint64_t link = dice_roll(dice) % 4 + 1;

	if (dice_roll(dice) & 1) {
		link = link << 8 | (a < b ? a : b) << 4 | (a < b ? b : a);
		cr_assert_eq(rsk_rendezvous_table_link_set(m, a, b, link), 0);
		o->link[a][b] = o->link[b][a] = link;
		return;
	}
	link = o->link[a][b];
	if (!link)
		return;
	rsk_rendezvous_table_link_lost(m, dice_roll(dice) & 1 ? a : b, link);
	o->link[a][b] = o->link[b][a] = 0;
}

static void random_gone(struct rsk_rendezvous_table *m, struct oracle *o, uint64_t *dice)
{
	uint32_t p = (uint32_t)(dice_roll(dice) % PROCESSES) + 1;

	rsk_rendezvous_table_gone(m, p);
	for (uint32_t c = 0; c < CONNS; c++)
		for (int k = 0; k < 2; k++)
			if (o->end[c][k].process == p)
				o->there[c][k] = false;
	for (uint32_t i = 1; i <= PROCESSES; i++)
		o->link[p][i] = o->link[i][p] = 0;
}

static void same(const struct rsk_rendezvous_table *m, const struct oracle *o)
{
	size_t n = 0;

	cr_assert(rsk_rendezvous_table_validate(m));
	for (uint32_t c = 0; c < CONNS; c++)
		for (int k = 0; k < 2; k++) {
			struct rsk_rendezvous_table_end e = end_of(c, k, 1);
			const struct rsk_rendezvous_table_end *is =
				rsk_rendezvous_table_waits(m, &e.tuple);

			cr_assert_eq(!!is, o->there[c][k], "connection %u, side %d", c, k);
			cr_assert(!is || same_end(is, &o->end[c][k]));
			n += o->there[c][k];
		}
	cr_assert_eq(rsk_rendezvous_table_count(m), n);
	for (uint32_t a = 1; a <= PROCESSES; a++)
		for (uint32_t b = 1; b <= PROCESSES; b++)
			if (a != b)
				cr_assert_eq(rsk_rendezvous_table_link(m, a, b), o->link[a][b]);
}

Test(meeting, as_an_oracle_says)
{
	uint64_t dice = dice_seed("meeting"), now = NOW, met = 0, expired = 0;

	for (int round = 0; round < 20; round++) {
		struct rsk_rendezvous_table m = { 0 };
		static struct oracle o;

		o = (struct oracle){ 0 };
		for (int step = 0; step < 2000; step++) {
			uint64_t what = dice_roll(&dice) % 100;

			/* Rarely a pause that is long enough for some to expire. */
			now += what == 99 ? RSK_RENDEZVOUS_TABLE_WAIT_NS / 2 :
					    dice_roll(&dice) % 1000;
			if (what < 70)
				random_lookup(&m, &o, &dice, now);
			else if (what < 92)
				random_link(&m, &o, &dice);
			else
				random_gone(&m, &o, &dice);
			same(&m, &o);
		}
		cr_assert_eq(m.pushed_out, 0);
		met += m.met;
		expired += m.expired;
		rsk_rendezvous_table_fini(&m);
		cr_assert_eq(rsk_rendezvous_table_count(&m), 0);
	}
	cr_assert(met > 1000 && expired > 10, "%" PRIu64 " met, %" PRIu64 " expired", met, expired);
}
