// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota_claims.c - see quota_own.h: makes the claims of other hosts at this node's RNICs out of
 * their quotas in etcd, and of what was published as used by them, and gives them to the policy
 * agent.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "quota_own_parts.h"

/* Claims are made anew no more often than that: with 16384 quotas it takes milliseconds. */
#define EACH_NS 10000000ull

/* The set that is being made. */
struct making {
	const char *names[RSK_CLAIMS_RNICS];
	uint64_t offered[RSK_CLAIMS_RNICS];
	struct rsk_claims_holder *holders;
	struct rsk_claims_quota *quotas; /* by RNIC, then by holder */
	size_t n_rnics, n_holders;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static struct rsk_quota_known *known_of(struct rsk_quota_own *o, const char *holder)
{
	struct rsk_quota_known *k;

	HASH_FIND_STR(o->known, holder, k);
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	memcpy(k->name, holder, strnlen(holder, RSK_QUOTA_NAME - 1));
	HASH_ADD_STR(o->known, name, k);
	return k;
}

static void note_used(struct rsk_quota_own *o, const struct rsk_quota_capacity *c)
{
	struct rsk_quota_known *k;

	for (size_t i = 0; i < c->n_used; i++) {
		HASH_FIND_STR(o->known, c->used[i].holder, k);
		if (k)
			k->is_here = true;
	}
}

/* Numbers the holders that have a quota or sessions here, and forgets the others. */
static size_t number_holders(struct rsk_quota_own *o)
{
	struct rsk_quota_known *k, *next;
	size_t n = 0;

	for (k = o->known; k; k = k->hh.next)
		k->is_here = false;
	for (const struct rsk_quota_row *r = o->table.rows; r; r = r->hh.next) {
		k = r->is_readable ? known_of(o, r->holder) : NULL;
		if (!k)
			continue;
		k->is_here = true;
		k->at = r->entry.at;
	}
	for (const struct rsk_quota_rnic *r = o->rnics; r; r = r->next) {
		note_used(o, &r->told);
		note_used(o, &r->telling);
	}
	HASH_ITER(hh, o->known, k, next) {
		if (k->is_here && n < RSK_CLAIMS_HOLDERS) {
			k->number = (uint32_t)n++;
		} else {
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): freed after removal */
			HASH_DEL(o->known, k);
			free(k);
		}
	}
	return n;
}

static struct rsk_claims_quota *quota_at(const struct rsk_quota_own *o, const struct making *m,
					 size_t rnic, const char *holder)
{
	struct rsk_quota_known *k;

	HASH_FIND_STR(o->known, holder, k);
	return k ? &m->quotas[rnic * m->n_holders + k->number] : NULL;
}

/*
 * What is being written, or was written without an answer, may be in etcd or not: the larger number
 * counts as published, and of that only the smaller one is sure.
 */
static void put_used(const struct rsk_quota_own *o, const struct making *m, size_t rnic,
		     const struct rsk_quota_rnic *r)
{
	for (size_t i = 0; i < r->told.n_used; i++) {
		struct rsk_claims_quota *q = quota_at(o, m, rnic, r->told.used[i].holder);

		if (!q)
			continue;
		q->published = r->told.used[i].sessions;
		q->unsure = r->writing || r->is_unsure ? q->published : 0;
	}
	for (size_t i = 0; i < r->telling.n_used; i++) {
		const struct rsk_quota_used *u = &r->telling.used[i];
		struct rsk_claims_quota *q = quota_at(o, m, rnic, u->holder);
		uint64_t sure;

		if (!q)
			continue;
		sure = r->is_unsure ? 0 : smaller(q->published, u->sessions);
		q->published = larger(q->published, u->sessions);
		q->unsure = q->published - sure;
	}
}

static void put_rnic(const struct rsk_quota_own *o, const struct making *m, size_t rnic,
		     const struct rsk_quota_rnic *r)
{
	for (size_t h = 0; h < m->n_holders; h++)
		m->quotas[rnic * m->n_holders + h] =
			(struct rsk_claims_quota){ .rnic = (uint32_t)rnic, .holder = (uint32_t)h };
	put_used(o, m, rnic, r);
}

