// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_devices.c - tests the policy agent's choice of a device for a session, and its records
 * of devices.
 */
#include <errno.h>

#include "pma_kit.h"

#define CP "10.0.0.1"

/* The specification's worked case: an address over two RNICs of each of two nodes. */
static const char aggregate[] = "rnics:\n"
				"  - {name: r123, node: n1, addresses: [1.2.3.123], order: 2}\n"
				"  - {name: r124, node: n1, addresses: [1.2.3.124], order: 2}\n"
				"  - {name: r125, node: n2, addresses: [1.2.3.125], order: 1}\n"
				"  - {name: r126, node: n2, addresses: [1.2.3.126], order: 1}\n"
				"aggregates: [{address: 1.2.3.4, over: [r123, r124, r125, r126]}]\n"
				"services: [{name: s, ports: ['80']}]\n";

Test(pma_devices, aggregate_of_two_nodes)
{
	struct rsk_pma *a = pma_of(aggregate);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "1.2.3.4", 80);

	pma_is_on(out, "r125");
	cr_assert_str_eq(pma_ip(&out), "1.2.3.125");
	rsk_pma_release(a, out.reservation);
	cr_assert_eq(rsk_pma_device_set(a, "r125", RSK_PMA_DOWN), 0);
	out = pma_ask_ap(a, CP, "1.2.3.4", 80);
	pma_is_on(out, "r126");
	rsk_pma_release(a, out.reservation);
	cr_assert_eq(rsk_pma_device_set(a, "r126", RSK_PMA_DOWN), 0);
	out = pma_ask_ap(a, CP, "1.2.3.4", 80);
	pma_is_on(out, "r123");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/*
 * The same for a session that is requested again: it stays as near as it can, whatever the load is.
 */
Test(pma_devices, what_is_held_moves_no_further_than_it_must)
{
	struct rsk_pma *a =
		pma_of("rnics:\n"
		       "  - {name: r123, node: n1, addresses: [1.2.3.123]}\n"
		       "  - {name: r124, node: n1, addresses: [1.2.3.124]}\n"
		       "  - {name: r125, node: n2, ports: [{name: a, addresses: [1.2.3.125]},\n"
		       "     {name: b, addresses: [1.2.3.225]}]}\n"
		       "  - {name: r126, node: n2, addresses: [1.2.3.126]}\n"
		       "aggregates: [{address: 1.2.3.4, over: [r125, r126, r123, r124]}]\n"
		       "services: [{name: s, ports: ['80']}]\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "1.2.3.4", 80);
	struct rsk_pma_answer out = pma_ask(a, &q), more[12];
	uint64_t first = out.reservation;

	pma_is_on(out, "r125/a");
	/* Others come; it would not be chosen again. */
	for (int i = 0; i < 12; i++)
		more[i] = pma_ask_ap(a, CP, "1.2.3.4", 80);
	q.held = first;
	out = pma_ask(a, &q);
	pma_is_on(out, "r125/a");
	cr_assert_eq(out.reservation, first);
	/* The other port, though more is on it than on others. */
	rsk_pma_release(a, more[2].reservation);
	cr_assert_eq(rsk_pma_device_set(a, "r125/a", RSK_PMA_DRAINING), 0);
	out = pma_ask(a, &q);
	pma_is_on(out, "r125/b");
	cr_assert_neq(out.reservation, first);
	q.held = first;
	rsk_pma_release(a, first); /* already gone: nothing happens */
	q.held = out.reservation;
	cr_assert_eq(rsk_pma_device_set(a, "r125", RSK_PMA_DOWN), 0);
	out = pma_ask(a, &q);
	pma_is_on(out, "r126");
	q.held = out.reservation;
	cr_assert_eq(rsk_pma_device_set(a, "r126", RSK_PMA_DOWN), 0);
	out = pma_ask(a, &q);
	cr_assert(strcmp(out.device, "r123") == 0 || strcmp(out.device, "r124") == 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma_devices, aggregate_in_order_or_by_load)
{
	struct rsk_pma *a = pma_of("rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1], sessions: 4}\n"
				   "  - {name: y, addresses: [10.1.0.2], sessions: 8}\n"
				   "aggregates:\n"
				   "  - {address: 10.9.0.1, over: [y, x], choose: order}\n"
				   "  - {address: 10.9.0.2, over: [x, y]}\n"
				   "services: [{name: s, ports: ['80']}]\n");
	int on_x = 0;

	for (int i = 0; i < 3; i++)
		pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 80), "y");
	/* 0 of 4 and 3 of 8; at the end both are full. */
	for (int i = 0; i < 9; i++) {
		struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.9.0.2", 80);

		cr_assert_eq(out.verdict, RSK_PMA_MAP);
		on_x += strcmp(out.device, "x") == 0;
		if (i == 0)
			cr_assert_str_eq(out.device, "x");
	}
	cr_assert_eq(on_x, 4);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.2", 80).verdict, RSK_PMA_EXHAUSTED);
	rsk_pma_free(a);
}

