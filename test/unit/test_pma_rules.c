// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_rules.c - tests the policy agent's rules and limits, one by one, and the text that
 * explains them.
 */
#include <errno.h>

#include "pma_kit.h"

#define CP "10.0.0.1"

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

Test(pma_rules, rules)
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
	/* Our own session, which has 4, is not one of the others. */
	cr_assert_eq(rsk_pma_carried_set(a, "x", 6000000001, PMA_LONG_NS), 0);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 80).verdict, RSK_PMA_NO_RULE);
	cr_assert_eq(rsk_pma_carried_set(a, "x", 6000000000, PMA_LONG_NS), 0);
	pma_is_on(pma_ask_ap(a, CP, "10.9.0.1", 80), "x");
	cr_assert_eq(rsk_pma_carried_set(a, "nowhere", 1, 1), -ENOENT);

	out = pma_ask_ap(a, CP, "10.9.0.1", 5432);
	cr_assert(out.verdict == RSK_PMA_MAP && out.pm_time_s == 255 && out.port == 0);
	cr_assert_eq(pma_ask_ap(a, "11.0.0.1", "10.9.0.1", 5432).verdict, RSK_PMA_NO_RULE);
	rsk_pma_load_set(a, 0.5);
	out = pma_ask_ap(a, CP, "10.9.0.1", 5432);
	cr_assert(out.verdict == RSK_PMA_OVERLOAD && strcmp(out.rule, "quiet") == 0);
	cr_assert_eq(pma_ask_ap(a, "11.0.0.1", "10.9.0.1", 5432).verdict, RSK_PMA_NO_RULE);

	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE); /* no user */
	q.uid = 8;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE);
	q.uid = 7;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(inet_pton(AF_INET, "11.0.0.1", q.ap_ip), 1);
	q.uid = 8;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE); /* two sessions exist */
	q.side = RSK_PMA_AP;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_NO_RULE);

	out = pma_ask_ap(a, CP, "10.9.0.1", 99);
	cr_assert_eq(out.verdict, RSK_PMA_REDIRECT);
	cr_assert(out.redirect_ip[0] == 10 && out.redirect_ip[3] == 7 && !out.reservation);
	cr_assert_eq(pma_ask_ap(a, CP, "10.9.0.1", 98).verdict, RSK_PMA_NO_RULE);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* This host is full, so the rule redirects to another one. */
Test(pma_rules, redirect_when_it_does_not_fit)
{
	struct rsk_pma *a = pma_of("rnics: [{name: x, addresses: [10.1.0.1], bandwidth: 1Gbit}]\n"
				   "services: [{name: s, ports: ['1'], bandwidth: 1Gbit}]\n"
				   "rules:\n"
				   "  - {name: here}\n"
				   "  - {name: there, side: ap, when: {bandwidth-fits: false},\n"
				   "     map: {redirect: 10.0.0.7}}\n");
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);

	pma_is_on(out, "x");
	cr_assert_eq(pma_ask_ap(a, CP, "10.1.0.1", 1).verdict, RSK_PMA_REDIRECT);
	/* For a device that does not exist neither the condition nor its negation holds. */
	cr_assert_eq(pma_ask_ap(a, CP, "10.7.7.7", 1).verdict, RSK_PMA_NO_DEVICE);
	rsk_pma_release(a, out.reservation);
	pma_is_on(pma_ask_ap(a, CP, "10.1.0.1", 1), "x");
	rsk_pma_free(a);
}

Test(pma_rules, nothing_configured)
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
	"rnics: [{name: x, addresses: [10.1.0.1], sessions: 100, memory-maps: 20, "
	"connections: 50}]\n"
	"services:\n"
	"  - {name: a, ports: ['1'], limits: {sessions: 3, per-cp: 2, per-user: 1}}\n"
	"  - {name: b, ports: ['2']}\n"
	"  - {name: c, ports: ['3'], memory-maps: 15}\n"
	"  - {name: d, ports: ['4'], connections: 51}\n";

