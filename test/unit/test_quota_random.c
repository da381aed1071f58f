// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_quota_random.c - tests holders and owners of quotas together, at random, against an etcd of
 * a few lines: with a clock that is passed in, hosts that die, are stopped and come back, answers
 * that are lost, and transactions that are executed late. An auditor looks after each step: nothing
 * is granted twice, what is held is never refused, and everything is free two leases after a death.
 */
#include "quota.h"

#include <string.h>

#include "claims_kit.h"
#include "dice.h"

#define SECOND 1000000000ull

#define HOSTS 4
#define TTL (8 * SECOND)
#define HOLD (TTL / 2)

/* A transaction of a holder, with what it compares. */
struct txn {
	bool is_open;	/* sent, and not executed or refused yet */
	uint64_t at_ns; /* when it is executed */
	uint64_t sessions;
	uint64_t read, offer, own; /* revisions */
	bool is_more, is_lost;
	unsigned int lease;
};

struct host {
	struct rsk_quota q;
	uint64_t until_ns, renew_ns, unsure_ns, next_ns;
	unsigned int lease; /* 0: none */
	bool is_dead;
	uint64_t stopped_until_ns;
	struct txn txn[2]; /* the second one is late, and its answer was given up */
	uint64_t used;	   /* at the owner */
};

struct world {
	uint64_t dice, now, max, revision;
	/* etcd */
	struct {
		uint64_t sessions, published[HOSTS], revision;
	} offer;
	struct {
		uint64_t sessions, revision, end_ns;
		unsigned int lease;
	} quota[HOSTS];
	uint64_t lease_end_ns[1024];
	unsigned int leases;
	/* the owner: what it writes, and when that is executed; 0: nothing */
	struct rsk_claims claims;
	uint64_t others, writing, writing_published[HOSTS], written_ns, told_ns;
	struct host host[HOSTS];
	uint64_t granted, refused, lapsed, left;
};

