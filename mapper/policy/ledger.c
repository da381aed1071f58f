// SPDX-License-Identifier: BSD-2-Clause
/* ledger.c - see ledger.h: reservations, and the counters of CPs and users. */
#include "ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_parts.h"
#include "pm_hash.h"

_Static_assert(sizeof(struct rsk_ledger_reservation) == 24, "as ledger.h says");
_Static_assert(sizeof(struct rsk_ledger_counter) == 32, "as ledger.h says");

int rsk_ledger_init(struct rsk_ledger *l, uint64_t seed)
{
	*l = (struct rsk_ledger){ .seed = seed,
				  .free_account = RSK_LEDGER_NONE,
				  .free_held = RSK_LEDGER_NONE,
				  .free_counter = RSK_LEDGER_NONE,
				  .heads_mask = 1023 };
	l->heads = malloc(((size_t)l->heads_mask + 1) * sizeof(uint32_t));
	if (!l->heads)
		return -ENOMEM;
	memset(l->heads, 0xff, ((size_t)l->heads_mask + 1) * sizeof(uint32_t));
	return 0;
}

void rsk_ledger_fini(struct rsk_ledger *l)
{
	rsk_ledger_free_names(l);
	free(l->accounts);
	free(l->needs);
	free(l->held);
	free(l->counters);
	free(l->heads);
	rsk_claims_fini(&l->claims);
	*l = (struct rsk_ledger){ 0 };
}

/* ---- counters ---- */

static uint32_t hash_of(const struct rsk_ledger *l, const uint8_t key[16], uint32_t scope,
			uint32_t kind)
{
	struct {
		uint8_t key[16];
		uint32_t scope, kind;
	} k = { .scope = scope, .kind = kind };

	memcpy(k.key, key, 16);
	return (uint32_t)XXH3_64bits_withSeed(&k, sizeof(k), l->seed);
}

static uint32_t counter_at(const struct rsk_ledger *l, uint32_t hash, const uint8_t key[16],
			   uint32_t scope, uint32_t kind)
{
	uint32_t i = l->heads[hash & l->heads_mask];

	while (i != RSK_LEDGER_NONE &&
	       (l->counters[i].scope != scope || l->counters[i].kind != kind ||
		memcmp(l->counters[i].key, key, 16) != 0))
		i = l->counters[i].next;
	return i;
}

/* Doubles the number of chains when they get long. Without memory the chains get longer. */
static void spread(struct rsk_ledger *l)
{
	size_t n = 2 * ((size_t)l->heads_mask + 1);
	uint32_t *heads;

	if (2 * l->live_counters <= l->heads_mask || n > 1u << 31)
		return;
	heads = malloc(n * sizeof(uint32_t));
	if (!heads)
		return;
	memset(heads, 0xff, n * sizeof(uint32_t));
	free(l->heads);
	l->heads = heads;
	l->heads_mask = (uint32_t)(n - 1);
	for (uint32_t i = 0; i < l->n_counters; i++) {
		struct rsk_ledger_counter *c = &l->counters[i];
		uint32_t *head;

		if (c->kind == RSK_LEDGER_FREE)
			continue;
		head = &heads[hash_of(l, c->key, c->scope, c->kind) & l->heads_mask];
		c->next = *head;
		*head = i;
	}
}

static int more_counters(struct rsk_ledger *l)
{
	uint32_t room = l->counters_room ? 2 * l->counters_room : 64;
	struct rsk_ledger_counter *c;

	if (l->counters_room > UINT32_MAX / 4)
		return -ENOMEM;
	c = aligned_alloc(64, room * sizeof(*c));
	if (!c)
		return -ENOMEM;
	if (l->n_counters)
		memcpy(c, l->counters, l->n_counters * sizeof(*c));
	free(l->counters);
	l->counters = c;
	l->counters_room = room;
	return 0;
}

/* Makes room for @n more counters, so that nothing after that can fail in a reservation. */
static int reserve_counters(struct rsk_ledger *l, uint32_t n)
{
	uint32_t in_list = (uint32_t)(l->n_counters - l->live_counters);

	while (in_list + (l->counters_room - l->n_counters) < n)
		if (more_counters(l) < 0)
			return -ENOMEM;
	return 0;
}

static uint32_t make_counter(struct rsk_ledger *l, uint32_t hash, const uint8_t key[16],
			     uint32_t scope, uint32_t kind, uint32_t parent)
{
	uint32_t i = l->free_counter, *head;
	struct rsk_ledger_counter *c;

	if (i != RSK_LEDGER_NONE)
		l->free_counter = l->counters[i].next;
	else
		i = l->n_counters++;
	l->live_counters++;
	c = &l->counters[i];
	*c = (struct rsk_ledger_counter){ .scope = scope & 0x3fffffffu,
					  .kind = kind & 3u,
					  .parent = parent };
	memcpy(c->key, key, 16);
	head = &l->heads[hash & l->heads_mask];
	c->next = *head;
	*head = i;
	spread(l);
	return i;
}

