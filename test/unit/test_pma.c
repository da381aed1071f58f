// SPDX-License-Identifier: BSD-2-Clause
/* test_pma.c - the policy agent's rules one by one: what is mapped, where to, and why not. */
#include <errno.h>
#include <stdlib.h>

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

Test(pma, aggregate_of_two_nodes)
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

/* The same for a session that is asked for again: it stays as near as it can, whatever the load says. */
Test(pma, what_is_held_moves_no_further_than_it_must)
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
	/* The other port, with more on it than on others. */
	rsk_pma_release(a, more[2].reservation);
	cr_assert_eq(rsk_pma_device_set(a, "r125/a", RSK_PMA_DRAINING), 0);
	out = pma_ask(a, &q);
	pma_is_on(out, "r125/b");
	cr_assert_neq(out.reservation, first);
	q.held = first;
	rsk_pma_release(a, first); /* gone by then: nothing happens */
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

Test(pma, aggregate_in_order_or_by_load)
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

static const char own[] = "rnics:\n"
			  "  - {name: x, sessions: 2, ports: [{name: '1', addresses: [10.1.0.1]},\n"
			  "     {name: '2', addresses: [10.1.0.2]}]}\n"
			  "  - {name: y, addresses: [10.1.0.3]}\n"
			  "  - {name: far, node: other, addresses: [10.1.0.4]}\n"
			  "services:\n"
			  "  - {name: fixed, ports: ['80']}\n"
			  "  - {name: moves, ports: ['81'], balance: true}\n";

Test(pma, own_address_is_fixed_unless_it_fails)
{
	struct rsk_pma *a = pma_of(own);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 80);

	pma_is_on(out, "x/1");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 80), "x/1");
	/* Full is not failed. */
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

Test(pma, own_address_is_changed_to_balance)
{
	struct rsk_pma *a = pma_of(own);

	/* Equal: the one that was asked for; then the least loaded of the node. */
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "x/1");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "y");
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 81), "y");
	cr_assert_eq(pma_ask_ap(a, CP, "10.7.7.7", 81).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_free(a);
}

Test(pma, outbound)
{
	struct rsk_pma *a =
		pma_of("rnics:\n"
		       "  - {name: x, addresses: [10.1.0.1], reach: [10.1.0.0/16]}\n"
		       "  - {name: y, addresses: [10.2.0.1, 'fd00::1'], reach: [10.2.0.0/16]}\n"
		       "  - {name: far, node: other, addresses: [10.3.0.1]}\n"
		       "services: [{name: s, ports: ['80'], rdma-port: 7}]\n");
	struct rsk_pma_answer out = pma_ask_cp(a, "10.2.0.1", "10.1.0.9", 80);

	pma_is_on(out, "x"); /* who reaches it, whatever the socket is bound to */
	cr_assert_str_eq(pma_ip(&out), "10.1.0.1");
	cr_assert_eq(out.port, 0);
	pma_is_on(pma_ask_cp(a, "172.16.0.1", "10.2.0.9", 80), "y"); /* no RNIC's: this node */
	pma_is_on(pma_ask_cp(a, "10.3.0.1", "10.2.0.9", 80), "far"); /* that one's node */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", "10.3.0.9", 80).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_free(a);
}

Test(pma, quality_of_service)
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
	/* By a rule it is of the other class; and an own address of the wrong class is changed. */
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
	"services: [{name: ha, ports: ['1'], high-availability: true}, {name: not, ports: ['2']}]\n";

static struct rsk_pma_device_view view(struct rsk_pma *a, const char *name)
{
	struct rsk_pma_device_view v[8];
	size_t n = rsk_pma_devices(a, v, 8);

	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].name, name) == 0)
			return v[i];
	cr_assert(false, "%s", name);
	return v[0];
}

Test(pma, spares)
{
	struct rsk_pma *a = pma_of(spares);
	struct rsk_pma_answer out;

	for (int i = 0; i < 9; i++)
		cr_assert_neq(pma_ask_ap(a, CP, "10.9.0.1", 1).device[0], 's');
	rsk_pma_device_set(a, "a", RSK_PMA_DOWN);
	rsk_pma_device_set(a, "b", RSK_PMA_DOWN);
	/* First what is active. */
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "c");
	rsk_pma_device_set(a, "c", RSK_PMA_DRAINING);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 2).verdict, RSK_PMA_NO_DEVICE);
	out = pma_ask_ap(a, CP, "10.9.0.1", 1);
	pma_is_on(out, "s1");
	cr_assert(view(a, "s1").in_use_as_spare && !view(a, "s2").in_use_as_spare);
	rsk_pma_device_set(a, "s1", RSK_PMA_DOWN);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "s2");
	rsk_pma_device_set(a, "a", RSK_PMA_UP);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 1), "a");
	rsk_pma_free(a);
}

