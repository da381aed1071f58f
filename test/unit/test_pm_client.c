// SPDX-License-Identifier: BSD-2-Clause
/* test_pm_client.c - tests the PM client's rules one by one: timers, answers, and its cache. */
#include "pm_client.h"

#include <errno.h>

#include "dice.h"
#include "pm_kit.h"

#define USERS 8

struct cp {
	struct rsk_pm_client c;
	uint64_t dice;
	int sent, answers[USERS];
	uint8_t wire[64];
	size_t bytes;
	struct rsk_pm_msg out;
	struct rsk_pm_addr to;
	enum rsk_pm_outcome outcome[USERS];
	struct rsk_pm_mapping mapping;
	bool holds;
};

static uint64_t roll(void *ctx)
{
	struct cp *p = ctx;

	return dice_roll(&p->dice);
}

static void keep(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct cp *p = ctx;

	p->sent++;
	p->to = *to;
	p->bytes = bytes;
	memcpy(p->wire, datagram, bytes);
	cr_assert_eq(rsk_pm_msg_decode(datagram, bytes, &p->out), 0);
}

static void done(void *ctx, void *user, enum rsk_pm_outcome outcome, const struct rsk_pm_mapping *m)
{
	struct cp *p = ctx;
	size_t i = (size_t)user;

	p->answers[i]++;
	p->outcome[i] = outcome;
	if (m)
		p->mapping = *m;
}

static bool holds(void *ctx, const struct rsk_pm_msg *req, const struct rsk_pm_mapping *m)
{
	return ((struct cp *)ctx)->holds;
}

static const struct rsk_pm_client_ops ops = { .random = roll,
					      .send = keep,
					      .done = done,
					      .holds = holds };
static const struct rsk_pm_client_config normal = RSK_PM_CLIENT_DEFAULT;
static const struct rsk_pm_addr pmsp = { .ip = { 10, 0, 0, 2 }, .port = 3935, .ipv = 4 };
static const struct rsk_pm_addr central = { .ip = { 10, 0, 0, 3 }, .port = 3935, .ipv = 4 };

static struct cp *cp_new(const struct rsk_pm_client_config *config)
{
	struct cp *p = calloc(1, sizeof(*p));

	rsk_pm_client_init(&p->c, config, &ops, p);
	p->holds = true;
	return p;
}

static void cp_free(struct cp *p)
{
	cr_assert(rsk_pm_client_validate(&p->c));
	rsk_pm_client_fini(&p->c);
	free(p);
}

static int ask(struct cp *p, uint16_t service, uint16_t cp_port, size_t user, uint64_t now)
{
	struct rsk_pm_msg q = pm_request(service, cp_port, 0);
	int rc = rsk_pm_client_ask(&p->c, &q, &pmsp, (void *)user, now, &p->mapping);

	cr_assert(rsk_pm_client_validate(&p->c));
	return rc;
}

static void hear(struct cp *p, const struct rsk_pm_addr *from, const struct rsk_pm_msg *m,
		 uint64_t now)
{
	uint8_t wire[64];
	size_t n = pm_wire(m, wire);

	cr_assert_eq(rsk_pm_client_receive(&p->c, from, wire, n, now), 0);
	cr_assert(rsk_pm_client_validate(&p->c));
}

/* A PMAccept to what was sent last. */
static struct rsk_pm_msg accept_of(const struct cp *p, uint8_t pm_time_s)
{
	struct rsk_pm_msg m;

	cr_assert_eq(rsk_pm_msg_accept(&p->out, pm_rdma.ip, pm_rdma.port, pm_time_s, &m), 0);
	return m;
}

Test(pm_client, acknowledges_to_where_the_accept_came_from)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m;

	cr_assert_eq(ask(p, 80, 4242, 0, 1), RSK_PM_PENDING);
	cr_assert(rsk_pm_addr_equal(&p->to, &pmsp));
	cr_assert_eq(p->bytes, 48);
	cr_assert_neq(p->out.assoc_handle, 0);
	m = accept_of(p, 0);
	hear(p, &central, &m, 2);
	cr_assert_eq(p->outcome[0], RSK_PM_MAPPED);
	cr_assert_eq(p->mapping.rdma.port, 4000);
	cr_assert_arr_eq(p->mapping.rdma.ip, pm_rdma.ip, 16);
	cr_assert_eq(p->out.op, RSK_PM_ACK);
	cr_assert(rsk_pm_addr_equal(&p->to, &central), "a redirected request");
	cr_assert_eq(p->out.ap_port, 4000);
	cp_free(p);
}

