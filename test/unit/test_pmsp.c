// SPDX-License-Identifier: BSD-2-Clause
/* test_pmsp.c - the PMSP's rules one by one: timers, duplicates, changed answers, sources, bounds. */
#include "pmsp.h"

#include <errno.h>

#include "pm_kit.h"

/* One AP: says what it is told to say, and keeps what it was told. */
struct ap {
	struct rsk_pmsp p;
	enum rsk_pmsp_verdict verdict;
	struct rsk_pmsp_grant grant;
	uint64_t next_id, released, used, handed_in;
	bool last, refuse;
	int sent, decided;
	struct rsk_pm_msg out;
	struct rsk_pm_addr out_to;
};

static enum rsk_pmsp_verdict decide(void *ctx, const struct rsk_pm_msg *req,
				    const struct rsk_pm_addr *from, struct rsk_pmsp_grant *grant)
{
	struct ap *a = ctx;

	a->decided++;
	a->handed_in = grant->id;
	if (a->verdict != RSK_PMSP_ACCEPT)
		return a->verdict;
	a->grant.id = grant->id ? grant->id : ++a->next_id;
	*grant = a->grant;
	return RSK_PMSP_ACCEPT;
}

static bool used(void *ctx, const struct rsk_pmsp_grant *grant, bool last)
{
	struct ap *a = ctx;

	a->used = grant->id;
	a->last = last;
	return !a->refuse;
}

static void release(void *ctx, const struct rsk_pmsp_grant *grant)
{
	((struct ap *)ctx)->released = grant->id;
}

static void keep(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct ap *a = ctx;

	a->sent++;
	a->out_to = *to;
	cr_assert_eq(rsk_pm_msg_decode(datagram, bytes, &a->out), 0);
}

static const struct rsk_pmsp_ops ops = { .decide = decide,
					 .used = used,
					 .release = release,
					 .send = keep };
static const struct rsk_pmsp_config normal = RSK_PMSP_DEFAULT;
static const struct rsk_pm_addr cp = { .ip = { 10, 0, 0, 1 }, .port = 777, .ipv = 4 };

static struct ap *ap_new(const struct rsk_pmsp_config *config)
{
	struct ap *a = calloc(1, sizeof(*a));

	cr_assert_eq(rsk_pmsp_init(&a->p, config, &ops, a), 0);
	memcpy(a->grant.ip, pm_rdma.ip, 16);
	a->grant.port = pm_rdma.port;
	return a;
}

static void ap_free(struct ap *a)
{
	cr_assert(rsk_pmsp_validate(&a->p));
	rsk_pmsp_fini(&a->p);
	free(a);
}

static void give(struct ap *a, const struct rsk_pm_msg *m, uint64_t now)
{
	uint8_t wire[64];
	size_t n = pm_wire(m, wire);

	cr_assert_eq(rsk_pmsp_receive(&a->p, &cp, wire, n, now), 0);
	cr_assert(rsk_pmsp_validate(&a->p));
}

/* The PMAck to what was sent last. */
static void acknowledge(struct ap *a, uint64_t now)
{
	struct rsk_pm_msg ack;

	cr_assert_eq(rsk_pm_msg_ack(&a->out, &ack), 0);
	give(a, &ack, now);
}

Test(pmsp, accepts_and_goes_back_to_the_source)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	a->grant.pm_time_s = 30;
	give(a, &r, 1);
	cr_assert_eq(a->out.op, RSK_PM_ACCEPT);
	cr_assert(rsk_pm_addr_equal(&a->out_to, &cp));
	cr_assert(rsk_pm_msg_answers(&a->out, &r));
	cr_assert_eq(a->out.ap_port, 4000);
	cr_assert_eq(a->out.pm_time_s, 30);
	cr_assert_arr_eq(a->out.ap_ip, pm_rdma.ip, 16);
	acknowledge(a, 2);
	cr_assert_eq(a->p.count.acks, 1);
	ap_free(a);
}

Test(pmsp, denies)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	a->verdict = RSK_PMSP_DENY;
	give(a, &r, 1);
	cr_assert_eq(a->out.op, RSK_PM_DENY);
	cr_assert_eq(a->out.ap_port, 80);
	cr_assert_eq(a->p.table.n, 0);
	cr_assert_eq(rsk_pmsp_next(&a->p), UINT64_MAX);
	ap_free(a);
}