static uint64_t pick(struct world *w, uint64_t n)
{
	return dice_roll(&w->dice) % n;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static bool is_up(const struct world *w, const struct host *h)
{
	return !h->is_dead && w->now >= h->stopped_until_ns;
}

static uint64_t booked(const struct world *w)
{
	uint64_t n = w->others;

	for (int i = 0; i < HOSTS; i++)
		n += w->host[i].used;
	return n;
}

static void audit(const struct world *w)
{
	uint64_t claimed = 0, beyond = w->others;

	for (int i = 0; i < HOSTS; i++) {
		const struct host *h = &w->host[i];
		uint64_t claim = larger(w->quota[i].sessions, w->offer.published[i]);

		claimed += claim;
		beyond += h->used > claim ? h->used - claim : 0;
		cr_assert(rsk_quota_validate(&h->q));
		if (is_up(w, h) && h->lease && w->now < h->until_ns)
			cr_assert(w->quota[i].sessions >= h->q.held &&
					  (!h->q.held || w->quota[i].lease == h->lease),
				  "host %d uses %" PRIu64 " of %" PRIu64, i, h->q.held,
				  w->quota[i].sessions);
	}
	cr_assert_leq(booked(w), w->max);
	cr_assert_leq(claimed, w->max, "granted twice");
	cr_assert_leq(claimed + beyond, w->max, "promised twice: %" PRIu64 " claimed, %" PRIu64,
		      claimed, beyond);
	cr_assert(rsk_claims_validate(&w->claims));
}

/* The owner hears of a change at once. */
static void see_claims(struct world *w)
{
	struct rsk_claims_quota quotas[HOSTS];

	for (uint32_t i = 0; i < HOSTS; i++) {
		uint64_t there = w->offer.published[i];
		uint64_t next = w->written_ns ? w->writing_published[i] : there;

		quotas[i] = (struct rsk_claims_quota){ .holder = i,
						       .quota = w->quota[i].sessions,
						       .published = larger(there, next),
						       .unsure = there > next ? there - next :
										next - there };
	}
	claims_set(&w->claims, larger(w->offer.sessions, w->written_ns ? w->writing : 0), quotas,
		   HOSTS);
	for (int i = 0; i < HOSTS; i++)
		for (uint64_t k = 0; k < w->host[i].used; k++)
			claims_book(&w->claims, (uint8_t)i, 1);
}

static void own(struct world *w)
{
	enum rsk_claims_due due;

	if (w->written_ns && w->now >= w->written_ns) {
		w->written_ns = 0;
		if (pick(w, 8)) {
			w->offer.sessions = w->writing;
			memcpy(w->offer.published, w->writing_published,
			       sizeof(w->offer.published));
			w->offer.revision = ++w->revision;
			w->told_ns = w->now;
		}
		see_claims(w);
	}
	due = rsk_claims_due(&w->claims, 0, booked(w), w->max, false);
	if (w->written_ns || due == RSK_CLAIMS_FINE ||
	    (due == RSK_CLAIMS_LATER && w->now < w->told_ns + HOLD / 4))
		return;
	w->writing = rsk_claims_next(&w->claims, 0, booked(w), w->max).sessions;
	for (size_t i = 0; i < HOSTS; i++)
		w->writing_published[i] =
			rsk_claims_publish(rsk_claims_at(&w->claims, 0, i), w->max);
	w->written_ns = w->now + pick(w, SECOND / 10);
	see_claims(w);
}

static void expire(struct world *w)
{
	for (int i = 0; i < HOSTS; i++)
		if (w->quota[i].revision && w->now >= w->lease_end_ns[w->quota[i].lease]) {
			memset(&w->quota[i], 0, sizeof(w->quota[i]));
			w->lapsed++;
			see_claims(w);
		}
}

static bool passes(const struct world *w, int i, const struct txn *x)
{
	if (w->quota[i].revision != x->own || w->now >= w->lease_end_ns[x->lease])
		return false;
	for (int k = 0; x->is_more && k < HOSTS; k++)
		if (w->quota[k].revision > x->read)
			return false;
	return !x->is_more || w->offer.revision == x->offer;
}

/* Executes it, or not; then tells the host, unless the answer is lost. */
static void execute(struct world *w, int i, struct txn *x)
{
	struct host *h = &w->host[i];
	bool passed = passes(w, i, x);

	x->is_open = false;
	if (passed && x->sessions) {
		w->quota[i].sessions = x->sessions;
		w->quota[i].lease = x->lease;
		w->quota[i].revision = ++w->revision;
	} else if (passed) {
		w->revision++;
		memset(&w->quota[i], 0, sizeof(w->quota[i]));
	}
	if (passed)
		see_claims(w);
	if (x->is_lost || !is_up(w, h))
		return;
	if (passed && x->lease == h->lease) {
		rsk_quota_seen(&h->q, x->sessions);
		if (x->sessions)
			h->unsure_ns = 0;
		w->granted += x->is_more;
	} else {
		h->next_ns = w->now + pick(w, SECOND);
	}
}

/* As quota_take.c: reads, and begins a transaction. */
static void take(struct world *w, int i)
{
	struct host *h = &w->host[i];
	struct rsk_quota_claim others[HOSTS];
	uint64_t held = h->q.held, want, grant;
	bool is_ours = w->quota[i].revision && w->quota[i].lease == h->lease;
	struct txn *x = &h->txn[0];
	size_t n = 0;

	for (int k = 0; k < HOSTS; k++)
		if (k != i)
			others[n++] = (struct rsk_quota_claim){ w->quota[k].sessions,
								w->offer.published[k] };
	rsk_quota_seen(&h->q, is_ours ? w->quota[i].sessions : 0);
	if (w->now >= h->unsure_ns)
		h->unsure_ns = 0;
	else if (held < h->q.held)
		h->q.held = held;
	want = rsk_quota_wanted(&h->q, w->offer.sessions, w->now);
	grant = rsk_quota_grant(&h->q, want,
				rsk_quota_available(w->offer.sessions, w->offer.published[i],
						    others, n));
	h->next_ns = w->now + SECOND / 10 + pick(w, SECOND);
	if (grant == h->q.held && !(h->unsure_ns && grant) && !(w->quota[i].revision && !is_ours))
		return;
	*x = (struct txn){ .is_open = true,
			   .at_ns = w->now + pick(w, SECOND / 10),
			   .sessions = grant,
			   .read = w->revision,
			   .offer = w->offer.revision,
			   .own = w->quota[i].revision,
			   .is_more = grant > h->q.held,
			   .lease = h->lease };
	rsk_quota_write(&h->q, grant);
	if (pick(w, 4) || h->txn[1].is_open)
		return;
	/* Its answer is given up; it may be executed much later. */
	x->is_lost = true;
	x->at_ns += pick(w, 4 * SECOND);
	h->txn[1] = *x;
	x->is_open = false;
	h->unsure_ns = w->now + 5 * SECOND;
}

static void renew(struct world *w, struct host *h)
{
	uint64_t sent = w->now - pick(w, SECOND / 10); /* when the call began */

	if (!h->lease || w->now >= w->lease_end_ns[h->lease] || w->now >= h->until_ns) {
		rsk_quota_seen(&h->q, 0);
		cr_assert_lt(++w->leases, 1024);
		h->lease = w->leases;
	} else if (!pick(w, 3)) {
		return; /* etcd is not reached */
	}
	w->lease_end_ns[h->lease] = w->now + TTL;
	h->until_ns = sent + HOLD;
	h->renew_ns = sent + HOLD / 3;
}

/* A session begins at the owner if it lets it, as the ledger does. */
static void begin(struct world *w, int i)
{
	struct host *h = &w->host[i];
	bool by_quota = rsk_quota_has_room(&h->q, w->now, h->until_ns) && h->used < h->q.held;
	bool fits = booked(w) + 1 + claims_beside(&w->claims, (uint8_t)i) <= w->max;

	cr_assert(!by_quota || fits, "what is held is refused");
	if (fits) {
		h->used++;
		rsk_quota_begin(&h->q, w->now);
		claims_book(&w->claims, (uint8_t)i, 1);
	}
	w->refused += !fits;
}

static void end(struct world *w, int i)
{
	struct host *h = &w->host[i];

	if (!h->used)
		return;
	h->used--;
	rsk_quota_end(&h->q);
	claims_book(&w->claims, (uint8_t)i, -1);
}

/* Another run has no quota. */
static void die(struct host *h)
{
	h->lease = 0;
	h->until_ns = h->unsure_ns = 0;
	h->txn[0].is_open = false;
	rsk_quota_seen(&h->q, 0);
}

/* As rsk_quotas_leave(): the lease is revoked if what is in use was published. */
static void leave(struct world *w, int i)
{
	struct host *h = &w->host[i];
	uint64_t covered = h->used < h->q.most ? h->used : h->q.most;

	if (!is_up(w, h) || !h->lease)
		return;
	if (covered <= w->offer.published[i]) {
		w->lease_end_ns[h->lease] = w->now;
		expire(w);
		w->left++;
	}
	die(h);
}

static void act(struct world *w)
{
	int i = (int)pick(w, HOSTS);
	struct host *h = &w->host[i];

	switch (pick(w, 40)) {
	case 0:
		w->others += booked(w) + 1 + rsk_claims_kept(&w->claims, 7) <= w->max;
		return;
	case 1:
		w->others -= w->others > 0;
		return;
	case 2:
		h->stopped_until_ns = w->now + pick(w, 3 * TTL);
		return;
	case 3: /* dies, and starts again */
		if (!pick(w, 4))
			die(h);
		return;
	case 4: /* ends in order, and starts again */
		leave(w, i);
		return;
	default:
		break;
	}
	if (is_up(w, h) && pick(w, 2))
		begin(w, i);
	else if (is_up(w, h))
		end(w, i);
}

static void run(struct world *w, unsigned int steps, bool acts)
{
	while (steps--) {
		w->now += pick(w, SECOND / 4);
		expire(w);
		own(w);
		for (int i = 0; i < HOSTS; i++) {
			struct host *h = &w->host[i];

			for (int k = 0; k < 2; k++)
				if (h->txn[k].is_open && w->now >= h->txn[k].at_ns)
					execute(w, i, &h->txn[k]);
			if (is_up(w, h) && (!h->lease || w->now >= h->renew_ns))
				renew(w, h);
			if (is_up(w, h) && !h->txn[0].is_open && w->now < h->until_ns &&
			    w->now >= h->next_ns)
				take(w, i);
		}
		audit(w);
		if (acts)
			act(w);
		audit(w);
	}
}

Test(quota_random, nothing_is_granted_twice)
{
	uint64_t seed = dice_number("SEED", 1), rounds = dice_number("ROUNDS", 400);
	uint64_t granted = 0, refused = 0, lapsed = 0, left = 0;

	for (uint64_t round = 0; round < rounds; round++) {
		struct world w = { .dice = seed + round, .now = 1000 * SECOND };

		w.max = 1 + pick(&w, 40);
		see_claims(&w);
		run(&w, 2000, true);
		/* All die; their sessions end. */
		for (int i = 0; i < HOSTS; i++) {
			w.host[i].is_dead = true;
			while (w.host[i].used)
				end(&w, i);
		}
		w.others = 0;
		run(&w, 8 * (2 * TTL / SECOND), false);
		for (int i = 0; i < HOSTS; i++)
			cr_assert(!w.quota[i].sessions && !w.offer.published[i], "leaked");
		cr_assert_geq(w.offer.sessions + 2 * rsk_claims_reserve(w.max), w.max);
		granted += w.granted;
		refused += w.refused;
		lapsed += w.lapsed;
		left += w.left;
		rsk_claims_fini(&w.claims);
	}
	cr_assert(granted > rounds && refused > rounds && lapsed > rounds && left > rounds,
		  "%" PRIu64 " granted, %" PRIu64 " refused, %" PRIu64 " lapsed, %" PRIu64 " left",
		  granted, refused, lapsed, left);
}
