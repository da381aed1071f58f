// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_routes.c - tests the choice of an outbound RNIC by the routes of its host.
 */
#include <errno.h>

#include "pma_kit.h"

#define HERE "192.168.0.1"

static const char hosts[] =
	"node: here\n"
	"rnics:\n"
	"  - {name: x, addresses: [10.1.0.1], order: 1}\n"
	"  - {name: y, addresses: [10.2.0.1, 10.2.0.2], order: 2}\n"
	"  - {name: said, addresses: [10.4.0.1], reach: [10.9.9.9/32], order: 3}\n"
	"  - {name: far, node: there, addresses: [10.3.0.1, 10.3.0.2]}\n"
	"aggregates: [{address: 1.2.3.4, over: [far]}]\n"
	"ask-first: [1.2.9.0/24]\n"
	"services: [{name: s, ports: ['80'], high-availability: true}]\n";

/*
 * Routes: "from>to " for each that there is; "from? " if the kernel does not say where routes from
 * there lead, and "?" if it says nothing.
 */
struct routes {
	const char *there;
	unsigned int asked;
};

static int lead(void *ctx, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to)
{
	struct routes *r = ctx;
	char text[64], a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN];

	r->asked++;
	cr_assert(from->ipv == 4 && to->ipv == 4);
	inet_ntop(AF_INET, from->ip, a, sizeof(a));
	snprintf(text, sizeof(text), "%s? ", a);
	if (*r->there == '?' || strstr(r->there, text))
		return -EPERM;
	inet_ntop(AF_INET, to->ip, b, sizeof(b));
	snprintf(text, sizeof(text), "%s>%s ", a, b);
	return strstr(r->there, text) != NULL;
}

static struct rsk_pma *with_routes(const char *text, struct routes *r)
{
	struct rsk_pma *a = pma_of(text);

	rsk_pma_routes(a, lead, r);
	return a;
}

Test(pma_routes, the_rnic_that_a_route_leads_by)
{
	struct routes r = { .there = "10.1.0.1>10.9.0.9 10.2.0.1>10.9.0.8 " };
	struct rsk_pma *a = with_routes(hosts, &r);
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, HERE, "10.9.0.7", 80);

	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "x");
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.8", 80), "y");
	/* To none of them, as if there were no routes: the fabric may be another network. */
	pma_is_on(pma_explain(a, &q), "x");
	pma_says("device x: left out: this host has no route to the peer by it");
	pma_says("device said: left out: it does not reach the peer");
	pma_says("none with a route to the peer; without regard to routes:");
	/* The next decision goes by the routes that there are then. */
	r.there = "10.2.0.1>10.9.0.7 ";
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.7", 80), "y");
	/* The address that the connection has is the link's, where the RNIC has it. */
	r.there = "10.2.0.2>10.9.0.7 ";
	pma_is_on(pma_ask_cp(a, "10.2.0.2", "10.9.0.7", 80), "y");
	rsk_pma_routes(a, NULL, NULL);
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.7", 80), "x");
	rsk_pma_free(a);
}

/* What the configuration says counts, and routes are asked of this node's RNICs, outbound, only. */
Test(pma_routes, are_not_asked_everywhere)
{
	struct routes r = { .there = "" };
	struct rsk_pma *a = with_routes(hosts, &r);

	pma_is_on(pma_ask_cp(a, "10.3.0.1", "10.9.0.9", 80), "far"); /* another node's */
	pma_is_on(pma_ask_ap(a, "10.9.0.9", "10.1.0.1", 80), "x");   /* inbound */
	cr_assert_eq(r.asked, 0);
	pma_is_on(pma_ask_cp(a, HERE, "10.9.9.9", 80), "said");
	/* An address that another host resolves. */
	r.there = "10.2.0.1>1.2.9.7 10.2.0.1>1.2.8.7 ";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.9.7", 80), "x");
	pma_is_on(pma_ask_cp(a, HERE, "1.2.8.7", 80), "y");
	/* What the kernel does not say is as without routes. */
	r.there = "?";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.8.7", 80), "x");
	r.there = "10.1.0.1? 10.2.0.1>1.2.8.7 ";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.8.7", 80), "x");
	rsk_pma_free(a);
}

/*
 * An RNIC that the session cannot have for another reason does not make routes count for the
 * others: these may be in a fabric that is another network.
 */
Test(pma_routes, by_an_rnic_that_cannot_be_chosen)
{
	static const char groups[] = "rnics:\n"
				     "  - {name: x, addresses: [10.1.0.1]}\n"
				     "  - {name: y, addresses: [10.2.0.1], group: fabric}\n"
				     "rules: [{name: of-group, map: {group: fabric}}]\n"
				     "services: [{name: s, ports: ['80']}]\n";
	struct routes r = { .there = "10.1.0.1>10.9.0.9 " };
	struct rsk_pma *a = with_routes(hosts, &r);

	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "x");
	for (enum rsk_pma_device_state state = RSK_PMA_UP; state <= RSK_PMA_DRAINING; state++) {
		cr_assert_eq(rsk_pma_device_set(a, "x", state), 0);
		pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), state == RSK_PMA_UP ? "x" : "y");
	}
	rsk_pma_free(a);
	a = with_routes(groups, &r);
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "y");
	rsk_pma_free(a);
}

/* An aggregate is reached where one of its ports is; its own address may be in no network. */
Test(pma_routes, to_an_aggregate)
{
	struct routes r = { .there = "10.2.0.1>10.3.0.2 " };
	struct rsk_pma *a = with_routes(hosts, &r);

	pma_is_on(pma_ask_cp(a, HERE, "1.2.3.4", 80), "y");
	r.there = "10.2.0.1>1.2.3.4 ";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.3.4", 80), "y");
	/* By none of this host's RNICs. */
	r.there = "";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.3.4", 80), "x");
	rsk_pma_free(a);
}

/*
 * A port that is down has no routes, and is replaced nevertheless.
 */
Test(pma_routes, a_spare_replaces_what_is_down)
{
	static const char text[] = "rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1], order: 1}\n"
				   "  - {name: spare, addresses: [10.2.0.1], role: spare}\n"
				   "  - {name: z, addresses: [10.3.0.1], order: 9}\n"
				   "services:\n"
				   "  - {name: s, ports: ['80'], high-availability: true}\n";
	struct routes r = { .there = "10.1.0.1>10.9.0.9 10.2.0.1>10.9.0.9 10.2.0.1>10.9.0.8 " };
	struct rsk_pma *a = with_routes(text, &r);

	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "x");
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.8", 80), "x");
	r.there = "10.2.0.1>10.9.0.9 ";
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DOWN), 0);
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "spare");
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
