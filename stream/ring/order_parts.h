/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order_parts.h - bitmaps of a ring's cells, shared by order.c (sender) and order_rx.c (receiver).
 * Only these two and the tests include it. The bit of a place is that of its cell. Ranges are of
 * places, and not longer than the ring; no function reads beyond the bitmap.
 */
#ifndef RSK_ORDER_PARTS_H
#define RSK_ORDER_PARTS_H

#include "order.h"

/*
 * Finds the part of [@begin, @end) that is in the same word as @begin's cell. Returns the bits;
 * *at: the index of the word; *next: the place after that part.
 */
static inline uint64_t rsk_order_part(uint32_t cells, uint64_t begin, uint64_t end, uint32_t *at,
				      uint64_t *next)
{
	uint64_t stop = (begin | 63) + 1;
	uint32_t shift = begin & 63, n;

	if (stop > end)
		stop = end;
	n = (uint32_t)(stop - begin);
	*at = (uint32_t)(begin & (cells - 1)) / 64;
	*next = stop;
	return (n == 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1) << shift;
}

/* The number of bits set in [@begin, @end). */
static inline uint32_t rsk_order_count(const uint64_t *bits, uint32_t cells, uint64_t begin,
				       uint64_t end)
{
	uint32_t at, n = 0;

	while (begin < end) {
		uint64_t mask = rsk_order_part(cells, begin, end, &at, &begin);

		if (bits[at] & mask)
			n += (uint32_t)__builtin_popcountll(bits[at] & mask);
	}
	return n;
}

static inline void rsk_order_set(uint64_t *bits, uint32_t cells, uint64_t begin, uint64_t end)
{
	uint32_t at;

	while (begin < end) {
		uint64_t mask = rsk_order_part(cells, begin, end, &at, &begin);

		bits[at] |= mask;
	}
}

static inline void rsk_order_clear(uint64_t *bits, uint32_t cells, uint64_t begin, uint64_t end)
{
	uint32_t at;

	while (begin < end) {
		uint64_t mask = rsk_order_part(cells, begin, end, &at, &begin);

		bits[at] &= ~mask;
	}
}

/* The first place of [@begin, @end) whose bit equals @set; @end: none. */
static inline uint64_t rsk_order_find(const uint64_t *bits, uint32_t cells, uint64_t begin,
				      uint64_t end, bool set)
{
	uint32_t at;

	while (begin < end) {
		uint64_t next, from = begin;
		uint64_t mask = rsk_order_part(cells, begin, end, &at, &next);
		uint64_t found = (set ? bits[at] : ~bits[at]) & mask;

		if (found)
			return (from & ~UINT64_C(63)) + (uint64_t)__builtin_ctzll(found);
		begin = next;
	}
	return end;
}

/* Can a packet of @n cells be at @place of a ring at all? It never wraps around the ring's end. */
static inline bool rsk_order_fits(uint32_t cells, uint64_t place, uint32_t n)
{
	return n && n <= cells && (place & (cells - 1)) + n <= cells && place <= UINT64_MAX / 2;
}

/* rsk_order_rx_see() without its fast path for packets in order. */
int rsk_order_rx_see_any(struct rsk_order_rx *rx, uint16_t tag, uint64_t place, uint32_t cells,
			 struct rsk_order_seen *seen);

/* Returns 0, -EINVAL or -ERANGE, as rsk_order_tx_init(). */
int rsk_order_setup_check(const struct rsk_order_setup *setup);

#endif
