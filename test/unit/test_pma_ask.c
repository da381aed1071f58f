// SPDX-License-Identifier: BSD-2-Clause
/* test_pma_ask.c - tests a local policy agent's questions to the central agent, and its leases. */
#include "pma_link_kit.h"

/* Initialises a machine that is registered with its central agent. */
static void meet(struct rsk_ask *a, uint64_t now)
{
	rsk_ask_init(a, &pma_link_config);
	cr_assert_eq(next(a, now), RSK_ASK_REPORT);
	cr_assert(resume && last && n_items == 0);
	rsk_ask_hold(a, 1000 * MS);
	rsk_ask_answered(a, NULL, NULL, 0, now);
	cr_assert(a->known && !a->silent);
}

static void answer(struct rsk_ask *a, enum rsk_pma_verdict v, uint64_t lease_ns, uint64_t now)
{
	struct rsk_ask_answer answers[RSK_ASK_BATCH] = { 0 };
	uint64_t ids[RSK_ASK_BATCH];

	for (size_t i = 0; i < n_items; i++) {
		ids[i] = items[i].id;
		answers[i].verdict = v;
		answers[i].lease_ns = lease_ns;
	}
	rsk_ask_answered(a, ids, answers, n_items, now);
	cr_assert(rsk_ask_validate(a));
}

Test(pma_ask, a_lease_from_its_question_to_its_end)
{
	const struct rsk_ask_answer *said;
	struct rsk_ask_key key = key_of(80), other = key_of(81);
	struct rsk_ask a;
	struct asker w = { .a = &a, .local = 5 };
	uint64_t id;

	meet(&a, 0);
	cr_assert_eq(rsk_ask_find(&a, &key, MS, &id, &said), RSK_ASK_UNKNOWN);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, MS), 0);
	cr_assert_eq(next(&a, MS), RSK_ASK_DECIDE);
	cr_assert_eq(n_items, 1);
	cr_assert_eq(next(&a, MS), RSK_ASK_NOTHING, "one message at a time");
	n_items = 1; /* which is still under way */
	answer(&a, RSK_PMA_MAP, 20 * MS, 2 * MS);
	cr_assert(w.told == 1 && a.held == 1);
	rsk_ask_confirmed(&a, 5);
	cr_assert_eq(next(&a, 3 * MS), RSK_ASK_CONFIRM);
	rsk_ask_answered(&a, NULL, NULL, 0, 3 * MS);
	rsk_ask_released(&a, 5, 4 * MS);
	cr_assert(a.held == 0 && a.idle == 1);
	cr_assert_eq(next(&a, 4 * MS), RSK_ASK_NOTHING, "it is kept");
	cr_assert_eq(rsk_ask_find(&a, &other, 5 * MS, &id, &said), RSK_ASK_UNKNOWN);
	cr_assert_eq(rsk_ask_find(&a, &key, 5 * MS, &id, &said), RSK_ASK_LEASE);
	rsk_ask_bind(&a, id, 6);
	cr_assert_eq(rsk_ask_find(&a, &key, 5 * MS, &id, &said), RSK_ASK_UNKNOWN, "one at a time");
	rsk_ask_moved(&a, 6, 7);
	rsk_ask_released(&a, 7, 6 * MS);
	rsk_ask_tick(&a, 30 * MS);
	cr_assert_eq(next(&a, 30 * MS), RSK_ASK_RELEASE);
	cr_assert_eq(items[0].id, w.id);
	rsk_ask_answered(&a, NULL, NULL, 0, 30 * MS);
	cr_assert(!a.by_id && a.count.asked == 1 && a.count.leased == 1);
	rsk_ask_fini(&a);
}

Test(pma_ask, a_refusal_that_may_be_kept)
{
	const struct rsk_ask_answer *said;
	struct rsk_ask_key key = key_of(80);
	struct rsk_ask a;
	struct asker w = { .a = &a };
	uint64_t id;

	meet(&a, 0);
	for (int i = 0; i < 2; i++) { /* first valid for this question only, then for a while */
		cr_assert_eq(rsk_ask_find(&a, &key, MS, &id, &said), RSK_ASK_UNKNOWN);
		cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, MS), 0);
		next(&a, MS);
		answer(&a, RSK_PMA_LIMIT, i ? 10 * MS : 0, MS);
		cr_assert(w.told == i + 1 && w.verdict == RSK_PMA_LIMIT);
	}
	cr_assert_eq(rsk_ask_find(&a, &key, 2 * MS, &id, &said), RSK_ASK_REFUSAL);
	cr_assert_eq(said->verdict, RSK_PMA_LIMIT);
	cr_assert_eq(rsk_ask_find(&a, &key, 20 * MS, &id, &said), RSK_ASK_UNKNOWN);
	rsk_ask_fini(&a);
}

