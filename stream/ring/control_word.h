/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_word.h - the newest word of one end of a direction, overwritten in place (layout: <rsock/slot.h>).
 * One writer (under its tx or rx lock), one reader; torn or stale copies fail their hash and are read again
 * later. No fence is needed for belief; ordering against sleep is the fabric's due().
 */
#ifndef RSK_CONTROL_WORD_H
#define RSK_CONTROL_WORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fabric.h"
#include "hash.h"

#define RSK_CONTROL_WORD_TX 0u
#define RSK_CONTROL_WORD_RX 1u

/* Seal *m and put it at @off of the peer's segment. Returns 0 or -errno. */
int rsk_control_word_put(struct rsk_rail *rail, uint64_t off, const struct rsk_key *key,
			 uint32_t role, struct rsk_control_word *m);

/* Cheap: has the mail at @at changed since the one whose hash was @seen? */
static inline bool rsk_control_word_fresh(const struct rsk_control_word *at, uint64_t seen)
{
	return __atomic_load_n(&at->hash, __ATOMIC_ACQUIRE) != seen;
}

/* Copy the mail out; true when the copy's hash is right. */
bool rsk_control_word_get(const struct rsk_control_word *at, const struct rsk_key *key,
			  uint32_t role, struct rsk_control_word *m);

/*
 * rsk_promotion_end - @who ends promotion @gen, in the word @at that both ends may write (<rsock/slot.h>). Returns
 * whether it was @who; else the other one came first. Bounded: where a peer changes the word all the time, it was the
 * peer. No lock, no system call.
 */
static inline bool rsk_promotion_end(_Atomic(uint64_t) *at, uint32_t gen,
				     enum rsk_promotion_ender who)
{
	uint64_t is = atomic_load(at), mine = (uint64_t)gen << 2 | who;

	for (int tries = 0; tries < 4; tries++) {
		if (is >> 2 == gen)
			return is == mine;
		if (atomic_compare_exchange_strong(at, &is, mine))
			return true;
	}
	return false;
}

/* Has the receiver ended it, and perhaps not said yet from where it is to be gone on? */
static inline bool rsk_promotion_ended_by_rx(const _Atomic(uint64_t) *at, uint32_t gen)
{
	return atomic_load(at) == ((uint64_t)gen << 2 | RSK_ENDED_BY_RX);
}

#endif