Test(pmsp, repeats_what_is_not_acknowledged_and_releases_it)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	uint64_t now = 1;

	give(a, &r, now);
	for (int i = 1; i <= normal.resends; i++) {
		now += normal.resend_ns;
		rsk_pmsp_tick(&a->p, now - 1);
		cr_assert_eq(a->sent, i);
		now += TICK;
		rsk_pmsp_tick(&a->p, now);
		cr_assert_eq(a->sent, i + 1);
	}
	rsk_pmsp_tick(&a->p, normal.accept_ns);
	cr_assert_eq(a->released, 0);
	rsk_pmsp_tick(&a->p, 1 + normal.accept_ns + TICK);
	cr_assert_eq(a->released, 1);
	cr_assert_eq(a->p.table.n, 0);
	cr_assert_eq(a->sent, 1 + normal.resends);
	ap_free(a);
}

Test(pmsp, acknowledged_but_unused_is_released_at_pm_time)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	a->grant.pm_time_s = 3;
	give(a, &r, 1);
	acknowledge(a, 2);
	rsk_pmsp_tick(&a->p, 3 * SECOND);
	cr_assert_eq(a->sent, 1, "no repeats once it is acknowledged");
	cr_assert_eq(a->p.table.n, 1);
	rsk_pmsp_tick(&a->p, 3 * SECOND + 1 + TICK);
	cr_assert_eq(a->released, 1);
	ap_free(a);
}

Test(pmsp, a_duplicate_is_answered_from_the_newest_state)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	give(a, &r, 1);
	give(a, &r, 9 * SECOND);
	cr_assert_eq(a->handed_in, 1, "the decider sees what is held");
	cr_assert_eq(a->out.op, RSK_PM_ACCEPT);
	rsk_pmsp_tick(&a->p, 18 * SECOND);
	cr_assert_eq(a->p.table.n, 1, "the timer was armed again");
	a->grant.port = 4001;
	give(a, &r, 18 * SECOND);
	cr_assert_eq(a->out.ap_port, 4001, "a changed answer");
	cr_assert_eq(a->p.count.duplicates, 2);
	a->verdict = RSK_PMSP_DENY;
	give(a, &r, 19 * SECOND);
	cr_assert_eq(a->out.op, RSK_PM_DENY);
	cr_assert_eq(a->released, 1);
	cr_assert_eq(a->p.table.n, 0);
	ap_free(a);
}

Test(pmsp, a_duplicate_after_the_state_is_gone_is_new)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	give(a, &r, 1);
	rsk_pmsp_tick(&a->p, 11 * SECOND);
	give(a, &r, 12 * SECOND);
	cr_assert_eq(a->handed_in, 0);
	cr_assert_eq(a->next_id, 2);
	ap_free(a);
}

Test(pmsp, another_handle_for_the_same_connection_replaces)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5), other = pm_request(80, 4242, 6);

	give(a, &r, 1);
	give(a, &other, 2);
	cr_assert_eq(a->released, 1);
	cr_assert_eq(a->p.table.n, 1);
	cr_assert_eq(a->out.assoc_handle, 6);
	/* Two processes of a host that ask for a service have no connection in common. */
	r = pm_request(80, 0, 7);
	other = pm_request(80, 0, 8);
	give(a, &r, 3);
	give(a, &other, 4);
	cr_assert_eq(a->p.table.n, 3);
	ap_free(a);
}

Test(pmsp, the_same_handle_for_another_service_is_new)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5), other = pm_request(80, 4242, 5);

	other.ap_port = 81;
	give(a, &r, 1);
	give(a, &other, 2);
	cr_assert_eq(a->released, 1);
	cr_assert_eq(a->handed_in, 0);
	cr_assert_eq(a->p.table.n, 1);
	ap_free(a);
}

Test(pmsp, only_the_right_ack_counts)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5), ack;

	give(a, &r, 1);
	cr_assert_eq(rsk_pm_msg_ack(&a->out, &ack), 0);
	ack.ap_port = 4001;
	give(a, &ack, 2);
	ack.ap_port = 4000;
	ack.ap_ip[0] ^= 1;
	give(a, &ack, 2);
	ack.ap_ip[0] ^= 1;
	ack.assoc_handle = 6;
	give(a, &ack, 2);
	cr_assert_eq(a->p.count.strays, 3);
	cr_assert_eq(a->p.count.acks, 0);
	ack.assoc_handle = 5;
	give(a, &ack, 2);
	give(a, &ack, 2);
	cr_assert_eq(a->p.count.acks, 1);
	cr_assert_eq(a->p.count.strays, 4);
	ap_free(a);
}

