// SPDX-License-Identifier: BSD-2-Clause
/* nap.c - see nap.h. */
#include <stdbool.h>
#include <stddef.h>

#include "link.h"
#include "nap.h"
#include "stream.h"

#define NAPS 256

/*
 * taken: by who sleeps, compare-and-swap, acquire; given back by it, release. s: set by who
 * sleeps when the rest is there, NULL when it is up, under the lock; looked at by who closes,
 * then once more under the lock. refuge: by who closes, under the lock, release, before the bell;
 * acquire by who sleeps, behind the bell.
 */
struct rsk_nap {
	struct rsk_lock lock;
	_Atomic(uint32_t) taken;
	_Atomic(struct rsk_stream *) s;
	_Atomic(int) refuge;
	int fd;
	uint32_t bell;
	const void *sleeper; /* what is the thread's own, also behind a fork */
};

static struct rsk_nap naps[NAPS];
static _Atomic(uint32_t) used;	     /* so many of the first were ever taken; only grows */
static __thread uint32_t taken_last; /* by this thread: most likely free again */

static bool take(uint32_t i)
{
	uint32_t no = 0, seen;

	if (atomic_load_explicit(&naps[i].taken, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong_explicit(&naps[i].taken, &no, 1, memory_order_acquire,
						     memory_order_relaxed))
		return false;
	seen = atomic_load_explicit(&used, memory_order_relaxed);
	while (seen <= i && !atomic_compare_exchange_weak(&used, &seen, i + 1))
		;
	taken_last = i;
	return true;
}

struct rsk_nap *rsk_nap_begin(struct rsk_stream *s, int fd, uint32_t bell)
{
	struct rsk_nap *nap = NULL;

	if (take(taken_last))
		nap = &naps[taken_last];
	for (uint32_t i = 0; i < NAPS && !nap; i++)
		if (take(i))
			nap = &naps[i];
	if (!nap)
		return NULL;
	nap->fd = fd;
	nap->bell = bell;
	nap->sleeper = &taken_last;
	atomic_store_explicit(&nap->refuge, -1, memory_order_relaxed);
	atomic_store(&nap->s, s);
	atomic_thread_fence(memory_order_seq_cst);
	return nap;
}

int rsk_nap_refuge(const struct rsk_nap *nap)
{
	return atomic_load_explicit(&nap->refuge, memory_order_acquire);
}

int rsk_nap_end(struct rsk_nap *nap)
{
	int refuge;

	rsk_lock(&nap->lock);
	atomic_store(&nap->s, NULL);
	refuge = rsk_nap_refuge(nap);
	rsk_unlock(&nap->lock);
	atomic_store_explicit(&nap->taken, 0, memory_order_release);
	return refuge;
}

static void disturb(struct rsk_nap *nap, struct rsk_stream *s, int fd, bool open)
{
	int copy;

	rsk_lock(&nap->lock);
	if (atomic_load(&nap->s) == s && nap->fd == fd && rsk_nap_refuge(nap) == -1) {
		copy = open ? rsk_own_fd_copy(fd) : RSK_NAP_NOWHERE;
		atomic_store_explicit(&nap->refuge, copy < 0 ? RSK_NAP_NOWHERE : copy,
				      memory_order_release);
		rsk_link_strike(s->link, UINT64_C(1) << nap->bell);
	}
	rsk_unlock(&nap->lock);
}

void rsk_nap_disturb(struct rsk_stream *s, int fd, bool open)
{
	uint32_t n;

	atomic_thread_fence(memory_order_seq_cst);
	n = atomic_load(&used);
	for (uint32_t i = 0; i < n; i++)
		if (__builtin_expect(atomic_load(&naps[i].s) == s, 0))
			disturb(&naps[i], s, fd, open);
}

void rsk_naps_forked(void)
{
	for (uint32_t i = 0; i < NAPS; i++) {
		struct rsk_nap *nap = &naps[i];

		if (!atomic_load(&nap->taken) || nap->sleeper == &taken_last)
			continue;
		if (atomic_load(&nap->s))
			rsk_own_close(atomic_load(&nap->refuge));
		atomic_store(&nap->s, NULL);
		atomic_store(&nap->lock.word, 0);
		atomic_store(&nap->taken, 0);
	}
}
