/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quotas.h - the ledger of remote ports, which the hosts of a cluster share by etcd: what this host
 * offers of its RNICs (quota_own.h), and what it holds of others' (quota_take.h). No decision waits
 * for etcd. Exists only where the configuration has the key "ledger". The core opens it; the http
 * folder reads it. Why it is as it is: docs/adr/cluster.md. One thread.
 */
#ifndef RSK_QUOTAS_H
#define RSK_QUOTAS_H

#include "cluster.h"
#include "quota_own.h"
#include "quota_take.h"

enum rsk_quotas_state {
	RSK_QUOTAS_STARTING, /* nothing is known yet */
	RSK_QUOTAS_SHARED,   /* as etcd has it */
	RSK_QUOTAS_HELD,     /* etcd is away: quotas are used for the configured time */
	RSK_QUOTAS_LOCAL,    /* that time is over: decisions are as without a ledger */
};

struct rsk_quotas_counters {
	uint64_t covered; /* questions of our CPs to hosts of the ledger: by a quota */
	uint64_t asked;	  /* and without one, which the other host has to decide */
	uint64_t spared;  /* and not sent, since the RNIC takes none */
};

struct rsk_quotas {
	struct rsk_quota_lease lease;
	struct rsk_quota_own own;
	struct rsk_quota_take take;
	struct event *timer;
	enum rsk_quotas_state state;
	uint64_t hold_ns;
	uint64_t heard_ns; /* when the offers were true last: CLOCK_BOOTTIME; 0: never */
	struct rsk_quotas_counters count;
};

/* @pma and @cluster are borrowed until close, and @conf is read in here only. NULL: no memory. */
struct rsk_quotas *rsk_quotas_open(struct event_base *base, const struct rsk_conf_cluster *conf,
				   struct rsk_pma *pma, struct rsk_cluster *cluster);
/* @q NULL: nothing. */
void rsk_quotas_close(struct rsk_quotas *q);

/*
 * At an orderly end: gives the quotas back, so that others need not wait for the end of the lease.
 * Only if what is in use of them was published, as far as is known: streams go on without the
 * daemon. True: @left is called, in some 200 ms at the latest. False: they stay until the end of
 * the lease.
 */
bool rsk_quotas_leave(struct rsk_quotas *q, void (*left)(void *ctx), void *ctx);

/*
 * A CP of this host is about to ask for a session with an AP, and has that reservation of the
 * policy agent. False: the AP's RNIC takes none, so nobody is to be asked, and nothing is counted.
 * @there: the session exists already. An address that the ledger does not know: true.
 */
bool rsk_quotas_begin(struct rsk_quotas *q, uint8_t ipv, const uint8_t cp_ip[static 16],
		      const uint8_t ap_ip[static 16], uint64_t reservation, bool there);
/* A reservation, of whatever side, has ended, or was replaced. */
void rsk_quotas_ended(struct rsk_quotas *q, uint64_t reservation);
void rsk_quotas_moved(struct rsk_quotas *q, uint64_t from, uint64_t to);

const char *rsk_quotas_state_name(enum rsk_quotas_state s);
/*
 * For an operator, a new reference: "state", "error" (of etcd, or null), "own" (RNICs of this node)
 * and "remote" (of others). NULL: no memory.
 */
json_t *rsk_quotas_list(const struct rsk_quotas *q);

#endif
