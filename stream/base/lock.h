/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lock.h - a small futex lock, in memory that a fork copies. It holds the owner's thread id, so
 * that a waiter can tell a dead owner from a slow one. Taking it enters a signal-deferred section
 * (sigdefer.h), dropping it leaves the section. It is never held while sleeping on anything but
 * another such lock; lock order: docs/locks.md.
 *
 * word: 0 free; tid; tid | RSK_LOCK_WAITERS. Acquire on take, release on drop.
 */
#ifndef RSK_LOCK_H
#define RSK_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sigdefer.h"

#define RSK_LOCK_WAITERS 0x80000000u

struct rsk_lock {
	_Atomic(uint32_t) word;
};

/* 0: not known yet, or this thread came through fork. */
extern __thread uint32_t rsk_tid;

uint32_t rsk_tid_fill(void);
bool rsk_lock_slow(struct rsk_lock *l, uint32_t tid);
void rsk_unlock_slow(struct rsk_lock *l);

/*
 * Takes the lock. Returns false; true if the last owner died while holding it: the data may be half
 * changed and must be recovered.
 */
static inline bool rsk_lock(struct rsk_lock *l)
{
	uint32_t free = 0, tid = rsk_tid;

	rsk_sigdefer_enter();
	if (__builtin_expect(!tid, 0))
		tid = rsk_tid_fill();
	if (atomic_compare_exchange_strong_explicit(&l->word, &free, tid, memory_order_acquire,
						    memory_order_relaxed))
		return false;
	return rsk_lock_slow(l, tid);
}

/* Takes the lock if it is free. Returns whether it did. */
static inline bool rsk_trylock(struct rsk_lock *l)
{
	uint32_t free = 0, tid = rsk_tid;

	rsk_sigdefer_enter();
	if (!tid)
		tid = rsk_tid_fill();
	if (atomic_compare_exchange_strong_explicit(&l->word, &free, tid, memory_order_acquire,
						    memory_order_relaxed))
		return true;
	rsk_sigdefer_exit();
	return false;
}

/* Whether this thread holds the lock. */
static inline bool rsk_lock_mine(const struct rsk_lock *l)
{
	uint32_t tid = rsk_tid;

	return tid &&
	       (atomic_load_explicit(&l->word, memory_order_relaxed) & ~RSK_LOCK_WAITERS) == tid;
}

/* Drops the lock, and wakes one waiter if there is any. */
static inline void rsk_unlock(struct rsk_lock *l)
{
	uint32_t tid = rsk_tid;

	if (!atomic_compare_exchange_strong_explicit(&l->word, &tid, 0, memory_order_release,
						     memory_order_relaxed))
		rsk_unlock_slow(l);
	rsk_sigdefer_exit();
}

#endif