/* One has failed: one spare stands in, not two. */
Test(pma, as_many_spares_as_have_failed)
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

static const char ruled[] =
	"rnics:\n"
	"  - {name: x, addresses: [10.1.0.1], bandwidth: 10Gbit, group: g}\n"
	"  - {name: y, addresses: [10.1.0.2]}\n"
	"aggregates: [{address: 10.9.0.1, over: [x, y]}]\n"
	"services:\n"
	"  - {name: web, ports: ['80'], bandwidth: 4Gbit, pm-time: 30s, rdma-port: 18515}\n"
	"  - {name: db, ports: ['5432'], pm-time: lasting}\n"
	"  - {name: log, ports: ['514']}\n"
	"  - {name: moved, ports: ['99']}\n"
	"functions: [{name: inside, when: {peers: [10.0.0.0/8]}}]\n"
	"rules:\n"
	"  - name: web\n"
	"    when: {services: [web], bandwidth-fits: true}\n"
	"    map: {group: g, pm-time: 5s}\n"
	"  - name: quiet\n"
	"    when: {services: [db], functions: [inside], load-below: 50%}\n"
	"  - name: logs\n"
	"    when: {any: [{users: ['7']}, {all: [{users: ['8']}, {not: {functions: [inside]}}]}],\n"
	"           services: [log], sessions-below: 2, device-sessions-below: 9}\n"
	"    side: cp\n"
	"  - {name: away, side: ap, when: {services: [moved]}, map: {redirect: 10.0.0.7}}\n";

Test(pma, rules)
{
	struct rsk_pma *a = pma_of(ruled);
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.2", 514);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.9.0.1", 80);

	pma_is_on(out, "x");
	cr_assert(out.pm_time_s == 5 && out.port == 18515 && strcmp(out.rule, "web") == 0);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 80), "x");
	/* R1: 4 <= 10 - 8 does not hold for x, and y is not in the group. */
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 80).verdict, RSK_PMA_NO_RULE);
	rsk_pma_release(a, out.reservation);
	cr_assert_eq(rsk_pma_bandwidth_set(a, "x", 2000000001), 0);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 80).verdict, RSK_PMA_NO_RULE);
	cr_assert_eq(rsk_pma_bandwidth_set(a, "x", 2000000000), 0);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 80), "x");
	cr_assert_eq(rsk_pma_bandwidth_set(a, "nowhere", 1), -ENOENT);

	out = pma_ask_ap(a, CP, "10.9.0.1", 5432);
	cr_assert(out.verdict == RSK_PMA_MAP && out.pm_time_s == 255 && out.port == 0);
	cr_assert_eq(pma_ask_ap(a, "11.0.0.1", "10.9.0.1", 5432).verdict, RSK_PMA_NO_RULE);
	rsk_pma_load_set(a, 0.5);
	out = pma_ask_ap(a, CP, "10.9.0.1", 5432);
	cr_assert(out.verdict == RSK_PMA_OVERLOAD && strcmp(out.rule, "quiet") == 0);
	cr_assert_eq(pma_ask_ap(a, "11.0.0.1", "10.9.0.1", 5432).verdict, RSK_PMA_NO_RULE);

	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE); /* nobody */
	q.uid = 8;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE);
	q.uid = 7;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(inet_pton(AF_INET, "11.0.0.1", q.ap_ip), 1);
	q.uid = 8;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE); /* two sessions are there */
	q.side = RSK_PMA_AP;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE);

	out = pma_ask_ap(a, CP, "10.9.0.1", 99);
	cr_assert_eq(out.verdict, RSK_PMA_ELSEWHERE);
	cr_assert(out.redirect_ip[0] == 10 && out.redirect_ip[3] == 7 && !out.reservation);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 98).verdict, RSK_PMA_NO_RULE);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* Full here, there is another host. */
