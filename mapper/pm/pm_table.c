// SPDX-License-Identifier: BSD-2-Clause
/* pm_table.c - see pm_table.h. */
#include "pm_table.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define HUGE_BYTES (2u << 20)

struct name_key {
	uint64_t handle;
	uint8_t cp_ip[16];
	uint64_t cp_port;
};

struct tuple_key {
	uint8_t cp_ip[16], ap_ip[16];
	uint32_t cp_port, ap_port;
};

static size_t bucket(const struct rsk_pm_table *t, const void *key, size_t len)
{
	return XXH3_64bits_withSeed(key, len, t->seed) & t->mask;
}

static struct rsk_pm_entry **name_head(const struct rsk_pm_table *t, uint64_t handle,
				       const uint8_t ip[static 16], uint16_t port)
{
	struct name_key k = { .handle = handle, .cp_port = port };

	memcpy(k.cp_ip, ip, 16);
	return &t->heads[RSK_PM_BY_NAME][bucket(t, &k, sizeof(k))];
}

static struct rsk_pm_entry **tuple_head(const struct rsk_pm_table *t,
					const uint8_t cp_ip[static 16], uint16_t cp_port,
					const uint8_t ap_ip[static 16], uint16_t ap_port)
{
	struct tuple_key k = { .cp_port = cp_port, .ap_port = ap_port };

	memcpy(k.cp_ip, cp_ip, 16);
	memcpy(k.ap_ip, ap_ip, 16);
	return &t->heads[RSK_PM_BY_TUPLE][bucket(t, &k, sizeof(k))];
}

static struct rsk_pm_entry **head_of(const struct rsk_pm_table *t, const struct rsk_pm_entry *e,
				     enum rsk_pm_index index)
{
	if (index == RSK_PM_BY_NAME)
		return name_head(t, e->handle, e->cp_ip, e->cp_port);
	return e->cp_port ? tuple_head(t, e->cp_ip, e->cp_port, e->ap_ip, e->ap_port) : NULL;
}

static void chain(struct rsk_pm_table *t, struct rsk_pm_entry *e, enum rsk_pm_index index)
{
	struct rsk_pm_entry **head = head_of(t, e, index);

	if (!head)
		return;
	e->next[index] = *head;
	*head = e;
}

static void unchain(struct rsk_pm_table *t, struct rsk_pm_entry *e, enum rsk_pm_index index)
{
	struct rsk_pm_entry **at = head_of(t, e, index);

	while (at && *at && *at != e)
		at = &(*at)->next[index];
	if (at && *at)
		*at = e->next[index];
	e->next[index] = NULL;
}

/*
 * Returns zeroed memory; pages that are never written take no memory. Large tables use huge pages,
 * because a lookup would otherwise miss the TLB as often as the cache.
 */
static void *reserve(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (bytes >= HUGE_BYTES)
		madvise(p, bytes, MADV_HUGEPAGE); /* a hint */
	return p;
}

