/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pending_writes.h - what was put for a stream and has not been posted yet: ranges of its ring, and its mails. Pure.
 *
 * Slots follow each other in whole cells, so that a range grows, and wraps once in a lap: two ranges are enough for
 * all that a sender composes for one rail. Where a stream has several, each has the slots that were put by it, and no
 * other: one that was put by another rail as well could land once more, late, where a newer one lies by then. So ranges
 * are exact, and there are few of them only because a rail that does not go on is not chosen again (rails.h).
 */
#ifndef RSK_PENDING_WRITES_H
#define RSK_PENDING_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#define RSK_PENDING_RANGES 8u
#define RSK_PENDING_TX_WORD (1u << 0)
#define RSK_PENDING_RX_WORD (1u << 1)

/* Owner: the rail's stream, under the rail's lock. All zero: nothing. */
struct rsk_pending_writes {
	struct {
		uint32_t from, to; /* bytes in the ring: [from, to); from at a cell */
	} range[RSK_PENDING_RANGES];
	uint8_t ranges;
	uint8_t words; /* RSK_PENDING_*MAIL */
};

static inline bool rsk_pending_writes_any(const struct rsk_pending_writes *n)
{
	return n->ranges || n->words;
}

/* [off, off + len) of the ring: within it, off at a cell, len not 0. False: it would be a range too many. */
bool rsk_pending_range(struct rsk_pending_writes *n, uint32_t off, uint32_t len);

/* The first range; false: none. */
bool rsk_pending_writes_first(const struct rsk_pending_writes *n, uint32_t *off, uint32_t *len);

/* The first @len bytes of the first range are posted: whole cells, or all of it. */
void rsk_pending_writes_took(struct rsk_pending_writes *n, uint32_t len);

bool rsk_pending_writes_validate(const struct rsk_pending_writes *n, uint32_t ring_bytes);

#endif
