// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_agent_ask.c - tests decisions that need the central agent's answer: a reservation here and
 * one there belong together. The link is the test's own and answers as the test has set it.
 */
#include "agent_ask.h"

#include <criterion/criterion.h>
#include <string.h>

#include "clock.h"
#include "pma_kit.h"

static uint64_t now_ns;

uint64_t rsk_clock_ns(void)
{
	return now_ns;
}

void rsk_pma_link_arm(struct rsk_pma_link *l)
{
	/* Messages go when the test says so. */
	cr_assert(rsk_ask_validate(&l->ask) || l->ask.going != RSK_ASK_NOTHING);
}

static const char host[] =
	"node: b\n"
	"rnics: [{name: r0, addresses: [10.0.0.2], sessions: 3}]\n"
	"services: [{name: web, ports: ['80'], pm-time: 30s, rate: 2Gbit, rdma-port: '7'}]\n";

/* ---- the central agent, played by the test ---- */

static struct rsk_ask_answer central_says;
static uint64_t released[16];
static size_t n_released;

/* Delivers all messages that are due. @answers: the central agent responds. */
static void carry(struct rsk_pma_link *l, bool answers)
{
	static struct rsk_ask_item items[RSK_ASK_IDS];
	struct rsk_ask_answer said[RSK_ASK_BATCH];
	uint64_t ids[RSK_ASK_BATCH];
	enum rsk_ask_kind kind;
	bool resume, last;
	size_t n;

	while ((kind = rsk_ask_next_message(&l->ask, now_ns, items, &n, &resume, &last))) {
		if (!answers) {
			rsk_ask_failed(&l->ask, now_ns);
			return;
		}
		if (kind == RSK_ASK_REPORT)
			rsk_ask_hold(&l->ask, 3000000000);
		for (size_t i = 0; i < n; i++) {
			if (kind == RSK_ASK_RELEASE && n_released < 16)
				released[n_released++] = items[i].id;
			ids[i % RSK_ASK_BATCH] = items[i].id;
			said[i % RSK_ASK_BATCH] = central_says;
		}
		rsk_ask_answered(&l->ask, ids, said, kind == RSK_ASK_DECIDE ? n : 0, now_ns);
		cr_assert(rsk_ask_validate(&l->ask));
	}
}

struct fixture {
	struct rsk_pma *pma;
	struct rsk_pma_link link;
	struct rsk_agent_ask ask;
};

static void set_up(struct fixture *f, enum rsk_conf_pma_mode mode, uint64_t lease_ns)
{
	const struct rsk_ask_config config = RSK_ASK_DEFAULT;

	now_ns = 1000;
	n_released = 0;
	*f = (struct fixture){ .pma = pma_of(host), .link.mode = mode };
	rsk_ask_init(&f->link.ask, &config);
	rsk_agent_ask_init(&f->ask, f->pma, &f->link);
	central_says = (struct rsk_ask_answer){ .verdict = RSK_PMA_MAP,
						.rule = "fabric",
						.ip = { 10, 0, 0, 2 },
						.port = 9,
						.pm_time_s = 20,
						.rate_bps = 1000000000,
						.need = { .connections = 1 },
						.lease_ns = lease_ns };
	carry(&f->link, true);
}

static void tear_down(struct fixture *f)
{
	cr_assert(rsk_pma_validate(f->pma));
	rsk_agent_ask_fini(&f->ask);
	rsk_ask_fini(&f->link.ask);
	rsk_pma_free(f->pma);
}

static uint64_t booked(const struct fixture *f)
{
	struct rsk_pma_device_view v;

	cr_assert_eq(rsk_pma_devices(f->pma, &v, 1), 1);
	return v.sessions;
}

static int told;
static struct rsk_pma_answer heard;

static void on_decided(void *user, const struct rsk_pma_answer *answer)
{
	told++;
	heard = *answer;
}

/* Asks, and has the central agent answer. */
static struct rsk_pma_answer ask(struct fixture *f, uint64_t held)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.1", "10.0.0.2", 80);
	struct rsk_pma_answer out;
	int before = told;

	q.now_ns = now_ns;
	q.held = held;
	if (rsk_agent_decide(&f->ask, &q, &out, on_decided, f))
		return out;
	carry(&f->link, true);
	cr_assert_eq(told, before + 1);
	return heard;
}

Test(agent_ask, both_agree)
{
	struct rsk_pma_answer out, again;
	struct fixture f;

	set_up(&f, RSK_CONF_PMA_BOTH, 0);
	out = ask(&f, 0);
	cr_assert(out.verdict == RSK_PMA_MAP && out.reservation && out.port == 7);
	cr_assert(out.pm_time_s == 20 && out.rate_bps == 1000000000,
		  "neither's bounds are exceeded");
	cr_assert(booked(&f) == 1 && f.link.ask.held == 1);
	again = ask(&f, out.reservation);
	cr_assert(again.reservation == out.reservation && f.link.ask.count.asked == 1,
		  "not asked again");
	/* The state of our device counts, whatever the central agent answered. */
	rsk_pma_device_set(f.pma, "r0", RSK_PMA_DRAINING);
	again = ask(&f, out.reservation);
	cr_assert_eq(again.verdict, RSK_PMA_NO_DEVICE);
	cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_NO_DEVICE);
	cr_assert_eq(f.link.ask.count.asked, 1);
	rsk_pma_release(f.pma, out.reservation);
	carry(&f.link, true);
	cr_assert(n_released == 1 && booked(&f) == 0 && !f.link.ask.by_id);
	tear_down(&f);
}

