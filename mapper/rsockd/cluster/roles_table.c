// SPDX-License-Identifier: BSD-2-Clause
/* roles_table.c - see roles_table.h. */
#include "roles_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

#define KEY_MOST 512u

static int compare(const struct rsk_roles_entry *e, const char *key, size_t bytes)
{
	int order = memcmp(e->key, key, e->key_bytes < bytes ? e->key_bytes : bytes);

	return order ? order : (e->key_bytes > bytes) - (e->key_bytes < bytes);
}

/* Where the key is, or would be. */
static size_t place(const struct rsk_roles_table *t, const char *key, size_t bytes, bool *is_there)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&t->entries[middle], key, bytes) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*is_there = low < t->n && compare(&t->entries[low], key, bytes) == 0;
	return low;
}

static void remove_at(struct rsk_roles_table *t, size_t i)
{
	free(t->entries[i].key);
	memmove(&t->entries[i], &t->entries[i + 1], (--t->n - i) * sizeof(*t->entries));
}

static int insert_at(struct rsk_roles_table *t, size_t i, const struct rsk_etcd_kv *kv)
{
	char *key = malloc(kv->key_bytes + 1);

	if (!t->entries)
		t->entries = calloc(RSK_ROLES_TABLE_MOST, sizeof(*t->entries));
	if (!key || !t->entries) {
		free(key);
		return -ENOMEM;
	}
	memcpy(key, kv->key, kv->key_bytes);
	key[kv->key_bytes] = 0;
	memmove(&t->entries[i + 1], &t->entries[i], (t->n++ - i) * sizeof(*t->entries));
	t->entries[i] = (struct rsk_roles_entry){ .key = key, .key_bytes = kv->key_bytes };
	return 0;
}

int rsk_roles_table_put(struct rsk_roles_table *t, const struct rsk_etcd_kv *kv)
{
	struct rsk_roles_entry *e;
	bool is_there;
	size_t i = place(t, kv->key, kv->key_bytes, &is_there);
	int rc;

	if (kv->is_deleted) {
		if (is_there)
			remove_at(t, i);
		return 0;
	}
	if (!is_there && (kv->key_bytes > KEY_MOST || t->n == RSK_ROLES_TABLE_MOST)) {
		t->is_full = true;
		return 0;
	}
	rc = is_there ? 0 : insert_at(t, i, kv);
	if (rc < 0)
		return rc;
	e = &t->entries[i];
	e->created = kv->create_revision;
	e->revision = kv->mod_revision;
	e->round = t->round;
	rc = rsk_role_take(kv, t->head, &e->role);
	e->is_readable = rc == 0;
	return rc == -ENOMEM ? rc : 0;
}

int rsk_roles_table_event(struct rsk_roles_table *t, const struct rsk_etcd_kv *kv)
{
	bool is_there;
	size_t i = place(t, kv->key, kv->key_bytes, &is_there);

	if (is_there && kv->mod_revision < t->entries[i].revision)
		return 0;
	return rsk_roles_table_put(t, kv);
}

void rsk_roles_table_begin(struct rsk_roles_table *t)
{
	t->round++;
	t->is_full = false;
}

void rsk_roles_table_end(struct rsk_roles_table *t, bool more)
{
	for (size_t i = t->n; i-- > 0;)
		if (t->entries[i].round != t->round)
			remove_at(t, i);
	t->is_full |= more;
}

void rsk_roles_table_fini(struct rsk_roles_table *t)
{
	while (t->n)
		remove_at(t, t->n - 1);
	free(t->entries);
	t->entries = NULL;
}

uint64_t rsk_roles_table_revision(const struct rsk_roles_table *t, const char *key)
{
	bool is_there;
	size_t i = place(t, key, strlen(key), &is_there);

	return is_there ? t->entries[i].revision : 0;
}

uint64_t rsk_roles_table_newest(const struct rsk_roles_table *t)
{
	uint64_t newest = 0;

	for (size_t i = 0; i < t->n; i++)
		if (t->entries[i].revision > newest)
			newest = t->entries[i].revision;
	return newest;
}

/* ---- who is asked ---- */

const struct rsk_roles_entry *rsk_roles_table_agent(const struct rsk_roles_table *t)
{
	const struct rsk_roles_entry *oldest = NULL;

	/* Of the same age, which only another tool can make, the first by name. */
	for (size_t i = 0; i < t->n; i++) {
		const struct rsk_roles_entry *e = &t->entries[i];

		if (e->is_readable && e->role.kind == RSK_ROLE_PMA &&
		    (!oldest || e->created < oldest->created))
			oldest = e;
	}
	return oldest;
}

bool rsk_roles_table_pmsp(const struct rsk_roles_table *t, const char *own, uint64_t *cursor,
			  struct rsk_pm_addr *out)
{
	const struct rsk_roles_entry *best = NULL;
	uint64_t seed = XXH3_64bits(own, strlen(own)), most = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct rsk_roles_entry *e = &t->entries[i];
		uint64_t draw;

		if (!e->is_readable || e->role.kind != RSK_ROLE_PMSP)
			continue;
		draw = XXH3_64bits_withSeed(e->role.node, strlen(e->role.node), seed);
		if (draw < *cursor && (!best || draw > most)) {
			best = e;
			most = draw;
		}
	}
	if (!best)
		return false;
	*cursor = most;
	*out = best->role.at;
	return true;
}

bool rsk_roles_table_validate(const struct rsk_roles_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct rsk_roles_entry *e = &t->entries[i];

		if (!e->key || e->key[e->key_bytes] || e->key_bytes > KEY_MOST ||
		    (i && compare(&t->entries[i - 1], e->key, e->key_bytes) >= 0) ||
		    (e->is_readable && !rsk_pm_addr_is_for_others(&e->role.at)))
			return false;
	}
	return t->n <= RSK_ROLES_TABLE_MOST;
}