/* Subtracts one session; frees a counter that reaches 0. */
static void count_down(struct rsk_ledger *l, uint32_t i)
{
	while (i != RSK_LEDGER_NONE) {
		struct rsk_ledger_counter *c = &l->counters[i];
		uint32_t parent = c->parent, *at;

		if (--c->sessions == 0) {
			at = &l->heads[hash_of(l, c->key, c->scope, c->kind) & l->heads_mask];
			while (*at != i)
				at = &l->counters[*at].next;
			*at = c->next;
			c->kind = RSK_LEDGER_FREE;
			c->next = l->free_counter;
			l->free_counter = i;
			l->live_counters--;
		}
		i = parent;
	}
}

static void count_by(struct rsk_ledger *l, uint32_t i, uint32_t by)
{
	for (; i != RSK_LEDGER_NONE; i = l->counters[i].parent)
		l->counters[i].sessions += by;
}

/* Returns the counter for the service; makes it, and its parent for all services, if needed. */
static uint32_t counter_for(struct rsk_ledger *l, uint32_t found, uint32_t hash,
			    const uint8_t key[16], uint32_t service, uint32_t kind)
{
	uint32_t all = RSK_LEDGER_ALL + l->accounts[service].side, all_hash, parent;

	if (found != RSK_LEDGER_NONE)
		return found;
	all_hash = hash_of(l, key, all, kind);
	parent = counter_at(l, all_hash, key, all, kind);
	if (parent == RSK_LEDGER_NONE)
		parent = make_counter(l, all_hash, key, all, kind, RSK_LEDGER_NONE);
	return make_counter(l, hash, key, service, kind, parent);
}

/* Hashes of a counter for the service and of its parent for all services. */
struct place {
	uint32_t hash, all_hash;
};

static struct place place_of(const struct rsk_ledger *l, const uint8_t key[16], uint32_t service,
			     uint32_t kind)
{
	uint32_t all = RSK_LEDGER_ALL + l->accounts[service].side;
	struct place p = { hash_of(l, key, service, kind), hash_of(l, key, all, kind) };

	__builtin_prefetch(&l->heads[p.hash & l->heads_mask]);
	__builtin_prefetch(&l->heads[p.all_hash & l->heads_mask]);
	return p;
}

/* Prefetches the first counter of the chain, which is usually the one searched for. */
static void fetch(const struct rsk_ledger *l, uint32_t hash)
{
	uint32_t i = l->heads[hash & l->heads_mask];

	if (i != RSK_LEDGER_NONE)
		__builtin_prefetch(&l->counters[i]);
}

static void look_up(const struct rsk_ledger *l, const struct place *p, const uint8_t key[16],
		    uint32_t service, uint32_t kind, uint32_t *found, uint64_t *sessions,
		    uint64_t *all)
{
	uint32_t parent;

	*found = counter_at(l, p->hash, key, service, kind);
	*sessions = *all = 0;
	if (*found != RSK_LEDGER_NONE) {
		*sessions = l->counters[*found].sessions;
		parent = l->counters[*found].parent;
	} else {
		parent = counter_at(l, p->all_hash, key, RSK_LEDGER_ALL + l->accounts[service].side,
				    kind);
	}
	if (parent != RSK_LEDGER_NONE)
		*all = l->counters[parent].sessions;
}

static uint32_t kind_of(uint8_t ipv)
{
	return ipv == 6 ? RSK_LEDGER_CP6 : RSK_LEDGER_CP4;
}

/*
 * With many reservations nothing of this is cached: everything is prefetched before anything is
 * read.
 */
void rsk_ledger_who(const struct rsk_ledger *l, uint32_t service, uint8_t ipv,
		    const uint8_t cp_ip[static 16], uint32_t uid, struct rsk_ledger_who *out)
{
	uint32_t kind = kind_of(ipv);
	struct place cp, user = { 0 };

	*out = (struct rsk_ledger_who){ .service = service,
					.ipv = ipv,
					.user = RSK_LEDGER_NONE,
					.has_user = uid != RSK_PMA_NOBODY };
	memcpy(out->cp_key, cp_ip, 16);
	cp = place_of(l, out->cp_key, service, kind);
	if (out->has_user) {
		memcpy(out->user_key, &uid, sizeof(uid));
		user = place_of(l, out->user_key, service, RSK_LEDGER_USER);
	}
	fetch(l, cp.hash);
	fetch(l, cp.all_hash);
	look_up(l, &cp, out->cp_key, service, kind, &out->cp, &out->cp_sessions, &out->cp_all);
	out->cp_hash = cp.hash;
	out->user_hash = user.hash;
	if (out->has_user)
		look_up(l, &user, out->user_key, service, RSK_LEDGER_USER, &out->user,
			&out->user_sessions, &out->user_all);
}

