// SPDX-License-Identifier: BSD-2-Clause
/* services_table.c - see services_table.h. */
#include "services_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "pm_hash.h"

#define KEY_MOST 512u

/* A service of one node; a place lists those of its address. */
struct offer {
	const struct rsk_services_node *node;
	const struct rsk_service *service;
	struct rsk_services_place *place;
	struct offer *prev, *next;
};

struct rsk_services_place {
	struct rsk_pm_addr at;
	struct offer *offers;
	UT_hash_handle hh;
};

struct rsk_services_node {
	char *key; /* owned, like the next two */
	struct rsk_service_entry entry;
	struct offer *offers; /* as many as services */
	char name[RSK_SERVICE_NODE];
	enum rsk_services_kind kind;
	uint32_t round;
	uint64_t revision;
	UT_hash_handle hh;
};

/* ---- by address ---- */

static struct rsk_services_place *find_place(const struct rsk_services_table *t,
					     const struct rsk_pm_addr *at)
{
	struct rsk_services_place *p;

	HASH_FIND(hh, t->places, at, sizeof(*at), p);
	return p;
}

static struct rsk_services_place *place_of(struct rsk_services_table *t,
					   const struct rsk_pm_addr *at)
{
	struct rsk_services_place *p = find_place(t, at);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->at = *at;
	HASH_ADD(hh, t->places, at, sizeof(p->at), p);
	return p;
}

static void withdraw(struct rsk_services_table *t, struct offer *o)
{
	struct rsk_services_place *p = o->place;

	DL_DELETE(p->offers, o);
	if (p->offers)
		return;
	HASH_DEL(t->places, p); /* NOLINT(clang-analyzer-core.NullDereference): it has @p */
	free(p);
}

/* Empties a node, which stays in the table. */
static void clear(struct rsk_services_table *t, struct rsk_services_node *n)
{
	for (size_t i = 0; n->offers && i < n->entry.n; i++)
		if (n->offers[i].place)
			withdraw(t, &n->offers[i]);
	t->n_services -= n->entry.n;
	free(n->offers);
	n->offers = NULL;
	rsk_service_entry_free(&n->entry);
	n->kind = RSK_SERVICES_UNREADABLE;
}

/* An address that an entry has twice counts once. */
static bool has_offer_of(const struct rsk_services_place *p, const struct rsk_services_node *n)
{
	const struct offer *o;

	DL_FOREACH(p->offers, o)
		if (o->node == n)
			return true;
	return false;
}

static int offer_all(struct rsk_services_table *t, struct rsk_services_node *n)
{
	n->offers = calloc(n->entry.n + 1, sizeof(*n->offers));
	if (!n->offers)
		return -ENOMEM;
	for (size_t i = 0; i < n->entry.n; i++) {
		struct rsk_services_place *p = place_of(t, &n->entry.services[i].at);

		if (!p)
			return -ENOMEM;
		if (has_offer_of(p, n))
			continue;
		n->offers[i] =
			(struct offer){ .node = n, .service = &n->entry.services[i], .place = p };
		DL_APPEND(p->offers, &n->offers[i]);
	}
	return 0;
}

/* ---- by key ---- */

static struct rsk_services_node *find_node(const struct rsk_services_table *t, const char *key,
					   size_t bytes)
{
	struct rsk_services_node *n;

	HASH_FIND(hh, t->nodes, key, bytes, n);
	return n;
}

static void drop(struct rsk_services_table *t, struct rsk_services_node *n)
{
	clear(t, n);
	HASH_DEL(t->nodes, n);
	free(n->key);
	free(n);
}

static struct rsk_services_node *node_of(struct rsk_services_table *t, const struct rsk_etcd_kv *kv)
{
	struct rsk_services_node *n = find_node(t, kv->key, kv->key_bytes);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->key = malloc(kv->key_bytes + 1);
	if (!n->key) {
		free(n);
		return NULL;
	}
	memcpy(n->key, kv->key, kv->key_bytes);
	n->key[kv->key_bytes] = 0;
	rsk_service_put_text(n->name, sizeof(n->name),
			     kv->key_bytes > t->head ? n->key + t->head : "");
	HASH_ADD_KEYPTR(hh, t->nodes, n->key, kv->key_bytes, n);
	return n;
}

static int read_entry(struct rsk_services_table *t, struct rsk_services_node *n,
		      const struct rsk_etcd_kv *kv)
{
	int rc = rsk_service_entry_take(kv, t->head, &n->entry);

	if (rc == -EPROTO)
		return 0;
	if (rc < 0)
		return rc;
	if (n->entry.n > RSK_SERVICES_TABLE_MOST - t->n_services) {
		rsk_service_entry_free(&n->entry);
		n->kind = RSK_SERVICES_TOO_MANY;
		t->is_full = true;
		return 0;
	}
	t->n_services += n->entry.n;
	n->kind = RSK_SERVICES_READABLE;
	return offer_all(t, n);
}

int rsk_services_table_put(struct rsk_services_table *t, const struct rsk_etcd_kv *kv)
{
	struct rsk_services_node *n = find_node(t, kv->key, kv->key_bytes);
	int rc;

	if (kv->is_deleted) {
		if (n)
			drop(t, n);
		return 0;
	}
	if (kv->key_bytes > KEY_MOST || (!n && HASH_COUNT(t->nodes) >= RSK_SERVICES_TABLE_NODES)) {
		t->is_full = true;
		return 0;
	}
	n = node_of(t, kv);
	if (!n)
		return -ENOMEM;
	clear(t, n);
	n->revision = kv->mod_revision;
	n->round = t->round;
	rc = read_entry(t, n, kv);
	if (rc < 0)
		clear(t, n);
	return rc;
}