static bool holds(const struct rsk_pma *a, const char *service, const char *rdma)
{
	uint8_t at[2][16] = { 0 };

	cr_assert_eq(inet_pton(AF_INET, service, at[0]), 1);
	cr_assert_eq(inet_pton(AF_INET, rdma, at[1]), 1);
	return rsk_pma_holds(a, 4, at[0], at[1]);
}

/* What was mapped before leads to a port of another node, which this agent knows. */
Test(pma_devices, what_a_cached_mapping_leads_to)
{
	struct rsk_pma *a = pma_of(aggregate);
	uint8_t ip[16] = { 1, 2, 3, 125 };

	cr_assert(holds(a, "1.2.3.4", "1.2.3.125"));
	cr_assert(holds(a, "1.2.3.123", "1.2.3.125"), "of an address of its own");
	cr_assert(holds(a, "10.0.0.9", "10.0.0.9"), "of which nothing is known");
	cr_assert_not(holds(a, "1.2.3.4", "10.0.0.9"), "an aggregate that is not over it");
	for (int state = RSK_PMA_DOWN; state <= RSK_PMA_DRAINING; state++) {
		cr_assert_eq(rsk_pma_device_set(a, "r125", (enum rsk_pma_device_state)state), 0);
		cr_assert_not(holds(a, "1.2.3.4", "1.2.3.125"));
		cr_assert_not(holds(a, "10.0.0.9", "1.2.3.125"), "whatever the service");
		cr_assert(holds(a, "1.2.3.4", "1.2.3.126"));
	}
	cr_assert_eq(rsk_pma_device_set(a, "r125", RSK_PMA_UP), 0);
	cr_assert(holds(a, "1.2.3.4", "1.2.3.125"));
	cr_assert_eq(rsk_pma_port_seen(a, "n2", 4, ip, RSK_PMA_DOWN, 0, NULL), 0);
	cr_assert_not(holds(a, "1.2.3.4", "1.2.3.125"), "its node says so");
	cr_assert_eq(rsk_pma_reload(a, pma_conf("rnics:\n"
						"  - {name: r125, node: n2,"
						" addresses: [1.2.3.125]}\n"
						"  - {name: r126, node: n2,"
						" addresses: [1.2.3.126]}\n"
						"aggregates: [{address: 1.2.3.4, over: [r125]}]\n"
						"services: [{name: s, ports: ['80']}]\n")),
		     0);
	cr_assert_not(holds(a, "1.2.3.4", "1.2.3.126"), "the aggregate is not over it any more");
	cr_assert(holds(a, "1.2.3.126", "1.2.3.126"));
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

static const char own[] = "rnics:\n"
			  "  - {name: x, sessions: 2, ports: [{name: '1', addresses: [10.1.0.1]},\n"
			  "     {name: '2', addresses: [10.1.0.2]}]}\n"
			  "  - {name: y, addresses: [10.1.0.3]}\n"
			  "  - {name: far, node: other, addresses: [10.1.0.4]}\n"
			  "services:\n"
			  "  - {name: fixed, ports: ['80']}\n"
			  "  - {name: moves, ports: ['81'], balance: true}\n";

Test(pma_devices, own_address_is_fixed_unless_it_fails)
{
	struct rsk_pma *a = pma_of(own);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 80);

	pma_is_on(out, "x/1");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "x/1");
	/* A full device is not a failed one. */
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 80).verdict, RSK_PMA_EXHAUSTED);
	rsk_pma_release(a, out.reservation);
	cr_assert_eq(rsk_pma_device_set(a, "x/1", RSK_PMA_DOWN), 0);
	out = pma_ask_ap(a, CP, "10.1.0.1", 80);
	pma_is_on(out, "x/2"); /* another port of the RNIC */
	cr_assert_str_eq(pma_ip(&out), "10.1.0.2");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80),
		  "y"); /* which is full: another RNIC of the node */
	cr_assert_eq(rsk_pma_device_set(a, "y", RSK_PMA_DRAINING), 0);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 80).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DOWN), 0);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 80).verdict, RSK_PMA_NO_DEVICE);
	cr_assert_eq(rsk_pma_device_set(a, "z", RSK_PMA_DOWN), -ENOENT);
	rsk_pma_free(a);
}

