// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pmsp_links.c - tests which links the PMSP admits: by which mappings a link or a session
 * comes about, from where, how often and until when.
 */
#include "pmsp_kit.h"

Test(pmsp_links, a_link_of_one_connection_by_its_name_once)
{
	struct ap *a = ap_new(&normal);
	const struct rsk_pm_msg r = pm_request(80, 4242, 5), service = pm_request(81, 0, 6);
	const uint8_t any[16] = { 0 }, elsewhere[16] = { 9 };
	struct rsk_pm_addr to = pm_rdma;
	struct rsk_pm_msg name;
	uint8_t from[16];

	a->grant.own_port = true;
	give(a, &r, 1);
	give(a, &service, 1);
#define NOT(what)                                                                                  \
	do {                                                                                       \
		name = r;                                                                          \
		to = pm_rdma;                                                                      \
		what;                                                                              \
		cr_assert_eq(rsk_pmsp_link_named(&a->p, &name, &to, any, from), 0, #what);         \
		cr_assert_arr_eq(from, any, 16, "announced: " #what);                              \
	} while (0)
	NOT(name.assoc_handle++);
	NOT(name.cp_port++);
	NOT(name.cp_ip[3]++);
	NOT(name.ap_port++);
	NOT(name.ap_ip[3]++);
	NOT(name.ipv = 6);
	NOT(to.port++);
	NOT(to.ip[3]++);
	NOT(to.ipv = 6);
	NOT(name = service);
#undef NOT
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, elsewhere, from), 0);
	cr_assert_arr_eq(from, r.cp_ip, 16, "it is told where it must come from");
	cr_assert_eq(a->p.count.refused, 11);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, r.cp_ip, from), 1);
	cr_assert_arr_eq(from, r.cp_ip, 16);
	cr_assert(a->released == 0 && a->used == 1, "the session's, with no PMAck needed");
	cr_assert_eq(a->p.table.n, 1, "the service mapping");
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, any, from), 0, "a second time");
	cr_assert_eq(a->p.count.links, 1);
	ap_free(a);
}

Test(pmsp_links, what_is_not_granted_yet_lets_nobody_in)
{
	struct ap *a = ap_new(&normal);
	const struct rsk_pm_msg r = pm_request(80, 4242, 5);
	const struct rsk_pm_addr nowhere = { .ipv = 4 };
	const uint8_t any[16] = { 0 };
	uint8_t from[16];

	a->verdict = RSK_PMSP_WAIT;
	give(a, &r, 1);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &nowhere, any, from), 0);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, any, from), 0);
	cr_assert_arr_eq(from, any, 16);
	ap_free(a);
}

/* Its port is not compared: rsockd is asked before a rail has one. */
Test(pmsp_links, a_mapped_request_names_the_source_of_one_connection)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 4242, 5);
	const uint8_t unknown[16] = { 0 };
	uint8_t from[16];

	r.mapped = true;
	r.mapped_cp_port = 1000;
	memcpy(r.mapped_cp_ip, (const uint8_t[16]){ 172, 16, 0, 7 }, 16);
	give(a, &r, 1);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, r.cp_ip, from), 0,
		     "the TCP socket's address is not it");
	cr_assert_arr_eq(from, r.mapped_cp_ip, 16);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, unknown, from), 1);
	cr_assert_arr_eq(from, r.mapped_cp_ip, 16);
	ap_free(a);
}

/* A service mapping tells connect() where to go; each connection asks for a link of its own. */
Test(pmsp_links, a_service_mapping_admits_no_link)
{
	struct ap *a = ap_new(&normal);
	struct rsk_pm_msg r = pm_request(80, 0, 5);
	uint8_t from[16];

	a->grant.pm_time_s = 5;
	give(a, &r, 1);
	acknowledge(a, 2);
	cr_assert_eq(rsk_pmsp_link_named(&a->p, &r, &pm_rdma, cp.ip, from), 0);
	rsk_pmsp_tick(&a->p, 5 * SECOND - TICK);
	cr_assert_eq(a->released, 0);
	rsk_pmsp_tick(&a->p, 5 * SECOND + 1 + TICK);
	cr_assert_eq(a->released, 1);
	ap_free(a);
}