Test(pmsp, a_link_comes_from_the_announced_address_once)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	struct rsk_pm_addr from = cp, to = pm_rdma;

	from.port = 55555; /* CpPort is the companion's, not the link's */
	give(a, &r, 1);
	from.ip[3] = 9;
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &from), 0);
	from.ip[3] = 1;
	to.port++;
	cr_assert_eq(rsk_pmsp_link(&a->p, &to, &from), 0);
	to = pm_rdma;
	to.ip[1] = 8;
	cr_assert_eq(rsk_pmsp_link(&a->p, &to, &from), 0);
	cr_assert_eq(a->p.count.refused, 3);
	/* Unacknowledged: the link's set-up does as well. */
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &from), 1);
	cr_assert(a->last);
	cr_assert_eq(a->released, 0, "it is the session's");
	cr_assert_eq(a->p.table.n, 0);
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &from), 0);
	ap_free(a);
}

Test(pmsp, a_link_of_one_connection_by_its_name_once)
{
	struct ap *a = ap_new(&normal);
	const struct rsk_pm_msg r = pm_request(80, 4242, 5), service = pm_request(81, 0, 6);
	const uint8_t any[16] = { 0 }, elsewhere[16] = { 9 };
	struct rsk_pm_addr to = pm_rdma;
	struct rsk_pm_msg name;

	a->grant.own_port = true;
	give(a, &r, 1);
	give(a, &service, 1);
#define NOT(what)                                                                                  \
	do {                                                                                       \
		name = r;                                                                          \
		to = pm_rdma;                                                                      \
		what;                                                                              \
		cr_assert_eq(rsk_pmsp_link_named(&a->p, &name, &to, any), 0, #what);               \
	} while (0)
	NOT(name.assoc_handle++);
	NOT(name.cp_port++);
	NOT(name.cp_ip[3]++);
	NOT(name.ap_port++);
	NOT(name.ap_ip[3]++);
	NOT(name.ipv = 6);
	NOT(to.port++);
	NOT(to.ip[3]++);
	NOT(to.ipv = 6);
	NOT(name = service);
#undef NOT
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, elsewhere), 0);
	cr_assert_eq(a->p.count.refused, 11);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, r.cp_ip), 1);
	cr_assert(a->last && a->released == 0 && a->used == 1);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, any), 0, "a second time");
	cr_assert_eq(a->p.count.links, 1);
	ap_free(a);
}

Test(pmsp, what_is_not_granted_yet_lets_nobody_in)
{
	struct ap *a = ap_new(&normal);
	const struct rsk_pm_msg r = pm_request(80, 4242, 5);
	const struct rsk_pm_addr nowhere = { .ipv = 4 };
	const uint8_t any[16] = { 0 };

	a->verdict = RSK_PMSP_WAIT;
	give(a, &r, 1);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &nowhere, any), 0);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, any), 0);
	ap_free(a);
}

Test(pmsp, a_mapped_request_names_the_link_s_source)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	struct rsk_pm_addr from = { .ip = { 172, 16, 0, 7 }, .port = 1, .ipv = 4 };

	r.mapped = true;
	r.mapped_cp_port = 1000;
	memcpy(r.mapped_cp_ip, from.ip, 16);
	give(a, &r, 1);
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &cp), 0, "the companion's address is not it");
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &from), 0, "nor another port");
	from.port = 1000;
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &from), 1);
	ap_free(a);
}

Test(pmsp, a_service_mapping_serves_until_its_time_is_over)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 0, 5);

	a->grant.pm_time_s = 5;
	give(a, &r, 1);
	acknowledge(a, 2);
	for (uint64_t s = 1; s < 5; s++) {
		cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &cp), 1);
		cr_assert(!a->last);
	}
	rsk_pmsp_tick(&a->p, 5 * SECOND + 1 + TICK);
	cr_assert_eq(a->released, 1);
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &cp), 0);
	ap_free(a);
}

Test(pmsp, over_a_link_that_exists_the_ack_alone_disarms)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	a->grant.over_link = true;
	give(a, &r, 1);
	acknowledge(a, 2);
	cr_assert_eq(a->used, 1);
	cr_assert(a->last);
	cr_assert_eq(a->p.table.n, 0);
	cr_assert_eq(a->released, 0);
	ap_free(a);
}

Test(pmsp, a_session_that_is_refused_at_the_last_moment_is_released)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	give(a, &r, 1);
	a->refuse = true;
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &cp), 0);
	cr_assert_eq(a->released, 1);
	ap_free(a);
}