static void give_back(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

static size_t heads_bytes(const struct rsk_pm_table *t)
{
	return (t->mask + 1) * sizeof(struct rsk_pm_entry *);
}

int rsk_pm_table_init(struct rsk_pm_table *t, size_t max, uint64_t seed)
{
	size_t heads = 64;

	while (heads < max)
		heads *= 2;
	*t = (struct rsk_pm_table){ .max = max, .mask = heads - 1, .seed = seed };
	t->entries = reserve(max * sizeof(*t->entries));
	for (int i = 0; i < RSK_PM_INDICES; i++)
		t->heads[i] = reserve(heads_bytes(t));
	if (!t->entries || !t->heads[0] || !t->heads[1]) {
		rsk_pm_table_fini(t);
		return -ENOMEM;
	}
	return 0;
}

void rsk_pm_table_fini(struct rsk_pm_table *t)
{
	give_back(t->entries, t->max * sizeof(*t->entries));
	for (int i = 0; i < RSK_PM_INDICES; i++)
		give_back(t->heads[i], heads_bytes(t));
	*t = (struct rsk_pm_table){ 0 };
}

static struct rsk_pm_entry *take_free(struct rsk_pm_table *t)
{
	struct rsk_pm_entry *e = t->free;

	if (t->n == t->max)
		return NULL;
	if (e)
		t->free = e->next[0];
	else
		e = &t->entries[t->used++];
	t->n++;
	return e;
}

struct rsk_pm_entry *rsk_pm_table_add(struct rsk_pm_table *t, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from)
{
	struct rsk_pm_entry *e = take_free(t);

	if (!e)
		return NULL;
	*e = (struct rsk_pm_entry){
		.handle = req->assoc_handle,
		.from = *from,
		.cp_port = req->cp_port,
		.ap_port = req->ap_port,
		.ipv = req->ipv,
		.state = RSK_PM_ASKED,
	};
	memcpy(e->cp_ip, req->cp_ip, 16);
	memcpy(e->ap_ip, req->ap_ip, 16);
	memcpy(e->link_ip, req->mapped ? req->mapped_cp_ip : req->cp_ip, 16);
	chain(t, e, RSK_PM_BY_NAME);
	chain(t, e, RSK_PM_BY_TUPLE);
	return e;
}

static void unlist(struct rsk_pm_table *t, struct rsk_pm_entry *e)
{
	*(e->older ? &e->older->newer : &t->oldest) = e->newer;
	*(e->newer ? &e->newer->older : &t->newest) = e->older;
	e->older = e->newer = NULL;
}

void rsk_pm_table_remove(struct rsk_pm_table *t, struct rsk_pm_entry *e)
{
	unchain(t, e, RSK_PM_BY_NAME);
	unchain(t, e, RSK_PM_BY_TUPLE);
	if (e->state == RSK_PM_OFFERED)
		unlist(t, e);
	e->state = RSK_PM_FREE;
	e->next[0] = t->free;
	t->free = e;
	t->n--;
}

void rsk_pm_table_offer(struct rsk_pm_table *t, struct rsk_pm_entry *e, const uint8_t ip[static 16],
			uint16_t port)
{
	if (e->state == RSK_PM_OFFERED)
		unlist(t, e);
	e->state = RSK_PM_OFFERED;
	memcpy(e->rdma_ip, ip, 16);
	e->rdma_port = port;
	e->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = e;
	t->newest = e;
}

void rsk_pm_table_hold(struct rsk_pm_table *t, struct rsk_pm_entry *e)
{
	unlist(t, e);
	e->state = RSK_PM_HELD;
}

void rsk_pm_table_prefetch(const struct rsk_pm_table *t, const struct rsk_pm_msg *m,
			   struct rsk_pm_look *look)
{
	bool about = m->op == RSK_PM_REQ && m->cp_port;

	look->named = name_head(t, m->assoc_handle, m->cp_ip, m->cp_port);
	look->about = NULL;
	__builtin_prefetch(look->named);
	if (!about)
		return;
	look->about = tuple_head(t, m->cp_ip, m->cp_port, m->ap_ip, m->ap_port);
	__builtin_prefetch(look->about);
}

static void prefetch_entry(struct rsk_pm_entry *const *head)
{
	const char *e = head ? (const char *)*head : NULL;

	for (size_t line = 0; e && line < sizeof(struct rsk_pm_entry); line += 64)
		__builtin_prefetch(e + line);
}

void rsk_pm_table_prefetch_entries(const struct rsk_pm_look *look)
{
	prefetch_entry(look->named);
	prefetch_entry(look->about);
}

void rsk_pm_table_prefetch_replaced(const struct rsk_pm_table *t, const struct rsk_pm_look *look)
{
	const struct rsk_pm_entry *e = look->about ? *look->about : NULL;

	if (!e)
		return;
	__builtin_prefetch(name_head(t, e->handle, e->cp_ip, e->cp_port));
	__builtin_prefetch(e->timer.at);
	__builtin_prefetch(e->timer.next);
}

struct rsk_pm_entry *rsk_pm_table_named(const struct rsk_pm_table *t, const struct rsk_pm_msg *m)
{
	struct rsk_pm_entry *e = *name_head(t, m->assoc_handle, m->cp_ip, m->cp_port);

	while (e && (e->handle != m->assoc_handle || e->cp_port != m->cp_port || e->ipv != m->ipv ||
		     memcmp(e->cp_ip, m->cp_ip, 16) != 0))
		e = e->next[RSK_PM_BY_NAME];
	return e;
}

struct rsk_pm_entry *rsk_pm_table_about(const struct rsk_pm_table *t, const struct rsk_pm_msg *req)
{
	struct rsk_pm_entry *e;

	if (!req->cp_port)
		return NULL;
	e = *tuple_head(t, req->cp_ip, req->cp_port, req->ap_ip, req->ap_port);
	while (e &&
	       (e->cp_port != req->cp_port || e->ap_port != req->ap_port || e->ipv != req->ipv ||
		memcmp(e->cp_ip, req->cp_ip, 16) != 0 || memcmp(e->ap_ip, req->ap_ip, 16) != 0))
		e = e->next[RSK_PM_BY_TUPLE];
	return e;
}

size_t rsk_pm_table_bytes_each(const struct rsk_pm_table *t)
{
	return sizeof(struct rsk_pm_entry) +
	       RSK_PM_INDICES * sizeof(struct rsk_pm_entry *) * (t->mask + 1) / t->max;
}

static size_t chained(const struct rsk_pm_table *t, enum rsk_pm_index index, size_t *bad)
{
	size_t n = 0;

	for (size_t i = 0; i <= t->mask; i++)
		for (const struct rsk_pm_entry *e = t->heads[index][i]; e; e = e->next[index]) {
			*bad += e->state == RSK_PM_FREE ||
				head_of(t, e, index) != &t->heads[index][i];
			n++;
		}
	return n;
}

bool rsk_pm_table_validate(const struct rsk_pm_table *t)
{
	const struct rsk_pm_entry *before = NULL;
	size_t bad = 0, named = chained(t, RSK_PM_BY_NAME, &bad), offered = 0, listed = 0;

	if (named != t->n || t->n > t->max || chained(t, RSK_PM_BY_TUPLE, &bad) > t->n)
		return false;
	for (size_t i = 0; i <= t->mask; i++)
		for (const struct rsk_pm_entry *e = t->heads[0][i]; e; e = e->next[0])
			offered += e->state == RSK_PM_OFFERED;
	for (const struct rsk_pm_entry *e = t->oldest; e; e = e->newer) {
		bad += e->older != before || e->state != RSK_PM_OFFERED;
		before = e;
		listed++;
	}
	return !bad && before == t->newest && offered == listed;
}
