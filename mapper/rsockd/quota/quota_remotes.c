// SPDX-License-Identifier: BSD-2-Clause
/* quota_remotes.c - see quota_remotes.h. */
#include "quota_remotes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* An address of an RNIC; the first that tells an address has it. */
struct rsk_quota_place {
	uint8_t key[17]; /* IP version, address */
	struct rsk_quota_remote *remote;
	UT_hash_handle hh;
};

struct rsk_quota_session {
	uint64_t reservation;
	struct rsk_quota_remote *remote;
	UT_hash_handle hh;
};

static void key_of(uint8_t ipv, const uint8_t ip[static 16], uint8_t key[static 17])
{
	key[0] = ipv;
	memcpy(key + 1, ip, 16);
}

static struct rsk_quota_place *place_at(const struct rsk_quota_remotes *t, uint8_t ipv,
					const uint8_t ip[static 16])
{
	struct rsk_quota_place *p;
	uint8_t key[17];

	key_of(ipv, ip, key);
	HASH_FIND(hh, t->places, key, sizeof(key), p);
	return p;
}

struct rsk_quota_remote *rsk_quota_remotes_at(const struct rsk_quota_remotes *t, uint8_t ipv,
					      const uint8_t ip[static 16])
{
	const struct rsk_quota_place *p = place_at(t, ipv, ip);

	return p ? p->remote : NULL;
}

bool rsk_quota_remotes_spared(const struct rsk_quota_remotes *t, const struct rsk_quota_remote *r)
{
	for (const struct rsk_quota_remote *o = t->remotes; o; o = o->hh.next)
		if (o != r && o->is_there && o->node_bytes == r->node_bytes &&
		    memcmp(o->tail, r->tail, r->node_bytes) == 0 &&
		    (!o->is_readable || o->offer.state == RSK_QUOTA_UP))
			return true;
	return false;
}

/* ---- what the owners tell ---- */

static void leave_places(struct rsk_quota_remotes *t, const struct rsk_quota_remote *r)
{
	for (size_t i = 0; i < r->offer.at.n; i++) {
		const struct rsk_pm_addr *a = &r->offer.at.ips[i];
		struct rsk_quota_place *p = place_at(t, a->ipv, a->ip);

		if (!p || p->remote != r)
			continue;
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has @p */
		HASH_DEL(t->places, p);
		free(p);
		t->has_free_places = true;
	}
}

