// SPDX-License-Identifier: BSD-2-Clause
/* segment.c - maps segments, and finds the sleepers to wake: see segment.h. */
#include "segment.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <rsock/sys.h>

int rsk_seg_geometry_check(const struct rsk_seg_geometry *g)
{
	if (g->streams < RSK_SEG_MIN_STREAMS || g->streams > RSK_SEG_STREAMS ||
	    (g->streams & (g->streams - 1)) || g->ring_bytes < RSK_SEG_MIN_RING ||
	    g->ring_bytes > RSK_SEG_MAX_RING || (g->ring_bytes & (g->ring_bytes - 1)))
		return -EPROTO;
	return g->bytes == rsk_seg_ring_off(g, g->streams) ? 0 : -EPROTO;
}

/* A process whose address space is limited gets the minimum. */
uint32_t rsk_seg_most_streams(uint32_t ring_bytes)
{
	struct rlimit lim = { .rlim_cur = RLIM_INFINITY };
	uint32_t n = RSK_SEG_MIN_STREAMS;

	getrlimit(RLIMIT_AS, &lim);
	while (lim.rlim_cur == RLIM_INFINITY && n < RSK_SEG_STREAMS &&
	       2ull * n * ring_bytes <= RSK_SEG_BYTES)
		n *= 2;
	return n;
}

int rsk_seg_map(int fd, const struct rsk_seg_geometry *g, uint64_t bytes, uint8_t **at)
{
	void *p = rsk_sys_mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	int rc;

	if (rsk_sys_is_err(p))
		return rsk_sys_ptr_err(p);
	rc = rsk_sys_mprotect(p, rsk_seg_ring_off(g, 0), PROT_READ | PROT_WRITE);
	if (rc < 0) {
		rsk_sys_munmap(p, bytes);
		return rc;
	}
	/*
	 * A fork child may have fewer privileges, so it gets none of the memory shared with a peer.
	 */
	rc = rsk_sys_madvise(p, bytes, MADV_DONTFORK);
	if (rc < 0) {
		rsk_sys_munmap(p, bytes);
		return rc;
	}
	*at = p;
	return 0;
}

int rsk_seg_reach(struct rsk_seg *seg, uint32_t sid)
{
	uint32_t from = atomic_load(&seg->reach);
	uint32_t to = (sid / RSK_SEG_REACH + 1) * RSK_SEG_REACH;
	const struct {
		uint8_t *at;
		const struct rsk_seg_geometry *g;
	} part[] = { { seg->rail.segment, &seg->own }, { seg->rail.window, &seg->peer } };

	if (sid < from)
		return 0;
	if (sid >= rsk_seg_streams(seg))
		return -EINVAL;
	for (size_t i = 0; i < 2; i++) {
		int rc = rsk_sys_mprotect(part[i].at + rsk_seg_ring_off(part[i].g, from),
					  (uint64_t)(to - from) * part[i].g->ring_bytes,
					  PROT_READ | PROT_WRITE);

		if (rc < 0)
			return rc;
	}
	atomic_store(&seg->reach, to);
	return 0;
}

void rsk_seg_hollow(const struct rsk_seg *seg)
{
	const struct {
		uint8_t *at;
		uint64_t bytes;
	} part[] = { { seg->rail.segment, seg->rail.segment_bytes },
		     { seg->rail.window, seg->rail.window_bytes } };

	for (size_t i = 0; i < 2; i++)
		if (part[i].at)
			rsk_sys_mmap(part[i].at, part[i].bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				     0);
}

static void drop(uint8_t *segment, const struct rsk_seg_geometry *g, uint32_t sid, uint32_t from)
{
	if (from < g->ring_bytes)
		rsk_sys_madvise(segment + rsk_seg_ring_off(g, sid) + from, g->ring_bytes - from,
				MADV_REMOVE);
}

void rsk_seg_drop_ring(const struct rsk_seg *seg, uint32_t sid, uint32_t bytes)
{
	drop(seg->rail.segment, &seg->own, sid, bytes);
}

void rsk_seg_drop_window(const struct rsk_seg *seg, uint32_t sid, uint32_t bytes)
{
	drop(seg->rail.window, &seg->peer, sid, bytes);
}

void rsk_seg_detach(struct rsk_seg *seg)
{
	if (seg->rail.segment)
		rsk_sys_munmap(seg->rail.segment, seg->rail.segment_bytes);
	if (seg->rail.window)
		rsk_sys_munmap(seg->rail.window, seg->rail.window_bytes);
	seg->rail.segment = NULL;
	seg->rail.window = NULL;
}

/* The bits are set before the sleepers are checked (both seq_cst). */
static uint64_t mark_ready(struct rsk_seg_head *head, uint32_t sid, uint64_t epolls)
{
	_Atomic(uint64_t) *word = &head->ready[sid / 64];
	uint64_t bit = 1ull << (sid % 64);
	_Atomic(uint64_t) *sum = &head->ready_sum[sid / RSK_SEG_SUM_STREAMS];
	uint64_t sum_bit = 1ull << (sid / 64 % 64);

	if (!(atomic_load(word) & bit))
		atomic_fetch_or(word, bit);
	if (!(atomic_load(sum) & sum_bit))
		atomic_fetch_or(sum, sum_bit);
	if (!(atomic_load(&head->asleep) & epolls))
		return 0;
	return atomic_fetch_and(&head->asleep, ~epolls) & epolls;
}

uint64_t rsk_seg_due(struct rsk_seg_head *head, uint32_t sid, uint32_t what)
{
	struct rsk_seg_ctl *ctl =
		(struct rsk_seg_ctl *)(void *)((uint8_t *)head + rsk_seg_ctl_off(sid));
	uint64_t doorbells = 0, epolls = 0;

	/*
	 * Pairs with the sleeper's fence between its announcement and its last check (models:
	 * sleep_wake).
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (what & RSK_WAKE_RX) {
		if (atomic_load_explicit(&ctl->want_rx, memory_order_relaxed))
			doorbells |= atomic_exchange(&ctl->want_rx, 0);
		epolls |= atomic_load_explicit(&ctl->epolls_rx, memory_order_relaxed);
	}
	if (what & RSK_WAKE_TX) {
		if (atomic_load_explicit(&ctl->want_tx, memory_order_relaxed))
			doorbells |= atomic_exchange(&ctl->want_tx, 0);
		if (atomic_load_explicit(&ctl->epolls_tx, memory_order_relaxed))
			epolls |= atomic_exchange(&ctl->epolls_tx, 0);
	}
	if (epolls)
		doorbells |= mark_ready(head, sid, epolls);
	return doorbells;
}

static _Atomic(uint64_t) *want_word(struct rsk_seg *seg, uint32_t sid, uint32_t what)
{
	struct rsk_seg_ctl *ctl = rsk_seg_own_ctl(seg, sid);

	return what == RSK_WAKE_RX ? &ctl->want_rx : &ctl->want_tx;
}

void rsk_seg_announce(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	for (uint32_t w = 1; w <= what; w <<= 1)
		if (what & w)
			atomic_fetch_or(want_word(seg, sid, w), 1ull << doorbell);
}

void rsk_seg_retract(struct rsk_seg *seg, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	/*
	 * The shared doorbell may be another sleeper's announcement too, so it stays until it is
	 * notified.
	 */
	if (doorbell == RSK_SEG_SHARED_DOORBELL)
		return;
	for (uint32_t w = 1; w <= what; w <<= 1)
		if (what & w)
			atomic_fetch_and(want_word(seg, sid, w), ~(1ull << doorbell));
}
