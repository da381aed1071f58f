// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_measures.c - tests rules with conditions on the time and on measurements, and the
 * reasons of their refusals.
 */
#include <errno.h>
#include <math.h>

#include "dice.h"
#include "measures.h"
#include "pma_kit.h"

#define S 1000000000ull

static bool about(double a, double b)
{
	return fabs(a - b) < 0.01 * b;
}

Test(pma_measures, rate)
{
	struct rsk_rate r = { 0 };

	cr_assert(rsk_rate_now(&r, 5 * S) <= 0);
	for (uint64_t i = 0; i < 5000; i++)
		rsk_rate_note(&r, 1, 100 * S + i * S / 50);
	cr_assert(about(rsk_rate_now(&r, 200 * S), 50), "%f", r.per_s);
	/* One time constant later 1/e of it is left. */
	cr_assert(about(rsk_rate_now(&r, 200 * S + RSK_RATE_TIME_NS), 50 / M_E));
	/*
	 * A clock that goes back counts as one that stands still; later the rate goes on from where
	 * it was.
	 */
	cr_assert(about(rsk_rate_now(&r, 1), 50));
	rsk_rate_note(&r, 1, 1);
	cr_assert(about(rsk_rate_now(&r, 200 * S), 50.1));
	rsk_rate_note(&r, 300, 200 * S);
	cr_assert(about(rsk_rate_now(&r, 200 * S), 80.1));
	cr_assert(rsk_rate_now(&r, UINT64_MAX) < 1e-9);
}

Test(pma_measures, mean)
{
	struct rsk_mean m = { 0 };

	for (unsigned int i = 1; i < RSK_MEAN_LEAST; i++) {
		rsk_mean_note(&m, i);
		cr_assert(rsk_mean_of(&m) < 0, "%u are too few", i);
	}
	rsk_mean_note(&m, RSK_MEAN_LEAST);
	cr_assert(about(rsk_mean_of(&m), (1 + RSK_MEAN_LEAST) / 2.0));
	for (unsigned int i = 0; i < 1000; i++)
		rsk_mean_note(&m, 7);
	cr_assert(about(rsk_mean_of(&m), 7));
	rsk_mean_note(&m, 7 + 64 * 3);
	cr_assert(about(rsk_mean_of(&m), 10));
}

/* ---- the time ---- */

static const char timed[] =
	"rnics: [{name: x, addresses: [10.1.0.1]}]\n"
	"services: [{name: s, ports: ['1']}, {name: t, ports: ['2']}]\n"
	"rules:\n"
	"  - {name: work, when: {services: [s], time: ['mon-fri 08:00-18:00']}}\n"
	"  - {name: night, when: {services: [t], time: ['22:00-06:00']}}\n";

static unsigned int at(unsigned int day, unsigned int hour, unsigned int minute)
{
	return day * 24 * 60 + hour * 60 + minute;
}

static enum rsk_pma_verdict verdict_at(struct rsk_pma *a, unsigned int minute, uint16_t port)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.1", "10.1.0.1", port);

	rsk_pma_time_set(a, minute);
	return pma_explain(a, &q).verdict;
}

Test(pma_measures, time)
{
	struct rsk_pma *a = pma_of(timed);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.1", "10.1.0.1", 1);

	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_RULE);
	pma_says("rule work: does not hold: time: it is not known\n");
	cr_assert_eq(verdict_at(a, at(0, 7, 59), 1), RSK_PMA_NO_RULE);
	pma_says("rule work: does not hold: time: it is mon 07:59\n");
	cr_assert_eq(verdict_at(a, at(0, 8, 0), 1), RSK_PMA_MAP);
	cr_assert_eq(verdict_at(a, at(4, 17, 59), 1), RSK_PMA_MAP);
	cr_assert_eq(verdict_at(a, at(4, 18, 0), 1), RSK_PMA_NO_RULE);
	cr_assert_eq(verdict_at(a, at(5, 12, 0), 1), RSK_PMA_NO_RULE);
	pma_says("time: it is sat 12:00\n");
	cr_assert_eq(verdict_at(a, at(6, 23, 0), 2), RSK_PMA_MAP);
	cr_assert_eq(verdict_at(a, at(0, 5, 59), 2), RSK_PMA_MAP);
	cr_assert_eq(verdict_at(a, at(0, 6, 0), 2), RSK_PMA_NO_RULE);
	/* No such minute. */
	cr_assert_eq(verdict_at(a, 7 * 24 * 60, 2), RSK_PMA_NO_RULE);
	pma_says("time: it is not known\n");
	rsk_pma_free(a);
}

