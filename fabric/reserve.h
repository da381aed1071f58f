/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reserve.h - reservations of several measures (bandwidth, sessions, memory maps of an RNIC) on one ledger record, by
 * locked access (locked.h): all that a session needs or nothing, never above what there is, given back once. The
 * record's sums are what is reserved, its limits what there is, and each holder's share what that holder has reserved.
 *
 * What a holder that has died had reserved is given back by LEAVE, by whoever knows for sure that it is dead; that
 * makes a holder that was not dead find -ESTALE at its next operation, and it joins anew, with nothing.
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
#define RSK_RESERVE_MOST ((uint64_t)INT64_MAX) /* of a measure, at once */

/*
 * A step at the record that goes on until it is done or refused for a reason that will not pass by itself:
 * others' locks are waited for, and broken once they have not changed for @break_ns. Owned by the caller.
 */
struct rsk_reserve {
	struct rsk_locked op;
	uint64_t break_ns;
	/* its own */
	struct rsk_locked breaking;
	struct rsk_locked_watch watch;
	bool breaks;	 /* @breaking is what was issued last */
	uint32_t broken; /* locks */
};

/*
 * What to do, with @retries tries of the target's at a time; pure. take() and give() of amounts above RSK_RESERVE_MOST
 * are refused as such that cannot fit: -ENOSPC and -ERANGE, by rsk_reserve_next().
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
/* What is reserved above a new limit stays so. */
void rsk_reserve_limit(struct rsk_reserve *r, struct rsk_locker *by,
		       const uint64_t limit[static RSK_RESERVE_MEASURES], uint32_t retries,
		       uint64_t break_ns);

/*
 * After the operation that was issued for @r has come back with @rc (first: -EAGAIN): the one to issue now in
 * *issue, and 1; or the result, 0 or -errno of locked.h. Not -EBUSY: between two of them the caller may wait,
 * or give up, which leaves nothing behind. @now_ns: any monotonic clock. After a broken rail's errors it may
 * be called with -EAGAIN, to go on.
 */
int rsk_reserve_next(struct rsk_reserve *r, int rc, uint64_t now_ns, struct rsk_locked **issue);

/*
 * All of it on a rail where operations are done at once (shm), by the clock @now_ns. -EBUSY: @turns
 * operations did not do.
 */
int rsk_reserve_run(struct rsk_reserve *r, struct rsk_rail *rail, uint64_t (*now_ns)(void),
		    uint32_t turns);

/* As the last operation has left it. */
struct rsk_reserve_figures {
	uint64_t reserved[RSK_RESERVE_MEASURES], limit[RSK_RESERVE_MEASURES],
		own[RSK_RESERVE_MEASURES];
};
void rsk_reserve_figures(const struct rsk_locker *by, struct rsk_reserve_figures *out);

#endif