Test(pma, redirect_when_it_does_not_fit)
{
	struct rsk_pma *a = pma_of("rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 1Gbit}]\n"
				   "services: [{name: s, ports: ['1'], bandwidth: 1Gbit}]\n"
				   "rules:\n"
				   "  - {name: here}\n"
				   "  - {name: there, side: ap, when: {bandwidth-fits: false},\n"
				   "     map: {redirect: 10.0.0.7}}\n");
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);

	pma_is_on(out, "x");
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_ELSEWHERE);
	/* Of a device that is not there neither it nor its contrary holds. */
	cr_assert_eq(pma_ask_ap(a, CP, "10.7.7.7", 1).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_release(a, out.reservation);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "x");
	rsk_pma_free(a);
}

Test(pma, nothing_configured)
{
	struct rsk_conf *c;
	struct rsk_pma *a;

	cr_assert_eq(rsk_conf_default(&c), 0);
	a = rsk_pma_new(c);
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 80).verdict, RSK_PMA_NO_RULE);
	cr_assert_eq(rsk_pma_devices(a, NULL, 0), 0);
	rsk_pma_free(a);
	rsk_pma_free(NULL);
}

static const char limited[] =
	"limits: {sessions: 8, per-cp: 4, per-user: 3}\n"
	"rnics: [{name: x, addresses: [10.1.0.1], sessions: 100, memory-maps: 20, connections: 50}]\n"
	"services:\n"
	"  - {name: a, ports: ['1'], limits: {sessions: 3, per-cp: 2, per-user: 1}}\n"
	"  - {name: b, ports: ['2']}\n"
	"  - {name: c, ports: ['3'], memory-maps: 15}\n"
	"  - {name: d, ports: ['4'], connections: 51}\n";

Test(pma, limits)
{
	struct rsk_pma *a = pma_of(limited);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	struct rsk_pma_answer first;

	q.uid = 500;
	first = pma_ask(a, &q);
	cr_assert_eq(first.verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT); /* that user's one */
	q.uid = RSK_PMA_NOBODY;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT); /* that CP's two */
	cr_assert_eq(pma_ask_ap(a, "10.0.0.2", "10.1.0.1", 1).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.3", "10.1.0.1", 1).verdict, RSK_PMA_LIMIT); /* three */
	/* The other side counts for itself. */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", "10.0.0.3", 1).verdict, RSK_PMA_MAP);
	q.ap_port = 2;
	q.uid = 500;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT); /* that CP's four, that user's three */
	rsk_pma_release(a, first.reservation);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 3).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 3).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 4).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.5", "10.1.0.1", 2).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.5", "10.1.0.1", 2).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.6", "10.1.0.1", 2).verdict, RSK_PMA_LIMIT); /* eight */
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma, another_and_confirmed)
{
	struct rsk_pma *a = pma_of("rnics: [{name: x, addresses: [10.1.0.1], sessions: 3}]\n"
				   "services: [{name: s, ports: ['1'], limits: {per-cp: 9}}]\n");
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);
	uint64_t two = rsk_pma_another(a, out.reservation), three;

	cr_assert(two && two != out.reservation);
	rsk_pma_confirm(a, two);
	rsk_pma_confirm(a, two);
	cr_assert(view(a, "x").sessions == 2 && view(a, "x").promised == 1);
	three = rsk_pma_another(a, out.reservation);
	cr_assert(three && rsk_pma_another(a, out.reservation) == 0);
	rsk_pma_release(a, three);
	rsk_pma_device_set(a, "x", RSK_PMA_DRAINING);
	cr_assert_eq(rsk_pma_another(a, out.reservation), 0);
	rsk_pma_device_set(a, "x", RSK_PMA_UP);
	three = rsk_pma_another(a, two);
	cr_assert_neq(three, 0);
	cr_assert_eq(rsk_pma_another(a, 12345), 0);
	rsk_pma_release(a, out.reservation);
	rsk_pma_release(a, two);
	rsk_pma_release(a, two);
	rsk_pma_release(a, three);
	cr_assert(view(a, "x").sessions == 0 && view(a, "x").promised == 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* A full device has room for the one that is there already; a refusal leaves it there. */
Test(pma, held_is_judged_anew)
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
	cr_assert_eq(view(a, "x").sessions, 1);
	rsk_pma_release(a, q.held);
	cr_assert_eq(view(a, "x").sessions, 0);
	rsk_pma_load_set(a, 0);
	out = pma_ask(a, &q); /* what is held no more is no answer */
	cr_assert(out.reservation && out.reservation != q.held);
	rsk_pma_free(a);
}

