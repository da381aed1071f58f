// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pmsp.c - tests the PMSP's answers, rule by rule: timers, duplicates, changed answers,
 * sources, bounds.
 */
#include <errno.h>

#include "pmsp_kit.h"

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
	/* Two processes of a host that ask for a service do not share a connection. */
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

Test(pmsp, an_agent_that_decides_later)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	struct rsk_pmsp_grant g = { .id = 77, .port = 4000 };
	uint8_t announced[16];

	memcpy(g.ip, pm_rdma.ip, 16);
	a->verdict = RSK_PMSP_WAIT;
	give(a, &r, 1);
	give(a, &r, 2);
	cr_assert_eq(a->decided, 1, "asked once");
	cr_assert_eq(a->sent, 0);
	cr_assert(rsk_pmsp_decided(&a->p, &r, RSK_PMSP_ACCEPT, &g, SECOND));
	cr_assert_eq(a->out.op, RSK_PM_ACCEPT);
	cr_assert(!rsk_pmsp_decided(&a->p, &r, RSK_PMSP_ACCEPT, &g, SECOND), "once");
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, cp.ip, announced), 77);
	/* An agent that never decides. */
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