/* Random numbers that are 0 or in use. */
static const uint64_t *rolls;

static uint64_t next_roll(void *ctx)
{
	return *rolls++;
}

static const struct rsk_pm_client_ops loaded = { .random = next_roll, .send = keep, .done = done };

/* A name is not used twice while one of its packets may live: not while it is open, or lingers. */
Test(pm_client, a_handle_is_not_used_twice)
{
	static const uint64_t seq[] = { 0, 5, 5, 0, 5, 6, 5, 6, 7, 5 };
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m;

	p->c.ops = &loaded;
	rolls = seq;
	cr_assert_eq(ask(p, 80, 4242, 0, 1), RSK_PM_PENDING);
	cr_assert_eq(p->out.assoc_handle, 5, "0 is none");
	m = accept_of(p, 0);
	cr_assert_eq(ask(p, 81, 4243, 1, 1), RSK_PM_PENDING);
	cr_assert_eq(p->out.assoc_handle, 6, "5 is open, for another connection");
	hear(p, &pmsp, &m, 2);
	cr_assert_eq(p->outcome[0], RSK_PM_MAPPED);
	cr_assert_eq(ask(p, 80, 4242, 2, normal.linger_ns), RSK_PM_PENDING);
	cr_assert_eq(p->out.assoc_handle, 7, "5 lingers, and 6 is open");
	rsk_pm_client_tick(&p->c, 2 + normal.linger_ns + TICK);
	cr_assert_eq(ask(p, 80, 4244, 3, 3 + normal.linger_ns + TICK), RSK_PM_PENDING);
	cr_assert_eq(p->out.assoc_handle, 5, "it is over");
	cp_free(p);
}

Test(pm_client, sends_the_same_bytes_again_each_time_after_twice_as_long)
{
	struct cp *p = cp_new(&normal);
	uint64_t now = 1, gap = normal.cache.rto_first_ns;
	uint8_t first[64];

	ask(p, 80, 4242, 0, now);
	memcpy(first, p->wire, p->bytes);
	for (int i = 1; i < normal.max_sends; i++) {
		now += gap;
		cr_assert_lt(rsk_pm_client_next(&p->c), now + TICK);
		rsk_pm_client_tick(&p->c, now - 1);
		cr_assert_eq(p->sent, i);
		now += TICK;
		rsk_pm_client_tick(&p->c, now);
		cr_assert_eq(p->sent, i + 1);
		cr_assert_arr_eq(p->wire, first, 48);
		gap *= 2;
	}
	rsk_pm_client_tick(&p->c, now + gap + TICK);
	cr_assert_eq(p->outcome[0], RSK_PM_NO_ANSWER);
	cr_assert_eq(p->sent, normal.max_sends);
	/* The host is remembered as silent, for a while. */
	now += gap + TICK;
	cr_assert_eq(ask(p, 81, 4243, 1, now + 1), RSK_PM_NO_ANSWER);
	cr_assert_eq(p->sent, normal.max_sends);
	cr_assert_eq(ask(p, 81, 4243, 1, now + normal.cache.silent_ns), RSK_PM_PENDING);
	cp_free(p);
}

