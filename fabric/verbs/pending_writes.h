/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pending_writes.h - the pending writes of a stream: ranges of its ring and control words that were
 * put and not posted yet. Filled by put.c, emptied by flush.c. Pure.
 *
 * Slots follow each other in whole cells. So a range grows, and wraps once per lap: two ranges are
 * enough for all that a sender writes for one rail. If a link has several rails, each rail has
 * exactly the slots that were put by it: a slot that another rail wrote as well could arrive a
 * second time, late, over a newer slot. So ranges are exact, and there are few of them only because
 * a rail that makes no progress is not chosen again (rails.h).
 */
#ifndef RSK_PENDING_WRITES_H
#define RSK_PENDING_WRITES_H

#include <stdbool.h>
#include <stdint.h>

#define RSK_PENDING_RANGES 8u
#define RSK_PENDING_TX_WORD (1u << 0)
#define RSK_PENDING_RX_WORD (1u << 1)

/* One for each stream of a rail, under the rail's lock. All zero: nothing is pending. */
struct rsk_pending_writes {
	struct {
		uint32_t from, to; /* bytes [from, to) of the ring; @from is at a cell */
	} range[RSK_PENDING_RANGES];
	uint8_t ranges;
	uint8_t words; /* RSK_PENDING_*_WORD */
};

static inline bool rsk_pending_writes_any(const struct rsk_pending_writes *n)
{
	return n->ranges || n->words;
}

/*
 * Adds [off, off + len) of the ring. The caller checks that it is inside the ring, that @off is at
 * a cell and that @len is not 0. Returns false if there are too many ranges.
 */
bool rsk_pending_range(struct rsk_pending_writes *n, uint32_t off, uint32_t len);

/* Stores the first range; returns false if there is none. */
bool rsk_pending_writes_first(const struct rsk_pending_writes *n, uint32_t *off, uint32_t *len);

/*
 * Removes the first @len bytes of the first range, which were posted: whole cells, or the whole
 * range.
 */
void rsk_pending_writes_took(struct rsk_pending_writes *n, uint32_t len);

bool rsk_pending_writes_validate(const struct rsk_pending_writes *n, uint32_t ring_bytes);

#endif
