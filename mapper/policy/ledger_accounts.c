// SPDX-License-Identifier: BSD-2-Clause
/*
 * ledger_accounts.c - see ledger.h: accounts and needs, which change with configurations, and the
 * check of all sums.
 */
#include <stdlib.h>
#include <string.h>

#include "ledger_parts.h"
#include "pm_hash.h"

/* Maps an account's name, prefixed with its kind and side, to its index. */
struct rsk_ledger_name {
	uint32_t account;
	UT_hash_handle hh;
	char key[];
};

static uint32_t free_account(struct rsk_ledger *l)
{
	uint32_t at = l->free_account, room = l->accounts_room ? 2 * l->accounts_room : 64;
	struct rsk_ledger_account *a;

	if (at != RSK_LEDGER_NONE) {
		l->free_account = l->accounts[at].rnic;
		return at;
	}
	if (l->n_accounts == l->accounts_room) {
		a = reallocarray(l->accounts, room, sizeof(*a));
		if (!a)
			return RSK_LEDGER_NONE;
		l->accounts = a;
		l->accounts_room = room;
	}
	return l->n_accounts++;
}

uint32_t rsk_ledger_account(struct rsk_ledger *l, enum rsk_ledger_kind kind, enum rsk_pma_side side,
			    const char *name)
{
	size_t bytes = strlen(name) + 2;
	struct rsk_ledger_name *n = malloc(sizeof(*n) + bytes), *found;

	if (!n)
		return RSK_LEDGER_NONE;
	n->key[0] = (char)('a' + kind * 2 + (kind == RSK_LEDGER_SERVICE ? side : 0));
	memcpy(n->key + 1, name, bytes - 1);
	HASH_FIND(hh, l->names, n->key, bytes - 1, found);
	if (found) {
		free(n);
		return found->account;
	}
	n->account = free_account(l);
	if (n->account == RSK_LEDGER_NONE) {
		free(n);
		return RSK_LEDGER_NONE;
	}
	HASH_ADD(hh, l->names, key, bytes - 1, n);
	l->accounts[n->account] = (struct rsk_ledger_account){
		.entry = n,
		.name = n->key + 1,
		.kind = kind,
		.side = side,
		.rnic = RSK_LEDGER_NONE,
	};
	return n->account;
}

/* ---- claims ---- */

static uint32_t rnic_named(void *ctx, const char *rnic)
{
	const struct rsk_ledger *l = ctx;

	for (uint32_t i = 0; i < l->n_accounts; i++)
		if (l->accounts[i].name && l->accounts[i].kind == RSK_LEDGER_RNIC &&
		    strcmp(l->accounts[i].name, rnic) == 0)
			return i;
	return RSK_CLAIMS_NONE;
}

void rsk_ledger_claims_bind(struct rsk_ledger *l)
{
	if (!l->claims.n_rnics)
		return;
	rsk_claims_bind(&l->claims, rnic_named, l);
	for (uint32_t i = 0; i < l->n_held; i++) {
		const struct rsk_ledger_reservation *h = &l->held[i];

		if (h->port != RSK_LEDGER_NONE && h->service != RSK_LEDGER_NO_SERVICE &&
		    l->accounts[h->service].side == RSK_PMA_AP)
			rsk_claims_book(&l->claims, l->accounts[h->port].rnic,
					l->counters[h->cp].kind == RSK_LEDGER_CP6 ? 6 : 4,
					l->counters[h->cp].key, 1);
	}
}

int rsk_ledger_claims_set(struct rsk_ledger *l, const struct rsk_claims_set *set)
{
	int rc = rsk_claims_replace(&l->claims, set);

	if (rc == 0)
		rsk_ledger_claims_bind(l);
	return rc;
}

/* ---- needs ---- */

