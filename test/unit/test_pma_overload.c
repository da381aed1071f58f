// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_overload.c - tests what happens when a device or the node has too much to do, and when a
 * service carries too little.
 */
#include "pma_kit.h"

#define CP "10.0.0.1"
#define S 1000000000ull

static const char loaded[] = "overload: {device-load: 0.8}\n"
			     "rnics:\n"
			     "  - {name: x, addresses: [10.1.0.1], sessions: 10}\n"
			     "  - {name: y, addresses: [10.1.0.2], sessions: 10}\n"
			     "aggregates: [{address: 10.9.0.1, over: [x, y], choose: order}]\n"
			     "services: [{name: s, ports: ['1']}]\n";

static void fill(struct rsk_pma *a, const char *ap, uint64_t *held, int n)
{
	for (int i = 0; i < n; i++)
		held[i] = pma_ask_ap(a, CP, ap, 1).reservation;
}

/* Each session asks again, once. Returns how many have moved. */
static int ask_again(struct rsk_pma *a, const char *ap, uint64_t *held, int n)
{
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, ap, 1);
	int moved = 0;

	for (int i = 0; i < n; i++) {
		struct rsk_pma_answer out;

		q.held = held[i];
		out = pma_ask(a, &q);
		cr_assert_eq(out.verdict, RSK_PMA_MAP);
		moved += out.reservation != held[i];
		held[i] = out.reservation;
	}
	cr_assert(rsk_pma_validate(a));
	return moved;
}

Test(pma_overload, a_device_is_told_of_when_it_crosses)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t held[8];

	rsk_pma_listen(a, pma_hear_event, NULL);
	fill(a, "10.1.0.1", held, 7);
	pma_is_heard("");
	held[7] = pma_ask_ap(a, CP, "10.1.0.1", 1).reservation;
	pma_is_heard("x over\n");
	cr_assert(pma_view(a, "x").overloaded && !pma_view(a, "y").overloaded);
	/* Relief is reported when the load is well below the limit: 0.72. */
	rsk_pma_release(a, held[7]);
	pma_is_heard("x relief\n");
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(rsk_pma_carried_set(a, "y", i, PMA_LONG_NS), 0);
		rsk_pma_release(a, pma_ask_ap(a, CP, "10.1.0.2", 1).reservation);
	}
	pma_is_heard("");
	rsk_pma_free(a);
}

Test(pma_overload, between_the_two_limits_nothing_changes)
{
	struct rsk_pma *a = pma_of("overload: {device-load: 80%, load: 0.5}\n"
				   "rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 1kbit}]\n"
				   "services: [{name: s, ports: ['1']}]\n");

	rsk_pma_listen(a, pma_hear_event, NULL);
	for (int i = 0; i < 3; i++) {
		rsk_pma_carried_set(a, "x", 799, PMA_LONG_NS);
		pma_is_heard("");
		rsk_pma_carried_set(a, "x", 800, PMA_LONG_NS);
		pma_is_heard("x over\n");
		rsk_pma_carried_set(a, "x", 721, PMA_LONG_NS);
		rsk_pma_carried_set(a, "x", 2000, PMA_LONG_NS);
		pma_is_heard("");
		rsk_pma_carried_set(a, "x", 719, PMA_LONG_NS);
		pma_is_heard("x relief\n");
		rsk_pma_load_set(a, 0.5);
		pma_is_heard("node over\n");
		rsk_pma_load_set(a, 0.46);
		rsk_pma_load_set(a, 7);
		pma_is_heard("");
		rsk_pma_load_set(a, 0.44);
		pma_is_heard("node relief\n");
	}
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_NODE_OVERLOAD), 3);
	cr_assert_eq(rsk_pma_event_count(a, RSK_PMA_DEVICE_RELIEF), 3);
	/* A reload sets other limits, or none. */
	rsk_pma_carried_set(a, "x", 850, PMA_LONG_NS);
	rsk_pma_load_set(a, 0.6);
	pma_is_heard("x over\nnode over\n");
	cr_assert_eq(rsk_pma_reload(a, pma_conf("overload: {device-load: 1}\n"
						"rnics: [{name: x, addresses: [10.1.0.1],\n"
						"         bandwidth: 1kbit}]\n")),
		     0);
	pma_is_heard("node relief\nx relief\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* What a node's agent reports of a port counts as at once as what this node measures itself. */
Test(pma_overload, a_reported_device_is_told_of_when_it_crosses)
{
	struct rsk_pma *a = pma_of("overload: {device-load: 80%}\n"
				   "rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1]}\n"
				   "  - {name: far, node: other, bandwidth: 1kbit,\n"
				   "     addresses: [10.1.0.4]}\n"
				   "services: [{name: s, ports: ['1']}]\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.4", 1);

	rsk_pma_listen(a, pma_hear_event, NULL);
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 799, NULL), 0);
	pma_is_heard("");
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 800, NULL), 0);
	pma_is_heard("far over\n");
	cr_assert(pma_view(a, "far").overloaded);
	cr_assert(rsk_pma_validate(a));
	cr_assert_eq(rsk_pma_port_seen(a, "other", 4, q.ap_ip, RSK_PMA_UP, 719, NULL), 0);
	pma_is_heard("far relief\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/*
 * New sessions go to another device, and sessions that ask again move until there is relief; then
 * the rest stays.
 */
Test(pma_overload, sessions_leave_what_is_overloaded)
{
	struct rsk_pma *a = pma_of(loaded);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 1);
	uint64_t held[12];

	fill(a, "10.9.0.1", held, 8);
	cr_assert(pma_view(a, "x").sessions == 8 && pma_view(a, "x").overloaded);
	pma_explain(a, &q);
	pma_says("  device x: has room, load 0.8, which is too much\n");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "y");
	cr_assert_eq(ask_again(a, "10.9.0.1", held, 8), 1);
	cr_assert(pma_view(a, "x").sessions == 7 && pma_view(a, "y").sessions == 2);
	cr_assert_eq(ask_again(a, "10.9.0.1", held, 8), 0);
	rsk_pma_free(a);
}

