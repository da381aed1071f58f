/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_own.h - the owner's side of the ledger: what this node offers of each of its RNICs that has
 * a limit of sessions (PREFIX/ledger/capacity/NODE/RNIC, under the lease of its entry among the
 * members), and the claims of other hosts there, which the policy agent keeps free (claims.h).
 * quotas.c owns it. One thread.
 *
 * What is being written counts at once where it is more, and only when it is written where it is
 * less; so the claims are never less than what etcd may give. What sessions are covered by is the
 * other way round.
 */
#ifndef RSK_QUOTA_OWN_H
#define RSK_QUOTA_OWN_H

#include <event2/event.h>

#include "etcd.h"
#include "member.h"
#include "pma.h"
#include "quota_table.h"

#define RSK_QUOTA_OWN_COUNTERS(X)                                                                  \
	X(offers, "times that the offer of an RNIC was written")                                   \
	X(offer_failures, "times that the offer of an RNIC could not be written")                  \
	X(claims, "times that the claims of other hosts were made anew")

struct rsk_quota_own_counters {
#define X(name, text) uint64_t name;
	RSK_QUOTA_OWN_COUNTERS(X)
#undef X
};

/* An RNIC of this node. */
struct rsk_quota_rnic {
	char name[RSK_QUOTA_NAME];    /* in the configuration */
	char escaped[RSK_QUOTA_NAME]; /* in keys */
	char key[RSK_DOCUMENT_KEY + 2 * RSK_QUOTA_NAME + 32];
	/* As etcd has it; @text is owned, NULL: nothing was written yet, or it is not known what */
	char *text;
	struct rsk_quota_capacity told;
	uint64_t lease, revision; /* revision: of the key */
	/* As the call under way writes it */
	char *writing;
	struct rsk_quota_capacity telling;
	uint64_t writing_lease;
	uint64_t written_ns, paid_ns; /* paid_ns: of rsk_bucket_take() */
	uint64_t found;	 /* revision of an offer that counts, since it is not known what etcd has */
	bool is_unsure;	 /* a write got no answer: etcd may have less than is told */
	bool is_here;	 /* in the present configuration, with a limit */
	uint32_t number; /* in the claims that are being made */
	UT_hash_handle hh; /* by escaped */
	struct rsk_quota_rnic *next;
};

/* A holder whose addresses were seen; kept while it has a quota or sessions here. */
struct rsk_quota_known {
	struct rsk_quota_addresses at;
	uint32_t number; /* in the claims that are being made */
	bool is_here;	 /* it has a quota, or is published */
	UT_hash_handle hh;
	char name[RSK_QUOTA_NAME];
};

struct rsk_quota_own {
	struct rsk_etcd *etcd; /* borrowed, like the next two */
	struct rsk_pma *pma;
	const struct rsk_member *member;
	char node[RSK_QUOTA_NAME]; /* as in keys */
	char run[17];
	char capacity_head[RSK_DOCUMENT_KEY + RSK_QUOTA_NAME + 32];
	char quota_head[RSK_DOCUMENT_KEY + RSK_QUOTA_NAME + 32]; /* of this node's quotas */
	struct rsk_quota_table table;
	struct rsk_range_watch watch;
	struct rsk_quota_rnic *rnics;	   /* owned */
	struct rsk_quota_rnic *by_escaped; /* uthash of the same */
	struct rsk_quota_known *known;	   /* uthash, by name; owned */
	/* Claims that are to be made anew, and when they were last */
	struct event *due;
	bool is_due;
	uint64_t made_ns;
	struct rsk_quota_rnic *at; /* the one that the call writes */
	struct rsk_etcd_call *call;
	uint64_t hold_ns;
	/* When the table was true last: CLOCK_BOOTTIME; 0: never. Whether claims count */
	uint64_t heard_ns;
	bool is_claimed;
	uint64_t not_before_ns;
	unsigned int failures;
	bool is_told;
	struct rsk_quota_own_counters count;
};

/* @prefix is read in here only. 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_quota_own_open(struct rsk_quota_own *o, struct event_base *base, struct rsk_etcd *etcd,
		       struct rsk_pma *pma, const struct rsk_member *member, const char *prefix,
		       uint64_t hold_ns);
void rsk_quota_own_close(struct rsk_quota_own *o);

/* Writes offers that are due. To be called some ten times a second. */
void rsk_quota_own_tick(struct rsk_quota_own *o);

/*
 * etcd has that offer of an RNIC of ours, by its name in keys. It counts where this run has written
 * none yet, or does not know what it has written: hosts take quotas of it.
 */
void rsk_quota_own_found(struct rsk_quota_own *o, const char *rnic, uint64_t revision,
			 const struct rsk_quota_capacity *offer);

/* For an operator: a new list. */
json_t *rsk_quota_own_list(const struct rsk_quota_own *o);

#endif