/* ---- sums of accounts ---- */

/*
 * True if @need does not fit in what is left. A limit may be lower than what was booked before: a
 * need of 0 still fits. No sum here can wrap.
 */
static bool over(uint64_t need, uint64_t booked, uint64_t most)
{
	return need && (booked > most || need > most - booked);
}

/* A session that a quota covers has its place among what is kept. */
static bool is_kept(const struct rsk_ledger *l, uint32_t rnic, uint8_t ipv, const uint8_t *cp_ip)
{
	const struct rsk_ledger_account *r = &l->accounts[rnic];

	if (!l->claims.n_rnics || r->sessions_max == UINT64_MAX)
		return false;
	return over(rsk_claims_kept_beside(&l->claims, rnic, ipv, cp_ip), r->sessions + 1,
		    r->sessions_max);
}

enum rsk_ledger_lack rsk_ledger_lacks_for(const struct rsk_ledger *l, uint32_t port, uint32_t need,
					  uint8_t ipv, const uint8_t *cp_ip)
{
	const struct rsk_ledger_account *p = &l->accounts[port], *r = &l->accounts[p->rnic];
	const struct rsk_ledger_need *n = &l->needs[need].need;
	uint64_t others = p->bps_max == UINT64_MAX ? 0 : p->others_bps;

	if (over(1, r->sessions, r->sessions_max))
		return RSK_LEDGER_SESSIONS;
	if (is_kept(l, p->rnic, ipv, cp_ip))
		return RSK_LEDGER_KEPT;
	if (over(n->connections, r->connections, r->connections_max))
		return RSK_LEDGER_CONNECTIONS;
	if (over(n->memory_maps, r->memory_maps, r->memory_maps_max))
		return RSK_LEDGER_MEMORY_MAPS;
	if (over(n->bps, p->bps + others, p->bps_max) || over(n->bps, r->bps, r->bps_max))
		return RSK_LEDGER_BANDWIDTH;
	return RSK_LEDGER_FITS;
}

static void book_one(struct rsk_ledger_account *a, const struct rsk_ledger_need *n, bool used)
{
	a->sessions++;
	a->promised += !used;
	a->bps += n->bps;
	a->memory_maps += n->memory_maps;
	a->connections += n->connections;
}

static void unbook_one(struct rsk_ledger_account *a, const struct rsk_ledger_need *n, bool used)
{
	a->sessions--;
	a->promised -= !used;
	a->bps -= n->bps;
	a->memory_maps -= n->memory_maps;
	a->connections -= n->connections;
}

static void book(struct rsk_ledger *l, const struct rsk_ledger_reservation *h, int by)
{
	const struct rsk_ledger_need *n = &l->needs[h->need].need;
	struct rsk_ledger_account *p = &l->accounts[h->port], *s;
	void (*one)(struct rsk_ledger_account *, const struct rsk_ledger_need *, bool) =
		by > 0 ? book_one : unbook_one;

	one(p, n, h->used);
	one(&l->accounts[p->rnic], n, h->used);
	l->needs[h->need].held += by > 0 ? 1 : UINT64_MAX;
	if (h->service == RSK_LEDGER_NO_SERVICE)
		return;
	s = &l->accounts[h->service];
	one(s, n, h->used);
	if (l->claims.n_rnics && s->side == RSK_PMA_AP)
		rsk_claims_book(&l->claims, p->rnic,
				l->counters[h->cp].kind == RSK_LEDGER_CP6 ? 6 : 4,
				l->counters[h->cp].key, by);
	l->sessions[s->side] += by > 0 ? 1 : UINT64_MAX;
}

/* ---- reservations ---- */

static int more_held(struct rsk_ledger *l)
{
	uint32_t room = l->held_room ? 2 * l->held_room : 64;
	struct rsk_ledger_reservation *h;

	if (l->held_room > UINT32_MAX / 4)
		return -ENOMEM;
	h = reallocarray(l->held, room, sizeof(*h));
	if (!h)
		return -ENOMEM;
	l->held = h;
	l->held_room = room;
	return 0;
}

/* The slot's index + 1, so that it is never 0, and how often the slot was used before. */
static uint64_t id_of(const struct rsk_ledger *l, uint32_t i)
{
	return (uint64_t)l->held[i].generation << 32 | (i + 1u);
}

