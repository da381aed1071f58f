// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_quota_claims.c - tests that the claims which the policy agent gets are what etcd has, by
 * rows as a watch tells them (quota_claims.c, quota_table.h), and that many changes cost once.
 */
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pma_kit.h"
#include "quota_own_parts.h"

#define HEAD "/l/quota/me/"

static const char conf[] = "node: me\n"
			   "rnics:\n"
			   "  - {name: a, addresses: [10.0.0.1], sessions: 40}\n"
			   "  - {name: b, addresses: [10.0.0.2], sessions: 40}\n";

struct kit {
	struct event_base *base;
	struct rsk_quota_own own;
	struct rsk_quota_rnic rnics[64];
	uint64_t revision;
};

static void changed(void *ctx)
{
	rsk_quota_own_claim_soon(ctx);
}

/* The first @n of 64 RNICs: a, b, and others that the policy agent does not know. */
static void begin(struct kit *k, size_t n)
{
	*k = (struct kit){ 0 };
	k->own.pma = pma_of(conf);
	k->own.is_claimed = true;
	k->own.table = (struct rsk_quota_table){ .head = strlen(HEAD),
						 .changed = changed,
						 .ctx = &k->own };
	k->base = event_base_new();
	cr_assert_eq(rsk_quota_own_claims_open(&k->own, k->base), 0);
	for (size_t i = 0; i < n; i++) {
		struct rsk_quota_rnic *r = &k->rnics[i];

		if (i < 2)
			snprintf(r->escaped, sizeof(r->escaped), "%c", 'a' + (char)i);
		else
			snprintf(r->escaped, sizeof(r->escaped), "an-rnic-%zu", i);
		snprintf(r->name, sizeof(r->name), "%s", r->escaped);
		r->is_here = true;
		r->next = i ? &k->rnics[i - 1] : NULL;
		k->own.rnics = r;
		HASH_ADD_STR(k->own.by_escaped, escaped, r);
	}
}

static void end(struct kit *k)
{
	HASH_CLEAR(hh, k->own.by_escaped);
	rsk_quota_own_claims_close(&k->own);
	event_base_free(k->base);
	rsk_quota_table_fini(&k->own.table);
	rsk_pma_free(k->own.pma);
}

/* The watch tells of a quota; @sessions 0: it is gone. */
static void tell(struct kit *k, const char *rnic, const char *holder, unsigned int sessions)
{
	char key[256], value[256];
	struct rsk_etcd_kv kv = { .key = key, .value = value, .mod_revision = ++k->revision };

	kv.key_bytes = (size_t)snprintf(key, sizeof(key), HEAD "%s/%s", rnic, holder);
	kv.value_bytes = (size_t)snprintf(
		value, sizeof(value),
		"{\"run\":\"0000000000000000\",\"sessions\":%u,\"addresses\":[\"10.1.0.1\"]}",
		sessions);
	kv.is_deleted = !sessions;
	cr_assert_eq(rsk_quota_table_watched.event(&k->own.table, &kv), 0);
}

/* The claim of a holder at an RNIC, as the policy agent has it; all zero: none. */
static struct rsk_claim claim_of(const struct kit *k, const char *rnic, const char *holder)
{
	const struct rsk_claims *c = rsk_pma_claims(k->own.pma);
	uint32_t at = rsk_claims_find(c, rnic);

	for (size_t h = 0; at != RSK_CLAIMS_NONE && h < c->n_holders; h++)
		if (strcmp(c->holders[h], holder) == 0)
			return *rsk_claims_at(c, at, h);
	return (struct rsk_claim){ 0 };
}

static void use(struct rsk_quota_capacity *c, const char *holder, uint64_t sessions)
{
	c->used = realloc(c->used, (c->n_used + 1) * sizeof(*c->used));
	cr_assert_not_null(c->used);
	c->used[c->n_used] = (struct rsk_quota_used){ .sessions = sessions };
	snprintf(c->used[c->n_used++].holder, RSK_QUOTA_NAME, "%s", holder);
}

