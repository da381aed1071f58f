/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_word.h - control words: the current state of one end of a direction, overwritten in place
 * in the peer's segment (layout: <rsock/slot.h>). Each word has one writer (under its tx or rx
 * lock) and one reader. A torn or stale copy fails its hash and is read again later. The hash is
 * enough to validate a copy, without a fence; the order with respect to a sleeping peer is the
 * business of the fabric's due(). Called by tx.h and rx.h.
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

/* Writes the hash of *m and puts it at @off of the peer's segment. Returns 0 or -errno. */
int rsk_control_word_put(struct rsk_rail *rail, uint64_t off, const struct rsk_key *key,
			 uint32_t role, struct rsk_control_word *m);

/* Cheap check: has the control word at @at changed since the one whose hash was @seen? */
static inline bool rsk_control_word_fresh(const struct rsk_control_word *at, uint64_t seen)
{
	return __atomic_load_n(&at->hash, __ATOMIC_ACQUIRE) != seen;
}

/* Copies the control word to *m. Returns whether the copy's hash is right. */
bool rsk_control_word_get(const struct rsk_control_word *at, const struct rsk_key *key,
			  uint32_t role, struct rsk_control_word *m);

/*
 * rsk_promotion_end - ends promotion @gen on behalf of @who, in the word @at that both ends may
 * write (<rsock/slot.h>). Returns true if @who ended it, false if the other end did so first. The
 * number of attempts is bounded: if a peer changes the word all the time, the peer counts as the
 * one that ended it. No lock, no system call.
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

/*
 * Returns whether the receiver has ended promotion @gen. It may not yet have said at which position
 * the sender continues by TCP.
 */
static inline bool rsk_promotion_ended_by_rx(const _Atomic(uint64_t) *at, uint32_t gen)
{
	return atomic_load(at) == ((uint64_t)gen << 2 | RSK_ENDED_BY_RX);
}

#endif
