/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota_lease.h - the lease of this host's quotas. It lasts for twice the time "hold", and quotas
 * are used only until "hold" after the last answer of etcd was asked for: when etcd gives them to
 * others, this host has not used them for as long again, and the owners have had that time to
 * publish what is in use. The clock is CLOCK_BOOTTIME: of a process that was stopped, or a host
 * that was suspended, no quota is valid. quotas.c owns it. One thread.
 */
#ifndef RSK_QUOTA_LEASE_H
#define RSK_QUOTA_LEASE_H

#include <event2/event.h>

#include "etcd.h"

#define RSK_QUOTA_LEASE_COUNTERS(X)                                                                \
	X(grants, "leases for quotas that etcd has granted")                                       \
	X(renewals, "times that the lease of the quotas was kept alive")                           \
	X(lapses, "leases of quotas that etcd did not know any more")

struct rsk_quota_lease_counters {
#define X(name, text) uint64_t name;
	RSK_QUOTA_LEASE_COUNTERS(X)
#undef X
};

struct rsk_quota_lease {
	struct rsk_etcd *etcd; /* borrowed */
	uint64_t hold_ns;
	struct rsk_etcd_call *call; /* the timer is set only without one */
	struct event *timer;
	uint64_t begun_ns; /* when that call began: CLOCK_BOOTTIME, like the next two */
	uint64_t until_ns; /* until when quotas are valid */
	uint64_t renew_ns;
	uint64_t lease; /* 0: there is none */
	unsigned int failures;
	/* There is another lease, or none any more: etcd has no quota of ours under this one */
	void (*changed)(void *ctx);
	void *ctx;
	bool is_leaving;
	void (*left)(void *ctx); /* of leave() */
	void *left_ctx;
	char why[512]; /* empty: nothing is wrong; printable ASCII */
	struct rsk_quota_lease_counters count;
};

/* CLOCK_BOOTTIME in nanoseconds. */
uint64_t rsk_quota_now_ns(void);

/* Starts to ask for a lease. Returns 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_quota_lease_open(struct rsk_quota_lease *l, struct event_base *base, struct rsk_etcd *etcd,
			 uint64_t hold_ns, void (*changed)(void *ctx), void *ctx);
void rsk_quota_lease_close(struct rsk_quota_lease *l);

/*
 * Revokes the lease, so that others need not wait for its end; no quota is valid from now on. True:
 * @left is called, in some 200 ms at the latest. False: there is nothing to revoke, or etcd is not
 * reached, and all is as before. After true nothing but close() may be called.
 */
bool rsk_quota_lease_leave(struct rsk_quota_lease *l, void (*left)(void *ctx), void *ctx);

/* A call has said that etcd does not know the lease: looks at once. */
void rsk_quota_lease_look(struct rsk_quota_lease *l);

static inline bool rsk_quota_lease_is_valid(const struct rsk_quota_lease *l, uint64_t now_ns)
{
	return l->lease && now_ns < l->until_ns;
}

#endif