/*
 * A clock that jumps back and forth, by weeks or to an invalid value: each decision follows its
 * minute, existing reservations are not touched, and all of them can be given back.
 */
Test(pma_measures, a_clock_that_jumps)
{
	struct rsk_pma *a = pma_of(timed);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.1", "10.1.0.1", 1);
	uint64_t held[64] = { 0 }, dice = dice_seed("pma_measures"), n = 0;

	for (int i = 0; i < 20000; i++) {
		unsigned int minute = (unsigned int)(dice_roll(&dice) % (8 * 24 * 60));
		bool open = minute < at(5, 0, 0) && minute % 1440 >= 480 && minute % 1440 < 1080;
		uint64_t *slot = &held[dice_roll(&dice) % 64];
		struct rsk_pma_answer out;

		/*
		 * The monotonic clock stands still, jumps ahead, and goes back, which it never
		 * should.
		 */
		q.now_ns = dice_roll(&dice) >> dice_roll(&dice) % 64;
		rsk_pma_time_set(a, minute);
		q.held = *slot;
		rsk_pma_decide(a, &q, &out);
		cr_assert_eq(out.verdict, open ? RSK_PMA_MAP : RSK_PMA_NO_RULE, "minute %u",
			     minute);
		n += open && !*slot;
		if (open)
			*slot = out.reservation;
		else if (*slot && dice_roll(&dice) % 2) {
			rsk_pma_release(a, *slot);
			*slot = 0;
			n--;
		}
		cr_assert_eq(pma_view(a, "x").sessions, n);
	}
	for (int i = 0; i < 64; i++)
		rsk_pma_release(a, held[i]);
	cr_assert_eq(pma_view(a, "x").sessions, 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* ---- measurements ---- */

static const char measured[] =
	"rnics: [{name: x, addresses: [10.1.0.1], sessions: 100}]\n"
	"services: [{name: s, ports: ['1-9']}, {name: t, ports: ['10']}, "
	"{name: u, ports: ['11']}]\n"
	"rules:\n"
	"  - {name: calm, when: {services: [t], transactions-per-second-below: 2}}\n"
	"  - {name: busy, when: {services: [u], transactions-per-second-at-least: 2}}\n"
	"  - {name: pays, when: {services: [s], rtt-below: 200us, stream-bytes-at-least: 10000,\n"
	"     load-below: 0.5, device-sessions-below: 50}}\n";

static void carry(struct rsk_pma *a, uint32_t uid, enum rsk_pma_side side, uint16_t port,
		  uint64_t n)
{
	cr_assert_eq(rsk_pma_transactions(a, uid, side, port, n, 77 * S), 0);
}

/* What streams have carried counts, by user and side; how often was asked does not. */
Test(pma_measures, transactions)
{
	struct rsk_pma *a = pma_of(measured);
	struct rsk_pma_question t = pma_question(RSK_PMA_AP, "10.0.0.1", "10.1.0.1", 10), u = t;
	struct rsk_pma_service_view v[3];

	u.ap_port = 11;
	t.uid = u.uid = 1000;
	t.now_ns = u.now_ns = 77 * S;
	cr_assert_eq(rsk_pma_services(a, t.now_ns, v, 3), 0);
	for (int i = 0; i < 40; i++)
		rsk_pma_release(a, pma_ask(a, &t).reservation);
	cr_assert_eq(rsk_pma_services(a, t.now_ns, v, 3), 1);
	cr_assert(about(v[0].decisions_per_s[RSK_PMA_AP], 4) && !v[0].n_users);
	cr_assert_eq(pma_explain(a, &t).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_explain(a, &u).verdict, RSK_PMA_NO_RULE);

	/* Time constant: ten seconds. */
	cr_assert_eq(rsk_pma_transactions(a, 1000, RSK_PMA_AP, 12, 1000, 77 * S), -ENOENT);
	for (int i = 0; i < 3; i++) {
		carry(a, 1000, RSK_PMA_AP, (uint16_t[]){ 10, 11, 11 }[i], 10);
		carry(a, 1001, RSK_PMA_AP, 10, 1000);
		carry(a, RSK_PMA_NOBODY, RSK_PMA_AP, 10, 1000);
		carry(a, 0, RSK_PMA_CP, 10, 1000);
	}
	cr_assert_eq(pma_explain(a, &t).verdict, RSK_PMA_MAP, "others, and another side, too");
	cr_assert_eq(pma_explain(a, &u).verdict, RSK_PMA_MAP);
	carry(a, 0, RSK_PMA_AP, 10, 10);
	cr_assert_eq(pma_explain(a, &t).verdict, RSK_PMA_NO_RULE);
	pma_says("rule calm: does not hold: transactions-per-second-below 2: the service has 2\n");
	cr_assert_eq(rsk_pma_services(a, t.now_ns, v, 1), 2);
	cr_assert_eq(strcmp(v[0].name, "t"), 0);
	cr_assert_eq(v[0].n_users, 3);
	cr_assert(v[0].of[0].uid == 0 && v[0].of[0].stream_bytes < 0);
	cr_assert(about(v[0].of[0].transactions_per_s[RSK_PMA_CP], 300));
	cr_assert(about(v[0].of[0].transactions_per_s[RSK_PMA_AP], 1));
	/* A reload of the configuration changes nothing. */
	cr_assert_eq(rsk_pma_reload(a, pma_conf(measured)), 0);
	cr_assert_eq(pma_explain(a, &t).verdict, RSK_PMA_NO_RULE);
	t.now_ns = u.now_ns += 8 * S;
	cr_assert_eq(pma_ask(a, &t).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_explain(a, &u).verdict, RSK_PMA_NO_RULE);
	pma_says("rule busy: does not hold: transactions-per-second-at-least 2: "
		 "the service has 0.898658\n");
	/* A user of another node is not our user. */
	u.now_ns = 77 * S;
	u.elsewhere = true;
	cr_assert_eq(pma_explain(a, &u).verdict, RSK_PMA_NO_RULE);
	rsk_pma_free(a);
}

/* A question that is repeated is one decision, however often. */
Test(pma_measures, asked_again_is_not_counted)
{
	struct rsk_pma *a = pma_of(measured);
	struct rsk_pma_question t = pma_question(RSK_PMA_AP, "10.0.0.1", "10.1.0.1", 10);

	for (int i = 0; i < 100; i++) {
		t.held = pma_ask(a, &t).reservation;
		cr_assert_neq(t.held, 0);
	}
	cr_assert_eq(pma_view(a, "x").sessions, 1);
	rsk_pma_free(a);
}

static void end_streams_of(struct rsk_pma *a, uint32_t uid, int n, uint64_t bytes)
{
	for (int i = 0; i < n; i++)
		cr_assert_eq(rsk_pma_measured(a, uid, 3, bytes), 0);
}

static void end_streams(struct rsk_pma *a, int n, uint64_t bytes)
{
	end_streams_of(a, 0, n, bytes);
}

/*
 * What a user reports of their streams affects no other user; root's report applies to users who
 * have reported nothing.
 */
Test(pma_measures, one_users_word)
{
	struct rsk_pma *a = pma_of(measured);
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.1", 1);
	struct rsk_pma_service_view v[3];

	end_streams_of(a, 1001, 64, 1);
	end_streams_of(a, RSK_PMA_NOBODY, 64, 1);
	for (uint32_t i = 0; i < 4; i++) {
		q.uid = (const uint32_t[]){ 1000, 1001, 0, RSK_PMA_NOBODY }[i];
		cr_assert_eq(pma_explain(a, &q).verdict,
			     q.uid == 1001 ? RSK_PMA_NOT_WORTH : RSK_PMA_MAP, "user %u", q.uid);
	}
	end_streams(a, 64, 9000);
	end_streams_of(a, 1000, 64, UINT64_MAX);
	for (uint32_t i = 0; i < 4; i++) {
		q.uid = (const uint32_t[]){ 1000, 1001, 1002, RSK_PMA_NOBODY }[i];
		cr_assert_eq(pma_explain(a, &q).verdict,
			     q.uid == 1000 ? RSK_PMA_MAP : RSK_PMA_NOT_WORTH, "user %u", q.uid);
	}
	/* A user of another node with the same number is another user. */
	q.uid = 1000;
	q.elsewhere = true;
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NOT_WORTH);
	q.elsewhere = false;
	cr_assert_eq(rsk_pma_services(a, S, v, 3), 1);
	cr_assert_eq(v[0].n_users, 3);
	/* More users than there is room for: the table does not grow, and root's entry stays. */
	for (uint32_t uid = 2000; uid < 2000 + 2 * RSK_MEASURES_USERS; uid++)
		end_streams_of(a, uid, RSK_MEAN_LEAST, 1);
	cr_assert_eq(rsk_pma_services(a, S, v, 3), 1);
	cr_assert_eq(v[0].n_users, RSK_MEASURES_USERS);
	cr_assert(v[0].of[0].uid == 0 && about(v[0].of[0].stream_bytes, 9000));
	rsk_pma_free(a);
}

Test(pma_measures, not_worth_it)
{
	struct rsk_pma *a = pma_of(measured);
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.1", 1);

	/* Nothing is known: no condition speaks against it. */
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	q.rtt_us = 199;
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	q.rtt_us = 200;
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NOT_WORTH);
	pma_says("rule pays: does not hold: rtt-below 200 us: the way to the peer takes 200 us\n");
	pma_says("answer: do not map: it would not pay, by what is measured\n");
	q.rtt_us = 0;
	end_streams(a, RSK_MEAN_LEAST - 1, 9000);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	end_streams(a, 1, 9000);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NOT_WORTH);
	pma_says("rule pays: does not hold: stream-bytes-at-least 10000: "
		 "the service's streams have 9000\n");
	cr_assert_eq(rsk_pma_reload(a, pma_conf(measured)), 0);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NOT_WORTH);
	/*
	 * Both of these conditions fail, with the same reason; then another one fails too, which
	 * changes it.
	 */
	q.rtt_us = 1000000;
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NOT_WORTH);
	rsk_pma_load_set(a, 0.6);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_RULE);
	rsk_pma_load_set(a, 0);
	/* Streams grow; the condition holds again. */
	q.rtt_us = 1;
	end_streams(a, 64, 20000);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	rsk_pma_load_set(a, 0.6);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_OVERLOAD);
	cr_assert_eq(rsk_pma_measured(a, 0, 99, 1), -ENOENT);
	rsk_pma_free(a);
}

/*
 * The rule that came nearest to holding gives the reason; a refusal names no rule unless one came
 * near.
 */
Test(pma_measures, reasons_in_order)
{
	struct rsk_pma *a =
		pma_of("rnics: [{name: x, addresses: [10.1.0.1], sessions: 1}]\n"
		       "services: [{name: s, ports: ['1']}]\n"
		       "rules:\n"
		       "  - {name: far, when: {rtt-at-least: 1ms}}\n"
		       "  - {name: near, when: {rtt-below: 100us, device-sessions-below: 9}}\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.1", 1);
	struct rsk_pma_answer out;

	q.rtt_us = 500;
	out = pma_ask(a, &q);
	cr_assert(out.verdict == RSK_PMA_NOT_WORTH && strcmp(out.rule, "far") == 0);
	q.rtt_us = 2000;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_EXHAUSTED);
	q.rtt_us = 500;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NOT_WORTH);
	rsk_pma_free(a);
}