Test(pma_ask, no_answer_in_time)
{
	struct rsk_ask_key key = key_of(80);
	struct rsk_ask a;
	struct asker w = { .a = &a, .local = 5 }, late = { .a = &a };

	meet(&a, 0);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, MS), 0);
	cr_assert_eq(next(&a, MS), RSK_ASK_DECIDE);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &late, MS), 0);
	rsk_ask_tick(&a, 200 * MS);
	cr_assert(w.told == 1 && w.verdict == RSK_PMA_UNHEARD && late.told == 1);
	w.local = 0;
	answer(&a, RSK_PMA_MAP, 0, 201 * MS);
	cr_assert(w.told == 1 && a.n_ending == 1, "what came too late is given back");
	/*
	 * A message fails: its question may have been granted, so it is given back by its number;
	 * no more questions are sent.
	 */
	next(&a, 202 * MS); /* a report */
	rsk_ask_answered(&a, NULL, NULL, 0, 202 * MS);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, 203 * MS), 0);
	cr_assert_eq(next(&a, 203 * MS), RSK_ASK_DECIDE);
	rsk_ask_failed(&a, 204 * MS);
	cr_assert(w.told == 2 && a.n_ending == 2 && a.silent && a.questions == 0);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, 205 * MS), -EHOSTDOWN);
	cr_assert_eq(next(&a, 205 * MS), RSK_ASK_NOTHING);
	cr_assert_eq(next(&a, 260 * MS), RSK_ASK_REPORT);
	cr_assert(!resume, "it may have forgotten nothing");
	rsk_ask_answered(&a, NULL, NULL, 0, 260 * MS);
	cr_assert_eq(next(&a, 261 * MS), RSK_ASK_RELEASE);
	cr_assert_eq(n_items, 2);
	rsk_ask_fini(&a);
}

Test(pma_ask, bounds)
{
	struct rsk_ask_key key = key_of(80);
	struct asker w[8];
	struct rsk_ask a;

	meet(&a, 0);
	for (int i = 0; i < 8; i++) {
		w[i] = (struct asker){ .a = &a, .local = 100u + (unsigned int)i };
		cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w[i], MS), i < 4 ? 0 : -EBUSY);
	}
	next(&a, MS);
	answer(&a, RSK_PMA_MAP, 900 * MS, MS);
	for (int i = 0; i < 4; i++)
		rsk_ask_released(&a, w[i].local, 2 * MS);
	cr_assert(a.idle == 3 && a.n_ending == 1, "so many are kept");
	rsk_ask_fini(&a);
}

Test(pma_ask, what_is_kept_is_no_good_once_the_central_may_have_given_it_to_others)
{
	const struct rsk_ask_answer *said;
	struct rsk_ask_key key = key_of(80);
	struct rsk_ask a;
	struct asker w = { .a = &a, .local = 5 };
	uint64_t id;

	meet(&a, 0);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w, MS), 0);
	next(&a, MS);
	answer(&a, RSK_PMA_MAP, 100000 * MS, MS);
	rsk_ask_released(&a, 5, MS);
	cr_assert_eq(rsk_ask_find(&a, &key, 999 * MS, &id, &said), RSK_ASK_LEASE);
	rsk_ask_give_up(&a, id, 999 * MS);
	cr_assert_eq(rsk_ask_find(&a, &key, 1000 * MS, &id, &said), RSK_ASK_UNKNOWN);
	rsk_ask_fini(&a);
}

Test(pma_ask, a_central_that_does_not_know_us)
{
	enum {
		MANY = 150
	};
	struct rsk_ask_config many = pma_link_config;
	struct rsk_ask_key key = key_of(80);
	static struct asker w[MANY + 1];
	struct rsk_ask a;
	size_t told = 0;

	meet(&a, 0);
	many.max_questions = MANY + 1;
	a.config = many;
	for (size_t i = 0; i < MANY; i++) {
		w[i] = (struct asker){ .a = &a, .local = i + 1 };
		cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w[i], MS), 0);
	}
	while (next(&a, MS) == RSK_ASK_DECIDE)
		answer(&a, RSK_PMA_MAP, 900 * MS, MS);
	rsk_ask_released(&a, 1, MS);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w[MANY], MS), 0);
	cr_assert_eq(next(&a, MS), RSK_ASK_DECIDE);
	rsk_ask_unknown(&a, 2 * MS);
	cr_assert(a.idle == 0 && a.questions == 1, "kept ones are gone, the question stays");
	/*
	 * The first part arrives, the next does not: all of it is sent again, perhaps to a new
	 * incarnation of the central agent.
	 */
	cr_assert_eq(next(&a, 2 * MS), RSK_ASK_REPORT);
	rsk_ask_answered(&a, NULL, NULL, 0, 2 * MS);
	cr_assert_eq(next(&a, 2 * MS), RSK_ASK_REPORT);
	cr_assert(a.part == 1 && n_items == RSK_ASK_BATCH);
	rsk_ask_failed(&a, 2 * MS);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w[MANY], 2 * MS), -EHOSTDOWN);
	for (uint64_t t = 100; next(&a, t * MS) == RSK_ASK_REPORT; t++) {
		cr_assert_eq(a.part, t - 100);
		cr_assert(resume && n_items <= RSK_ASK_BATCH);
		told += n_items;
		/*
		 * Meanwhile one ends that is being reported, and one that has not been reported
		 * yet.
		 */
		if (t == 100) {
			rsk_ask_released(&a, 2, 2 * MS);
			rsk_ask_released(&a, MANY, 2 * MS);
		}
		rsk_ask_answered(&a, NULL, NULL, 0, t * MS);
		if (last)
			break;
	}
	cr_assert(a.idle == 0 && a.n_ending == 2,
		  "not kept: the central agent may not know of them");
	cr_assert_eq(told, MANY - 2, "all but what had ended before");
	cr_assert(a.known);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &w[MANY], 110 * MS), 0);
	cr_assert_eq(next(&a, 110 * MS), RSK_ASK_DECIDE, "and then it is asked again");
	rsk_ask_fini(&a);
}

