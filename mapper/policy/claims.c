// SPDX-License-Identifier: BSD-2-Clause
/* claims.c - see claims.h. */
#include "claims.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pm_hash.h"

/* To which holder an address belongs. */
struct rsk_claims_address {
	uint8_t key[17]; /* IP version, address */
	uint32_t holder;
	UT_hash_handle hh;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t claim_of(const struct rsk_claim *m)
{
	return larger(m->quota, m->published);
}

/* What etcd gives nobody else in any case. */
static uint64_t sure_of(const struct rsk_claim *m)
{
	return larger(m->quota, m->published - m->unsure);
}

static void key_of(uint8_t ipv, const uint8_t ip[static 16], uint8_t key[static 17])
{
	key[0] = ipv;
	memcpy(key + 1, ip, 16);
}

static uint32_t holder_at(const struct rsk_claims *c, uint8_t ipv, const uint8_t ip[static 16])
{
	struct rsk_claims_address *a;
	uint8_t key[17];

	key_of(ipv, ip, key);
	HASH_FIND(hh, c->addresses, key, sizeof(key), a);
	return a ? a->holder : RSK_CLAIMS_NONE;
}

static struct rsk_claims_rnic *rnic_at(const struct rsk_claims *c, uint32_t account)
{
	for (size_t i = 0; i < c->n_rnics; i++)
		if (c->rnics[i].account == account)
			return &c->rnics[i];
	return NULL;
}

uint32_t rsk_claims_find(const struct rsk_claims *c, const char *name)
{
	for (size_t i = 0; i < c->n_rnics; i++)
		if (strcmp(c->rnics[i].name, name) == 0)
			return (uint32_t)i;
	return RSK_CLAIMS_NONE;
}

/* ---- replacing ---- */

void rsk_claims_fini(struct rsk_claims *c)
{
	struct rsk_claims_address *a = c->addresses, *next;

	/* The table is emptied; its entries are still linked as a list. */
	HASH_CLEAR(hh, c->addresses);
	for (; a; a = next) {
		next = a->hh.next;
		free(a);
	}
	for (size_t i = 0; i < c->n_rnics; i++)
		free(c->rnics[i].name);
	for (size_t i = 0; i < c->n_holders; i++)
		free(c->holders[i]);
	free(c->rnics);
	free(c->holders);
	free(c->claims);
	*c = (struct rsk_claims){ 0 };
}

static int add_addresses(struct rsk_claims *c, const struct rsk_claims_holder *h, uint32_t holder)
{
	struct rsk_claims_address *a;

	for (size_t i = 0; i < h->n_ips; i++) {
		if (holder_at(c, h->ips[i].ipv, h->ips[i].ip) != RSK_CLAIMS_NONE)
			continue;
		a = malloc(sizeof(*a));
		if (!a)
			return -ENOMEM;
		a->holder = holder;
		key_of(h->ips[i].ipv, h->ips[i].ip, a->key);
		HASH_ADD(hh, c->addresses, key, sizeof(a->key), a);
	}
	return 0;
}

static int fill(struct rsk_claims *c, const struct rsk_claims_set *set)
{
	for (size_t i = 0; i < set->n_rnics; i++) {
		c->rnics[c->n_rnics] = (struct rsk_claims_rnic){ .name = strdup(set->rnics[i]),
								 .account = RSK_CLAIMS_NONE,
								 .offered = set->offered[i] };
		if (!c->rnics[c->n_rnics].name)
			return -ENOMEM;
		c->n_rnics++;
	}
	for (size_t i = 0; i < set->n_holders; i++) {
		c->holders[i] = strdup(set->holders[i].name);
		if (!c->holders[i])
			return -ENOMEM;
		c->n_holders++;
		if (add_addresses(c, &set->holders[i], (uint32_t)i) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < set->n_quotas; i++) {
		const struct rsk_claims_quota *q = &set->quotas[i];

		if (q->rnic >= c->n_rnics || q->holder >= c->n_holders)
			return -EINVAL;
		*rsk_claims_at(c, q->rnic, q->holder) =
			(struct rsk_claim){ .quota = q->quota,
					    .published = q->published,
					    .unsure = smaller(q->unsure, q->published) };
	}
	return 0;
}

/* Sums anew; what is in use is 0. */
static void sum(struct rsk_claims *c, struct rsk_claims_rnic *r)
{
	size_t rnic = (size_t)(r - c->rnics);

	r->claimed = r->covered = r->unsure = r->named = 0;
	for (size_t h = 0; h < c->n_holders; h++) {
		struct rsk_claim *m = rsk_claims_at(c, rnic, h);

		m->used = 0;
		r->unsure += claim_of(m) - sure_of(m);
		/* Anything may be in etcd: the sum must not wrap. */
		if (__builtin_add_overflow(r->claimed, claim_of(m), &r->claimed))
			r->claimed = UINT64_MAX;
	}
}

int rsk_claims_replace(struct rsk_claims *c, const struct rsk_claims_set *set)
{
	struct rsk_claims new = { 0 };
	int rc = -ENOMEM;

	if (set->n_rnics > RSK_CLAIMS_RNICS || set->n_holders > RSK_CLAIMS_HOLDERS)
		return -EINVAL;
	new.rnics = calloc(set->n_rnics + 1, sizeof(*new.rnics));
	new.holders = calloc(set->n_holders + 1, sizeof(*new.holders));
	new.claims = calloc(set->n_rnics * set->n_holders + 1, sizeof(*new.claims));
	if (new.rnics &&new.holders &&new.claims)
		rc = fill(&new, set);
	if (rc < 0) {
		rsk_claims_fini(&new);
		return rc;
	}
	for (size_t i = 0; i < new.n_rnics; i++)
		sum(&new, &new.rnics[i]);
	rsk_claims_fini(c);
	*c = new;
	return 0;
}

void rsk_claims_bind(struct rsk_claims *c, uint32_t (*find)(void *ctx, const char *rnic), void *ctx)
{
	for (size_t i = 0; i < c->n_rnics; i++) {
		c->rnics[i].account = find(ctx, c->rnics[i].name);
		sum(c, &c->rnics[i]);
	}
}

/* ---- sessions ---- */

void rsk_claims_book(struct rsk_claims *c, uint32_t account, uint8_t ipv,
		     const uint8_t cp_ip[static 16], int by)
{
	struct rsk_claims_rnic *r = rnic_at(c, account);
	uint32_t holder = r ? holder_at(c, ipv, cp_ip) : RSK_CLAIMS_NONE;
	struct rsk_claim *m;

	if (holder == RSK_CLAIMS_NONE)
		return;
	m = rsk_claims_at(c, (size_t)(r - c->rnics), holder);
	if (by > 0) {
		r->covered += m->used < sure_of(m);
		m->used++;
		r->named++;
	} else if (m->used) {
		m->used--;
		r->named--;
		r->covered -= m->used < sure_of(m);
	}
}

static uint64_t kept(const struct rsk_claims_rnic *r)
{
	return larger(r->offered + r->unsure, r->claimed) - r->covered;
}

uint64_t rsk_claims_kept(const struct rsk_claims *c, uint32_t account)
{
	const struct rsk_claims_rnic *r = rnic_at(c, account);

	return r ? kept(r) : 0;
}

uint64_t rsk_claims_kept_beside(const struct rsk_claims *c, uint32_t account, uint8_t ipv,
				const uint8_t *cp_ip)
{
	const struct rsk_claims_rnic *r = rnic_at(c, account);
	uint32_t holder = r && cp_ip ? holder_at(c, ipv, cp_ip) : RSK_CLAIMS_NONE;
	const struct rsk_claim *m;

	if (!r)
		return 0;
	if (holder == RSK_CLAIMS_NONE)
		return kept(r);
	m = rsk_claims_at(c, (size_t)(r - c->rnics), holder);
	/*
	 * What is published may be more than is left by now: a quota may have gone while it was
	 * written.
	 */
	if (m->used < m->quota)
		return 0;
	return kept(r) - (m->used < sure_of(m));
}

/* ---- the offer ---- */

/* Sessions without a claim that still fit. */
static uint64_t room(const struct rsk_claims_rnic *r, uint64_t booked, uint64_t max)
{
	uint64_t taken;

	return __builtin_add_overflow(booked, kept(r), &taken) || taken > max ? 0 : max - taken;
}

struct rsk_claims_offer rsk_claims_next(const struct rsk_claims *c, size_t rnic, uint64_t booked,
					uint64_t max)
{
	const struct rsk_claims_rnic *r = &c->rnics[rnic];
	uint64_t others = booked - smaller(r->named, booked), taken;

	taken = others + rsk_claims_reserve(max);
	return (struct rsk_claims_offer){ .sessions = taken < max ? max - taken : 0,
					  .is_full = booked >= max || (!room(r, booked, max) &&
								       r->offered <= r->claimed) };
}

uint64_t rsk_claims_publish(const struct rsk_claim *claim, uint64_t max)
{
	/* With a little more than is used, not each session has to be published. */
	if (claim->used && claim->used < claim->quota)
		return smaller(claim->quota, claim->used + rsk_claims_reserve(max));
	return claim->used;
}

enum rsk_claims_due rsk_claims_due(const struct rsk_claims *c, size_t rnic, uint64_t booked,
				   uint64_t max, bool is_full)
{
	const struct rsk_claims_rnic *r = &c->rnics[rnic];
	const struct rsk_claims_offer next = rsk_claims_next(c, rnic, booked, max);
	uint64_t reserve = rsk_claims_reserve(max);

	if (next.is_full && !is_full)
		return RSK_CLAIMS_NOW;
	if (next.sessions < r->offered && room(r, booked, max) <= reserve / 2)
		return RSK_CLAIMS_NOW;
	if (is_full && !next.is_full)
		return RSK_CLAIMS_LATER;
	if (next.sessions > r->offered && next.sessions - r->offered >= (reserve ? reserve : 1))
		return RSK_CLAIMS_LATER;
	for (size_t h = 0; h < c->n_holders; h++) {
		const struct rsk_claim *m = rsk_claims_at(c, rnic, h);

		if (m->used > m->published || m->published > larger(m->used, m->quota))
			return RSK_CLAIMS_LATER;
	}
	return RSK_CLAIMS_FINE;
}

bool rsk_claims_validate(const struct rsk_claims *c)
{
	for (size_t i = 0; i < c->n_rnics; i++) {
		uint64_t claimed = 0, covered = 0, unsure = 0, named = 0;

		for (size_t h = 0; h < c->n_holders; h++) {
			const struct rsk_claim *m = rsk_claims_at(c, i, h);

			if (__builtin_add_overflow(claimed, claim_of(m), &claimed))
				claimed = UINT64_MAX;
			covered += smaller(m->used, sure_of(m));
			unsure += claim_of(m) - sure_of(m);
			named += m->used;
		}
		if (claimed != c->rnics[i].claimed || covered != c->rnics[i].covered ||
		    unsure != c->rnics[i].unsure || named != c->rnics[i].named)
			return false;
	}
	return true;
}