Test(quota_claims, as_etcd_has_them)
{
	static struct kit k;

	begin(&k, 3);
	tell(&k, "a", "one", 3);
	tell(&k, "b", "one", 4);
	tell(&k, "a", "two", 5);
	tell(&k, "b", "three", 6);
	tell(&k, "nothing", "one", 9);
	rsk_quota_own_claim(&k.own);
	cr_assert(rsk_claims_validate(rsk_pma_claims(k.own.pma)));
	cr_assert_eq(claim_of(&k, "a", "one").quota, 3);
	cr_assert_eq(claim_of(&k, "b", "one").quota, 4);
	cr_assert_eq(claim_of(&k, "a", "two").quota, 5);
	cr_assert_eq(claim_of(&k, "b", "two").quota, 0);
	cr_assert_eq(claim_of(&k, "b", "three").quota, 6);
	tell(&k, "a", "two", 0);
	k.rnics[1].is_here = false;
	rsk_quota_own_claim(&k.own);
	cr_assert_eq(claim_of(&k, "a", "two").quota, 0, "it is gone");
	cr_assert_eq(rsk_claims_find(rsk_pma_claims(k.own.pma), "b"), RSK_CLAIMS_NONE);
	cr_assert_eq(claim_of(&k, "a", "one").quota, 3);
	k.own.is_claimed = false;
	rsk_quota_own_claim(&k.own);
	cr_assert_eq(rsk_pma_claims(k.own.pma)->n_rnics, 0, "nothing counts");
	end(&k);
}

/* The larger number of what etcd has and of what is being written counts, the smaller is sure. */
Test(quota_claims, what_is_being_written)
{
	static struct kit k;
	struct rsk_quota_rnic *a = &k.rnics[0];
	static char text[] = "text";

	begin(&k, 2);
	tell(&k, "a", "more", 1);
	tell(&k, "a", "less", 1);
	tell(&k, "a", "gone", 1);
	tell(&k, "a", "new", 1);
	use(&a->told, "more", 2);
	use(&a->told, "less", 5);
	use(&a->told, "gone", 3);
	rsk_quota_own_claim(&k.own);
	cr_assert_eq(claim_of(&k, "a", "less").published, 5);
	cr_assert_eq(claim_of(&k, "a", "less").unsure, 0, "nothing is being written");
	a->writing = text;
	use(&a->telling, "more", 4);
	use(&a->telling, "less", 2);
	use(&a->telling, "new", 7);
	rsk_quota_own_claim(&k.own);
	cr_assert(claim_of(&k, "a", "more").published == 4 &&
		  claim_of(&k, "a", "more").unsure == 2);
	cr_assert(claim_of(&k, "a", "less").published == 5 &&
		  claim_of(&k, "a", "less").unsure == 3);
	cr_assert(claim_of(&k, "a", "gone").published == 3 &&
		  claim_of(&k, "a", "gone").unsure == 3);
	cr_assert(claim_of(&k, "a", "new").published == 7 && claim_of(&k, "a", "new").unsure == 7);
	a->is_unsure = true;
	rsk_quota_own_claim(&k.own);
	cr_assert_eq(claim_of(&k, "a", "more").unsure, 4, "after a write without an answer");
	a->writing = NULL;
	rsk_quota_capacity_free(&a->telling);
	rsk_quota_own_claim(&k.own);
	cr_assert(claim_of(&k, "a", "less").published == 5 &&
		  claim_of(&k, "a", "less").unsure == 5);
	rsk_quota_capacity_free(&a->told);
	end(&k);
}

/* 64 RNICs with 256 quotas each: the most that there may be. */
Test(quota_claims, many_changes_cost_once)
{
	static struct kit k;

	begin(&k, 64);
	for (int r = 0; r < 64; r++)
		for (int h = 0; h < 256; h++) {
			char holder[32];

			snprintf(holder, sizeof(holder), "host-%d", h);
			tell(&k, k.rnics[r].escaped, holder, 1);
			rsk_quota_table_watched.changed(&k.own.table);
		}
	cr_assert_eq(k.own.count.claims, 0, "not before the event loop");
	event_base_dispatch(k.base);
	cr_assert_eq(k.own.count.claims, 1);
	cr_assert_eq(rsk_pma_claims(k.own.pma)->rnics[0].claimed, 256);
	cr_assert_eq(rsk_pma_claims(k.own.pma)->rnics[63].claimed, 256);
	/* One that has been made meanwhile counts for all, and later ones are made again. */
	rsk_quota_own_claim_soon(&k.own);
	rsk_quota_own_claim(&k.own);
	event_base_dispatch(k.base);
	cr_assert_eq(k.own.count.claims, 2);
	tell(&k, "a", "host-7", 0);
	rsk_quota_own_claim_soon(&k.own);
	event_base_dispatch(k.base);
	cr_assert_eq(k.own.count.claims, 3);
	cr_assert_eq(claim_of(&k, "a", "host-7").quota, 0);
	end(&k);
}