/* Asked for a key, with an answer that the central agent may keep for so long. */
static void hold(struct rsk_ask *a, struct asker *w, uint16_t port, uint64_t now)
{
	struct rsk_ask_key key = key_of(port);

	cr_assert_eq(rsk_ask_start(a, &key, on_said, w, now), 0);
	cr_assert_eq(next(a, now), RSK_ASK_DECIDE);
	answer(a, RSK_PMA_MAP, 1000 * MS, now);
}

Test(pma_ask, another_agent_is_asked)
{
	struct rsk_ask_key one = key_of(80), two = key_of(81), three = key_of(82);
	struct rsk_ask a;
	struct asker held = { .a = &a, .local = 5 }, idle = { .a = &a, .local = 6 };
	struct asker sent = { .a = &a, .local = 7 }, queued = { .a = &a }, late = { .a = &a };
	const struct rsk_ask_answer *said;
	uint64_t id;

	meet(&a, 0);
	hold(&a, &held, 90, MS);
	hold(&a, &idle, 91, MS);
	rsk_ask_released(&a, 6, MS);
	cr_assert(a.held == 1 && a.idle == 1);
	cr_assert_eq(next(&a, 51 * MS), RSK_ASK_REPORT);
	rsk_ask_answered(&a, NULL, NULL, 0, 51 * MS);
	cr_assert_eq(rsk_ask_start(&a, &three, on_said, &late, 51 * MS), 0);
	cr_assert_eq(rsk_ask_start(&a, &one, on_said, &sent, 60 * MS), 0);
	cr_assert_eq(next(&a, 60 * MS), RSK_ASK_DECIDE);
	cr_assert_eq(n_items, 2);
	rsk_ask_tick(&a, 155 * MS); /* the first one's asker does not wait any more */
	cr_assert(late.told == 1 && late.verdict == RSK_PMA_UNHEARD && !sent.told);
	cr_assert_eq(rsk_ask_start(&a, &two, on_said, &queued, 155 * MS), 0);
	rsk_ask_turn(&a, 8, 156 * MS);
	cr_assert(rsk_ask_validate(&a) && !a.silent && !a.known && a.count.turns == 1);
	cr_assert(a.held == 1 && !a.idle && !a.n_ending && a.questions == 2, "nothing is owed");
	one = key_of(91);
	cr_assert_eq(rsk_ask_find(&a, &one, 157 * MS, &id, &said), RSK_ASK_UNKNOWN);
	/* It is told what is held, and then asked what is open, in order. */
	cr_assert_eq(next(&a, 157 * MS), RSK_ASK_REPORT);
	cr_assert(resume && last && n_items == 1 && items[0].id == held.id && a.config.boot == 8);
	rsk_ask_hold(&a, 1000 * MS);
	rsk_ask_answered(&a, NULL, NULL, 0, 157 * MS);
	cr_assert_eq(next(&a, 157 * MS), RSK_ASK_DECIDE);
	cr_assert(n_items == 2 && items[0].key.ap_port == 80 && items[1].key.ap_port == 81);
	answer(&a, RSK_PMA_MAP, 0, 158 * MS);
	cr_assert(sent.told == 1 && queued.told == 1 && late.told == 1, "once each");
	cr_assert(a.held == 2 && a.n_ending == 1);
	rsk_ask_fini(&a);
}

Test(pma_ask, nobody_to_ask)
{
	struct rsk_ask_key key = key_of(80);
	struct rsk_ask a;
	struct asker held = { .a = &a, .local = 5 }, open = { .a = &a };

	meet(&a, 0);
	hold(&a, &held, 90, MS);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &open, 2 * MS), 0);
	cr_assert_eq(next(&a, 2 * MS), RSK_ASK_DECIDE);
	rsk_ask_turn(&a, 0, 3 * MS);
	cr_assert(open.told == 1 && open.verdict == RSK_PMA_UNHEARD && a.silent && a.held == 1);
	cr_assert_eq(rsk_ask_start(&a, &key, on_said, &open, 4 * MS), -EHOSTDOWN);
	rsk_ask_changed(&a, 5 * MS);
	cr_assert_eq(rsk_ask_next(&a), UINT64_MAX);
	cr_assert_eq(next(&a, 3600000 * MS), RSK_ASK_NOTHING, "no report goes nowhere");
	rsk_ask_turn(&a, 9, 3600001 * MS);
	cr_assert_eq(next(&a, 3600001 * MS), RSK_ASK_REPORT);
	cr_assert(resume && n_items == 1);
	rsk_ask_fini(&a);
}