/* Two devices that are both nearly full do not exchange their sessions. */
Test(pma_overload, nothing_goes_to_and_fro)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t x[8], y[8];

	for (int on_y = 5; on_y <= 8; on_y++) {
		int moved = 0;

		fill(a, "10.1.0.1", x, 8);
		fill(a, "10.1.0.2", y, on_y);
		for (int round = 0; round < 10; round++) {
			int n = ask_again(a, "10.9.0.1", x, 8) + ask_again(a, "10.9.0.1", y, on_y);

			cr_assert(!round || !n, "%d on y, round %d: %d moved", on_y, round, n);
			moved += n;
		}
		/* With 7 of 10 a device has room below nine tenths of 8. */
		cr_assert_eq(moved, on_y <= 6, "%d on y: %d moved", on_y, moved);
		for (int i = 0; i < 8; i++) {
			rsk_pma_release(a, x[i]);
			if (i < on_y)
				rsk_pma_release(a, y[i]);
		}
	}
	rsk_pma_free(a);
}

/* An address that is one device's own is changed, too, though the service is not balanced. */
Test(pma_overload, an_own_address_is_changed)
{
	struct rsk_pma *a = pma_of(loaded);
	uint64_t held[8];

	fill(a, "10.1.0.1", held, 8);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "y");
	cr_assert_eq(ask_again(a, "10.1.0.1", held, 8), 1);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "x");
	rsk_pma_free(a);
}

static const char busy[] = "overload: {load: 0.9, refuse-below-priority: 2, rate: 100Mbit}\n"
			   "rnics:\n"
			   "  - {name: x, addresses: [10.1.0.1]}\n"
			   "  - {name: far, node: other, addresses: [10.1.0.2], order: 1}\n"
			   "aggregates: [{address: 10.9.0.1, over: [x, far]}]\n"
			   "services:\n"
			   "  - {name: low, ports: ['1'], priority: 1, rate: 1Gbit}\n"
			   "  - {name: middle, ports: ['2'], priority: 3}\n"
			   "  - {name: slow, ports: ['3'], priority: 2, rate: 1Mbit}\n"
			   "  - {name: high, ports: ['4'], priority: 4}\n";

/*
 * Best effort is slowed down, the lowest class refused; the high class is not affected. If another
 * node can serve it, it does.
 */
Test(pma_overload, a_node_that_has_too_much_to_do)
{
	struct rsk_pma *a = pma_of(busy);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	struct rsk_pma_answer out = pma_ask(a, &q);
	uint64_t held = out.reservation;

	cr_assert(out.verdict == RSK_PMA_MAP && out.rate_bps == 1000000000);
	rsk_pma_load_set(a, 0.9);
	cr_assert(rsk_pma_overloaded(a));
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_OVERLOAD);
	pma_says("  device x: left out: its node is overloaded (0.9 of 0.9), "
		 "and priority 1 is less than 2\n");
	pma_says("answer: do not map: the node's load is too high\n");
	/* A grant stays until it is given back; requested again, it is refused. */
	q.held = held;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_OVERLOAD);
	cr_assert_eq(pma_view(a, "x").sessions, 1);
	q.ap_port = 2;
	pma_explain(a, &q);
	pma_says("service rate: 100000000 bit/s, since its node is overloaded\n");
	q.ap_port = 3;
	pma_explain(a, &q);
	pma_says("service rate: 1000000 bit/s\n");
	q.ap_port = 1;
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 2).rate_bps, 100000000);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 3).rate_bps, 1000000);
	out = pma_ask_ap(a, CP, "10.1.0.1", 4);
	cr_assert(out.verdict == RSK_PMA_MAP && out.rate_bps == 0);
	/* The CP's side of it is on the same node. */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", CP, 1).verdict, RSK_PMA_OVERLOAD);
	for (uint16_t port = 1; port <= 4; port++) {
		out = pma_ask_ap(a, CP, "10.9.0.1", port);
		pma_is_on(out, "far");
		cr_assert_neq(out.rate_bps, 100000000);
	}
	rsk_pma_load_set(a, 0.8);
	for (uint16_t port = 1; port <= 4; port++)
		pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", port), "x");
	out = pma_ask(a, &q);
	cr_assert(out.verdict == RSK_PMA_MAP && out.reservation == held);
	rsk_pma_free(a);
}