Test(pmsp, an_agent_that_decides_later)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	struct rsk_pmsp_grant g = { .id = 77, .port = 4000 };

	memcpy(g.ip, pm_rdma.ip, 16);
	a->verdict = RSK_PMSP_WAIT;
	give(a, &r, 1);
	give(a, &r, 2);
	cr_assert_eq(a->decided, 1, "asked once");
	cr_assert_eq(a->sent, 0);
	cr_assert(rsk_pmsp_decided(&a->p, &r, RSK_PMSP_ACCEPT, &g, SECOND));
	cr_assert_eq(a->out.op, RSK_PM_ACCEPT);
	cr_assert(!rsk_pmsp_decided(&a->p, &r, RSK_PMSP_ACCEPT, &g, SECOND), "once");
	cr_assert_eq(rsk_pmsp_link(&a->p, &pm_rdma, &cp), 77);
	/* And one that never does. */
	r = pm_request(80, 4243, 6);
	give(a, &r, SECOND);
	rsk_pmsp_tick(&a->p, SECOND + normal.ask_ns + TICK);
	cr_assert_eq(a->out.op, RSK_PM_DENY);
	cr_assert(!rsk_pmsp_decided(&a->p, &r, RSK_PMSP_ACCEPT, &g, 9 * SECOND));
	ap_free(a);
}

Test(pmsp, somebody_else_answers)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);

	a->verdict = RSK_PMSP_SILENT;
	give(a, &r, 1);
	cr_assert_eq(a->sent, 0);
	cr_assert_eq(a->p.table.n, 0);
	ap_free(a);
}

Test(pmsp, the_oldest_unacknowledged_makes_room)
{
	struct rsk_pmsp_config config = normal;
	struct rsk_pm_msg r;
	struct ap *a;

	config.max_open = 3;
	a = ap_new(&config);
	for (uint64_t h = 1; h <= 3; h++) {
		r = pm_request(80, (uint16_t)h, h);
		give(a, &r, h);
		if (h == 1)
			acknowledge(a, h);
	}
	r = pm_request(80, 4, 4);
	give(a, &r, 4);
	cr_assert_eq(a->released, 2, "the first is acknowledged, the second is not");
	cr_assert_eq(a->p.count.evicted, 1);
	acknowledge(a, 5);
	r = pm_request(80, 3, 3);
	give(a, &r, 5);
	acknowledge(a, 5);
	r = pm_request(80, 5, 5);
	a->sent = 0;
	give(a, &r, 6);
	cr_assert_eq(a->p.count.full, 1);
	cr_assert_eq(a->sent, 0, "no answer: it asks again, and there may be room");
	ap_free(a);
}

Test(pmsp, a_source_has_a_rate)
{
	struct rsk_pmsp_config config = normal;
	struct rsk_pm_msg r;
	struct ap *a;

	config.rate_per_s = 10;
	config.burst = 5;
	a = ap_new(&config);
	for (uint64_t h = 1; h <= 20; h++) {
		r = pm_request(80, (uint16_t)h, h);
		give(a, &r, SECOND);
	}
	cr_assert_eq(a->p.count.requests, 5);
	cr_assert_eq(a->p.count.limited, 15);
	for (uint64_t h = 1; h <= 20; h++) {
		r = pm_request(80, (uint16_t)(h + 100), h + 100);
		give(a, &r, SECOND + h * SECOND / 20);
	}
	cr_assert_eq(a->p.count.requests, 15, "ten more in the next second, not %lu",
		     (unsigned long)a->p.count.requests - 5);
	ap_free(a);
}

Test(pmsp, what_is_not_the_protocol_s)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5), deny;
	uint8_t wire[64];

	cr_assert_eq(rsk_pmsp_receive(&a->p, &cp, "hello", 5, 1), -EBADMSG);
	cr_assert_eq(a->p.count.malformed, 1);
	cr_assert_eq(rsk_pm_msg_deny(&r, &deny), 0);
	cr_assert_eq(pm_wire(&deny, wire), RSK_PM_WIRE_BYTES);
	cr_assert_eq(rsk_pmsp_receive(&a->p, &cp, wire, 48, 1), -EOPNOTSUPP);
	cr_assert_eq(a->sent, 0);
	ap_free(a);
}

Test(pmsp, a_mapping_costs_no_more_than_256_bytes)
{
	struct rsk_pm_table t;

	for (size_t max = 1; max <= 1u << 20; max *= 4) {
		cr_assert_eq(rsk_pm_table_init(&t, max, 1), 0);
		if (max >= 1024)
			cr_assert_leq(rsk_pm_table_bytes_each(&t), 256);
		rsk_pm_table_fini(&t);
	}
}
