// SPDX-License-Identifier: BSD-2-Clause
/* stats_busy.c - see stats_busy.h. */
#include "stats_busy.h"

/*
 * A window of this many records is reused in turn as long as half of them are free; only then the
 * next window is used. So short streams, one after the other, find records that are still in the
 * processor's cache.
 */
#define WINDOW 256u
_Static_assert(RSK_STATS_STREAMS % WINDOW == 0 && WINDOW % 64 == 0, "whole windows of whole words");

/* Returns where the search continues when it has reached the @end of a window. */
static __attribute__((noinline)) uint32_t window_next(struct rsk_stats_header *h, uint32_t end)
{
	unsigned int busy = 0;

	for (uint32_t w = (end - WINDOW) / 64; w < end / 64; w++)
		busy += (unsigned int)__builtin_popcountll(
			__atomic_load_n(&h->busy[w], __ATOMIC_RELAXED));
	return busy <= WINDOW / 2 ? end - WINDOW : end % RSK_STATS_STREAMS;
}

/* Sets the cursor after @number was taken: to the next record, or to the start of the window. */
static inline void cursor_set(struct rsk_stats_header *h, uint32_t number)
{
	uint32_t next = number + 1;

	if (__builtin_expect(next % WINDOW == 0, 0))
		next = window_next(h, next);
	__atomic_store_n(&h->cursor, next, __ATOMIC_RELAXED);
}

/* Takes the next free bit at or after @start. Returns the record's number or -1. */
static __attribute__((noinline)) int busy_search(struct rsk_stats_header *h, uint32_t start)
{
	const unsigned int words = RSK_STATS_STREAMS / 64;

	/* One more round than there are words: the first word is checked in two parts. */
	for (unsigned int i = 0; i <= words; i++) {
		unsigned int w = (start / 64 + i) % words;
		uint64_t mask = UINT64_MAX;

		if (i == 0)
			mask <<= start % 64;
		else if (i == words)
			mask = ~(UINT64_MAX << start % 64);
		for (;;) {
			uint64_t busy = __atomic_load_n(&h->busy[w], __ATOMIC_RELAXED);
			uint64_t free = ~busy & mask;
			unsigned int bit;

			if (!free)
				break;
			bit = (unsigned int)__builtin_ctzll(free);
			if (__atomic_fetch_or(&h->busy[w], UINT64_C(1) << bit, __ATOMIC_ACQ_REL) >>
				    bit &
			    1) {
				/*
				 * Another process took it: skip it, so that no process can keep us
				 * in this loop with it.
				 */
				mask &= ~(UINT64_C(1) << bit);
				continue;
			}
			cursor_set(h, w * 64 + bit);
			return (int)(w * 64 + bit);
		}
	}
	return -1;
}

/* Starts at the cursor. */
int rsk_stats_busy_take(struct rsk_stats_header *h)
{
	uint32_t start = __atomic_load_n(&h->cursor, __ATOMIC_RELAXED) % RSK_STATS_STREAMS;
	uint64_t next = UINT64_C(1) << start % 64, *at = &h->busy[start / 64];

	/* The usual case: the record at the cursor is free. */
	if (__builtin_expect((__atomic_load_n(at, __ATOMIC_RELAXED) & next) ||
				     (__atomic_fetch_or(at, next, __ATOMIC_ACQ_REL) & next),
			     0))
		return busy_search(h, start);
	cursor_set(h, start);
	return (int)start;
}

void rsk_stats_busy_drop(struct rsk_stats_header *h, unsigned int number)
{
	__atomic_fetch_and(&h->busy[number / 64], ~(UINT64_C(1) << number % 64), __ATOMIC_ACQ_REL);
}