/* Rows of one RNIC often follow each other. */
static void put_rows(const struct rsk_quota_own *o, const struct making *m)
{
	const struct rsk_quota_rnic *r = NULL;

	for (const struct rsk_quota_row *row = o->table.rows; row; row = row->hh.next) {
		struct rsk_claims_quota *q;

		if (!row->is_readable)
			continue;
		if (!r || strcmp(row->rnic, r->escaped) != 0)
			HASH_FIND_STR(o->by_escaped, row->rnic, r);
		q = r && r->number < m->n_rnics ? quota_at(o, m, r->number, row->holder) : NULL;
		if (q)
			q->quota = row->entry.sessions;
	}
}

static struct rsk_claims_holder *holder_at(const struct making *m, const struct rsk_quota_known *k)
{
	return &m->holders[k->number];
}

static void make(struct rsk_quota_own *o, struct making *m)
{
	for (const struct rsk_quota_known *k = o->known; k; k = k->hh.next)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what was freed is not in the table */
		*holder_at(m, k) = (struct rsk_claims_holder){ k->name, k->at.ips, k->at.n };
	for (struct rsk_quota_rnic *r = o->rnics; r; r = r->next) {
		r->number = RSK_CLAIMS_RNICS;
		if (!r->is_here || m->n_rnics == RSK_CLAIMS_RNICS)
			continue;
		r->number = (uint32_t)m->n_rnics;
		m->names[m->n_rnics] = r->name;
		m->offered[m->n_rnics] = larger(r->told.sessions, r->telling.sessions);
		put_rnic(o, m, m->n_rnics++, r);
	}
	put_rows(o, m);
}

static size_t rnics_here(const struct rsk_quota_own *o)
{
	size_t n = 0;

	for (const struct rsk_quota_rnic *r = o->rnics; r; r = r->next)
		n += r->is_here;
	return n < RSK_CLAIMS_RNICS ? n : RSK_CLAIMS_RNICS;
}

/* Without memory the claims stay as they are, and the next change tries again. */
void rsk_quota_own_claim(struct rsk_quota_own *o)
{
	static const struct rsk_claims_set none;
	struct making m = { 0 };
	struct rsk_claims_set set;

	o->is_due = false;
	o->made_ns = rsk_clock_ns();
	o->count.claims++;
	if (!o->is_claimed) {
		rsk_pma_claims_set(o->pma, &none);
		return;
	}
	m.n_holders = number_holders(o);
	m.holders = calloc(m.n_holders + 1, sizeof(*m.holders));
	m.quotas = calloc(rnics_here(o) * m.n_holders + 1, sizeof(*m.quotas));
	if (m.holders && m.quotas) {
		make(o, &m);
		set = (struct rsk_claims_set){ .rnics = m.names,
					       .offered = m.offered,
					       .holders = m.holders,
					       .quotas = m.quotas,
					       .n_rnics = m.n_rnics,
					       .n_holders = m.n_holders,
					       .n_quotas = m.n_rnics * m.n_holders };
		rsk_pma_claims_set(o->pma, &set);
	}
	free(m.holders);
	free(m.quotas);
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_quota_own *o = arg;

	if (o->is_due)
		rsk_quota_own_claim(o);
}

/* ---- many changes at once ---- */

static void forget(struct rsk_quota_own *o)
{
	struct rsk_quota_known *k = o->known, *next;

	/* The table is emptied; its entries are still linked as a list. */
	HASH_CLEAR(hh, o->known);
	for (; k; k = next) {
		next = k->hh.next;
		free(k);
	}
}

int rsk_quota_own_claims_open(struct rsk_quota_own *o, struct event_base *base)
{
	o->due = evtimer_new(base, on_due, o);
	return o->due ? 0 : -ENOMEM;
}

void rsk_quota_own_claims_close(struct rsk_quota_own *o)
{
	if (o->due)
		event_free(o->due);
	o->due = NULL;
	forget(o);
}

void rsk_quota_own_claim_soon(struct rsk_quota_own *o)
{
	uint64_t since = rsk_clock_ns() - o->made_ns;
	struct timeval tv = { 0 };

	if (o->is_due)
		return;
	o->is_due = true;
	if (since < EACH_NS)
		tv.tv_usec = (suseconds_t)((EACH_NS - since) / 1000);
	event_add(o->due, &tv);
}
