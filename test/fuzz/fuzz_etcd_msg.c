// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_etcd_msg.c - fuzzes what etcd says with any bytes: the stream of objects is split, and each
 * object is converted as every kind of answer; and the bytes are the key and the value of a
 * member's entry, of an entry of services, and of one of a role. What is accepted is whole; what is
 * refused leaves nothing behind.
 */
#include "etcd_msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "member_json.h"
#include "roles_table.h"
#include "services_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void check(int rc, struct rsk_etcd_answer *a)
{
	require(rc == 0 || (rc == -EPROTO && !a->kvs && !a->n));
	for (size_t i = 0; i < a->n; i++) {
		require(a->kvs[i].key && a->kvs[i].value);
		require(!a->kvs[i].key[a->kvs[i].key_bytes]);
		require(!a->kvs[i].value[a->kvs[i].value_bytes]);
	}
	rsk_etcd_answer_free(a);
}

static void convert(const json_t *body)
{
	struct rsk_etcd_answer a;
	uint64_t lease, seconds;
	const char *token;
	int code;

	check(rsk_etcd_take_range(body, &a), &a);
	check(rsk_etcd_take_txn(body, &a), &a);
	check(rsk_etcd_take_watch(json_object_get(body, "result"), &a), &a);
	require(rsk_etcd_take_lease(body, &lease, &seconds) < 0 || lease);
	token = rsk_etcd_take_token(body);
	require(!token || !strpbrk(token, " \r\n"));
	require(rsk_etcd_take_error(body, &code) != NULL && code >= -1 && code < 100);
}

static void require_printable(const json_t *v)
{
	const char *text = json_string_value(v);

	require(text && strlen(text) < RSK_MEMBER_TEXT);
	for (; text && *text; text++)
		require(*text >= ' ' && *text <= '~');
}

/* Whatever a row consists of can be shown. */
static void require_shown(const json_t *v)
{
	const char *key;
	json_t *one;
	size_t i;

	if (json_is_string(v))
		require_printable(v);
	json_array_foreach(v, i, one) require_shown(one);
	json_object_foreach((json_t *)v, key, one) require_shown(one);
}

static void read_entry(const char *bytes, size_t size)
{
	/* The key of the corpus' entries, of which 2 bytes are the head */
	char key[] = "m/x", nothing[] = "";
	struct rsk_etcd_kv kv = {
		.key = key, .key_bytes = 3, .value = (char *)bytes, .value_bytes = size
	};
	json_t *row;

	row = rsk_member_row(&kv, 2, 7);
	require_printable(json_object_get(row, "node"));
	require(strcmp(json_string_value(json_object_get(row, "node")), "x") == 0);
	require_shown(row);
	if (json_is_true(json_object_get(row, "readable")))
		require(json_is_array(json_object_get(row, "rnics")) &&
			json_array_size(json_object_get(row, "rnics")) <= RSK_MEMBER_RNICS);
	json_decref(row);
	rsk_member_is_of(&kv, "0123456789abcdef");
	kv = (struct rsk_etcd_kv){ .key = (char *)bytes, .key_bytes = size, .value = nothing };
	row = rsk_member_row(&kv, 2, 7);
	require_shown(row);
	require(json_is_false(json_object_get(row, "readable")));
	json_decref(row);
}

static void require_text(const char *text, size_t room)
{
	size_t n = strnlen(text, room);

	require(n && n < room);
	for (size_t i = 0; i < n; i++)
		require(text[i] >= ' ' && text[i] <= '~');
}

/* What is accepted can be written, and is the same then. */
static void require_same(const struct rsk_service_entry *e)
{
	char key[] = "s/x", *text = rsk_service_entry_text(e);
	struct rsk_etcd_kv kv = { .key = key, .key_bytes = 3, .value = text };
	struct rsk_service_entry again;

	require(text != NULL);
	kv.value_bytes = strlen(text);
	if (kv.value_bytes <= RSK_SERVICE_BYTES) {
		require(rsk_service_entry_take(&kv, 2, &again) == 0);
		require(again.n == e->n && again.n_listens == e->n_listens &&
			again.left_out == e->left_out);
		for (size_t i = 0; i < e->n; i++)
			require(memcmp(&again.services[i], &e->services[i],
				       sizeof(e->services[i])) == 0);
		rsk_service_entry_free(&again);
	}
	free(text);
}

