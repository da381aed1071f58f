// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_world.c - tests both machines of the port mapper against each other over networks of
 * every kind: no answer goes to another question, nothing is held for ever, and whatever is granted
 * is used or given back, once.
 */
#include "pm_world.h"

static const struct rsk_pmsp_config pmsp_default = RSK_PMSP_DEFAULT;
static const struct rsk_pm_client_config client_default = RSK_PM_CLIENT_DEFAULT;

static void something_happens(struct world *w)
{
	int ap = (int)world_roll(w, WORLD_APS), cp = (int)world_roll(w, WORLD_CPS);
	int service = (int)world_roll(w, WORLD_SERVICES);
	size_t q;

	switch (world_roll(w, 10)) {
	case 0:
		w->ap[ap].up[service] = !w->ap[ap].up[service];
		return;
	case 1:
		w->ap[ap].pm_time_s[service] = (uint8_t)(world_roll(w, 3) ? 0 : world_roll(w, 30));
		return;
	case 2:
		world_decide(w, ap);
		w->ap[ap].later = world_chance(w, 300);
		return;
	case 3:
		world_forge(w, ap);
		return;
	case 4:
	case 5:
		if (!w->n_questions)
			return;
		q = world_roll(w, w->n_questions < 32 ? w->n_questions : 32);
		q = w->n_questions - 1 - q;
		if (w->questions[q].outcome == RSK_PM_MAPPED)
			world_link(w, q, world_chance(w, 100));
		return;
	default:
		/* The same connection may be requested again, under another handle. */
		world_ask(w, cp, ap, service,
			  (uint16_t)(world_chance(w, 500) ? 0 : 40000 + world_roll(w, 8)));
	}
}

static void history(const char *name, const struct world_net *net, int events)
{
	struct rsk_pmsp_config pmsp = pmsp_default;
	uint64_t seed = dice_seed(name);
	struct world *w;

	pmsp.seed = seed;
	pmsp.max_open = 2048; /* all of them are checked after each event */
	w = world_new(seed, net, &pmsp, &client_default);
	for (int i = 0; i < events; i++) {
		something_happens(w);
		world_run(w, world_roll(w, 200000000));
	}
	world_settle(w);
	cr_assert_gt(w->links, 0);
	printf("%s: %zu questions, %zu grants, %lu links, %lu refused, %lu faults\n", name,
	       w->n_questions, w->n_grants, (unsigned long)w->links,
	       (unsigned long)w->links_refused, (unsigned long)w->faults);
	world_free(w);
}

Test(pm_world, a_good_network)
{
	history("good", &(struct world_net){ .delay_ns = 1000000 }, 2000);
}

Test(pm_world, one_that_loses)
{
	history("loses", &(struct world_net){ .delay_ns = 50000000, .lose = 300 }, 2000);
}

Test(pm_world, one_that_doubles_and_reorders)
{
	history("doubles", &(struct world_net){ .delay_ns = 3000000000, .twice = 300 }, 2000);
}

Test(pm_world, one_that_garbles_and_replays)
{
	history("replays",
		&(struct world_net){ .delay_ns = 500000000,
				     .lose = 100,
				     .twice = 100,
				     .garble = 100,
				     .replay = 300 },
		2000);
}

Test(pm_world, every_question_is_answered_where_all_is_well)
{
	struct rsk_pmsp_config pmsp = pmsp_default;
	struct world *w;

	pmsp.max_open = 2048;
	w = world_new(1, &(struct world_net){ .delay_ns = 1000000 }, &pmsp, &client_default);
	for (int i = 0; i < 500; i++) {
		size_t q = world_ask(w, i % WORLD_CPS, i % WORLD_APS, i % WORLD_SERVICES,
				     (uint16_t)(1000 + i));

		world_run(w, 100000000);
		cr_assert_eq(w->questions[q].outcome, RSK_PM_MAPPED);
		cr_assert(world_link(w, q, false));
		cr_assert(!world_link(w, q, false), "one link only");
	}
	world_settle(w);
	world_free(w);
}

/* A flood of requests with forged sources: memory is bounded, and real requests are served. */
Test(pm_world, a_flood)
{
	struct rsk_pmsp_config pmsp = pmsp_default;
	struct world *w;
	size_t served = 0, asked = 0;

	pmsp.max_open = 1000;
	w = world_new(2, &(struct world_net){ .delay_ns = 1000000 }, &pmsp, &client_default);
	for (int s = 0; s < WORLD_SERVICES; s++)
		w->ap[0].room[s] = 1000000;
	for (int i = 0; i < 20000; i++) {
		world_forge(w, 0);
		if (i % 50 == 0) {
			world_ask(w, i / 50 % WORLD_CPS, 0, i % WORLD_SERVICES,
				  (uint16_t)(1 + i / 50));
			asked++;
		}
		world_run(w, 100000);
		cr_assert_leq(w->ap[0].pmsp.table.n, 1000);
	}
	world_run(w, 10000000000);
	for (size_t q = 0; q < w->n_questions; q++)
		served += w->questions[q].outcome == RSK_PM_MAPPED;
	cr_assert_eq(served, asked, "%zu of %zu were served", served, asked);
	cr_assert_gt(w->ap[0].pmsp.count.evicted, 4000);
	world_settle(w);
	world_free(w);
}
