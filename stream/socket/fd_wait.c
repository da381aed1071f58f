// SPDX-License-Identifier: BSD-2-Clause
/* fd_wait.c - see fd_wait.h. */
#include <stdbool.h>
#include <stddef.h>

#include "link.h"
#include "fd_wait.h"
#include "stream.h"

#define FD_WAITS 256

/*
 * taken: set by the sleeper by compare-and-swap, acquire; given back by it, release. s: set by the
 * sleeper when the other fields are set, NULL once it is awake, under the lock; read by the closing
 * thread, then once more under the lock. refuge: set by the closing thread, under the lock,
 * release, before the doorbell; read by the sleeper after the doorbell, acquire.
 */
struct rsk_fd_wait {
	struct rsk_lock lock;
	_Atomic(uint32_t) taken;
	_Atomic(struct rsk_stream *) s;
	_Atomic(int) refuge;
	int fd;
	uint32_t doorbell;
	const void *sleeper; /* identifies the thread, also after a fork */
};

static struct rsk_fd_wait fd_waits[FD_WAITS];
static _Atomic(uint32_t) used; /* number of places ever taken, from the first; only grows */
/* place that this thread took last: most likely free again */
static __thread uint32_t taken_last;

static bool take(uint32_t i)
{
	uint32_t no = 0, seen;

	if (atomic_load_explicit(&fd_waits[i].taken, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong_explicit(&fd_waits[i].taken, &no, 1,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	seen = atomic_load_explicit(&used, memory_order_relaxed);
	while (seen <= i && !atomic_compare_exchange_weak(&used, &seen, i + 1))
		;
	taken_last = i;
	return true;
}

struct rsk_fd_wait *rsk_fd_wait_begin(struct rsk_stream *s, int fd, uint32_t doorbell)
{
	struct rsk_fd_wait *fd_wait = NULL;

	if (take(taken_last))
		fd_wait = &fd_waits[taken_last];
	for (uint32_t i = 0; i < FD_WAITS && !fd_wait; i++)
		if (take(i))
			fd_wait = &fd_waits[i];
	if (!fd_wait)
		return NULL;
	fd_wait->fd = fd;
	fd_wait->doorbell = doorbell;
	fd_wait->sleeper = &taken_last;
	atomic_store_explicit(&fd_wait->refuge, -1, memory_order_relaxed);
	atomic_store(&fd_wait->s, s);
	atomic_thread_fence(memory_order_seq_cst);
	return fd_wait;
}

int rsk_fd_wait_refuge(const struct rsk_fd_wait *fd_wait)
{
	return atomic_load_explicit(&fd_wait->refuge, memory_order_acquire);
}

int rsk_fd_wait_end(struct rsk_fd_wait *fd_wait)
{
	int refuge;

	rsk_lock(&fd_wait->lock);
	atomic_store(&fd_wait->s, NULL);
	refuge = rsk_fd_wait_refuge(fd_wait);
	rsk_unlock(&fd_wait->lock);
	atomic_store_explicit(&fd_wait->taken, 0, memory_order_release);
	return refuge;
}

static void disturb(struct rsk_fd_wait *fd_wait, struct rsk_stream *s, int fd, bool open)
{
	int copy;

	rsk_lock(&fd_wait->lock);
	if (atomic_load(&fd_wait->s) == s && fd_wait->fd == fd &&
	    rsk_fd_wait_refuge(fd_wait) == -1) {
		copy = open ? rsk_own_fd_copy(fd) : RSK_FD_WAIT_NOWHERE;
		atomic_store_explicit(&fd_wait->refuge, copy < 0 ? RSK_FD_WAIT_NOWHERE : copy,
				      memory_order_release);
		rsk_link_strike(s->link, UINT64_C(1) << fd_wait->doorbell);
	}
	rsk_unlock(&fd_wait->lock);
}

void rsk_fd_wait_disturb(struct rsk_stream *s, int fd, bool open)
{
	uint32_t n;

	atomic_thread_fence(memory_order_seq_cst);
	n = atomic_load(&used);
	for (uint32_t i = 0; i < n; i++)
		if (__builtin_expect(atomic_load(&fd_waits[i].s) == s, 0))
			disturb(&fd_waits[i], s, fd, open);
}

void rsk_fd_waits_forked(void)
{
	for (uint32_t i = 0; i < FD_WAITS; i++) {
		struct rsk_fd_wait *fd_wait = &fd_waits[i];

		if (!atomic_load(&fd_wait->taken) || fd_wait->sleeper == &taken_last)
			continue;
		if (atomic_load(&fd_wait->s))
			rsk_own_close(atomic_load(&fd_wait->refuge));
		atomic_store(&fd_wait->s, NULL);
		atomic_store(&fd_wait->lock.word, 0);
		atomic_store(&fd_wait->taken, 0);
	}
}
