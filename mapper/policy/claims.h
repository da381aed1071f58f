/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * claims.h - what other hosts hold of the sessions of this node's RNICs, by quotas that they have
 * taken in etcd ahead of need (docs/adr/cluster.md, "The ledger of remote ports"), and what has to
 * be kept free for them. The ledger asks, and tells of each session of an AP; rsockd's quota folder
 * sets all the rest.
 *
 * For each RNIC, with a limit of sessions:
 *
 *	offered    so many sessions may be held by quotas in sum, as etcd has it
 *	claim of h the larger of h's quota and of what was published as used by h: etcd gives nobody
 *	           else what is in a claim
 *	covered    sum over all h of the smaller of use and claim, without what of the claim is not
 *	           sure: what is being published etcd may still give to others
 *	kept       the larger of what is offered, with all that is not sure, and the sum of the
 *	           claims; less what is covered
 *
 * A session that a quota covers takes place in any case. Another one does if it fits beside all
 * that is kept then. So whatever etcd gives to whom at any time, what is in use, and what may come
 * to use by quotas, fits in the limit (test/model/ledger.pml).
 *
 * Pure: no clock, no sockets. One thread.
 */
#ifndef RSK_CLAIMS_H
#define RSK_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_CLAIMS_RNICS 64u
#define RSK_CLAIMS_HOLDERS 1024u
#define RSK_CLAIMS_ADDRESSES 16u
#define RSK_CLAIMS_NONE UINT32_MAX

/* What the caller sets, all borrowed for the call. An address of two holders: the first has it. */
struct rsk_claims_holder {
	const char *name;
	const struct rsk_pm_addr *ips;
	size_t n_ips; /* at most RSK_CLAIMS_ADDRESSES */
};
struct rsk_claims_quota {
	uint32_t rnic, holder; /* indices in the two lists */
	uint64_t quota, published;
	uint64_t unsure; /* of what is published: so much may not be in etcd, yet or any more */
};
struct rsk_claims_set {
	const char *const *rnics;
	const uint64_t *offered; /* by RNIC */
	const struct rsk_claims_holder *holders;
	const struct rsk_claims_quota *quotas;
	size_t n_rnics, n_holders, n_quotas;
};

struct rsk_claim {
	uint64_t quota, published, unsure, used; /* unsure: at most published */
};

struct rsk_claims_rnic {
	char *name;	  /* owned */
	uint32_t account; /* in the ledger; RSK_CLAIMS_NONE: there is none of that name */
	uint64_t offered;
	uint64_t claimed, covered, unsure; /* sums over the claims */
	uint64_t named;			   /* sum of what holders use */
};

struct rsk_claims_address;

/* Owns everything. All zero: nothing is claimed. */
struct rsk_claims {
	struct rsk_claims_rnic *rnics;
	char **holders;		  /* names */
	struct rsk_claim *claims; /* by RNIC, then by holder */
	size_t n_rnics, n_holders;
	struct rsk_claims_address *addresses; /* uthash */
};

/* Replaces all but what is in use, which is 0. Returns 0, or -ENOMEM or -EINVAL: as before. */
int rsk_claims_replace(struct rsk_claims *c, const struct rsk_claims_set *set);
void rsk_claims_fini(struct rsk_claims *c);

/* Forgets what is in use; @find returns the account of an RNIC. The caller counts anew. */
void rsk_claims_bind(struct rsk_claims *c, uint32_t (*find)(void *ctx, const char *rnic),
		     void *ctx);

/* A session with a CP of that address at an RNIC of ours begins (@by 1) or ends (-1). */
void rsk_claims_book(struct rsk_claims *c, uint32_t account, uint8_t ipv,
		     const uint8_t cp_ip[static 16], int by);
/* How many sessions are to be kept free for claims at that RNIC. */
uint64_t rsk_claims_kept(const struct rsk_claims *c, uint32_t account);
/*
 * How many sessions are to be kept free beside one more with that CP, NULL: with nobody that has a
 * claim; 0 if a quota of the CP's host covers it.
 */
uint64_t rsk_claims_kept_beside(const struct rsk_claims *c, uint32_t account, uint8_t ipv,
				const uint8_t *cp_ip);

/* ---- what this node is to offer ---- */

/*
 * What is never offered, so that hosts without a quota, and this one, find room before etcd has
 * taken a smaller offer: an eighth of the limit; where that is little, 4, or half of the limit.
 */
static inline uint64_t rsk_claims_reserve(uint64_t max)
{
	if (max >= 32)
		return max / 8;
	return max / 2 < 4 ? max / 2 : 4;
}

enum rsk_claims_due {
	RSK_CLAIMS_FINE,
	RSK_CLAIMS_LATER, /* the offer in etcd could be better */
	RSK_CLAIMS_NOW,	  /* sessions may be refused until it is written */
};

struct rsk_claims_offer {
	uint64_t sessions;
	bool is_full; /* no session without a claim fits, whatever is offered */
};

/* What to offer at an RNIC (an index) with that limit, of which @booked are booked. */
struct rsk_claims_offer rsk_claims_next(const struct rsk_claims *c, size_t rnic, uint64_t booked,
					uint64_t max);
/* What to publish as used by a holder: at least what it uses, and no more than its claim. */
uint64_t rsk_claims_publish(const struct rsk_claim *claim, uint64_t max);
/* Whether the next offer should be written; @is_full: as the one in etcd says. */
enum rsk_claims_due rsk_claims_due(const struct rsk_claims *c, size_t rnic, uint64_t booked,
				   uint64_t max, bool is_full);

/* Index of an RNIC by name or account, or RSK_CLAIMS_NONE. */
uint32_t rsk_claims_find(const struct rsk_claims *c, const char *name);
static inline struct rsk_claim *rsk_claims_at(const struct rsk_claims *c, size_t rnic,
					      size_t holder)
{
	return &c->claims[rnic * c->n_holders + holder];
}

bool rsk_claims_validate(const struct rsk_claims *c);

#endif
