/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * by_time.h - waits without a doorbell: no descriptor is left to make one, or RLIMIT_NOFILE is
 * lower than the number of descriptors that ppoll() would get. The wait sleeps for
 * RSK_BY_TIME_NS at a time and checks the rings between. wait.c and poll.c use it.
 *
 * A signal between two sleeps has to end the call, as one in the kernel's does: all but faults are
 * blocked from begin to end, and stay pending until the next sleep, which has the thread's own
 * mask.
 */
#ifndef RSK_BY_TIME_H
#define RSK_BY_TIME_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_BY_TIME_NS 1000000u

struct rsk_by_time {
	bool on;       /* false at first; no other field need be set */
	uint64_t mask; /* of the thread, before; in the kernel's form */
};

void rsk_by_time_begin(struct rsk_by_time *t);
void rsk_by_time_restore(struct rsk_by_time *t);
const sigset_t *rsk_by_time_fill(const struct rsk_by_time *t, sigset_t *set);

/* Gives the thread its mask back. Idempotent. */
static inline void rsk_by_time_end(struct rsk_by_time *t)
{
	if (__builtin_expect(t->on, 0))
		rsk_by_time_restore(t);
}

/* The mask for the next sleep, in *@set; NULL: the thread's is right as it is. */
static inline const sigset_t *rsk_by_time_mask(const struct rsk_by_time *t, sigset_t *set)
{
	return __builtin_expect(t->on, 0) ? rsk_by_time_fill(t, set) : NULL;
}

/* The end of the next sleep, of one that may last until @until_ns. */
uint64_t rsk_by_time_check(uint64_t until_ns);

#endif
