// SPDX-License-Identifier: BSD-2-Clause
/* quota_table.c - see quota_table.h. */
#include "quota_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void drop(struct rsk_quota_table *t, struct rsk_quota_row *r)
{
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed after removal */
	HASH_DEL(t->rows, r);
	free(r);
}

static struct rsk_quota_row *find(struct rsk_quota_table *t, const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_row *r;

	HASH_FIND(hh, t->rows, kv->key, kv->key_bytes, r);
	return r;
}

static struct rsk_quota_row *make(struct rsk_quota_table *t, const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_row *r = calloc(1, sizeof(*r) + kv->key_bytes + 1);

	if (!r)
		return NULL;
	memcpy(r->key, kv->key, kv->key_bytes);
	r->key_bytes = kv->key_bytes;
	HASH_ADD(hh, t->rows, key, r->key_bytes, r);
	return r;
}

static int put(void *table, const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_table *t = table;
	struct rsk_quota_row *r = find(t, kv);
	char names[2][RSK_QUOTA_NAME];

	if (kv->is_deleted) {
		if (r)
			drop(t, r);
		return 0;
	}
	if (!r && HASH_COUNT(t->rows) >= RSK_QUOTA_TABLE_MOST) {
		t->is_full = true;
		return 0;
	}
	if (!r)
		r = make(t, kv);
	if (!r)
		return -ENOMEM;
	r->round = t->round;
	r->revision = kv->mod_revision;
	r->lease = kv->lease;
	r->is_readable = kv->key_bytes > t->head &&
			 rsk_quota_split(kv->key + t->head, kv->key_bytes - t->head, names, 2) &&
			 rsk_quota_entry_take(kv, &r->entry) == 0;
	if (r->is_readable) {
		memcpy(r->rnic, names[0], RSK_QUOTA_NAME);
		memcpy(r->holder, names[1], RSK_QUOTA_NAME);
	}
	return 0;
}

static int event(void *table, const struct rsk_etcd_kv *kv)
{
	const struct rsk_quota_row *r = find(table, kv);

	return r && kv->mod_revision < r->revision ? 0 : put(table, kv);
}

static void begin(void *table)
{
	struct rsk_quota_table *t = table;

	t->round++;
	t->is_full = false;
}

static void end(void *table, bool more)
{
	struct rsk_quota_table *t = table;
	struct rsk_quota_row *r, *next;

	t->is_full |= more;
	HASH_ITER(hh, t->rows, r, next)
		if (r->round != t->round)
			drop(t, r);
}

static size_t keys(const void *table)
{
	return HASH_COUNT(((const struct rsk_quota_table *)table)->rows);
}

static uint64_t newest(const void *table)
{
	uint64_t most = 0;

	for (const struct rsk_quota_row *r = ((const struct rsk_quota_table *)table)->rows; r;
	     r = r->hh.next)
		if (r->revision > most)
			most = r->revision;
	return most;
}

static bool is_full(const void *table)
{
	return ((const struct rsk_quota_table *)table)->is_full;
}

static void changed(void *table)
{
	const struct rsk_quota_table *t = table;

	t->changed(t->ctx);
}

const struct rsk_range_table rsk_quota_table_watched = { .what = "quotas",
							 .keys_most = RSK_QUOTA_TABLE_MOST,
							 .put = put,
							 .event = event,
							 .begin = begin,
							 .end = end,
							 .keys = keys,
							 .newest = newest,
							 .is_full = is_full,
							 .changed = changed };

void rsk_quota_table_fini(struct rsk_quota_table *t)
{
	struct rsk_quota_row *r = t->rows, *next;

	/* The table is emptied; its entries are still linked as a list. */
	HASH_CLEAR(hh, t->rows);
	for (; r; r = next) {
		next = r->hh.next;
		free(r);
	}
}
