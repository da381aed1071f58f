/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_take.h - the holder's side of the ledger: takes quotas of remote RNICs in etcd ahead of
 * need, and gives them back (PREFIX/ledger/quota/NODE/RNIC/HOLDER, under the lease of
 * quota_lease.h). quotas.c owns it. One thread.
 *
 * All quotas of the RNIC are read together with its owner's offer. Then a transaction writes ours,
 * which is executed only if since then none of these quotas was changed or made (one that has gone
 * only leaves more), the offer is the same, and this host still holds its name among the members.
 * So no sum of quotas is ever larger than what is offered.
 */
#ifndef RSK_QUOTA_TAKE_H
#define RSK_QUOTA_TAKE_H

#include "etcd.h"
#include "member.h"
#include "quota_lease.h"
#include "quota_remotes.h"

#define RSK_QUOTA_TAKE_COUNTERS(X)                                                                 \
	X(taken, "times that a quota was made larger")                                             \
	X(given, "times that a quota was made smaller")                                            \
	X(beaten, "quotas that were not written since another host was faster")                    \
	X(shortages, "times that there was less left of a remote RNIC than was wanted")            \
	X(failures, "times that a quota could not be read or written")

struct rsk_quota_take_counters {
#define X(name, text) uint64_t name;
	RSK_QUOTA_TAKE_COUNTERS(X)
#undef X
};

struct rsk_quota_take {
	struct rsk_etcd *etcd; /* borrowed, like the next two */
	struct rsk_quota_lease *lease;
	const struct rsk_member *member;
	char prefix[RSK_DOCUMENT_KEY];
	char node[RSK_QUOTA_NAME]; /* as in keys */
	char run[17];
	char capacity_head[RSK_DOCUMENT_KEY + 32];
	struct rsk_quota_remotes remotes;
	struct rsk_range_watch watch; /* of all offers */
	/* Addresses with which this host asks as CP: owners know it by them */
	struct rsk_quota_addresses at;
	/* One transaction at a time, about this RNIC */
	struct rsk_etcd_call *call;
	char tail[2 * RSK_QUOTA_NAME];
	uint64_t writing; /* sessions */
	uint64_t writing_lease;
	struct rsk_quota_take_counters count;
};

/* @prefix is read in here only. 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_quota_take_open(struct rsk_quota_take *t, struct event_base *base, struct rsk_etcd *etcd,
			struct rsk_quota_lease *lease, const struct rsk_member *member,
			const char *prefix);
void rsk_quota_take_close(struct rsk_quota_take *t);

/* Begins the next transaction that is due, if any. */
void rsk_quota_take_step(struct rsk_quota_take *t);
/* The lease is another one, or there is none. */
void rsk_quota_take_lapsed(struct rsk_quota_take *t);
/* This host asks as a CP with that address. */
void rsk_quota_take_address(struct rsk_quota_take *t, uint8_t ipv, const uint8_t ip[static 16]);

/* For an operator: a new list. */
json_t *rsk_quota_take_list(const struct rsk_quota_take *t);

#endif
