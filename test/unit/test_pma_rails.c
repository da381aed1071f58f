// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pma_rails.c - tests what the policy agent books for further rails of links, which belong to
 * no session.
 */
#include "pma_kit.h"

Test(pma_rails, rails_are_booked_beside_sessions)
{
	struct rsk_pma *a =
		pma_of("node: here\n"
		       "limits: {sessions: 2}\n"
		       "rails: {bandwidth: 1Gbit, memory-maps: 3, per-user: 9}\n"
		       "rnics:\n"
		       "- {name: one, addresses: [10.0.0.1], sessions: 3, memory-maps: 100}\n"
		       "- {name: two, addresses: [10.0.0.2], role: spare}\n"
		       "- {name: far, node: there, addresses: [10.0.0.3]}\n"
		       "services:\n- {name: any, ports: [1-65535]}\n");
	const struct rsk_pma_rail_terms terms = rsk_pma_rail_terms(a);
	struct rsk_pma_rail_port ports[3];
	struct rsk_pma_device_view view[3];
	uint64_t ids[3], spare;

	cr_assert_eq(terms.need.bps, 1000000000);
	cr_assert_eq(terms.need.memory_maps, 3);
	cr_assert_eq(terms.per_user, 9);
	cr_assert_eq(rsk_pma_rail_ports(a, ports, 3), 2, "those of this node");
	cr_assert_str_eq(ports[0].name, "one");
	cr_assert_eq(ports[0].sessions_max, 3);
	cr_assert(ports[1].spare && !ports[0].spare);
	cr_assert_eq(ports[1].n_ips, 1);
	for (int i = 0; i < 3; i++)
		cr_assert_neq(ids[i] = rsk_pma_rail_booking(a, "one"), 0);
	cr_assert_eq(rsk_pma_rail_booking(a, "one"), 0, "there are three sessions");
	cr_assert_eq(rsk_pma_rail_booking(a, "none"), 0);
	cr_assert_neq(spare = rsk_pma_rail_booking(a, "two"), 0, "spares, too");
	cr_assert(rsk_pma_validate(a));
	cr_assert_eq(rsk_pma_devices(a, view, 3), 3);
	cr_assert_eq(view[0].rails_booked, 3);
	cr_assert_eq(view[0].sessions, 0, "no service has them");
	cr_assert_eq(view[0].memory_maps, 9);
	cr_assert_eq(view[0].bps, 3000000000);
	cr_assert(!view[1].in_use_as_spare, "nobody stands in");
	cr_assert_eq(rsk_pma_device_set(a, "one", RSK_PMA_DRAINING), 0);
	rsk_pma_rail_ports(a, ports, 3);
	cr_assert_eq(ports[0].state, RSK_PMA_DRAINING);
	rsk_pma_rail_unbook(a, ids[1]);
	cr_assert_eq(rsk_pma_rail_booking(a, "one"), 0, "it takes none");
	cr_assert_eq(rsk_pma_device_set(a, "one", RSK_PMA_UP), 0);
	/* Limits of services do not count rails. */
	cr_assert_eq(pma_ask_cp(a, "10.0.0.1", "10.0.0.9", 80).verdict, RSK_PMA_MAP);
	cr_assert_eq(pma_ask_cp(a, "10.0.0.1", "10.0.0.9", 80).verdict, RSK_PMA_EXHAUSTED,
		     "but they take room");
	rsk_pma_rail_unbook(a, ids[0]);
	rsk_pma_rail_unbook(a, ids[2]);
	rsk_pma_rail_unbook(a, spare);
	rsk_pma_rail_unbook(a, spare);
	rsk_pma_devices(a, view, 3);
	cr_assert_eq(view[0].rails_booked, 0);
	cr_assert_eq(view[0].sessions, 1);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}

/* A rail has no CP, no user and no service: it counts for no limit of those. */
Test(pma_rails, rails_are_nobodys)
{
	struct rsk_pma *a =
		pma_of("node: here\n"
		       "limits: {sessions: 1, per-cp: 1, per-user: 1}\n"
		       "rails: {bandwidth: 1Mbit}\n"
		       "rnics:\n"
		       "- {name: one, addresses: [10.0.0.1]}\n"
		       "services:\n- {name: any, ports: [1-65535], limits: {per-cp: 1}}\n");
	struct rsk_pma_question q = pma_question(RSK_PMA_CP, "10.0.0.1", "10.0.0.9", 80);
	struct rsk_pma_answer out;
	uint64_t rail = 0;

	for (int i = 0; i < 3; i++) {
		rail = rsk_pma_rail_booking(a, "one");
		cr_assert_neq(rail, 0);
		cr_assert(rsk_pma_validate(a));
	}
	out = pma_ask(a, &q);
	cr_assert_eq(out.verdict, RSK_PMA_MAP, "verdict %d", out.verdict);
	rsk_pma_release(a, out.reservation);
	/* Nor does it count on the accepting end. */
	out = pma_ask_ap(a, "10.0.0.1", "10.0.0.1", 80);
	cr_assert_eq(out.verdict, RSK_PMA_MAP, "verdict %d", out.verdict);
	cr_assert_eq(pma_ask_ap(a, "10.0.0.1", "10.0.0.1", 81).verdict, RSK_PMA_LIMIT);
	cr_assert_eq(rsk_pma_reload(
			     a, pma_conf("node: here\nrnics: [{name: two, addresses: [10.0.0.2]}]\n"
					 "services: [{name: any, ports: [1-65535]}]\n")),
		     0);
	cr_assert(rsk_pma_validate(a));
	cr_assert_eq(rsk_pma_rail_booking(a, "one"), 0, "it is not there any more");
	rsk_pma_rail_unbook(a, rail);
	cr_assert(rsk_pma_validate(a));
	rsk_pma_free(a);
}