Test(pma_rules, limits)
{
	struct rsk_pma *a = pma_of(limited);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 1);
	struct rsk_pma_answer first;

	q.uid = 500;
	first = pma_ask(a, &q);
	cr_assert_eq(first.verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT); /* one for that user */
	q.uid = RSK_PMA_NOBODY;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT); /* two for that CP */
	cr_assert_eq(pma_ask_ap(a, "10.0.0.2", "10.1.0.1", 1).verdict, RSK_PMA_MAP);
	/* three in all */
	cr_assert_eq(pma_ask_ap(a, "10.0.0.3", "10.1.0.1", 1).verdict, RSK_PMA_LIMIT);
	/* The other side counts separately. */
	cr_assert_eq(pma_ask_cp(a, "10.1.0.1", "10.0.0.3", 1).verdict, RSK_PMA_MAP);
	q.ap_port = 2;
	q.uid = 500;
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	/* four for that CP, three for that user */
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_LIMIT);
	rsk_pma_release(a, first.reservation);
	cr_assert_eq(pma_ask(a, &q).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 3).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 3).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.4", "10.1.0.1", 4).verdict, RSK_PMA_EXHAUSTED);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.5", "10.1.0.1", 2).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.5", "10.1.0.1", 2).verdict, RSK_PMA_MAP);
	/* eight in all */
	cr_assert_eq(pma_ask_ap(a, "10.0.0.6", "10.1.0.1", 2).verdict, RSK_PMA_LIMIT);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

Test(pma_rules, explain)
{
	struct rsk_pma *a = pma_of(ruled);
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 80);
	struct rsk_pma_answer out = pma_explain(a, &q);

	pma_is_on(out, "x");
	pma_says("question: AP side, from CP 10.0.0.1 to AP 10.9.0.1, "
		 "service port 80, a service mapping\n");
	pma_says("service web: a session needs 4000000000 bit/s, 0 memory maps, 1 connections\n");
	pma_says("rule web: depends on the device\n");
	pma_says("  device x: has room, load 0\n");
	pma_says("  device y: left out: it is not in the rule's group\n");
	pma_says("answer: map, by rule web: device x, address 10.1.0.1, PmTime 5\n");
	cr_assert_eq(pma_view(a, "x").sessions, 0);

	pma_ask(a, &q);
	pma_ask(a, &q);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_RULE);
	pma_says("  device x: left out: bandwidth-fits: 4000000000 bit/s are needed, 2000000000 of "
		 "10000000000 are free\n");
	pma_says("rule quiet: does not hold: services: it is \"web\"\n");
	pma_says("rule logs: is for the other side\n");
	pma_says("answer: do not map: no rule supports it\n");

	q.ap_port = 5432;
	rsk_pma_load_set(a, 0.75);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_OVERLOAD);
	pma_says("rule quiet: does not hold: load-below 0.5: the node's load is 0.75\n");
	q.cp_ip[0] = 11;
	pma_explain(a, &q);
	pma_says("rule quiet: does not hold: load-below 0.5: ");
	rsk_pma_load_set(a, 0);
	pma_explain(a, &q);
	pma_says("rule quiet: does not hold: inside: peers: the peer is 11.0.0.1\n");

	q = pma_question(RSK_PMA_CP, "10.1.0.1", "10.0.0.9", 514);
	q.cp_port = 4000;
	pma_explain(a, &q);
	pma_says("CP side");
	pma_says("one connection\n");
	pma_says("rule logs: does not hold: users: the user is not known\n");
	q.uid = 8;
	pma_explain(a, &q);
	pma_says("users: the user is 8\n");

	q = pma_question(RSK_PMA_AP, CP, "10.9.0.1", 99);
	pma_explain(a, &q);
	pma_says("answer: by rule away, 10.0.0.7 answers\n");
	q.ap_port = 98;
	pma_explain(a, &q);
	pma_says("no service is registered at this port\n");
	rsk_pma_device_set(a, "x", RSK_PMA_DOWN);
	rsk_pma_device_set(a, "y", RSK_PMA_DRAINING);
	q.ap_port = 5432;
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_DEVICE);
	pma_says("  device x: left out: it is down\n");
	pma_says("  device y: left out: it is drained\n");
	rsk_pma_free(a);

	a = pma_of(limited);
	q = pma_question(RSK_PMA_AP, CP, "10.1.0.1", 4);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_EXHAUSTED);
	pma_says("  device x: left out: too few connections left\n");
	q.ap_port = 1;
	pma_ask(a, &q);
	pma_ask(a, &q);
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_LIMIT);
	pma_says("  limit reached: sessions of the service with this CP: 2 of 2\n");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