int rsk_services_table_event(struct rsk_services_table *t, const struct rsk_etcd_kv *kv)
{
	const struct rsk_services_node *n = find_node(t, kv->key, kv->key_bytes);

	return n && kv->mod_revision < n->revision ? 0 : rsk_services_table_put(t, kv);
}

void rsk_services_table_begin(struct rsk_services_table *t)
{
	t->round++;
	t->is_full = false;
}

void rsk_services_table_end(struct rsk_services_table *t)
{
	struct rsk_services_node *n, *next;

	for (n = t->nodes; n; n = next) {
		next = n->hh.next;
		if (n->round != t->round)
			drop(t, n);
	}
}

void rsk_services_table_fini(struct rsk_services_table *t)
{
	struct rsk_services_node *n, *next;

	for (n = t->nodes; n; n = n->hh.next)
		clear(t, n);
	/* The table is emptied; its entries are still linked as a list. */
	n = t->nodes;
	HASH_CLEAR(hh, t->nodes);
	for (; n; n = next) {
		next = n->hh.next;
		free(n->key);
		free(n);
	}
}

uint64_t rsk_services_table_revision(const struct rsk_services_table *t, const char *key)
{
	const struct rsk_services_node *n = find_node(t, key, strlen(key));

	return n ? n->revision : 0;
}

size_t rsk_services_table_nodes(const struct rsk_services_table *t)
{
	return HASH_COUNT(t->nodes);
}

uint64_t rsk_services_table_newest(const struct rsk_services_table *t)
{
	uint64_t newest = 0;

	for (const struct rsk_services_node *n = t->nodes; n; n = n->hh.next)
		if (n->revision > newest)
			newest = n->revision;
	return newest;
}

/* ---- who offers it ---- */

/*
 * Where that host's port mapper is reached: at the RNIC's address if it listens at all addresses,
 * else where it listens. False: not in this family.
 */
static bool pmsp_of(const struct offer *o, struct rsk_pm_addr *out)
{
	static const uint8_t any[16];
	const struct rsk_service_entry *e = &o->node->entry;

	for (size_t i = 0; i < e->n_listens; i++) {
		*out = e->listens[i];
		if (out->ipv != o->service->rdma.ipv)
			continue;
		if (memcmp(out->ip, any, 16) == 0)
			memcpy(out->ip, o->service->rdma.ip, 16);
		if (rsk_pm_addr_is_for_others(out))
			return true;
	}
	return false;
}

bool rsk_services_table_find(const struct rsk_services_table *t, const struct rsk_pm_msg *req,
			     struct rsk_pm_addr *pmsp)
{
	struct rsk_pm_addr at = { .port = req->ap_port, .ipv = req->ipv }, one;
	const struct rsk_services_place *p;
	uint64_t best = 0;
	const struct offer *o;
	size_t n = 0;

	memcpy(at.ip, req->ap_ip, 16);
	p = find_place(t, &at);
	if (!p)
		return false;
	DL_FOREACH(p->offers, o) {
		uint64_t draw;

		if (strcmp(o->node->entry.node, t->own) == 0 || !pmsp_of(o, &one))
			continue;
		draw = XXH3_64bits_withSeed(o->node->entry.node, strlen(o->node->entry.node),
					    req->assoc_handle);
		if (!n++ || draw > best) {
			best = draw;
			*pmsp = one;
		}
	}
	return n == 1 || (n > 1 && !req->cp_port);
}

/* ---- for operators ---- */

static int by_name(const struct rsk_services_node *a, const struct rsk_services_node *b)
{
	int order = strcmp(a->name, b->name);

	return order ? order : strcmp(a->key, b->key);
}

void rsk_services_table_each(struct rsk_services_table *t,
			     void (*each)(void *ctx, const char *name, enum rsk_services_kind kind,
					  const struct rsk_service_entry *e),
			     void *ctx)
{
	HASH_SORT(t->nodes, by_name);
	for (const struct rsk_services_node *n = t->nodes; n; n = n->hh.next)
		each(ctx, n->name, n->kind, &n->entry);
}

bool rsk_services_table_validate(const struct rsk_services_table *t)
{
	size_t services = 0, offers = 0, listed = 0;

	for (const struct rsk_services_node *n = t->nodes; n; n = n->hh.next) {
		if (n->kind != RSK_SERVICES_READABLE && (n->entry.n || n->offers))
			return false;
		services += n->entry.n;
		for (size_t i = 0; i < n->entry.n; i++)
			offers += n->offers[i].place != NULL;
	}
	for (const struct rsk_services_place *p = t->places; p; p = p->hh.next) {
		const struct offer *o;

		if (!p->offers)
			return false;
		DL_FOREACH(p->offers, o) {
			if (o->place != p || !rsk_pm_addr_equal(&o->service->at, &p->at))
				return false;
			listed++;
		}
	}
	return services == t->n_services && listed == offers &&
	       HASH_COUNT(t->nodes) <= RSK_SERVICES_TABLE_NODES &&
	       services <= RSK_SERVICES_TABLE_MOST;
}