static struct rsk_ledger_reservation *held_at(const struct rsk_ledger *l, uint64_t id)
{
	uint32_t i = (uint32_t)id - 1;

	if (!(uint32_t)id || i >= l->n_held || l->held[i].port == RSK_LEDGER_NONE ||
	    l->held[i].generation != id >> 32)
		return NULL;
	return &l->held[i];
}

uint64_t rsk_ledger_reserve(struct rsk_ledger *l, const struct rsk_ledger_who *who, uint32_t port,
			    uint32_t need)
{
	struct rsk_ledger_reservation *h;
	uint32_t i = l->free_held;

	if ((i == RSK_LEDGER_NONE && l->n_held == l->held_room && more_held(l) < 0) ||
	    reserve_counters(l, 4) < 0)
		return 0;
	if (i != RSK_LEDGER_NONE) {
		l->free_held = l->held[i].cp;
	} else {
		i = l->n_held++;
		l->held[i].generation = 0;
	}
	h = &l->held[i];
	*h = (struct rsk_ledger_reservation){ .generation = h->generation,
					      .port = port,
					      .service = who ? who->service : RSK_LEDGER_NO_SERVICE,
					      .priority = who ? who->priority & 7u : 0,
					      .need = need,
					      .cp = RSK_LEDGER_NONE,
					      .user = RSK_LEDGER_NONE };
	if (who)
		h->cp = counter_for(l, who->cp, who->cp_hash, who->cp_key, who->service,
				    kind_of(who->ipv));
	if (who && who->has_user)
		h->user = counter_for(l, who->user, who->user_hash, who->user_key, who->service,
				      RSK_LEDGER_USER);
	count_by(l, h->cp, 1);
	count_by(l, h->user, 1);
	book(l, h, 1);
	l->live++;
	return id_of(l, i);
}

bool rsk_ledger_find(const struct rsk_ledger *l, uint64_t id, struct rsk_ledger_view *out)
{
	const struct rsk_ledger_reservation *h = held_at(l, id);

	if (!h)
		return false;
	*out = (struct rsk_ledger_view){ .port = h->port,
					 .service = RSK_LEDGER_NONE,
					 .need = h->need,
					 .used = h->used,
					 .priority = h->priority,
					 .uid = RSK_PMA_NOBODY };
	if (h->service == RSK_LEDGER_NO_SERVICE)
		return true;
	out->service = h->service;
	out->ipv = l->counters[h->cp].kind == RSK_LEDGER_CP6 ? 6 : 4;
	memcpy(out->cp_ip, l->counters[h->cp].key, 16);
	if (h->user != RSK_LEDGER_NONE)
		memcpy(&out->uid, l->counters[h->user].key, sizeof(out->uid));
	return true;
}

void rsk_ledger_confirm(struct rsk_ledger *l, uint64_t id)
{
	struct rsk_ledger_reservation *h = held_at(l, id);

	if (!h || h->used)
		return;
	h->used = 1;
	l->accounts[h->port].promised--;
	l->accounts[l->accounts[h->port].rnic].promised--;
	if (h->service != RSK_LEDGER_NO_SERVICE)
		l->accounts[h->service].promised--;
}

static void give_up(struct rsk_ledger *l, struct rsk_ledger_reservation *h)
{
	h->port = RSK_LEDGER_NONE;
	h->generation++;
	h->cp = l->free_held;
	l->free_held = (uint32_t)(h - l->held);
	l->live--;
}

bool rsk_ledger_release(struct rsk_ledger *l, uint64_t id)
{
	struct rsk_ledger_reservation *h = held_at(l, id);

	if (!h)
		return false;
	book(l, h, -1);
	count_down(l, h->cp);
	count_down(l, h->user);
	give_up(l, h);
	return true;
}

void rsk_ledger_lift(struct rsk_ledger *l, uint64_t id)
{
	struct rsk_ledger_reservation *h = held_at(l, id);

	if (!h)
		return;
	book(l, h, -1);
	count_by(l, h->cp, UINT32_MAX);
	count_by(l, h->user, UINT32_MAX);
}

void rsk_ledger_put_back(struct rsk_ledger *l, uint64_t id)
{
	struct rsk_ledger_reservation *h = held_at(l, id);

	if (!h)
		return;
	book(l, h, 1);
	count_by(l, h->cp, 1);
	count_by(l, h->user, 1);
}

void rsk_ledger_drop_lifted(struct rsk_ledger *l, uint64_t id)
{
	rsk_ledger_put_back(l, id);
	rsk_ledger_release(l, id);
}
