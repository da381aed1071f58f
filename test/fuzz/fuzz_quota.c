// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_quota.c - fuzzes the ledger of remote ports as etcd may have it: any bytes as the key and
 * the value of an offer and of a quota, read and told by events. What is accepted can be written,
 * and is the same then; the tables are whole after each step.
 */
#include <stdlib.h>
#include <string.h>

#include "quota_remotes.h"
#include "quota_table.h"

#define HEAD "/l/"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

static void require_name(const char *name)
{
	size_t n = strnlen(name, RSK_QUOTA_NAME);

	require(n && n < RSK_QUOTA_NAME && !strchr(name, '/'));
	for (size_t i = 0; i < n; i++)
		require(name[i] >= ' ' && name[i] <= '~');
}

static struct rsk_etcd_kv kv_of(char *key, size_t key_bytes, char *text, size_t bytes)
{
	return (struct rsk_etcd_kv){ .key = key,
				     .key_bytes = key_bytes,
				     .value = text,
				     .value_bytes = bytes,
				     .mod_revision = bytes % 7 };
}

static void read_offer(const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_capacity c, again;
	char *text;

	if (rsk_quota_capacity_take(kv, &c) < 0) {
		require(!c.used && !c.n_used && !c.sessions);
		return;
	}
	require(c.sessions <= RSK_QUOTA_SESSIONS && c.n_used <= RSK_CLAIMS_HOLDERS);
	for (size_t i = 0; i < c.n_used; i++)
		require_name(c.used[i].holder);
	text = rsk_quota_capacity_text(&c);
	require(text != NULL);
	if (strlen(text) <= RSK_QUOTA_BYTES) {
		struct rsk_etcd_kv same = kv_of(kv->key, kv->key_bytes, text, strlen(text));

		require(rsk_quota_capacity_take(&same, &again) == 0);
		require(again.sessions == c.sessions && again.state == c.state &&
			again.at.n == c.at.n && again.n_used == c.n_used);
		rsk_quota_capacity_free(&again);
	}
	free(text);
	rsk_quota_capacity_free(&c);
}

static void read_quota(const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_entry e, again;
	struct rsk_etcd_kv same;
	char *text;

	if (rsk_quota_entry_take(kv, &e) < 0) {
		require(!e.sessions && !e.at.n);
		return;
	}
	text = rsk_quota_entry_text(&e);
	require(text != NULL);
	same = kv_of(kv->key, kv->key_bytes, text, strlen(text));
	require(rsk_quota_entry_take(&same, &again) == 0 && again.sessions == e.sessions &&
		memcmp(&again.at, &e.at, sizeof(e.at)) == 0);
	free(text);
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void tell(const struct rsk_range_table *ops, void *table, struct rsk_etcd_kv *kv)
{
	ops->begin(table);
	require(ops->put(table, kv) == 0);
	ops->end(table, false);
	kv->mod_revision++;
	require(ops->event(table, kv) == 0);
	require(ops->newest(table) >= (ops->keys(table) ? 1 : 0));
	kv->is_deleted = true;
	require(ops->event(table, kv) == 0 && ops->keys(table) == 0);
	kv->is_deleted = false;
	require(ops->event(table, kv) == 0);
}

/* The first byte says how many bytes are the key behind its head; the rest is the value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_quota_remotes remotes = { .own = "me", .head = strlen(HEAD) };
	struct rsk_quota_table table = { .head = strlen(HEAD), .changed = nothing };
	size_t key_bytes = size ? data[0] % size : 0, bytes = size ? size - 1 - key_bytes : 0;
	char *key = malloc(sizeof(HEAD) + key_bytes), *value = malloc(bytes + 1);
	struct rsk_etcd_kv kv;
	uint8_t ip[16] = { 10, 0, 0, 1 };

	require(key && value);
	memcpy(key, HEAD, sizeof(HEAD));
	memcpy(key + strlen(HEAD), size ? data + 1 : data, key_bytes);
	memcpy(value, size ? data + 1 + key_bytes : data, bytes);
	key[strlen(HEAD) + key_bytes] = value[bytes] = 0;
	kv = kv_of(key, strlen(HEAD) + key_bytes, value, bytes);
	read_offer(&kv);
	read_quota(&kv);
	if (key_bytes) {
		tell(&rsk_quota_remotes_watched, &remotes, &kv);
		tell(&rsk_quota_table_watched, &table, &kv);
	}
	require(rsk_quota_remotes_validate(&remotes));
	if (rsk_quota_remotes_at(&remotes, 4, ip))
		require(rsk_quota_remotes_begin(&remotes, rsk_quota_remotes_at(&remotes, 4, ip), 7,
						9) == 0);
	kv.is_deleted = true;
	require(rsk_quota_remotes_watched.put(&remotes, &kv) == 0);
	require(rsk_quota_remotes_validate(&remotes));
	rsk_quota_remotes_moved(&remotes, 7, 8);
	rsk_quota_remotes_ended(&remotes, 8);
	rsk_quota_remotes_sweep(&remotes);
	require(!remotes.remotes && rsk_quota_remotes_validate(&remotes));
	rsk_quota_remotes_fini(&remotes);
	rsk_quota_table_fini(&table);
	free(key);
	free(value);
	return 0;
}