uint32_t rsk_ledger_need(struct rsk_ledger *l, const struct rsk_ledger_need *need)
{
	struct rsk_ledger_need_slot *s;
	uint32_t at = l->n_needs;

	for (uint32_t i = 0; i < l->n_needs; i++) {
		s = &l->needs[i];
		if ((s->current || s->held) && s->need.bps == need->bps &&
		    s->need.memory_maps == need->memory_maps &&
		    s->need.connections == need->connections) {
			at = i;
			break;
		}
		if (!s->current && !s->held)
			at = i;
	}
	if (at == l->n_needs) {
		s = reallocarray(l->needs, at + 1u, sizeof(*s));
		if (!s)
			return RSK_LEDGER_NONE;
		l->needs = s;
		l->n_needs++;
	} else if (l->needs[at].current || l->needs[at].held) {
		l->needs[at].current = true;
		return at;
	}
	l->needs[at] = (struct rsk_ledger_need_slot){ .need = *need, .current = true };
	return at;
}

uint32_t rsk_ledger_need_for(struct rsk_ledger *l, const struct rsk_ledger_need *need)
{
	uint32_t n = l->n_needs, at;
	bool current;

	for (at = 0; at < n; at++)
		if (l->needs[at].current && l->needs[at].need.bps == need->bps &&
		    l->needs[at].need.memory_maps == need->memory_maps &&
		    l->needs[at].need.connections == need->connections)
			break;
	current = at < n;
	at = rsk_ledger_need(l, need);
	if (at != RSK_LEDGER_NONE)
		l->needs[at].current = current;
	return at;
}

void rsk_ledger_retire(struct rsk_ledger *l)
{
	for (uint32_t i = 0; i < l->n_accounts; i++) {
		struct rsk_ledger_account *a = &l->accounts[i];

		a->current = false;
		a->sessions_max = a->bps_max = a->memory_maps_max = a->connections_max = 0;
	}
	for (uint32_t i = 0; i < l->n_needs; i++)
		l->needs[i].current = false;
}

void rsk_ledger_keep_need(struct rsk_ledger *l, uint32_t need)
{
	l->needs[need].current = true;
}

void rsk_ledger_sweep(struct rsk_ledger *l)
{
	for (uint32_t i = 0; l->names && i < l->n_accounts; i++) {
		struct rsk_ledger_account *a = &l->accounts[i];

		if (!a->entry || a->current || a->sessions)
			continue;
		HASH_DEL(l->names, a->entry);
		free(a->entry);
		*a = (struct rsk_ledger_account){ .rnic = l->free_account };
		l->free_account = i;
	}
}

void rsk_ledger_free_names(struct rsk_ledger *l)
{
	HASH_CLEAR(hh, l->names);
	for (uint32_t i = 0; i < l->n_accounts; i++)
		free(l->accounts[i].entry);
}

/* ---- check of all sums ---- */

struct sums {
	uint64_t sessions, promised, bps, memory_maps, connections;
};

static void add(struct sums *s, const struct rsk_ledger_need *n, bool used)
{
	s->sessions++;
	s->promised += !used;
	s->bps += n->bps;
	s->memory_maps += n->memory_maps;
	s->connections += n->connections;
}

static bool is_as_counted(const struct rsk_ledger_account *a, const struct sums *s)
{
	if (!a->name)
		return !s->sessions;
	return a->sessions == s->sessions && a->promised == s->promised && a->bps == s->bps &&
	       a->memory_maps == s->memory_maps && a->connections == s->connections;
}

/* True if the reservation belongs to a CP and to a service. */
static bool is_of_somebody(const struct rsk_ledger *l, const struct rsk_ledger_reservation *h)
{
	return h->service < l->n_accounts && l->accounts[h->service].kind == RSK_LEDGER_SERVICE &&
	       h->cp < l->n_counters && (h->user == RSK_LEDGER_NONE || h->user < l->n_counters);
}