Test(pm_client, a_connection_asks_a_silent_host_now_and_then)
{
	struct rsk_pm_client_config config = normal;
	struct cp *p;
	struct rsk_pm_msg m;
	uint64_t now = 1;

	config.max_sends = 1;
	p = cp_new(&config);
	ask(p, 80, 4242, 0, now);
	now += config.cache.rto_first_ns + TICK;
	rsk_pm_client_tick(&p->c, now);
	cr_assert_eq(p->outcome[0], RSK_PM_NO_ANSWER);
	cr_assert_eq(ask(p, 80, 4243, 1, now + 2 * SECOND - 1), RSK_PM_NO_ANSWER);
	cr_assert_eq(ask(p, 80, 0, 1, now + 2 * SECOND), RSK_PM_NO_ANSWER, "a service");
	cr_assert_eq(ask(p, 80, 4243, 2, now + 2 * SECOND), RSK_PM_PENDING);
	cr_assert_eq(ask(p, 80, 4244, 1, now + 2 * SECOND), RSK_PM_NO_ANSWER, "one of many");
	/* Whatever it answers, it is not silent any more. */
	m = accept_of(p, 0);
	hear(p, &pmsp, &m, now + 2 * SECOND + 1);
	cr_assert_eq(p->outcome[2], RSK_PM_MAPPED);
	cr_assert_eq(p->mapping.handle, m.assoc_handle, "its name");
	cr_assert_eq(ask(p, 80, 4244, 3, now + 2 * SECOND + 2), RSK_PM_PENDING);
	cp_free(p);
}

Test(pm_client, the_first_answer_wins)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg req, m, other, deny;

	ask(p, 80, 4242, 0, 1);
	req = p->out;
	m = accept_of(p, 0);
	other = m;
	other.ap_port = 4001;
	cr_assert_eq(rsk_pm_msg_deny(&req, &deny), 0);
	hear(p, &pmsp, &m, 2);
	hear(p, &pmsp, &other, 3);
	hear(p, &pmsp, &deny, 3);
	cr_assert_eq(p->answers[0], 1);
	cr_assert_eq(p->c.count.strays, 2);
	cr_assert_eq(p->sent, 2);
	/* The same answer again: the PMSP did not receive our PMAck. */
	hear(p, &pmsp, &m, 4);
	cr_assert_eq(p->sent, 3);
	cr_assert_eq(p->out.op, RSK_PM_ACK);
	rsk_pm_client_tick(&p->c, 2 + normal.linger_ns + TICK);
	hear(p, &pmsp, &m, 3 + normal.linger_ns);
	cr_assert_eq(p->sent, 3);
	cp_free(p);
}

Test(pm_client, what_matches_nothing_is_dropped)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m, wrong;

	ask(p, 80, 4242, 0, 1);
	m = accept_of(p, 0);
	wrong = m;
	wrong.assoc_handle++;
	hear(p, &pmsp, &wrong, 2);
	wrong = m;
	wrong.cp_port++;
	hear(p, &pmsp, &wrong, 2);
	wrong = m;
	wrong.cp_ip[0] ^= 1;
	hear(p, &pmsp, &wrong, 2);
	cr_assert_eq(p->c.count.strays, 3);
	cr_assert_eq(p->answers[0], 0);
	cr_assert_eq(rsk_pm_client_receive(&p->c, &pmsp, "x", 1, 2), -EBADMSG);
	cr_assert_eq(rsk_pm_client_receive(&p->c, &pmsp, p->wire, p->bytes, 2), -EOPNOTSUPP);
	cp_free(p);
}

Test(pm_client, a_service_mapping_is_used_for_its_time)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m;

	ask(p, 80, 0, 0, 1);
	m = accept_of(p, 5);
	hear(p, &pmsp, &m, SECOND);
	cr_assert_eq(ask(p, 80, 0, 1, 6 * SECOND - 1), RSK_PM_MAPPED);
	cr_assert_eq(p->mapping.rdma.port, 4000);
	cr_assert_eq(ask(p, 81, 0, 1, 2 * SECOND), RSK_PM_PENDING, "another service");
	cr_assert_eq(ask(p, 80, 4242, 2, 2 * SECOND), RSK_PM_PENDING,
		     "a connection is always asked for");
	cr_assert_eq(ask(p, 80, 0, 3, 6 * SECOND), RSK_PM_PENDING, "over");
	cp_free(p);
}