static void carry(struct rsk_pma *a, uint32_t uid, enum rsk_pma_side side, uint64_t n, int seconds,
		  uint64_t *now_ns)
{
	for (int i = 0; i < seconds; i++) {
		*now_ns += S;
		cr_assert_eq(rsk_pma_transactions(a, uid, side, 4, n, *now_ns), 0);
		rsk_pma_period(a, *now_ns);
	}
}

/* A service of which more is wanted than it carries: best effort makes room, as by load. */
Test(pma_overload, a_service_that_carries_too_little)
{
	struct rsk_pma *a = pma_of("overload: {refuse-below-priority: 2, rate: 100Mbit}\n"
				   "rnics: [{name: x, addresses: [10.1.0.1]}]\n"
				   "services:\n"
				   "  - {name: low, ports: ['1'], priority: 1}\n"
				   "  - {name: middle, ports: ['2'], priority: 3}\n"
				   "  - {name: main, ports: ['4'], priority: 4,\n"
				   "     transactions-wanted: 1000, transactions-of: ['1000']}\n");
	struct rsk_pma_question low = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	uint32_t changes = rsk_pma_qos_changes(a);
	uint64_t now = 50 * S;

	rsk_pma_listen(a, pma_hear_event, NULL);
	rsk_pma_period(a, now);
	carry(a, 1000, RSK_PMA_AP, 1000, 5, &now);
	carry(a, 1000, RSK_PMA_AP, 99, 5, &now); /* as good as idle */
	/* Whose word does not count, and the other end */
	carry(a, 1001, RSK_PMA_AP, 500, 5, &now);
	carry(a, RSK_PMA_NOBODY, RSK_PMA_AP, 500, 5, &now);
	carry(a, 1000, RSK_PMA_CP, 500, 5, &now);
	/* Not for long */
	carry(a, 1000, RSK_PMA_AP, 500, 2, &now);
	carry(a, 1000, RSK_PMA_AP, 1000, 1, &now);
	carry(a, 1000, RSK_PMA_AP, 500, 2, &now);
	pma_is_heard("");
	cr_assert_eq(rsk_pma_qos_changes(a), changes);
	carry(a, 0, RSK_PMA_AP, 100, 1, &now);
	pma_is_heard("main below\nnode over\n");
	cr_assert_neq(rsk_pma_qos_changes(a), changes);
	cr_assert(rsk_pma_overloaded(a) && rsk_pma_validate(a));
	cr_assert_eq(pma_explain(a, &low).verdict, RSK_PMA_OVERLOAD);
	pma_says("  device x: left out: its node is overloaded (a service carries less than is "
		 "wanted), and priority 1 is less than 2\n");
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 2).rate_bps, 100000000);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 4).rate_bps, 0);
	carry(a, 1000, RSK_PMA_AP, 1000, 2, &now);
	carry(a, 1000, RSK_PMA_AP, 999, 1, &now);
	carry(a, 1000, RSK_PMA_AP, 1000, 2, &now);
	pma_is_heard("");
	carry(a, 1000, RSK_PMA_AP, 1000, 1, &now);
	pma_is_heard("main enough\nnode relief\n");
	cr_assert_eq(pma_explain(a, &low).verdict, RSK_PMA_MAP);
	/* It stops: nobody knows whether more is wanted. */
	carry(a, 1000, RSK_PMA_AP, 500, 3, &now);
	pma_is_heard("main below\nnode over\n");
	carry(a, 1000, RSK_PMA_AP, 0, 3, &now);
	pma_is_heard("main enough\nnode relief\n");
	/* It is not wanted any more by a new configuration. */
	carry(a, 1000, RSK_PMA_AP, 500, 3, &now);
	pma_is_heard("main below\nnode over\n");
	cr_assert_eq(rsk_pma_reload(a, pma_conf("rnics: [{name: x, addresses: [10.1.0.1]}]\n"
						"services: [{name: main, ports: ['4']}]\n")),
		     0);
	carry(a, 1000, RSK_PMA_AP, 500, 3, &now);
	pma_is_heard("main enough\nnode relief\n");
	rsk_pma_free(a);
}
