/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_remotes.h - the RNICs of other hosts that the ledger in etcd knows: what their owners offer
 * (PREFIX/ledger/capacity/NODE/RNIC), what this host holds of them, and the sessions that it has
 * there. quota_take.c owns it. No clock, no sockets. One thread.
 *
 * An entry that is unreadable is listed, and otherwise as none: requests go there as without a
 * ledger, and nothing is held there.
 */
#ifndef RSK_QUOTA_REMOTES_H
#define RSK_QUOTA_REMOTES_H

#include "pm_hash.h"
#include "quota.h"
#include "quota_json.h"
#include "range_watch.h"

#define RSK_QUOTA_REMOTES_MOST 4096u

struct rsk_quota_remote {
	bool is_there; /* its key exists */
	bool is_own;   /* it is this node's */
	bool is_readable;
	struct rsk_quota_capacity offer; /* owned; all zero where there is none */
	struct rsk_quota q;
	uint64_t revision;
	uint32_t round;
	/* For quota_take.c: what is held has to be looked at; when, at the earliest; since when */
	bool is_to_look;
	uint64_t not_before_ns, looked_ns;
	/* Until then a transaction may be executed of which no answer has come; 0: none */
	uint64_t unsure_until_ns;
	unsigned int failures; /* in a row */
	UT_hash_handle hh;     /* by tail */
	size_t node_bytes;     /* of the tail: the part before '/' */
	size_t tail_bytes;
	char tail[]; /* NODE/RNIC, as in the key */
};

struct rsk_quota_place;
struct rsk_quota_session;

/* All zero but for the first two: empty. */
struct rsk_quota_remotes {
	const char *own; /* this node, as in keys; borrowed */
	size_t head;	 /* bytes with which all keys begin */
	struct rsk_quota_remote *remotes;
	struct rsk_quota_place *places;	    /* uthash: address, remote */
	struct rsk_quota_session *sessions; /* uthash: reservation, remote */
	size_t n_there;
	uint32_t round;
	bool is_full;	      /* something was left out since there is too much */
	bool has_free_places; /* an address was left: it may be another RNIC's now */
};

extern const struct rsk_range_table rsk_quota_remotes_watched;

void rsk_quota_remotes_fini(struct rsk_quota_remotes *t);

/* The RNIC of that address, of another node; NULL: none is known. */
struct rsk_quota_remote *rsk_quota_remotes_at(const struct rsk_quota_remotes *t, uint8_t ipv,
					      const uint8_t ip[static 16]);
/* Whether another RNIC of its node takes sessions without a quota. */
bool rsk_quota_remotes_spared(const struct rsk_quota_remotes *t, const struct rsk_quota_remote *r);

/*
 * A session there has that reservation of the policy agent. Returns 0, or -ENOMEM: it is not
 * counted. moved(), ended(): of a reservation that is not known: nothing.
 */
int rsk_quota_remotes_begin(struct rsk_quota_remotes *t, struct rsk_quota_remote *r,
			    uint64_t reservation, uint64_t now_ns);
void rsk_quota_remotes_moved(struct rsk_quota_remotes *t, uint64_t from, uint64_t to);
void rsk_quota_remotes_ended(struct rsk_quota_remotes *t, uint64_t reservation);

/* What the RNIC's owner has published as used by this host. */
uint64_t rsk_quota_remotes_published(const struct rsk_quota_remotes *t,
				     const struct rsk_quota_remote *r);
/*
 * Whether the quotas of this host can go at once: of each, what is in use was published by the
 * owner, so it counts when the quota is gone.
 */
bool rsk_quota_remotes_are_told(const struct rsk_quota_remotes *t);

/*
 * Frees remotes whose keys are gone, and where nothing is held or in use any more; gives addresses
 * that were left to others that tell them. To be called some ten times a second.
 */
void rsk_quota_remotes_sweep(struct rsk_quota_remotes *t);

bool rsk_quota_remotes_validate(const struct rsk_quota_remotes *t);

#endif
