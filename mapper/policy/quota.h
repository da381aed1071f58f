/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota.h - a quota: sessions of a remote RNIC that this host holds in etcd ahead of need, so that
 * a decision need not wait. How many to want, and how many there are. rsockd's quota_take.c keeps
 * it; claims.h is the other end. Pure: the clock is passed in. One thread.
 */
#ifndef RSK_QUOTA_H
#define RSK_QUOTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So long after the last session was begun nothing is held ahead of need any more. */
#define RSK_QUOTA_IDLE_NS 10000000000ull

/* Times are of one clock that goes on in a suspend. All zero: nothing is held or used. */
struct rsk_quota {
	/* What etcd has for us at the least; and what it may have, where an answer was lost */
	uint64_t held, most;
	uint64_t used;	  /* our sessions there, whether the quota covers them or not */
	uint64_t busy_ns; /* when a session was begun last; 0: never */
};

/* A session begins or ends. */
void rsk_quota_begin(struct rsk_quota *q, uint64_t now_ns);
void rsk_quota_end(struct rsk_quota *q);

/* Whether a session may begin by the quota; @until_ns: until when the lease lets it be used. */
static inline bool rsk_quota_has_room(const struct rsk_quota *q, uint64_t now_ns, uint64_t until_ns)
{
	return now_ns < until_ns && q->used < q->held;
}

/*
 * How many sessions to hold, of @offered: those in use, and for a while after the last one began
 * some more; what is held, if that is near enough.
 */
uint64_t rsk_quota_wanted(const struct rsk_quota *q, uint64_t offered, uint64_t now_ns);

/* Of another host, as etcd has them at one revision; 0 where there is none. */
struct rsk_quota_claim {
	uint64_t quota, published;
};
/*
 * What is left of @offered beside these claims; but what was published as used by us, @published,
 * is ours anyway.
 */
uint64_t rsk_quota_available(uint64_t offered, uint64_t published,
			     const struct rsk_quota_claim *others, size_t n);
/* How many to write: @wanted, or what there is, but never less than is held now. */
uint64_t rsk_quota_grant(const struct rsk_quota *q, uint64_t wanted, uint64_t available);

/*
 * A transaction is about to write @sessions: if that is less than is held, the rest is not to be
 * used from now on. Where its answer is lost, or it was not executed, nothing is to be called.
 */
void rsk_quota_write(struct rsk_quota *q, uint64_t sessions);
/* etcd has so many for us, under the lease that is in use; 0: none. */
void rsk_quota_seen(struct rsk_quota *q, uint64_t sessions);

bool rsk_quota_validate(const struct rsk_quota *q);

#endif
