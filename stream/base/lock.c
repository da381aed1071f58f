// SPDX-License-Identifier: BSD-2-Clause
/* lock.c - the contended paths of lock.h. */
#include "lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <time.h>

#include <rsock/sys.h>

#include "cpu.h"

__thread uint32_t rsk_tid;

uint32_t rsk_tid_fill(void)
{
	rsk_tid = (uint32_t)rsk_sys_gettid();
	return rsk_tid;
}

/*
 * How long a waiter sleeps before it checks whether the owner is alive. Wake-ups do not depend on
 * it.
 */
#define OWNER_CHECK_NS 20000000
#define SPINS_BEFORE_SLEEP 100

bool rsk_lock_slow(struct rsk_lock *l, uint32_t tid)
{
	const struct timespec check = { .tv_nsec = OWNER_CHECK_NS };
	int spins = SPINS_BEFORE_SLEEP;

	for (;;) {
		uint32_t seen = atomic_load_explicit(&l->word, memory_order_relaxed);
		uint32_t owner = seen & ~RSK_LOCK_WAITERS;

		if (!seen) {
			/*
			 * Others may sleep: keep the waiters bit, since one superfluous wake does
			 * no harm.
			 */
			if (atomic_compare_exchange_strong_explicit(&l->word, &seen,
								    tid | RSK_LOCK_WAITERS,
								    memory_order_acquire,
								    memory_order_relaxed))
				return false;
			continue;
		}
		if (spins > 0) {
			spins--;
			rsk_pause();
			continue;
		}
		if (!(seen & RSK_LOCK_WAITERS) &&
		    !atomic_compare_exchange_strong_explicit(&l->word, &seen,
							     seen | RSK_LOCK_WAITERS,
							     memory_order_relaxed,
							     memory_order_relaxed))
			continue;
		if (rsk_sys_futex((uint32_t *)&l->word, FUTEX_WAIT, owner | RSK_LOCK_WAITERS,
				  &check, NULL, 0) == -ETIMEDOUT &&
		    rsk_sys_kill((pid_t)owner, 0) == -ESRCH) {
			seen = owner | RSK_LOCK_WAITERS;
			if (atomic_compare_exchange_strong_explicit(&l->word, &seen,
								    tid | RSK_LOCK_WAITERS,
								    memory_order_acquire,
								    memory_order_relaxed))
				return true;
		}
	}
}

void rsk_unlock_slow(struct rsk_lock *l)
{
	atomic_store_explicit(&l->word, 0, memory_order_release);
	rsk_sys_futex((uint32_t *)&l->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}