Test(pma_devices, own_address_is_changed_to_balance)
{
	struct rsk_pma *a = pma_of(own);

	/* Equal load: the one that was requested; then the least loaded of the node. */
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "x/1");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "y");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "y");
	cr_assert_eq(pma_ask_ap(a, CP, "10.7.7.7", 81).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_free(a);
}

Test(pma_devices, outbound)
{
	struct rsk_pma *a =
		pma_of("rnics:\n"
		       "  - {name: x, addresses: [10.1.0.1], reach: [10.1.0.0/16]}\n"
		       "  - {name: y, addresses: [10.2.0.1, 'fd00::1'], reach: [10.2.0.0/16]}\n"
		       "  - {name: far, node: other, addresses: [10.3.0.1]}\n"
		       "services: [{name: s, ports: ['80'], rdma-port: 7}]\n");
	struct rsk_pma_answer out = pma_ask_cp(a, "10.2.0.1", "10.1.0.9", 80);

	pma_is_on(out, "x"); /* the device that reaches it, whatever the socket is bound to */
	cr_assert_str_eq(pma_ip(&out), "10.1.0.1");
	cr_assert_eq(out.port, 0);
	/* no RNIC has this address: this node */
	pma_is_on(pma_ask_cp(a, "172.16.0.1", "10.2.0.9", 80), "y");
	pma_is_on(pma_ask_cp(a, "10.3.0.1", "10.2.0.9", 80), "far"); /* that RNIC's node */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", "10.3.0.9", 80).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_free(a);
}

Test(pma_devices, quality_of_service)
{
	struct rsk_pma *a = pma_of(
		"rnics:\n"
		"  - {name: any, addresses: [10.1.0.1]}\n"
		"  - {name: high, addresses: [10.1.0.2], qos: high, sessions: 1}\n"
		"  - {name: rest, addresses: [10.1.0.3], qos: best-effort, sessions: 1}\n"
		"aggregates: [{address: 10.9.0.1, over: [any, high, rest]}]\n"
		"services:\n"
		"  - {name: gold, ports: ['1'], priority: 4, dscp: 46, rate: 1Gbit}\n"
		"  - {name: lead, ports: ['2'], priority: 3}\n"
		"rules:\n"
		"  - {name: promoted, when: {ports: ['2'], users: ['7']}, map: {priority: 6}}\n"
		"  - {name: rest}\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 2);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.9.0.1", 1);

	pma_is_on(out, "high");
	cr_assert(out.priority == 4 && out.dscp == 46 && out.rate_bps == 1000000000);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 2), "rest");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "any");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 2), "any");
	rsk_pma_release(a, out.reservation);
	/* A rule puts it into the other class; and an own address of the wrong class is changed. */
	q.uid = 7;
	out = pma_ask(a, &q);
	pma_is_on(out, "high");
	cr_assert(out.priority == 6 && strcmp(out.rule, "promoted") == 0);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.3", 1), "any");
	rsk_pma_free(a);
}

static const char spares[] =
	"rnics:\n"
	"  - {name: a, addresses: [10.1.0.1]}\n"
	"  - {name: b, addresses: [10.1.0.2]}\n"
	"  - {name: c, addresses: [10.1.0.3]}\n"
	"  - {name: s2, addresses: [10.1.0.5], role: spare, order: 2}\n"
	"  - {name: s1, addresses: [10.1.0.4], role: spare, order: 1}\n"
	"aggregates: [{address: 10.9.0.1, over: [a, b, c, s2, s1]}]\n"
	"services: [{name: ha, ports: ['1'], high-availability: true}, {name: not, "
	"ports: ['2']}]\n";

