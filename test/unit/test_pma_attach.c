// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_attach.c - tests what it means for policy how RNICs are attached to their host: the bus
 * limits bandwidth, and a process that is bound to processors gets an RNIC that is near them.
 */
#include "pma_kit.h"

#include <sched.h>
#include <unistd.h>

#include "affinity.h"

#define CP "10.0.0.1"
#define GBIT 1000000000ull

static const char two_rnics[] = "node: here\n"
				"rnics:\n"
				"  - {name: x, node: here, sessions: 100, ports: [\n"
				"     {name: a, addresses: [10.1.0.1], bandwidth: 100Gbit},\n"
				"     {name: b, addresses: [10.1.0.2], bandwidth: 100Gbit}]}\n"
				"  - {name: y, node: here, sessions: 100, addresses: [10.1.0.3]}\n"
				"  - {name: z, node: there, addresses: [10.2.0.1]}\n"
				"aggregates:\n"
				"  - {address: 10.9.0.1, over: [x, y]}\n"
				"  - {address: 10.9.0.2, over: [y]}\n"
				"services:\n"
				"  - {name: s, ports: ['80'], bandwidth: 20Gbit}\n"
				"  - {name: t, ports: ['81']}\n"
				"rules: [{name: r, when: {bandwidth-fits: true}}]\n";

/* Of the RNIC with address 10.1.0.1 and of the one with 10.1.0.3. */
struct host {
	struct rsk_bus x, y;
};

static struct rsk_bus bus_of(void *ctx, const struct rsk_pm_addr *ip)
{
	const struct host *h = ctx;
	const struct rsk_bus none = { 0 };

	cr_assert_eq(ip->ip[1], 1, "another node's is its own daemon's to know");
	return ip->ip[3] == 1 ? h->x : ip->ip[3] == 3 ? h->y : none;
}

Test(pma_attach, the_bus_limits_both_ports_of_an_rnic)
{
	struct rsk_pma *a = pma_of(two_rnics);
	struct host h = { .x.bps = 57 * GBIT };
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.2", 80);
	uint64_t held[2];

	rsk_pma_attach(a, bus_of, &h);
	cr_assert_eq(pma_view(a, "x/a").bps_max, 57 * GBIT);
	cr_assert_eq(pma_view(a, "x/b").bus.bps, 57 * GBIT);
	cr_assert_eq(pma_view(a, "y").bus.bps, 0);
	for (int i = 0; i < 2; i++) {
		struct rsk_pma_answer out = pma_ask_ap(a, CP, i ? "10.1.0.2" : "10.1.0.1", 80);

		pma_is_on(out, i ? "x/b" : "x/a");
		held[i] = out.reservation;
	}
	/* 40 of 57 are booked, 20 on each port: a third session fits a port, but not the bus. */
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_RULE);
	cr_assert(strstr(pma_said, "17000000000 of 57000000000 are free"), "%s", pma_said);
	cr_assert(rsk_pma_validate(a));
	/* It is kept by a reload, and gone with the device. */
	cr_assert_eq(rsk_pma_reload(a, pma_conf(two_rnics)), 0);
	cr_assert_neq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	rsk_pma_attach(a, NULL, NULL);
	cr_assert_eq(pma_view(a, "x/a").bps_max, 100 * GBIT);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.2", 80), "x/b");
	rsk_pma_release(a, held[0]);
	rsk_pma_release(a, held[1]);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* No rule looks at bandwidth: the ledger alone has to refuse. */
Test(pma_attach, the_bus_limits_what_is_promised)
{
	struct rsk_pma *a = pma_of("rnics:\n"
				   "  - {name: x, ports: [{name: a, addresses: [10.1.0.1]},\n"
				   "                      {name: b, addresses: [10.1.0.2]}]}\n"
				   "services: [{name: s, ports: ['80'], bandwidth: 20Gbit}]\n");
	struct host h = { .x.bps = 57 * GBIT };

	rsk_pma_attach(a, bus_of, &h);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "x/a");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.2", 80), "x/b");
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 80).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(pma_view(a, "x/a").bps_max, 0, "a port without a limit keeps none");
	h.x.bps = 100 * GBIT;
	rsk_pma_attach(a, bus_of, &h);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "x/a");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma_attach, a_bound_process_gets_the_near_one)
{
	struct rsk_pma *a = pma_of(two_rnics);
	struct host h = { .x.numa = 1, .y.numa = 2 };
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.1.0.1", CP, 81);
	struct rsk_pma_answer out;

	rsk_pma_attach(a, bus_of, &h);
	cr_assert_eq(pma_view(a, "y").bus.numa, 2);
	/* Unbound: the one with the address; and so where the process may run on both. */
	out = pma_ask(a, &q);
	pma_is_on(out, "x/a");
	rsk_pma_release(a, out.reservation);
	q.numa_nodes = 3;
	out = pma_ask(a, &q);
	pma_is_on(out, "x/a");
	rsk_pma_release(a, out.reservation);
	/* Bound to node 1. */
	q.numa_nodes = 2;
	for (int i = 0; i < 25; i++)
		pma_is_on(pma_ask(a, &q), "y");
	/* Now y is busier than x by a quarter of what it can take, and x has the address. */
	pma_is_on(pma_ask(a, &q), "x/a");
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_MAP);
	cr_assert(strstr(pma_said, "device x/a: has room, load 0.01; the process runs on other"),
		  "%s", pma_said);
	cr_assert_null(strstr(pma_said, "device y: has room, load 0.25; the"));
	pma_is_on(pma_ask(a, &q), "y");
	/* Where it is not known how they are attached, none is preferred. */
	rsk_pma_attach(a, NULL, NULL);
	pma_is_on(pma_ask(a, &q), "x/a");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* Other properties come first, and a near one that cannot take it does not count. */
Test(pma_attach, nearness_is_less_than_order_and_state)
{
	struct rsk_pma *a = pma_of("rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1], order: 1}\n"
				   "  - {name: y, addresses: [10.1.0.3], order: 2}\n"
				   "aggregates: [{address: 10.9.0.1, over: [x, y]}]\n"
				   "services: [{name: s, ports: ['80']}]\n");
	struct host h = { .x.numa = 1, .y.numa = 2 };
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 80);

	rsk_pma_attach(a, bus_of, &h);
	q.numa_nodes = 2;
	pma_is_on(pma_ask(a, &q), "x");
	q.numa_nodes = 1;
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DOWN), 0);
	pma_is_on(pma_ask(a, &q), "y");
	rsk_pma_free(a);
}

/* ---- processes ---- */

Test(pma_attach, processors_of_a_process)
{
	static struct rsk_numa numa;
	cpu_set_t was, one;
	int cpu = 0;

	cr_assert_eq(sched_getaffinity(0, sizeof(was), &was), 0);
	while (!CPU_ISSET(cpu, &was))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
	numa.n = 2;
	cr_assert_eq(rsk_affinity_nodes(&numa, getpid()), 0, "a processor of no known node");
	numa.node[cpu] = 6;
	cr_assert_eq(rsk_affinity_nodes(&numa, getpid()), 1u << 5);
	cr_assert_eq(rsk_affinity_nodes(&numa, 0), 0, "not this process");
	cr_assert_eq(rsk_affinity_nodes(&numa, -1), 0);
	cr_assert_eq(rsk_affinity_nodes(&numa, INT32_MAX), 0, "it has exited");
	numa.n = 1;
	cr_assert_eq(rsk_affinity_nodes(&numa, getpid()), 0, "a host of one node");
}