static bool reservations_are_whole(const struct rsk_ledger *l, struct sums *sums, uint64_t *needs,
				   uint64_t *counters)
{
	uint64_t live = 0, sides[2] = { 0, 0 };

	for (uint32_t i = 0; i < l->n_held; i++) {
		const struct rsk_ledger_reservation *h = &l->held[i];

		if (h->port == RSK_LEDGER_NONE)
			continue;
		if (h->port >= l->n_accounts || h->need >= l->n_needs ||
		    l->accounts[h->port].kind != RSK_LEDGER_PORT)
			return false;
		add(&sums[h->port], &l->needs[h->need].need, h->used);
		add(&sums[l->accounts[h->port].rnic], &l->needs[h->need].need, h->used);
		needs[h->need]++;
		live++;
		if (h->service == RSK_LEDGER_NO_SERVICE && h->cp == RSK_LEDGER_NONE &&
		    h->user == RSK_LEDGER_NONE)
			continue;
		if (!is_of_somebody(l, h))
			return false;
		add(&sums[h->service], &l->needs[h->need].need, h->used);
		for (uint32_t k = h->cp; k != RSK_LEDGER_NONE; k = l->counters[k].parent)
			counters[k]++;
		for (uint32_t k = h->user; k != RSK_LEDGER_NONE; k = l->counters[k].parent)
			counters[k]++;
		sides[l->accounts[h->service].side]++;
	}
	return live == l->live && sides[0] == l->sessions[0] && sides[1] == l->sessions[1];
}

static bool counters_are_whole(const struct rsk_ledger *l, const uint64_t *counted)
{
	uint64_t live = 0, chained = 0;

	for (uint32_t i = 0; i < l->n_counters; i++) {
		if (l->counters[i].kind == RSK_LEDGER_FREE)
			continue;
		if (!counted[i] || l->counters[i].sessions != counted[i])
			return false;
		live++;
	}
	for (size_t i = 0; i <= l->heads_mask; i++)
		for (uint32_t k = l->heads[i]; k != RSK_LEDGER_NONE; k = l->counters[k].next)
			chained++;
	return live == l->live_counters && chained == live;
}

bool rsk_ledger_validate(const struct rsk_ledger *l)
{
	struct sums *sums = calloc(l->n_accounts + 1u, sizeof(*sums));
	uint64_t *needs = calloc(l->n_needs + 1u, sizeof(*needs));
	uint64_t *counters = calloc(l->n_counters + 1u, sizeof(*counters));
	bool ok = sums && needs && counters && rsk_claims_validate(&l->claims) &&
		  reservations_are_whole(l, sums, needs, counters) &&
		  counters_are_whole(l, counters);

	for (uint32_t i = 0; ok && i < l->n_accounts; i++)
		ok = is_as_counted(&l->accounts[i], &sums[i]);
	for (uint32_t i = 0; ok && i < l->n_needs; i++)
		ok = l->needs[i].held == needs[i];
	free(sums);
	free(needs);
	free(counters);
	return ok;
}

static double part(uint64_t booked, uint64_t most, double before)
{
	double v = most && most != UINT64_MAX ? (double)booked / (double)most : 0;

	return v > before ? v : before;
}

double rsk_ledger_load(const struct rsk_ledger *l, uint32_t port, uint32_t need)
{
	const struct rsk_ledger_account *p = &l->accounts[port], *r = &l->accounts[p->rnic];
	struct rsk_ledger_need more = { 0 };
	bool one = need != RSK_LEDGER_NONE;
	double v = part(r->sessions + one, r->sessions_max, 0);

	if (one)
		more = l->needs[need].need;
	v = part(r->connections + more.connections, r->connections_max, v);
	v = part(r->memory_maps + more.memory_maps, r->memory_maps_max, v);
	v = part(r->bps + more.bps, r->bps_max, v);
	return part(p->bps + more.bps + (p->bps_max == UINT64_MAX ? 0 : p->others_bps), p->bps_max,
		    v);
}
