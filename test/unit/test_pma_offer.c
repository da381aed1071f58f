// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_offer.c - tests at which addresses a listening socket is offered on RDMA: those of this
 * node's RNICs and of aggregates over them, where policy and resources allow.
 */
#include "pma_kit.h"
#include "pma_offer.h"

#define CONF                                                                                       \
	"node: here\n"                                                                             \
	"rnics:\n"                                                                                 \
	"- {name: one, addresses: [10.0.0.1, 'fd00::1'], sessions: 1, reach: [10.0.0.0/8, "        \
	"'fd00::/8']}\n"                                                                           \
	"- {name: two, addresses: [10.0.0.2]}\n"                                                   \
	"- {name: far, node: there, addresses: [10.0.0.3]}\n"                                      \
	"aggregates:\n"                                                                            \
	"- {address: 10.0.0.9, over: [two, far], choose: order}\n"                                 \
	"- {address: 10.0.0.8, over: [far]}\n"                                                     \
	"services:\n"                                                                              \
	"- {name: web, ports: ['80'], rdma-port: 8080}\n"                                          \
	"- {name: news, ports: ['25'], registered: yes}\n"                                         \
	"- {name: no, ports: ['99']}\n"                                                            \
	"rules:\n"                                                                                 \
	"- {name: most, when: {services: [web, news], peers: [10.0.0.0/8, 'fd00::/8']}}\n"

static char said[2048];

static void hear(void *ctx, const struct rsk_pma_offer *o)
{
	char at[RSK_PM_IP_TEXT], rdma[RSK_PM_IP_TEXT];
	size_t n = strlen(said);

	(void)ctx;
	snprintf(said + n, sizeof(said) - n, "%s %s %u", o->service,
		 rsk_pm_ip_text(o->at.ipv, o->at.ip, at), o->at.port);
	n = strlen(said);
	if (o->is_short)
		snprintf(said + n, sizeof(said) - n, " short\n");
	else
		snprintf(said + n, sizeof(said) - n, " %s %s %u\n", o->device,
			 rsk_pm_ip_text(o->rdma.ipv, o->rdma.ip, rdma), o->rdma.port);
}

/* What is offered of a socket at that address (NULL: all of IPv4; "::": of both families). */
static size_t offers(struct rsk_pma *a, const char *ip, uint16_t port, const char *want)
{
	struct rsk_pma_socket s = { .at = { .ipv = 4, .port = port }, .uid = RSK_PMA_NOBODY };
	size_t n;

	if (ip && strchr(ip, ':')) {
		s.at.ipv = 6;
		cr_assert_eq(inet_pton(AF_INET6, ip, s.at.ip), 1);
	} else if (ip) {
		cr_assert_eq(inet_pton(AF_INET, ip, s.at.ip), 1);
	}
	*said = 0;
	n = rsk_pma_offers(a, &s, 1000000000, hear, NULL);
	cr_expect_str_eq(said, want);
	cr_assert(rsk_pma_validate(a));
	return n;
}

#define ONE4 "web 10.0.0.1 80 one 10.0.0.1 8080\n"
#define ONE6 "web fd00::1 80 one fd00::1 8080\n"
#define TWO "web 10.0.0.2 80 two 10.0.0.2 8080\n"
#define BOTH "web 10.0.0.9 80 two 10.0.0.2 8080\n"

Test(pma_offer, addresses)
{
	struct rsk_pma *a = pma_of(CONF);

	cr_expect_eq(offers(a, NULL, 80, ONE4 TWO BOTH), 3);
	cr_expect_eq(offers(a, "::", 80, ONE4 ONE6 TWO BOTH), 4);
	cr_expect_eq(offers(a, "10.0.0.2", 80, TWO), 1);
	cr_expect_eq(offers(a, "10.0.0.9", 80, BOTH), 1);
	cr_expect_eq(offers(a, "fd00::1", 80, ONE6), 1);
	/* Another node's, nobody's. */
	cr_expect_eq(offers(a, "10.0.0.3", 80, ""), 0);
	cr_expect_eq(offers(a, "10.0.0.8", 80, ""), 0);
	cr_expect_eq(offers(a, "127.0.0.1", 80, ""), 0);
	/* No service; one that no rule supports; one that needs a listener, which there is. */
	cr_expect_eq(offers(a, NULL, 81, ""), 0);
	cr_expect_eq(offers(a, NULL, 99, ""), 3);
	offers(a, "10.0.0.2", 25, "news 10.0.0.2 25 two 10.0.0.2 0\n");
	rsk_pma_free(a);
}

Test(pma_offer, devices)
{
	struct rsk_pma *a = pma_of(CONF);

	/* The aggregate's next device is another node's. */
	cr_assert_eq(rsk_pma_device_set(a, "two", RSK_PMA_DRAINING), 0);
	offers(a, "10.0.0.9", 80, "");
	cr_assert_eq(rsk_pma_device_set(a, "two", RSK_PMA_UP), 0);
	offers(a, "10.0.0.9", 80, BOTH);
	rsk_pma_free(a);
}

Test(pma_offer, resources)
{
	struct rsk_pma *a = pma_of(CONF);
	struct rsk_pma_answer held;
	struct rsk_pma_service_view before, after;

	held = pma_ask_ap(a, "10.0.0.7", "10.0.0.1", 80);
	pma_is_on(held, "one");
	offers(a, "10.0.0.1", 80, "web 10.0.0.1 80 short\n");
	rsk_pma_release(a, held.reservation);
	cr_assert_eq(rsk_pma_services(a, 1000000000, &before, 1), 1);
	offers(a, "10.0.0.1", 80, ONE4);
	/* Nothing was booked or counted. */
	cr_expect_eq(pma_view(a, "one").promised, 0);
	cr_expect_eq(rsk_pma_services(a, 1000000000, &after, 1), 1);
	cr_expect_float_eq(after.decisions_per_s[RSK_PMA_AP], before.decisions_per_s[RSK_PMA_AP],
			   1e-9);
	rsk_pma_free(a);
}