Test(pma_devices, spares)
{
	struct rsk_pma *a = pma_of(spares);
	struct rsk_pma_answer out;

	for (int i = 0; i < 9; i++)
		cr_assert_neq(pma_ask_ap(a, CP, "10.9.0.1", 1).device[0], 's');
	rsk_pma_device_set(a, "a", RSK_PMA_DOWN);
	rsk_pma_device_set(a, "b", RSK_PMA_DOWN);
	/* Active devices come first. */
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "c");
	rsk_pma_device_set(a, "c", RSK_PMA_DRAINING);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 2).verdict, RSK_PMA_NO_DEVICE);
	out = pma_ask_ap(a, CP, "10.9.0.1", 1);
	pma_is_on(out, "s1");
	cr_assert(pma_view(a, "s1").in_use_as_spare && !pma_view(a, "s2").in_use_as_spare);
	rsk_pma_device_set(a, "s1", RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "s2");
	rsk_pma_device_set(a, "a", RSK_PMA_UP);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "a");
	rsk_pma_free(a);
}

/* One has failed: one spare takes its place, not two. */
Test(pma_devices, as_many_spares_as_have_failed)
{
	struct rsk_pma *a =
		pma_of("rnics:\n"
		       "  - {name: a, addresses: [10.1.0.1]}\n"
		       "  - {name: b, addresses: [10.1.0.2], sessions: 1}\n"
		       "  - {name: s1, addresses: [10.1.0.4], role: spare, sessions: 1}\n"
		       "  - {name: s2, addresses: [10.1.0.5], role: spare, sessions: 1}\n"
		       "services: [{name: ha, ports: ['1'], high-availability: true}]\n"
		       "aggregates: [{address: 10.9.0.1, over: [a, b, s1, s2]}]\n");

	rsk_pma_device_set(a, "a", RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "b");
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "s1");
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 1).verdict, RSK_PMA_EXHAUSTED);
	rsk_pma_device_set(a, "b", RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "s2");
	rsk_pma_free(a);
}

