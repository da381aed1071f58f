/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reserve.h - reservations of several measures (bandwidth, sessions, memory maps of an RNIC) in one
 * ledger record, by locked access (locked.h): all that a session needs or nothing, never above the
 * limit, released once. The record's sums are what is reserved, its limits what there is, and each
 * holder's own amounts what that holder has reserved. port_table.c uses it.
 *
 * What a dead holder had reserved is released by LEAVE, called by an end that knows for sure that
 * it is dead. If the holder was not dead, its next operation returns -ESTALE, and it joins again,
 * with nothing reserved.
 */
#ifndef RSK_RESERVE_H
#define RSK_RESERVE_H

#include "locked.h"

enum rsk_reserve_measure {
	RSK_RESERVE_BPS,
	RSK_RESERVE_SESSIONS,
	RSK_RESERVE_MEMORY_MAPS,
	RSK_RESERVE_MEASURES
};
_Static_assert((unsigned)RSK_RESERVE_MEASURES == RSK_LOCKED_SHARES, "a share of each");

#define RSK_RESERVE_NO_LIMIT UINT64_MAX
#define RSK_RESERVE_MOST ((uint64_t)INT64_MAX) /* maximum of a measure in one call */

/*
 * An operation that goes on until it is done, or refused for a reason that will not pass by itself:
 * it waits for locks of others, and breaks them when they have not changed for @break_ns. Owned by
 * the caller.
 */
struct rsk_reserve {
	struct rsk_locked op;
	uint64_t break_ns;
	/* Private: */
	struct rsk_locked breaking;
	struct rsk_locked_watch watch;
	bool breaks;	 /* @breaking was issued last */
	uint32_t broken; /* number of locks broken */
};

/*
 * Prepare an operation, with @retries tries of the target at a time; pure. For amounts above
 * RSK_RESERVE_MOST rsk_reserve_next() returns -ENOSPC (take) or -ERANGE (give).
 */
void rsk_reserve_join(struct rsk_reserve *r, struct rsk_locker *by, uint32_t retries,
		      uint64_t break_ns);
void rsk_reserve_leave(struct rsk_reserve *r, struct rsk_locker *by, uint32_t who, uint32_t retries,
		       uint64_t break_ns);
void rsk_reserve_take(struct rsk_reserve *r, struct rsk_locker *by,
		      const uint64_t need[static RSK_RESERVE_MEASURES], uint32_t retries,
		      uint64_t break_ns);
void rsk_reserve_give(struct rsk_reserve *r, struct rsk_locker *by,
		      const uint64_t need[static RSK_RESERVE_MEASURES], uint32_t retries,
		      uint64_t break_ns);
/* Reservations above a new limit stay. */
void rsk_reserve_limit(struct rsk_reserve *r, struct rsk_locker *by,
		       const uint64_t limit[static RSK_RESERVE_MEASURES], uint32_t retries,
		       uint64_t break_ns);

/*
 * Called when the operation that was issued for @r has returned @rc (first: -EAGAIN). Returns 1 and
 * the operation to issue next in *issue; or the result, 0 or -errno of locked.h, but not -EBUSY.
 * Between two operations the caller may wait, or give up, which leaves nothing behind. @now_ns: any
 * monotonic clock. After an error of a broken rail it may be called with -EAGAIN, to go on.
 */
int rsk_reserve_next(struct rsk_reserve *r, int rc, uint64_t now_ns, struct rsk_locked **issue);

/*
 * Runs all of it on a rail where operations are done at once (shm), by the clock @now_ns. Returns
 * the result; -EBUSY: not done in @turns operations.
 */
int rsk_reserve_run(struct rsk_reserve *r, struct rsk_rail *rail, uint64_t (*now_ns)(void),
		    uint32_t turns);

/* The record as the last operation has left it. */
struct rsk_reserve_figures {
	uint64_t reserved[RSK_RESERVE_MEASURES], limit[RSK_RESERVE_MEASURES],
		own[RSK_RESERVE_MEASURES];
};
void rsk_reserve_figures(const struct rsk_locker *by, struct rsk_reserve_figures *out);

#endif