Test(pm_client, pm_time_says_how_long)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m;

	ask(p, 80, 0, 0, 1);
	m = accept_of(p, 0);
	hear(p, &pmsp, &m, 2);
	cr_assert_eq(ask(p, 80, 0, 1, 3), RSK_PM_PENDING, "every time");
	m = accept_of(p, RSK_PM_TIME_LASTING);
	hear(p, &pmsp, &m, 4);
	cr_assert_eq(ask(p, 80, 0, 2, 1000000 * SECOND), RSK_PM_MAPPED, "until told otherwise");
	p->holds = false;
	cr_assert_eq(ask(p, 80, 0, 3, 1000000 * SECOND), RSK_PM_PENDING, "the agent says no");
	cr_assert_eq(p->c.count.outdated, 1);
	cp_free(p);
}

/*
 * The mapping was given to a link from that RNIC; the PMSP would not admit one from another
 * address.
 */
Test(pm_client, a_mapping_is_of_the_address_that_the_link_comes_from)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg q = pm_request(80, 0, 0), m;

	q.mapped = true;
	memcpy(q.mapped_cp_ip, (uint8_t[16]){ 10, 1, 0, 1 }, 16);
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 1, &p->mapping), RSK_PM_PENDING);
	m = accept_of(p, 60);
	hear(p, &pmsp, &m, 2);
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 3, &p->mapping), RSK_PM_MAPPED);
	q.mapped_cp_ip[3]++;
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 4, &p->mapping), RSK_PM_PENDING);
	m = accept_of(p, 60);
	cr_assert_eq(p->out.mapped_cp_ip[3], 2);
	hear(p, &pmsp, &m, 5);
	q.mapped_cp_ip[3]--;
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 6, &p->mapping), RSK_PM_MAPPED);
	cp_free(p);
}

Test(pm_client, a_refusal_is_remembered)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg deny;

	ask(p, 80, 0, 0, 1);
	cr_assert_eq(rsk_pm_msg_deny(&p->out, &deny), 0);
	hear(p, &pmsp, &deny, 2);
	cr_assert_eq(p->outcome[0], RSK_PM_REFUSED);
	cr_assert_eq(ask(p, 80, 0, 1, 3), RSK_PM_REFUSED);
	cr_assert_eq(ask(p, 80, 0, 1, 2 + normal.cache.refused_ns), RSK_PM_PENDING);
	cp_free(p);
}

Test(pm_client, who_asks_the_same_shares_the_answer)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg m;

	for (size_t user = 0; user < 3; user++)
		cr_assert_eq(ask(p, 80, 0, user, 1), RSK_PM_PENDING);
	cr_assert_eq(p->sent, 1);
	rsk_pm_client_cancel(&p->c, (void *)1);
	m = accept_of(p, 0);
	hear(p, &pmsp, &m, 2);
	cr_assert_eq(p->answers[0], 1);
	cr_assert_eq(p->answers[1], 0);
	cr_assert_eq(p->answers[2], 1);
	cp_free(p);
}

Test(pm_client, timers_follow_the_round_trips)
{
	struct cp *p = cp_new(&normal);
	uint64_t now = 1;
	struct rsk_pm_msg m;

	for (uint16_t i = 0; i < 50; i++) {
		ask(p, 80, (uint16_t)(1000 + i), 0, now);
		m = accept_of(p, 0);
		now += 100000000;
		hear(p, &pmsp, &m, now);
	}
	ask(p, 80, 999, 0, now);
	cr_assert_eq(p->sent, 101);
	rsk_pm_client_tick(&p->c, now + 100000000);
	cr_assert_eq(p->sent, 101, "not before the usual answer");
	/* A repeated request gives no measurement (Karn). */
	rsk_pm_client_tick(&p->c, now + 130000000);
	m = accept_of(p, 0);
	hear(p, &pmsp, &m, now + 3 * SECOND);
	cr_assert_lt(rsk_pm_cache_rto(&p->c.cache, &pmsp), 130000000);
	cp_free(p);
}

/*
 * The round-trip time that rules get: that of the host that was asked, as long as it is recent
 * enough.
 */