/* A session is promised, in use from its confirmation on, and given back once. */
Test(pma_devices, promised_and_confirmed)
{
	struct rsk_pma *a = pma_of("rnics: [{name: x, addresses: [10.1.0.1], sessions: 2}]\n"
				   "services: [{name: s, ports: ['1']}]\n");
	struct rsk_pma_answer one = pma_ask_ap(a, CP, "10.1.0.1", 1);
	struct rsk_pma_answer two = pma_ask_ap(a, CP, "10.1.0.1", 1);

	cr_assert(pma_view(a, "x").sessions == 2 && pma_view(a, "x").promised == 2);
	rsk_pma_confirm(a, two.reservation);
	rsk_pma_confirm(a, two.reservation);
	cr_assert(pma_view(a, "x").sessions == 2 && pma_view(a, "x").promised == 1);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_EXHAUSTED);
	rsk_pma_release(a, two.reservation);
	rsk_pma_release(a, two.reservation);
	cr_assert(pma_view(a, "x").sessions == 1 && pma_view(a, "x").promised == 1);
	rsk_pma_release(a, one.reservation);
	cr_assert(pma_view(a, "x").sessions == 0 && pma_view(a, "x").promised == 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/*
 * A full device has room for the session that it has already; after a refusal the session stays
 * there.
 */
Test(pma_devices, held_is_judged_anew)
{
	struct rsk_pma *a = pma_of("rnics: [{name: x, addresses: [10.1.0.1], sessions: 1}]\n"
				   "services: [{name: s, ports: ['1'], limits: {sessions: 1}}]\n"
				   "rules: [{name: r, when: {load-below: 0.5}}]\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	struct rsk_pma_answer out = pma_ask(a, &q);

	q.held = out.reservation;
	out = pma_ask(a, &q);
	cr_assert_eq(out.verdict, RSK_PMA_MAP);
	cr_assert_eq(out.reservation, q.held);
	rsk_pma_load_set(a, 0.9);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_OVERLOAD);
	cr_assert_eq(pma_view(a, "x").sessions, 1);
	rsk_pma_release(a, q.held);
	cr_assert_eq(pma_view(a, "x").sessions, 0);
	rsk_pma_load_set(a, 0);
	out = pma_ask(a, &q); /* a reservation that was released is not reused */
	cr_assert(out.reservation && out.reservation != q.held);
	rsk_pma_free(a);
}

Test(pma_devices, reload)
{
	static const char before[] =
		"rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 10Gbit},\n"
		"        {name: y, addresses: [10.1.0.2]}]\n"
		"services: [{name: s, ports: ['1'], bandwidth: 4Gbit}, {name: t, ports: ['2']}]\n";
	static const char after[] =
		"rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 10Gbit, sessions: 3}]\n"
		"services: [{name: s, ports: ['1'], bandwidth: 1Gbit, limits: {sessions: 2}}]\n";
	struct rsk_pma *a = pma_of(before);
	struct rsk_pma_answer s = pma_ask_ap(a, CP, "10.1.0.1", 1), more;
	struct rsk_pma_answer t = pma_ask_ap(a, CP, "10.1.0.1", 2);
	struct rsk_pma_answer y = pma_ask_ap(a, CP, "10.1.0.2", 1);

	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DRAINING), 0);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(after)), 0);
	cr_assert(rsk_pma_validate(a));
	cr_assert(pma_view(a, "x").sessions == 2 && pma_view(a, "x").bps == 4000000000);
	cr_assert_eq(pma_view(a, "x").state, RSK_PMA_DRAINING);
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_UP), 0);
	/*
	 * y is gone, and its session still counts for the service: two sessions, as many as it may
	 * have now.
	 */
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_LIMIT);
	rsk_pma_release(a, y.reservation);
	more = pma_ask_ap(a, CP, "10.1.0.1", 1);
	pma_is_on(more, "x");
	/* given back with the rate with which it was taken */
	cr_assert_eq(pma_view(a, "x").bps, 5000000000);
	rsk_pma_release(a, s.reservation);
	cr_assert_eq(pma_view(a, "x").bps, 1000000000);
	rsk_pma_release(a, t.reservation);
	rsk_pma_release(a, more.reservation);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(before)), 0);
	cr_assert(pma_view(a, "x").sessions == 0 && pma_view(a, "y").sessions == 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* ---- devices that are implemented in software ---- */

static bool ends_in_one(void *ctx, const struct rsk_pm_addr *ip)
{
	return ip->ip[3] == 1;
}

static const char two_links[] = "node: here\n"
				"rnics:\n"
				"  - {name: soft, node: here, addresses: [10.1.0.1]}\n"
				"  - {name: real, node: here, addresses: [10.1.0.2], order: 9}\n"
				"  - {name: far, node: there, addresses: [10.2.0.1]}\n"
				"aggregates: [{address: 10.1.0.9, over: [soft, real]}]\n"
				"services: [{name: s, ports: ['80']}]\n";

Test(pma_devices, of_software_are_declined_unless_they_are_wanted)
{
	struct rsk_pma *a = pma_of(two_links);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 80);
	char text[sizeof(two_links) + 32];
	enum rsk_pma_verdict why;
	const struct rsk_ledger_need need = { 0 };

	rsk_pma_soft(a, ends_in_one, NULL);
	cr_assert(pma_view(a, "soft").soft && !pma_view(a, "real").soft);
	cr_assert_not(pma_view(a, "far").soft, "another node's is its own daemon's to know");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "real");
	pma_is_on(pma_ask_cp(a, "10.1.0.1", CP, 80), "real");
	cr_assert_eq(rsk_pma_device_set(a, "real", RSK_PMA_DOWN), 0);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_SOFT_RNIC);
	cr_assert(strstr(pma_said, "software device") && strstr(pma_said, "soft-rdma"));
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.9", 80).verdict, RSK_PMA_SOFT_RNIC);
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", CP, 80).verdict, RSK_PMA_SOFT_RNIC);
	/* Nor where another agent has chosen it. */
	q.placed = true;
	memcpy(q.at_ip, q.ap_ip, 16);
	cr_assert_eq(rsk_pma_admit(a, &q, &need, false, &why), 0);
	cr_assert_eq(why, RSK_PMA_SOFT_RNIC);
	cr_assert_neq(rsk_pma_admit(a, &q, &need, true, &why), 0, "what is there counts");
	/* Now the configuration allows it. */
	snprintf(text, sizeof(text), "soft-rdma: use\n%s", two_links);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(text)), 0);
	rsk_pma_soft(a, ends_in_one, NULL);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "soft");
	cr_assert_eq(rsk_pma_reload(a, pma_conf(two_links)), 0);
	rsk_pma_soft(a, NULL, NULL);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "soft");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