static void require_services(void *ctx, const char *name, enum rsk_services_kind kind,
			     const struct rsk_service_entry *e)
{
	(void)ctx;
	require(!*name || strnlen(name, RSK_SERVICE_NODE) < RSK_SERVICE_NODE);
	require(kind == RSK_SERVICES_READABLE || !e->n);
	for (size_t i = 0; i < e->n; i++) {
		const struct rsk_service *s = &e->services[i];

		require_text(s->name, sizeof(s->name));
		require_text(s->device, sizeof(s->device));
		require_text(s->since, sizeof(s->since));
		require(s->at.port && s->at.ipv == s->rdma.ipv);
		require(rsk_pm_addr_is_for_others(&s->at) && rsk_pm_addr_is_for_others(&s->rdma));
	}
	if (kind == RSK_SERVICES_READABLE)
		require_same(e);
}

static void read_services(const char *bytes, size_t size)
{
	struct rsk_services_table t = { .own = "own", .head = 2 };
	char key[] = "s/x", nothing[] = "";
	struct rsk_etcd_kv kv = {
		.key = key, .key_bytes = 3, .value = (char *)bytes, .value_bytes = size
	};
	struct rsk_pm_msg req = { .ipv = RSK_PM_IPV4, .ap_port = 80, .ap_ip = { 10, 0, 0, 1 } };
	struct rsk_pm_addr pmsp;

	require(rsk_services_table_put(&t, &kv) == 0);
	require(rsk_services_table_validate(&t));
	require(!rsk_services_table_find(&t, &req, &pmsp) || rsk_pm_addr_is_for_others(&pmsp));
	kv = (struct rsk_etcd_kv){ .key = (char *)bytes, .key_bytes = size, .value = nothing };
	require(rsk_services_table_put(&t, &kv) == 0);
	require(rsk_services_table_validate(&t));
	rsk_services_table_each(&t, require_services, NULL);
	kv.is_deleted = true;
	require(rsk_services_table_put(&t, &kv) == 0);
	rsk_services_table_fini(&t);
	require(rsk_services_table_validate(&t));
}

static void read_roles(const char *bytes, size_t size)
{
	struct rsk_roles_table t = { .head = 2 };
	char key[] = "r/pma/x", nothing[] = "";
	struct rsk_etcd_kv kv = { .key = key,
				  .key_bytes = sizeof(key) - 1,
				  .value = (char *)bytes,
				  .value_bytes = size,
				  .lease = 1 };
	const struct rsk_roles_entry *e;

	require(rsk_roles_table_put(&t, &kv) == 0);
	require(rsk_roles_table_validate(&t));
	e = rsk_roles_table_agent(&t);
	if (e) {
		char *text = rsk_role_text(&e->role);
		struct rsk_role again;

		require(text && e->role.at.port && strcmp(e->role.node, "x") == 0);
		kv.value = text;
		kv.value_bytes = strlen(text);
		require(rsk_role_take(&kv, 2, &again) == 0);
		require(rsk_pm_addr_equal(&again.at, &e->role.at));
		free(text);
	}
	kv = (struct rsk_etcd_kv){
		.key = (char *)bytes, .key_bytes = size, .value = nothing, .lease = 1
	};
	require(rsk_roles_table_put(&t, &kv) == 0);
	require(rsk_roles_table_validate(&t));
	kv.is_deleted = true;
	require(rsk_roles_table_put(&t, &kv) == 0);
	rsk_roles_table_fini(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct rsk_json_split s = { 0 };
	size_t at = 0, step, taken = 0;
	json_error_t error;
	json_t *body;
	char *text, *back;
	ssize_t n = 0;

	for (; at < size; at += (size_t)n) {
		s = (struct rsk_json_split){ 0 };
		n = rsk_json_split(&s, bytes + at, size - at);
		if (n <= 0)
			break;
		/* In two pieces it is the same object. */
		step = (size_t)n / 2;
		s = (struct rsk_json_split){ 0 };
		require(!step || rsk_json_split(&s, bytes + at, step) == 0);
		require(rsk_json_split(&s, bytes + at + step, size - at - step) ==
			n - (ssize_t)step);
		body = json_loadb(bytes + at, (size_t)n, JSON_REJECT_DUPLICATES, &error);
		convert(body);
		json_decref(body);
	}
	require(n >= 0 || n == -EPROTO);
	read_entry(bytes, size);
	read_services(bytes, size);
	read_roles(bytes, size);
	text = rsk_base64_encode(data, size);
	back = text ? rsk_base64_decode(text, &taken) : NULL;
	require(back && taken == size && memcmp(back, data, size) == 0);
	free(text);
	free(back);
	return 0;
}
