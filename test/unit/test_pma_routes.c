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
 * Routes: "from>to " for each that there is; "any>to " for what the host itself reaches; "from? "
 * if the kernel does not say where routes from there lead, and "?" if it says nothing.
 */
struct routes {
	const char *there;
	unsigned int asked;
};

static int lead(void *ctx, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to)
{
	struct routes *r = ctx;
	char text[64], a[INET_ADDRSTRLEN] = "any", b[INET_ADDRSTRLEN];

	r->asked++;
	cr_assert((!from || from->ipv == 4) && to->ipv == 4);
	if (from)
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
	cr_assert_eq(pma_explain(a, &q).verdict, RSK_PMA_NO_DEVICE);
	pma_says("device x: left out: this host has no route to the peer by it");
	pma_says("device said: left out: it does not reach the peer");
	pma_says("no device can be used");
	/* The next decision goes by the routes that there are then. */
	r.there = "10.2.0.1>10.9.0.7 ";
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.7", 80), "y");
	/* The address that the connection has is the link's, where the RNIC has it. */
	r.there = "10.2.0.2>10.9.0.7 ";
	pma_is_on(pma_ask_cp(a, "10.2.0.2", "10.9.0.7", 80), "y");
	cr_assert_eq(pma_ask_cp(a, "10.2.0.1", "10.9.0.7", 80).verdict, RSK_PMA_NO_DEVICE);
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
	pma_is_on(pma_ask_cp(a, HERE, "1.2.9.7", 80), "x");
	cr_assert_eq(pma_ask_cp(a, HERE, "1.2.8.7", 80).verdict, RSK_PMA_NO_DEVICE);
	/* What the kernel does not say is as without routes. */
	r.there = "?";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.8.7", 80), "x");
	rsk_pma_free(a);
}

/*
 * The host reaches the target, and by none of its RNICs: these are in another network, and so is
 * the address that the AP will name.
 */
Test(pma_routes, to_a_network_that_is_not_the_fabric_s)
{
	struct routes r = { .there = "any>10.9.0.9 " };
	struct rsk_pma *a = with_routes(hosts, &r);

	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "x");
	/* Nor does it when a port is down, and nothing is known of that one's routes. */
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DOWN), 0);
	r.there = "any>10.9.0.9 10.1.0.1? ";
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "y");
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_UP), 0);
	/* But where one of them has a route, the others need one. */
	r.there = "any>10.9.0.9 10.2.0.1>10.9.0.9 ";
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
	r.there = "";
	cr_assert_eq(pma_ask_cp(a, HERE, "1.2.3.4", 80).verdict, RSK_PMA_NO_DEVICE);
	/* By none of this host's RNICs. */
	r.there = "any>10.3.0.2 ";
	pma_is_on(pma_ask_cp(a, HERE, "1.2.3.4", 80), "x");
	rsk_pma_free(a);
}

/*
 * A port that is down has no routes, and is replaced nevertheless; a port that never had a route to
 * this target is not.
 */
Test(pma_routes, a_spare_replaces_what_is_down)
{
	static const char text[] = "rnics:\n"
				   "  - {name: x, addresses: [10.1.0.1]}\n"
				   "  - {name: spare, addresses: [10.2.0.1], role: spare}\n"
				   "services:\n"
				   "  - {name: s, ports: ['80'], high-availability: true}\n";
	struct routes r = { .there = "10.1.0.1>10.9.0.9 10.2.0.1>10.9.0.9 10.2.0.1>10.9.0.8 " };
	struct rsk_pma *a = with_routes(text, &r);

	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "x");
	cr_assert_eq(pma_ask_cp(a, HERE, "10.9.0.8", 80).verdict, RSK_PMA_NO_DEVICE);
	r.there = "10.2.0.1>10.9.0.9 ";
	cr_assert_eq(rsk_pma_device_set(a, "x", RSK_PMA_DOWN), 0);
	pma_is_on(pma_ask_cp(a, HERE, "10.9.0.9", 80), "spare");
	r.there = "";
	cr_assert_eq(pma_ask_cp(a, HERE, "10.9.0.9", 80).verdict, RSK_PMA_NO_DEVICE);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