Test(agent_ask, one_of_both_refuses)
{
	struct rsk_pma_answer out;
	struct fixture f;

	set_up(&f, RSK_CONF_PMA_BOTH, 0);
	central_says.verdict = RSK_PMA_LIMIT;
	out = ask(&f, 0);
	cr_assert(out.verdict == RSK_PMA_LIMIT && !out.reservation && booked(&f) == 0);
	central_says.verdict = RSK_PMA_MAP;
	for (int i = 0; i < 3; i++)
		cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_MAP);
	cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_EXHAUSTED, "ours has room for three");
	cr_assert_eq(f.link.ask.count.asked, 4);
	tear_down(&f);
}

Test(agent_ask, the_central_decides_and_ours_looks_at_the_device)
{
	struct rsk_pma_answer out, again;
	struct fixture f;

	set_up(&f, RSK_CONF_PMA_CENTRAL, 0);
	out = ask(&f, 0);
	cr_assert(out.verdict == RSK_PMA_MAP && out.port == 9 && out.pm_time_s == 20);
	cr_assert_eq(booked(&f), 1);
	again = ask(&f, out.reservation);
	cr_assert(again.verdict == RSK_PMA_MAP && again.reservation == out.reservation &&
		  again.port == 9);
	rsk_pma_device_set(f.pma, "r0", RSK_PMA_DOWN);
	cr_assert_eq(ask(&f, out.reservation).verdict, RSK_PMA_NO_DEVICE);
	cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_NO_DEVICE);
	cr_assert_eq(n_released, 1, "what the central agent had granted in vain");
	rsk_pma_device_set(f.pma, "r0", RSK_PMA_UP);
	ask(&f, 0);
	ask(&f, 0);
	cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_EXHAUSTED);
	/* The address is not on a device of ours: the other node checks its own device. */
	central_says.ip[3] = 99;
	cr_assert_eq(ask(&f, 0).verdict, RSK_PMA_MAP);
	cr_assert_eq(booked(&f), 3);
	tear_down(&f);
}

Test(agent_ask, a_central_that_is_silent)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.0.0.1", "10.0.0.2", 80);
	struct rsk_pma_answer out;
	struct fixture f;

	for (int mode = RSK_CONF_PMA_CENTRAL; mode <= RSK_CONF_PMA_BOTH; mode++) {
		for (int local = 0; local < 2; local++) {
			set_up(&f, (enum rsk_conf_pma_mode)mode, 0);
			f.link.local_if_silent = local;
			told = 0;
			q.now_ns = now_ns;
			cr_assert(!rsk_agent_decide(&f.ask, &q, &out, on_decided, &f));
			carry(&f.link, false);
			cr_assert_eq(told, 1);
			cr_assert_eq(heard.verdict, local ? RSK_PMA_MAP : RSK_PMA_UNHEARD);
			cr_assert(rsk_agent_decide(&f.ask, &q, &out, on_decided, &f), "at once");
			cr_assert_eq(out.verdict, local ? RSK_PMA_MAP : RSK_PMA_UNHEARD);
			cr_assert_eq(booked(&f), local ? 2 : 0);
			cr_assert_eq(f.ask.silent_mapped, local ? 2 : 0);
			/*
			 * What the central agent may have granted is given back when it is
			 * reachable again.
			 */
			now_ns += 2000000000;
			carry(&f.link, true);
			cr_assert_eq(n_released, 1);
			tear_down(&f);
		}
	}
}

Test(agent_ask, whoever_is_not_interested_any_more)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.0.0.2", "10.0.0.1", 80);
	struct rsk_pma_answer out;
	struct fixture f;

	set_up(&f, RSK_CONF_PMA_BOTH, 0);
	q.now_ns = now_ns;
	told = 0;
	cr_assert(!rsk_agent_decide(&f.ask, &q, &out, on_decided, &f));
	cr_assert_eq(booked(&f), 1);
	rsk_agent_forget(&f.ask, &f);
	carry(&f.link, true);
	cr_assert(told == 0 && booked(&f) == 0 && n_released == 1 && !f.ask.waiting);
	tear_down(&f);
}

Test(agent_ask, answers_that_are_kept)
{
	struct rsk_pma_answer out;
	struct fixture f;

	set_up(&f, RSK_CONF_PMA_BOTH, 1000000000);
	out = ask(&f, 0);
	rsk_pma_confirm(f.pma, out.reservation);
	rsk_pma_release(f.pma, out.reservation);
	out = ask(&f, 0);
	cr_assert(out.verdict == RSK_PMA_MAP && f.link.ask.count.asked == 1 &&
		  f.link.ask.count.leased == 1);
	/* A second session beside the first needs a second lease. */
	ask(&f, 0);
	cr_assert(f.link.ask.count.asked == 2 && f.link.ask.held == 2);
	rsk_pma_release(f.pma, out.reservation);
	out = ask(&f, 0);
	cr_assert(out.verdict == RSK_PMA_MAP && f.link.ask.count.asked == 2 && booked(&f) == 2);
	tear_down(&f);
}
