// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_roles_table.c - tests the entries in which hosts say that they are central agents or central
 * PMSPs, and the table of them: which one is asked, and what is not believed.
 */
#include "roles_table.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"

#define HEAD "/r/roles/"

static struct rsk_etcd_kv kv_of(const char *key, const char *value, uint64_t created,
				uint64_t revision)
{
	return (struct rsk_etcd_kv){ .key = (char *)key,
				     .key_bytes = strlen(key),
				     .value = (char *)value,
				     .value_bytes = strlen(value),
				     .create_revision = created,
				     .mod_revision = revision,
				     .lease = 7 };
}

/* ---- entries ---- */

static int take(const char *key, const char *value, struct rsk_role *out)
{
	struct rsk_etcd_kv kv = kv_of(key, value, 1, 1);

	return rsk_role_take(&kv, strlen(HEAD), out);
}

Test(role_json, what_is_written_can_be_read)
{
	static const char *const ips[] = { "10.0.0.1", "fd00::1" };
	struct rsk_role r = { .kind = RSK_ROLE_PMSP, .node = "a" }, back;

	for (size_t i = 0; i < 2; i++) {
		struct rsk_etcd_kv kv;
		char *text;

		r.at = (struct rsk_pm_addr){ .ipv = i ? 6 : 4, .port = 3935 };
		cr_assert_eq(inet_pton(i ? AF_INET6 : AF_INET, ips[i], r.at.ip), 1);
		text = rsk_role_text(&r);
		cr_assert_not_null(text);
		cr_assert_eq(take(HEAD "pmsp/a", text, &back), 0);
		cr_assert(back.kind == r.kind && strcmp(back.node, "a") == 0 &&
			  rsk_pm_addr_equal(&back.at, &r.at));
		cr_assert_eq(take(HEAD "pma/a", text, &back), 0);
		cr_assert_eq(back.kind, RSK_ROLE_PMA);
		cr_assert_eq(take(HEAD "pma/b", text, &back), -EPROTO, "of another node");
		kv = kv_of(HEAD "pma/a", text, 1, 1);
		kv.lease = 0;
		cr_assert_eq(rsk_role_take(&kv, strlen(HEAD), &back), -EPROTO, "without a lease");
		free(text);
	}
}

Test(role_json, what_is_not_believed)
{
	static const char *const values[] = {
		"",
		"5",
		"null",
		"[]",
		"{}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\"}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":0}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":65536}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":-1}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":\"1\"}",
		"{\"node\":\"a\",\"address\":\"0.0.0.0\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"127.0.0.1\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"224.0.0.1\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"::\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"ff02::1\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"fe80::1\",\"port\":1}",
		"{\"node\":\"a\",\"address\":\"10.0.0.1\\u0000x\",\"port\":1}",
		"{\"node\":\"a\",\"address\":5,\"port\":1}",
		"{\"node\":\"a\",\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":1}",
		"{\"node\":5,\"address\":\"10.0.0.1\",\"port\":1}",
		"{\"address\":\"10.0.0.1\",\"port\":1}",
	};
	static const char *const keys[] = { HEAD,	    HEAD "a",	   HEAD "pma",
					    HEAD "pma/",    HEAD "pmax/a", HEAD "PMA/a",
					    HEAD "pm/a",    HEAD "/a",	   HEAD "pma/\x1b",
					    HEAD "pma/\xff" };
	struct rsk_role r;
	char *large;

	cr_assert_eq(take(HEAD "pma/a",
			  "{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":1,\"x\":2}", &r),
		     0, "a member that a newer version may have");
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		cr_expect_eq(take(HEAD "pma/a", values[i], &r), -EPROTO, "%s", values[i]);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		cr_expect_eq(take(keys[i], "{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":1}",
				  &r),
			     -EPROTO, "%s", keys[i]);
	cr_assert_gt(asprintf(&large,
			      "{\"node\":\"a\",\"address\":\"10.0.0.1\",\"port\":1,\"x\":\"%*s\"}",
			      RSK_ROLE_BYTES, ""),
		     0);
	cr_expect_eq(take(HEAD "pma/a", large, &r), -EPROTO, "too large");
	free(large);
}

/* ---- the table ---- */

static struct rsk_roles_table table;

static void put(const char *name, uint64_t created, uint64_t revision)
{
	char key[64], value[128];
	struct rsk_etcd_kv kv;

	snprintf(key, sizeof(key), HEAD "%s", name);
	snprintf(value, sizeof(value), "{\"node\":\"%s\",\"address\":\"10.0.0.%u\",\"port\":5}",
		 strchr(name, '/') + 1, (unsigned int)(unsigned char)name[strlen(name) - 1]);
	kv = kv_of(key, value, created, revision);
	cr_assert_eq(rsk_roles_table_event(&table, &kv), 0);
	cr_assert(rsk_roles_table_validate(&table));
}

static void drop(const char *name, uint64_t revision)
{
	char key[64];
	struct rsk_etcd_kv kv;

	snprintf(key, sizeof(key), HEAD "%s", name);
	kv = kv_of(key, "", 0, revision);
	kv.is_deleted = true;
	cr_assert_eq(rsk_roles_table_event(&table, &kv), 0);
	cr_assert(rsk_roles_table_validate(&table));
}

static const char *agent(void)
{
	const struct rsk_roles_entry *e = rsk_roles_table_agent(&table);

	return e ? e->role.node : "";
}