Test(pm_client, round_trips_are_known_for_a_while)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_addr other = pmsp;
	const uint64_t now = 7 * SECOND, known = normal.cache.rtt_ns;
	struct rsk_pm_msg m;

	other.ip[3]++;
	cr_assert_eq(rsk_pm_cache_rtt(&p->c.cache, &pmsp, now), 0);
	ask(p, 80, 1000, 0, now);
	m = accept_of(p, 0);
	hear(p, &pmsp, &m, now + 300000);
	cr_assert_eq(rsk_pm_cache_rtt(&p->c.cache, &pmsp, now + 300000), 300000);
	cr_assert_eq(rsk_pm_cache_rtt(&p->c.cache, &pmsp, now + 300000 + known - 1), 300000);
	cr_assert_eq(rsk_pm_cache_rtt(&p->c.cache, &pmsp, now + 300000 + known), 0);
	cr_assert_eq(rsk_pm_cache_rtt(&p->c.cache, &other, now + 300000), 0);
	cp_free(p);
}

Test(pm_client, bounded)
{
	struct rsk_pm_client_config config = normal;
	struct rsk_pm_addr to = pmsp;
	struct rsk_pm_msg m;
	struct cp *p;

	config.max_open = 2;
	config.cache.max_services = 3;
	config.cache.max_hosts = 3;
	p = cp_new(&config);
	cr_assert_eq(ask(p, 80, 1, 0, 1), RSK_PM_PENDING);
	cr_assert_eq(ask(p, 80, 2, 0, 1), RSK_PM_PENDING);
	cr_assert_eq(ask(p, 80, 3, 0, 1), -EBUSY);
	rsk_pm_client_fini(&p->c);
	rsk_pm_client_init(&p->c, &config, &ops, p);
	for (uint16_t s = 1; s <= 10; s++) {
		struct rsk_pm_msg q = pm_request(s, 0, 0);

		to.ip[3] = (uint8_t)s;
		cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &to, NULL, 1, &p->mapping),
			     RSK_PM_PENDING);
		m = accept_of(p, 100);
		hear(p, &to, &m, 2);
	}
	cr_assert_eq(ask(p, 7, 0, 1, 3), RSK_PM_PENDING, "made room");
	cr_assert_eq(ask(p, 8, 0, 1, 3), RSK_PM_MAPPED);
	cp_free(p);
}

Test(pm_client, a_question_that_is_none)
{
	struct cp *p = cp_new(&normal);
	struct rsk_pm_msg q = pm_request(80, 0, 0);

	q.ap_port = 0;
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 1, &p->mapping), -EINVAL);
	q = pm_request(80, 0, 0);
	q.op = RSK_PM_ACK;
	cr_assert_eq(rsk_pm_client_ask(&p->c, &q, &pmsp, NULL, 1, &p->mapping), -EINVAL);
	cr_assert_eq(p->sent, 0);
	cp_free(p);
}

/*
 * Its PMSP may wait for the accepting end: a quick answer before is no reason to give up quickly.
 */
Test(pm_client, a_near_host_may_take_its_time)
{
	struct cp *p = cp_new(&normal);
	uint64_t now = 1, patience = normal.cache.rto_first_ns * ((1u << normal.max_sends) - 1);
	struct rsk_pm_msg m;
	uint64_t sent;

	for (uint16_t i = 0; i < 50; i++) {
		ask(p, 80, (uint16_t)(1000 + i), 0, now);
		m = accept_of(p, 0);
		now += 1000000;
		hear(p, &pmsp, &m, now);
	}
	sent = p->sent;
	p->answers[1] = 0;
	ask(p, 80, 998, 1, now);
	for (uint64_t t = 0; t < 3 * SECOND; t += 10000000)
		rsk_pm_client_tick(&p->c, now + t);
	cr_assert_eq(p->sent - sent, normal.max_sends);
	cr_assert_eq(p->answers[1], 0, "not given up");
	m = accept_of(p, 0);
	now += 3 * SECOND;
	hear(p, &pmsp, &m, now);
	cr_assert_eq(p->outcome[1], RSK_PM_MAPPED);
	ask(p, 80, 999, 2, now);
	for (uint64_t t = 0; t <= patience + TICK; t += 10000000)
		rsk_pm_client_tick(&p->c, now + t);
	cr_assert_eq(p->answers[2], 0);
	rsk_pm_client_tick(&p->c, now + patience + 2 * TICK);
	cr_assert_eq(p->outcome[2], RSK_PM_NO_ANSWER);
	cp_free(p);
}
