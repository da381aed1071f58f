// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_services_table.c - tests the entries in which hosts tell which services they offer: what is
 * written can be read, what is not valid is refused; and the table of them: who is found for a
 * request.
 */
#include "services_table.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"

#define HEAD "/r/services/"
#define LISTEN "{\"address\":\"0.0.0.0\",\"port\":3935}"
#define SERVICE                                                                                    \
	"{\"name\":\"s\",\"address\":\"10.0.0.1\",\"port\":80,\"device\":\"d\","                   \
	"\"rdma\":\"10.0.1.1\",\"rdma-port\":0,\"since\":\"now\"}"
#define ENTRY "{\"node\":\"a\",\"left-out\":0,\"listens\":[" LISTEN "],\"services\":[" SERVICE "]}"

static struct rsk_pm_addr address(const char *ip, uint16_t port)
{
	struct rsk_pm_addr a = { .ipv = strchr(ip, ':') ? 6 : 4, .port = port };

	cr_assert_eq(inet_pton(a.ipv == 6 ? AF_INET6 : AF_INET, ip, a.ip), 1, "%s", ip);
	return a;
}

static struct rsk_etcd_kv kv_of(const char *key, const char *value, uint64_t revision)
{
	return (struct rsk_etcd_kv){ .key = (char *)key,
				     .key_bytes = strlen(key),
				     .value = (char *)value,
				     .value_bytes = strlen(value),
				     .mod_revision = revision };
}

/* ---- entries ---- */

static bool is_valid(const char *value)
{
	struct rsk_etcd_kv kv = kv_of(HEAD "a", value, 7);
	struct rsk_service_entry e;
	int rc = rsk_service_entry_take(&kv, strlen(HEAD), &e);

	cr_assert(rc == 0 || (rc == -EPROTO && !e.n && !e.services), "%d", rc);
	rsk_service_entry_free(&e);
	return rc == 0;
}

/* ENTRY with another text in the place of @from; the caller frees it. */
static char *with(const char *from, const char *to)
{
	const char *at = strstr(ENTRY, from);
	char *out = NULL;

	cr_assert(at, "%s", from);
	cr_assert_geq(asprintf(&out, "%.*s%s%s", (int)(at - ENTRY), ENTRY, to, at + strlen(from)),
		      0);
	return out;
}

Test(services_table, entries)
{
	static const struct {
		const char *from, *to;
		bool valid;
	} rows[] = {
		{ "\"node\"", "\"later\":{},\"node\"", true },
		{ "\"listens\":[" LISTEN "]", "\"listens\":[]", true },
		{ "\"services\":[" SERVICE "]", "\"services\":[]", true },
		{ "\"rdma-port\":0", "\"rdma-port\":65535", true },
		{ "\"node\":\"a\"", "\"node\":\"b\"", false },
		{ "\"node\":\"a\",", "", false },
		{ "\"node\":\"a\"", "\"node\":\"a\",\"node\":\"a\"", false },
		{ "\"node\":\"a\"", "\"node\":\"a\\u0000\"", false },
		{ "\"left-out\":0", "\"left-out\":-1", false },
		{ "\"left-out\":0,", "", false },
		{ "[" LISTEN "]", "null", false },
		{ "[" LISTEN "]", "[5]", false },
		{ "3935", "0", false },
		{ "0.0.0.0", "x", false },
		{ "[" SERVICE "]", "[[]]", false },
		{ "[" SERVICE "]", "{}", false },
		{ "\"name\":\"s\",", "", false },
		{ "\"name\":\"s\"", "\"name\":\"\xc3\xa4\"", false },
		{ "\"device\":\"d\"", "\"device\":\"\"", false },
		{ "\"port\":80", "\"port\":0", false },
		{ "\"port\":80", "\"port\":65536", false },
		{ "10.0.0.1", "0.0.0.0", false },
		{ "10.0.0.1", "0.1.0.0", false },
		{ "10.0.0.1", "127.0.0.1", false },
		{ "10.0.0.1", "169.254.1.1", false },
		{ "10.0.0.1", "224.0.0.1", false },
		{ "10.0.0.1", "255.255.255.255", false },
		{ "10.0.0.1", "fd00::1", false }, /* not the family of the RDMA address */
		{ "10.0.0.1", "10.0.0.1\\u0000", false },
		{ "10.0.1.1", "fe80::1", false },
		{ "10.0.1.1", "127.0.0.1", false },
		{ "\"since\":\"now\"", "\"since\":\"\\u001b\"", false },
	};

	cr_assert(is_valid(ENTRY));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = with(rows[i].from, rows[i].to);

		cr_expect_eq(is_valid(text), rows[i].valid, "%s", text);
		free(text);
	}
	for (const char *p = ENTRY; *p; p++) {
		char *cut = strndup(ENTRY, (size_t)(p - ENTRY));

		cr_expect(!is_valid(cut), "%s", cut);
		free(cut);
	}
}