static void begin(void)
{
	table = (struct rsk_roles_table){ .head = strlen(HEAD) };
}

Test(roles_table, the_oldest_agent, .init = begin)
{
	struct rsk_etcd_kv wrong = kv_of(HEAD "pma/a", "{}", 1, 1);

	cr_assert_str_eq(agent(), "");
	put("pmsp/p", 1, 1);
	cr_assert_str_eq(agent(), "", "a PMSP is no policy agent");
	put("pma/c", 5, 5);
	put("pma/b", 7, 7);
	cr_assert_str_eq(agent(), "c");
	cr_assert_eq(rsk_roles_table_put(&table, &wrong), 0);
	cr_assert_str_eq(agent(), "c", "what is older, and unreadable");
	put("pma/b", 7, 9);
	put("pma/c", 5, 10);
	cr_assert_str_eq(agent(), "c", "a change makes it no younger");
	drop("pma/c", 8);
	cr_assert_str_eq(agent(), "c", "an event that comes late");
	drop("pma/c", 11);
	cr_assert_str_eq(agent(), "b");
	put("pma/c", 12, 12);
	cr_assert_str_eq(agent(), "b", "who comes back stands by");
	cr_assert_eq(rsk_roles_table_revision(&table, HEAD "pma/b"), 9);
	cr_assert_eq(rsk_roles_table_newest(&table), 12);
	/* All keys are read again, and one is not there any more. */
	rsk_roles_table_begin(&table);
	put("pma/c", 12, 12);
	rsk_roles_table_end(&table, false);
	cr_assert(table.n == 1 && strcmp(agent(), "c") == 0 && !table.is_full);
	rsk_roles_table_fini(&table);
}

/* The PMSPs in the order of a node, as the last letters of their names. */
static const char *order(const char *own, char out[static 16])
{
	uint64_t cursor = UINT64_MAX;
	struct rsk_pm_addr at;
	size_t n = 0;

	while (n < 15 && rsk_roles_table_pmsp(&table, own, &cursor, &at))
		out[n++] = (char)at.ip[3];
	out[n] = 0;
	return out;
}

Test(roles_table, each_node_has_an_order_of_pmsps, .init = begin)
{
	char text[16], with[16], name[24];
	size_t first[128] = { 0 }, moved = 0;

	put("pma/z", 1, 1);
	cr_assert_str_eq(order("n", text), "");
	for (const char *p = "pmsp/a\0pmsp/b\0pmsp/c\0pmsp/d\0"; *p; p += 7)
		put(p, 1, 1);
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "node%u", i);
		order(name, text);
		cr_assert_eq(strlen(text), 4, "each once: %s", text);
		for (const char *p = "abcd"; *p; p++)
			cr_assert_not_null(strchr(text, *p));
		first[(unsigned char)*text]++;
	}
	for (const char *p = "abcd"; *p; p++)
		cr_assert(first[(unsigned char)*p] > 150 && first[(unsigned char)*p] < 350,
			  "%zu nodes begin with %c", first[(unsigned char)*p], *p);
	/* A new one gets its part, and takes it from each; the others keep their order. */
	for (unsigned int i = 0; i < 1000; i++) {
		size_t n = 0;

		snprintf(name, sizeof(name), "node%u", i);
		drop("pmsp/e", 2 * i + 10);
		order(name, text);
		put("pmsp/e", 2 * i + 11, 2 * i + 11);
		order(name, with);
		moved += *with == 'e';
		for (const char *p = with; *p; p++)
			n += *p != 'e' && *p == text[n];
		cr_assert_eq(n, 4, "%s became %s", text, with);
	}
	cr_assert(moved > 120 && moved < 280, "%zu", moved);
	rsk_roles_table_fini(&table);
}

Test(roles_table, it_has_a_bound, .init = begin)
{
	char name[24];

	for (unsigned int i = 0; i < RSK_ROLES_TABLE_MOST + 5; i++) {
		snprintf(name, sizeof(name), "pma/%u", i);
		put(name, i + 1, i + 1);
	}
	cr_assert(table.n == RSK_ROLES_TABLE_MOST && table.is_full);
	drop("pma/3", 2000);
	put("pma/new", 2001, 2001);
	cr_assert_eq(table.n, RSK_ROLES_TABLE_MOST);
	rsk_roles_table_fini(&table);
	cr_assert(!table.n && rsk_roles_table_validate(&table));
}

Test(roles_table, at_random, .init = begin, .timeout = 60)
{
	uint64_t dice = dice_seed("roles_table"), created[16] = { 0 };

	for (uint64_t step = 1; step < 20000; step++) {
		unsigned int i = (unsigned int)(dice_roll(&dice) % 16);
		uint64_t oldest = 0;
		char name[24];

		snprintf(name, sizeof(name), "pma/%c", 'a' + (int)i);
		if (dice_roll(&dice) % 3) {
			created[i] = created[i] ? created[i] : step;
			put(name, created[i], step);
		} else {
			created[i] = 0;
			drop(name, step);
		}
		for (i = 0; i < 16; i++)
			if (created[i] && (!oldest || created[i] < oldest))
				oldest = created[i];
		cr_assert_eq(rsk_roles_table_agent(&table) ?
				     rsk_roles_table_agent(&table)->created :
				     0,
			     oldest);
	}
	rsk_roles_table_fini(&table);
}
