// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_reports.c - tests what nodes report of their RNICs' configuration, and what it means for
 * the choice of a central policy agent.
 */
#include "pma_central.h"
#include "pma_kit.h"
#include "pma_link_kit.h"

static const struct rsk_central_config central_config = { .lost_ns = 300 * MS,
							  .lease_ns = 40 * MS,
							  .max_nodes = 4,
							  .max_leases = 50 };

/* Two RNICs of another node, of which the central agent's own configuration says nothing more. */
static const char two[] = "node: c\n"
			  "rnics:\n"
			  "  - {name: b0, node: b, addresses: [10.0.0.2]}\n"
			  "  - {name: b1, node: b, addresses: [10.0.0.3]}\n"
			  "aggregates: [{address: 10.0.0.9, over: [b0, b1], choose: order}]\n"
			  "services:\n"
			  "  - {name: web, ports: ['80'], bandwidth: 10Gbit}\n"
			  "  - {name: ha, ports: ['81'], high-availability: yes, priority: 7}\n";

/* The node reports that of b0, and nothing of b1; asks for a place, and gives it up. */
static const char *placed(struct rsk_central *c, const struct rsk_port_report *r, uint16_t port,
			  const char *cp)
{
	static struct rsk_ask_answer out;
	struct rsk_central_device *d = calloc(2, sizeof(*d));
	struct rsk_ask_key key = key_of(port);
	struct rsk_central_node *node;

	cr_assert_not_null(d);
	d[0] = (struct rsk_central_device){ .ip = { 10, 0, 0, 2 }, .ipv = 4, .report = *r };
	d[1] = (struct rsk_central_device){ .ip = { 10, 0, 0, 3 }, .ipv = 4 };
	node = rsk_central_report(c, "b", 1, true, 0, true, 0, d, 2, MS);
	cr_assert_not_null(node);
	cr_assert_eq(inet_pton(AF_INET, cp, key.cp_ip), 1);
	cr_assert_eq(inet_pton(AF_INET, "10.0.0.9", key.ap_ip), 1);
	rsk_central_decide(c, node, 1, &key, 400 * MS, &out);
	rsk_central_release(c, node, 1);
	cr_assert(rsk_pma_validate(c->pma) && rsk_central_validate(c));
	return out.verdict == RSK_PMA_MAP ? out.device : "";
}

Test(pma_reports, what_a_node_says_of_its_rnics_counts)
{
	struct rsk_pma *pma = pma_of(two);
	struct rsk_port_report r = { 0 };
	struct rsk_pma_question q = pma_question(RSK_PMA_AP, "10.8.0.1", "10.0.0.9", 80);
	static const uint8_t b0[16] = { 10, 0, 0, 2 };
	struct rsk_ask_key key = key_of(80);
	struct rsk_ask_answer out;
	struct rsk_central c;

	rsk_central_init(&c, &central_config, pma, 0);
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b0");
	/* What it reaches. */
	r.reach[r.n_reach++] = (struct rsk_conf_prefix){ .ip = { 10, 7 }, .ipv = 4, .bits = 16 };
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b1");
	cr_assert_eq(pma_explain(pma, &q).verdict, RSK_PMA_MAP);
	cr_assert(strstr(pma_said, "b0: left out: its node reports that it does not reach"));
	cr_assert_str_eq(placed(&c, &r, 80, "10.7.0.1"), "b0");
	/* A reload forgets it, until what was reported is applied again. */
	cr_assert_eq(rsk_pma_reload(pma, pma_conf(two)), 0);
	rsk_central_reloaded(&c);
	cr_assert(pma_explain(pma, &q).verdict == RSK_PMA_MAP && strstr(pma_said, "reports"));
	r.n_reach = 0;
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b0");
	/* For which sessions. */
	r.qos = RSK_CONF_QOS_HIGH;
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b1");
	cr_assert_str_eq(placed(&c, &r, 81, "10.8.0.1"), "b0");
	/* It has chosen b0 itself, for what is a session of that class by its own configuration. */
	key.placed = 1;
	memcpy(key.ap_ip, q.ap_ip, 16);
	memcpy(key.at_ip, b0, 16);
	rsk_central_decide(&c, rsk_central_find(&c, "b", 1), 2, &key, 400 * MS, &out);
	cr_assert(out.verdict == RSK_PMA_MAP && !strcmp(out.device, "b0"));
	rsk_central_release(&c, rsk_central_find(&c, "b", 1), 2);
	r.qos = RSK_CONF_QOS_ANY;
	/* As a spare, only once the other one has failed. */
	r.spare = true;
	cr_assert_str_eq(placed(&c, &r, 81, "10.8.0.1"), "b1");
	cr_assert(pma_view(pma, "b0").spare && !pma_view(pma, "b1").spare);
	cr_assert_eq(rsk_pma_device_set(pma, "b1", RSK_PMA_DOWN), 0);
	cr_assert_str_eq(placed(&c, &r, 81, "10.8.0.1"), "b0");
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "", "not for this service");
	cr_assert_eq(rsk_pma_device_set(pma, "b1", RSK_PMA_UP), 0);
	r.spare = false;
	/* Its bus is narrower than a session needs. */
	r.bus.bps = 9999999999;
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b1");
	cr_assert_str_eq(placed(&c, &r, 81, "10.8.0.1"), "b0");
	r.bus.bps = 10000000000;
	cr_assert_str_eq(placed(&c, &r, 80, "10.8.0.1"), "b0");
	rsk_central_fini(&c);
	rsk_pma_free(pma);
}

/* What a local agent says is what its configuration has. */
Test(pma_reports, what_there_is_to_say)
{
	struct rsk_pma *pma = pma_of(
		"rnics:\n"
		"  - {name: r, addresses: [10.0.0.2], reach: [10.0.0.0/8, '2001:db8::/32'],\n"
		"     role: spare, qos: high}\n"
		"  - {name: s, addresses: [10.0.0.3], reach: [10.1.0.0/16, 10.2.0.0/16,\n"
		"     10.3.0.0/16, 10.4.0.0/16, 10.5.0.0/16, 10.6.0.0/16, 10.7.0.0/16,\n"
		"     10.8.0.0/16, 10.9.0.0/16]}\n"
		"services: [{name: s, ports: ['80']}]\n");
	struct rsk_port_report r;
	uint8_t in[16] = { 10, 9 }, out[16] = { 11 };

	rsk_pma_port_report(pma, 0, &r);
	cr_assert(r.spare && r.qos == RSK_CONF_QOS_HIGH && r.n_reach == 2 && !r.bus.bps);
	cr_assert(rsk_port_report_reaches(&r, 4, in) && !rsk_port_report_reaches(&r, 4, out));
	rsk_pma_port_report(pma, 1, &r);
	cr_assert(!r.spare && r.qos == RSK_CONF_QOS_ANY && !r.n_reach, "more than fit");
	cr_assert(rsk_port_report_reaches(&r, 4, out));
	cr_assert(rsk_port_report_validate(&r));
	r.n_reach = 1;
	cr_assert_not(rsk_port_report_validate(&r));
	rsk_pma_free(pma);
}