Test(pma, reload)
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
	cr_assert(view(a, "x").sessions == 2 && view(a, "x").bps == 4000000000);
	cr_assert_eq(view(a, "x").state, RSK_PMA_DRAINING);
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_UP), 0);
	/* y is gone, and what was on it is still of the service: two sessions, as many as it may have now. */
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_LIMIT);
	cr_assert_eq(rsk_pma_another(a, y.reservation), 0);
	rsk_pma_release(a, y.reservation);
	more = pma_ask_ap(a, CP, "10.1.0.1", 1);
	pma_is_on(more, "x");
	cr_assert_eq(view(a, "x").bps, 5000000000); /* given back as it was taken */
	rsk_pma_release(a, s.reservation);
	cr_assert_eq(view(a, "x").bps, 1000000000);
	cr_assert_eq(rsk_pma_another(a, t.reservation), 0);
	rsk_pma_release(a, t.reservation);
	rsk_pma_release(a, more.reservation);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(before)), 0);
	cr_assert(view(a, "x").sessions == 0 && view(a, "y").sessions == 0);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* ---- in words ---- */

static char said[8192];

static void hear(void *ctx, const char *line)
{
	size_t n = strlen(said);

	snprintf(said + n, sizeof(said) - n, "%s\n", line);
}

static struct rsk_pma_answer explain(struct rsk_pma *a, const struct rsk_pma_question *q)
{
	struct rsk_pma_answer out;

	*said = 0;
	rsk_pma_explain(a, q, &out, hear, NULL);
	cr_assert_eq(out.reservation, 0);
	return out;
}

#define says(text) cr_assert(strstr(said, text), "not said: %s\n%s", text, said)

Test(pma, explain)
{
	struct rsk_pma *a = pma_of(ruled);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 80);
	struct rsk_pma_answer out = explain(a, &q);

	pma_is_on(out, "x");
	says("question: AP side, from CP 10.0.0.1 to AP 10.9.0.1, service port 80, a service mapping\n");
	says("service web: a session needs 4000000000 bit/s, 0 memory maps, 1 connections\n");
	says("rule web: depends on the device\n");
	says("  device x: has room, load 0\n");
	says("  device y: left out: it is not in the rule's group\n");
	says("answer: map, by rule web: device x, address 10.1.0.1, PmTime 5\n");
	cr_assert_eq(view(a, "x").sessions, 0);

	pma_ask(a, &q);
	pma_ask(a, &q);
	cr_assert_eq(explain(a, &q).verdict, RSK_PMA_NO_RULE);
	says("  device x: left out: bandwidth-fits: 4000000000 bit/s are needed, 2000000000 of "
	     "10000000000 are free\n");
	says("rule quiet: does not hold: services: it is \"web\"\n");
	says("rule logs: is for the other side\n");
	says("answer: do not map: no rule supports it\n");

	q.ap_port = 5432;
	rsk_pma_load_set(a, 0.75);
	cr_assert_eq(explain(a, &q).verdict, RSK_PMA_OVERLOAD);
	says("rule quiet: does not hold: load-below 0.5: the node's load is 0.75\n");
	q.cp_ip[0] = 11;
	explain(a, &q);
	says("rule quiet: does not hold: load-below 0.5: ");
	rsk_pma_load_set(a, 0);
	explain(a, &q);
	says("rule quiet: does not hold: inside: peers: the peer is 11.0.0.1\n");

	q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.9", 514);
	q.cp_port = 4000;
	explain(a, &q);
	says("CP side");
	says("one connection\n");
	says("rule logs: does not hold: users: the user is not known\n");
	q.uid = 8;
	explain(a, &q);
	says("users: the user is 8\n");

	q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 99);
	explain(a, &q);
	says("answer: by rule away, 10.0.0.7 answers\n");
	q.ap_port = 98;
	explain(a, &q);
	says("no service is registered at this port\n");
	rsk_pma_device_set(a, "x", RSK_PMA_DOWN);
	rsk_pma_device_set(a, "y", RSK_PMA_DRAINING);
	q.ap_port = 5432;
	cr_assert_eq(explain(a, &q).verdict, RSK_PMA_NO_DEVICE);
	says("  device x: left out: it is down\n");
	says("  device y: left out: it is drained\n");
	rsk_pma_free(a);

	a = pma_of(limited);
	q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 4);
	cr_assert_eq(explain(a, &q).verdict, RSK_PMA_EXHAUSTED);
	says("  device x: left out: too few connections left\n");
	q.ap_port = 1;
	pma_ask(a, &q);
	pma_ask(a, &q);
	cr_assert_eq(explain(a, &q).verdict, RSK_PMA_LIMIT);
	says("  limit reached: sessions of the service with this CP: 2 of 2\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