Test(services_table, addresses_for_others)
{
	static const struct {
		const char *ip;
		bool is;
	} rows[] = {
		{ "10.0.0.1", true },	  { "169.253.0.1", true }, { "223.255.255.255", true },
		{ "fd00::1", true },	  { "2001:db8::1", true }, { "fec0::1", true },
		{ "0.0.0.0", false },	  { "127.9.9.9", false },  { "224.0.0.0", false },
		{ "169.254.0.1", false }, { "::", false },	   { "::1", false },
		{ "fe80::1", false },	  { "febf::1", false },	   { "ff02::1", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct rsk_pm_addr a = address(rows[i].ip, 1);

		cr_expect_eq(rsk_pm_addr_is_for_others(&a), rows[i].is, "%s", rows[i].ip);
	}
}

static void fill(struct rsk_service *s, const char *ip, uint16_t port)
{
	*s = (struct rsk_service){ .at = address(ip, port), .rdma = address(ip, 0) };
	rsk_service_put_text(s->name, sizeof(s->name), "web \xff");
	rsk_service_put_text(s->device, sizeof(s->device), "d");
	rsk_service_put_text(s->since, sizeof(s->since), "now");
}

/* The longest entry that there is fits, and can be read again as it was. */
Test(services_table, written_and_read)
{
	struct rsk_service_entry e = { .node = "a", .n = RSK_SERVICE_MOST, .left_out = 9 }, back;
	char *text, longest[2 * RSK_SERVICE_NAME];
	struct rsk_etcd_kv kv;

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	e.services = calloc(e.n, sizeof(*e.services));
	for (size_t i = 0; i < e.n; i++) {
		struct rsk_service *s = &e.services[i];

		fill(s, "fd00:1111:2222:3333:4444:5555:6666:7777", (uint16_t)(10000 + i));
		s->rdma.port = 65535;
		rsk_service_put_text(s->name, sizeof(s->name), longest);
		rsk_service_put_text(s->device, sizeof(s->device), longest);
		rsk_service_put_text(s->since, sizeof(s->since), "2026-01-01T00:00:00Z");
	}
	for (; e.n_listens < RSK_SERVICE_LISTENS; e.n_listens++)
		e.listens[e.n_listens] = address("::", 3935);
	text = rsk_service_entry_text(&e);
	cr_assert_not_null(text);
	cr_assert_leq(strlen(text), RSK_SERVICE_BYTES);
	kv = kv_of(HEAD "a", text, 1);
	cr_assert_eq(rsk_service_entry_take(&kv, strlen(HEAD), &back), 0);
	cr_assert_eq(back.n, e.n);
	cr_assert_eq(memcmp(back.services, e.services, e.n * sizeof(*e.services)), 0);
	cr_assert_eq(back.n_listens, e.n_listens);
	cr_assert_eq(memcmp(back.listens, e.listens, sizeof(e.listens)), 0);
	cr_assert_eq(back.left_out, 9);
	rsk_service_entry_free(&e);
	rsk_service_entry_free(&back);
	free(text);
}

/* ---- the table ---- */

static struct rsk_services_table table(void)
{
	return (struct rsk_services_table){ .own = "own", .head = strlen(HEAD) };
}

static void put(struct rsk_services_table *t, const char *node, const char *value,
		uint64_t revision)
{
	char key[1024];
	struct rsk_etcd_kv kv;

	snprintf(key, sizeof(key), HEAD "%s", node);
	kv = kv_of(key, value ? value : "", revision);
	kv.is_deleted = !value;
	cr_assert_eq(rsk_services_table_put(t, &kv), 0);
	cr_assert(rsk_services_table_validate(t));
}

static void event(struct rsk_services_table *t, const char *node, uint64_t revision,
		  bool is_deleted)
{
	char key[64];
	struct rsk_etcd_kv kv;

	snprintf(key, sizeof(key), HEAD "%s", node);
	kv = kv_of(key, "garbage", revision);
	kv.is_deleted = is_deleted;
	cr_assert_eq(rsk_services_table_event(t, &kv), 0);
	cr_assert(rsk_services_table_validate(t));
}

/* An entry of that node with @n services at one address, from port @port on. */
static void offer(struct rsk_services_table *t, const char *node, const char *ip, uint16_t port,
		  size_t n, const char *listens)
{
	struct rsk_service_entry e = { .n = n };
	char *text;

	snprintf(e.node, sizeof(e.node), "%s", node);
	e.services = calloc(n + 1, sizeof(*e.services));
	for (size_t i = 0; i < n; i++)
		fill(&e.services[i], ip, (uint16_t)(port + i));
	if (listens)
		e.listens[e.n_listens++] = address(listens, 3935);
	text = rsk_service_entry_text(&e);
	put(t, node, text, 5);
	free(text);
	rsk_service_entry_free(&e);
}

static bool find(const struct rsk_services_table *t, const char *ip, uint16_t port,
		 uint16_t cp_port, uint64_t handle, struct rsk_pm_addr *out)
{
	const struct rsk_pm_addr at = address(ip, port);
	struct rsk_pm_msg req = {
		.ipv = at.ipv, .ap_port = port, .cp_port = cp_port, .assoc_handle = handle
	};

	memcpy(req.ap_ip, at.ip, 16);
	return rsk_services_table_find(t, &req, out);
}

static bool is_at(const struct rsk_pm_addr *a, const char *ip)
{
	const struct rsk_pm_addr want = address(ip, 3935);

	return rsk_pm_addr_equal(a, &want);
}

Test(services_table, who_is_found)
{
	struct rsk_services_table t = table();
	struct rsk_pm_addr pmsp, again;
	int first = 0;

	offer(&t, "a", "10.0.0.1", 80, 2, "0.0.0.0");
	offer(&t, "b", "10.0.0.2", 80, 1, "10.0.9.9");
	offer(&t, "own", "10.0.0.3", 80, 1, "0.0.0.0");
	offer(&t, "six", "fd00::4", 80, 1, "0.0.0.0");
	offer(&t, "none", "10.0.0.5", 80, 1, NULL);
	offer(&t, "loop", "10.0.0.6", 80, 1, "127.0.0.1");
	cr_assert(find(&t, "10.0.0.1", 81, 1, 1, &pmsp) && is_at(&pmsp, "10.0.0.1"));
	cr_assert(find(&t, "10.0.0.2", 80, 1, 1, &pmsp) && is_at(&pmsp, "10.0.9.9"));
	cr_assert(!find(&t, "10.0.0.1", 82, 1, 1, &pmsp), "another port");
	cr_assert(!find(&t, "10.0.0.7", 80, 1, 1, &pmsp), "another address");
	cr_assert(!find(&t, "10.0.0.3", 80, 1, 1, &pmsp), "this host itself");
	cr_assert(!find(&t, "fd00::4", 80, 1, 1, &pmsp), "it does not listen in that family");
	cr_assert(!find(&t, "10.0.0.5", 80, 1, 1, &pmsp), "it does not listen");
	cr_assert(!find(&t, "10.0.0.6", 80, 1, 1, &pmsp), "others do not reach it");
	/* An address of two: by AssocHandle, and about half of them each. */
	offer(&t, "c", "10.0.0.1", 80, 1, "10.0.8.8");
	for (uint64_t handle = 1; handle <= 1000; handle++) {
		cr_assert(find(&t, "10.0.0.1", 80, 0, handle, &pmsp));
		cr_assert(find(&t, "10.0.0.1", 80, 0, handle, &again));
		cr_assert(rsk_pm_addr_equal(&pmsp, &again));
		first += is_at(&pmsp, "10.0.0.1");
	}
	cr_assert(first > 400 && first < 600, "%d", first);
	cr_assert(!find(&t, "10.0.0.1", 80, 1, 1, &pmsp), "which of them has the connection?");
	put(&t, "c", NULL, 9);
	cr_assert(find(&t, "10.0.0.1", 80, 1, 1, &pmsp) && is_at(&pmsp, "10.0.0.1"));
	put(&t, "a", "{}", 9);
	cr_assert(!find(&t, "10.0.0.1", 80, 0, 1, &pmsp), "it is unreadable now");
	rsk_services_table_fini(&t);
	cr_assert(rsk_services_table_validate(&t) && !t.n_services);
}

Test(services_table, read_again)
{
	struct rsk_services_table t = table();

	offer(&t, "a", "10.0.0.1", 80, 3, NULL);
	put(&t, "b", "garbage", 11);
	cr_assert_eq(rsk_services_table_revision(&t, HEAD "b"), 11);
	cr_assert_eq(rsk_services_table_revision(&t, HEAD "c"), 0);
	cr_assert_eq(rsk_services_table_newest(&t), 11);
	cr_assert_eq(rsk_services_table_nodes(&t), 2);
	event(&t, "b", 10, true);
	event(&t, "b", 9, false);
	cr_assert_eq(rsk_services_table_revision(&t, HEAD "b"), 11, "events that come late");
	event(&t, "b", 12, false);
	cr_assert_eq(rsk_services_table_revision(&t, HEAD "b"), 12);
	event(&t, "b", 13, true);
	cr_assert_eq(rsk_services_table_nodes(&t), 1);
	put(&t, "b", "garbage", 11);
	rsk_services_table_begin(&t);
	offer(&t, "c", "10.0.0.1", 80, 1, NULL);
	rsk_services_table_end(&t);
	cr_assert(rsk_services_table_validate(&t));
	cr_assert_eq(rsk_services_table_nodes(&t), 1);
	cr_assert_eq(t.n_services, 1);
	cr_assert_eq(rsk_services_table_newest(&t), 5);
	rsk_services_table_fini(&t);
}

Test(services_table, limits)
{
	struct rsk_services_table t = table();
	char name[600];

	for (unsigned int i = 0; i < RSK_SERVICES_TABLE_NODES; i++) {
		snprintf(name, sizeof(name), "n%04u", i);
		offer(&t, name, "10.0.0.1", 1000, 16, NULL);
	}
	cr_assert(!t.is_full);
	cr_assert_eq(t.n_services, RSK_SERVICES_TABLE_MOST);
	offer(&t, "one-more", "10.0.0.1", 1000, 1, NULL);
	cr_assert(t.is_full && rsk_services_table_nodes(&t) == RSK_SERVICES_TABLE_NODES);
	t.is_full = false;
	put(&t, "n0000", NULL, 9);
	offer(&t, "larger", "10.0.0.1", 1000, 17, NULL);
	cr_assert(t.is_full && t.n_services == RSK_SERVICES_TABLE_MOST - 16);
	t.is_full = false;
	offer(&t, "larger", "10.0.0.1", 1000, 16, NULL);
	cr_assert(!t.is_full && t.n_services == RSK_SERVICES_TABLE_MOST);
	put(&t, "larger", NULL, 9);
	memset(name, 'k', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	put(&t, name, "x", 9);
	cr_assert(t.is_full, "the key is too long");
	rsk_services_table_fini(&t);
}

/* Whatever comes in whatever order: the table stays valid, and has what came last. */
Test(services_table, random)
{
	struct rsk_services_table t = table();
	uint64_t dice = 7;
	size_t has[8] = { 0 }, sum = 0;
	char node[2] = "a";

	for (int step = 0; step < 5000; step++) {
		unsigned int who = dice_roll(&dice) % 8, what = dice_roll(&dice) % 10;

		node[0] = (char)('a' + who);
		has[who] = what < 7 ? what : 0;
		if (what < 7)
			offer(&t, node, "10.0.0.1", (uint16_t)(80 + dice_roll(&dice) % 5), what,
			      "0.0.0.0");
		else
			put(&t, node, what == 7 ? NULL : "garbage", 3);
		sum = 0;
		for (int i = 0; i < 8; i++)
			sum += has[i];
		cr_assert_eq(t.n_services, sum);
	}
	rsk_services_table_fini(&t);
}
