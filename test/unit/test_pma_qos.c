// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_qos.c - tests the differentiated service of sessions that exist: by the configuration
 * and the load as they are now, and by the rule that mapped them.
 */
#include "pma_kit.h"

#define CP "10.9.0.1"

#define DEVICE "node: here\nrnics: [{name: x, node: here, addresses: [10.1.0.1]}]\n"
#define RULES                                                                                      \
	"rules:\n"                                                                                 \
	"  - {name: high, when: {peers: [10.9.0.0/16]}, map: {priority: 6}}\n"                     \
	"  - {name: all}\n"

static struct rsk_qos qos_of(const struct rsk_pma *a, uint64_t reservation)
{
	struct rsk_qos q;

	cr_assert(rsk_pma_qos(a, reservation, &q));
	return q;
}

Test(pma_qos, as_decided)
{
	struct rsk_pma *a = pma_of(
		DEVICE "services: [{name: s, ports: ['1'], rate: 200kbit, dscp: 46}]\n" RULES);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);
	struct rsk_qos q = qos_of(a, out.reservation);

	cr_assert(q.rate_bps == 200000 && q.dscp == 46 && q.priority == 6);
	cr_assert(out.rate_bps == 200000 && out.dscp == 46 && out.priority == 6);
	rsk_pma_confirm(a, out.reservation);
	q = qos_of(a, pma_ask_ap(a, CP, "10.1.0.1", 1).reservation);
	cr_assert(q.rate_bps == 200000 && q.dscp == 46 && q.priority == 6, "of another session");
	out = pma_ask_ap(a, "10.8.0.1", "10.1.0.1", 1);
	cr_assert_eq(qos_of(a, out.reservation).priority, 0);
	rsk_pma_free(a);
}

Test(pma_qos, changes_with_the_configuration)
{
	struct rsk_pma *a = pma_of(DEVICE "services: [{name: s, ports: ['1']}]\n" RULES);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);
	struct rsk_qos q = qos_of(a, out.reservation);
	uint32_t changes = rsk_pma_qos_changes(a);

	cr_assert(q.rate_bps == 0 && q.dscp == 0);
	cr_assert_eq(rsk_pma_reload(a, pma_conf(DEVICE "services: [{name: s, ports: ['1'], "
						       "rate: 1Gbit, dscp: 10}]\n" RULES)),
		     0);
	cr_assert_neq(rsk_pma_qos_changes(a), changes);
	q = qos_of(a, out.reservation);
	cr_assert(q.rate_bps == 1000000000 && q.dscp == 10 && q.priority == 6);
	/* A service that is gone decides nothing. */
	cr_assert_eq(rsk_pma_reload(a, pma_conf(DEVICE)), 0);
	cr_assert_not(rsk_pma_qos(a, out.reservation, &q));
	cr_assert(q.rate_bps == 0 && q.dscp == 0 && q.priority == 0);
	rsk_pma_free(a);
}

Test(pma_qos, best_effort_is_slowed_while_its_node_is_overloaded)
{
	struct rsk_pma *a = pma_of(DEVICE "overload: {load: 0.5, rate: 1Mbit}\n"
					  "services:\n"
					  "  - {name: s, ports: ['1']}\n"
					  "  - {name: t, ports: ['2'], rate: 1kbit}\n" RULES);
	struct rsk_pma_answer high = pma_ask_ap(a, CP, "10.1.0.1", 1);
	struct rsk_pma_answer low = pma_ask_ap(a, "10.8.0.1", "10.1.0.1", 1);
	struct rsk_pma_answer slow = pma_ask_ap(a, "10.8.0.1", "10.1.0.1", 2);
	uint32_t changes = rsk_pma_qos_changes(a);

	cr_assert_eq(qos_of(a, low.reservation).rate_bps, 0);
	rsk_pma_load_set(a, 0.4);
	cr_assert_eq(rsk_pma_qos_changes(a), changes);
	rsk_pma_load_set(a, 0.9);
	cr_assert_neq(rsk_pma_qos_changes(a), changes);
	cr_assert_eq(qos_of(a, low.reservation).rate_bps, 1000000);
	cr_assert_eq(qos_of(a, slow.reservation).rate_bps, 1000);
	cr_assert_eq(qos_of(a, high.reservation).rate_bps, 0);
	rsk_pma_load_set(a, 0.1);
	cr_assert_eq(qos_of(a, low.reservation).rate_bps, 0);
	rsk_pma_free(a);
}

Test(pma_qos, of_nothing)
{
	struct rsk_pma *a = pma_of(DEVICE "services: [{name: s, ports: ['1'], dscp: 9}]\n" RULES);
	struct rsk_pma_answer out = pma_ask_ap(a, CP, "10.1.0.1", 1);
	struct rsk_qos q;

	rsk_pma_release(a, out.reservation);
	cr_assert_not(rsk_pma_qos(a, out.reservation, &q));
	cr_assert_not(rsk_pma_qos(a, 0, &q));
	cr_assert_not(rsk_pma_qos(a, UINT64_MAX, &q));
	cr_assert_eq(q.dscp, 0);
	rsk_pma_free(a);
}