static int take_places(struct rsk_quota_remotes *t, struct rsk_quota_remote *r)
{
	for (size_t i = 0; i < r->offer.at.n; i++) {
		const struct rsk_pm_addr *a = &r->offer.at.ips[i];
		struct rsk_quota_place *p;

		if (place_at(t, a->ipv, a->ip))
			continue;
		p = malloc(sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->remote = r;
		key_of(a->ipv, a->ip, p->key);
		HASH_ADD(hh, t->places, key, sizeof(p->key), p);
	}
	return 0;
}

static void forget_offer(struct rsk_quota_remotes *t, struct rsk_quota_remote *r)
{
	leave_places(t, r);
	rsk_quota_capacity_free(&r->offer);
	r->is_readable = false;
}

static void gone(struct rsk_quota_remotes *t, struct rsk_quota_remote *r)
{
	forget_offer(t, r);
	r->is_there = false;
	r->is_to_look = r->q.most > 0;
	t->n_there--;
}

static struct rsk_quota_remote *find(const struct rsk_quota_remotes *t,
				     const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_remote *r = NULL;

	if (kv->key_bytes > t->head)
		HASH_FIND(hh, t->remotes, kv->key + t->head, kv->key_bytes - t->head, r);
	return r;
}

static struct rsk_quota_remote *make(struct rsk_quota_remotes *t, const struct rsk_etcd_kv *kv)
{
	size_t bytes = kv->key_bytes - t->head;
	struct rsk_quota_remote *r = calloc(1, sizeof(*r) + bytes + 1);
	const char *slash;

	if (!r)
		return NULL;
	memcpy(r->tail, kv->key + t->head, bytes);
	slash = memchr(r->tail, '/', bytes);
	r->tail_bytes = bytes;
	r->node_bytes = slash ? (size_t)(slash - r->tail) : bytes;
	r->is_own = strlen(t->own) == r->node_bytes && memcmp(r->tail, t->own, r->node_bytes) == 0;
	HASH_ADD(hh, t->remotes, tail, r->tail_bytes, r);
	return r;
}

static int put(void *table, const struct rsk_etcd_kv *kv)
{
	struct rsk_quota_remotes *t = table;
	struct rsk_quota_remote *r = find(t, kv);
	char names[2][RSK_QUOTA_NAME];

	if (kv->is_deleted || kv->key_bytes <= t->head) {
		if (r && r->is_there)
			gone(t, r);
		return 0;
	}
	if (!r && HASH_COUNT(t->remotes) >= RSK_QUOTA_REMOTES_MOST) {
		t->is_full = true;
		return 0;
	}
	if (!r)
		r = make(t, kv);
	if (!r)
		return -ENOMEM;
	forget_offer(t, r);
	t->n_there += !r->is_there;
	r->is_there = true;
	r->round = t->round;
	r->revision = kv->mod_revision;
	r->is_readable = rsk_quota_split(r->tail, r->tail_bytes, names, 2) &&
			 rsk_quota_capacity_take(kv, &r->offer) == 0;
	/* Something may have become free. */
	r->not_before_ns = r->failures > 3 ? r->not_before_ns : 0;
	return r->is_readable && !r->is_own ? take_places(t, r) : 0;
}

static int event(void *table, const struct rsk_etcd_kv *kv)
{
	const struct rsk_quota_remote *r = find(table, kv);

	return r && r->is_there && kv->mod_revision < r->revision ? 0 : put(table, kv);
}

static void begin(void *table)
{
	struct rsk_quota_remotes *t = table;

	t->round++;
	t->is_full = false;
}

static void end(void *table, bool more)
{
	struct rsk_quota_remotes *t = table;

	t->is_full |= more;
	for (struct rsk_quota_remote *r = t->remotes; r; r = r->hh.next)
		if (r->is_there && r->round != t->round)
			gone(t, r);
	rsk_quota_remotes_sweep(t);
}

static size_t keys(const void *table)
{
	return ((const struct rsk_quota_remotes *)table)->n_there;
}

static uint64_t newest(const void *table)
{
	uint64_t most = 0;

	for (const struct rsk_quota_remote *r = ((const struct rsk_quota_remotes *)table)->remotes;
	     r; r = r->hh.next)
		if (r->is_there && r->revision > most)
			most = r->revision;
	return most;
}

static bool is_full(const void *table)
{
	return ((const struct rsk_quota_remotes *)table)->is_full;
}

const struct rsk_range_table rsk_quota_remotes_watched = { .what = "offers",
							   .keys_most = RSK_QUOTA_REMOTES_MOST,
							   .put = put,
							   .event = event,
							   .begin = begin,
							   .end = end,
							   .keys = keys,
							   .newest = newest,
							   .is_full = is_full };

/* ---- sessions ---- */

static struct rsk_quota_session *session(const struct rsk_quota_remotes *t, uint64_t reservation)
{
	struct rsk_quota_session *s;

	HASH_FIND(hh, t->sessions, &reservation, sizeof(reservation), s);
	return s;
}

int rsk_quota_remotes_begin(struct rsk_quota_remotes *t, struct rsk_quota_remote *r,
			    uint64_t reservation, uint64_t now_ns)
{
	struct rsk_quota_session *s;

	if (session(t, reservation))
		return 0;
	s = malloc(sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->reservation = reservation;
	s->remote = r;
	HASH_ADD(hh, t->sessions, reservation, sizeof(s->reservation), s);
	rsk_quota_begin(&r->q, now_ns);
	return 0;
}

void rsk_quota_remotes_moved(struct rsk_quota_remotes *t, uint64_t from, uint64_t to)
{
	struct rsk_quota_session *s = session(t, from);

	if (!s)
		return;
	HASH_DEL(t->sessions, s);
	s->reservation = to;
	HASH_ADD(hh, t->sessions, reservation, sizeof(s->reservation), s);
}

void rsk_quota_remotes_ended(struct rsk_quota_remotes *t, uint64_t reservation)
{
	struct rsk_quota_session *s = session(t, reservation);

	if (!s)
		return;
	HASH_DEL(t->sessions, s);
	rsk_quota_end(&s->remote->q);
	free(s);
}

uint64_t rsk_quota_remotes_published(const struct rsk_quota_remotes *t,
				     const struct rsk_quota_remote *r)
{
	for (size_t i = 0; i < r->offer.n_used; i++)
		if (strcmp(r->offer.used[i].holder, t->own) == 0)
			return r->offer.used[i].sessions;
	return 0;
}

bool rsk_quota_remotes_are_told(const struct rsk_quota_remotes *t)
{
	for (const struct rsk_quota_remote *r = t->remotes; r; r = r->hh.next) {
		uint64_t covered = r->q.used < r->q.most ? r->q.used : r->q.most;

		if (covered > rsk_quota_remotes_published(t, r))
			return false;
	}
	return true;
}

/* ---- the end ---- */

static void drop(struct rsk_quota_remotes *t, struct rsk_quota_remote *r)
{
	forget_offer(t, r);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc,clang-analyzer-core.NullDereference) */
	HASH_DEL(t->remotes, r); /* freed after removal */
	free(r);
}

/* An address that an RNIC has left may be another one's: it has moved there. */
static void give_free_places(struct rsk_quota_remotes *t)
{
	t->has_free_places = false;
	for (struct rsk_quota_remote *r = t->remotes; r; r = r->hh.next)
		if (r->is_readable && !r->is_own && take_places(t, r) < 0)
			t->has_free_places = true;
}

void rsk_quota_remotes_sweep(struct rsk_quota_remotes *t)
{
	struct rsk_quota_remote *r, *next;

	if (t->has_free_places)
		give_free_places(t);
	HASH_ITER(hh, t->remotes, r, next)
		if (!r->is_there && !r->q.used && !r->q.most)
			drop(t, r);
}

void rsk_quota_remotes_fini(struct rsk_quota_remotes *t)
{
	struct rsk_quota_session *s, *next_session;
	struct rsk_quota_remote *r, *next;

	HASH_ITER(hh, t->sessions, s, next_session) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed after removal */
		HASH_DEL(t->sessions, s);
		free(s);
	}
	HASH_ITER(hh, t->remotes, r, next)
		drop(t, r);
	t->n_there = 0;
}

bool rsk_quota_remotes_validate(const struct rsk_quota_remotes *t)
{
	uint64_t used = 0, there = 0;

	for (const struct rsk_quota_remote *r = t->remotes; r; r = r->hh.next) {
		if (!rsk_quota_validate(&r->q) || (!r->is_there && r->is_readable))
			return false;
		used += r->q.used;
		there += r->is_there;
	}
	for (const struct rsk_quota_place *p = t->places; p; p = p->hh.next)
		if (!p->remote->is_readable || p->remote->is_own)
			return false;
	return used == HASH_COUNT(t->sessions) && there == t->n_there &&
	       there <= RSK_QUOTA_REMOTES_MOST;
}
