/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * indirect.h - what travels in a rail's indirect buffer: cells of any stream's ring, each run of them behind an entry
 * that says whose they are; and, in the same way, words of the other end's keeper (control_msgs.h). Pure.
 *
 * The buffer is a ring of units of 64 bytes; an entry is one unit, its cells follow, never around the end. Positions
 * count units and never wrap: that of an entry stands in it. How many units a message has brought is said by its
 * immediate, so that nothing is looked at before it has arrived; what is there may still be anything at any time.
 */
#ifndef RSK_VERBS_INDIRECT_H
#define RSK_VERBS_INDIRECT_H

#include <stdint.h>

#include <rsock/slot.h>

#define RSK_INDIRECT_UNITS 256u
#define RSK_INDIRECT_BYTES (RSK_INDIRECT_UNITS * RSK_CELL_BYTES)
#define RSK_INDIRECT_WORDS UINT32_MAX /* no stream's, but of a word, in which @off is */
#define RSK_INDIRECT_WORD_BYTES 640u

struct rsk_indirect_entry {
	uint64_t at; /* its position */
	uint32_t sid;
	uint32_t off;	/* in the stream's ring, at a cell */
	uint32_t bytes; /* whole cells; 0: goes on at the buffer's start */
	uint32_t zero;
	uint8_t pad[40];
};
_Static_assert(sizeof(struct rsk_indirect_entry) == RSK_CELL_BYTES, "an entry is a unit");

static inline uint32_t rsk_indirect_place(uint64_t at)
{
	return (uint32_t)(at % RSK_INDIRECT_UNITS) * RSK_CELL_BYTES;
}

/*
 * rsk_indirect_put - write an entry at @at of @buf, of which @room units are free, with as many of the cells at @src,
 * which stand at @off of @sid's ring, as fit: *bytes, in: how many there are, out: how many went (0: the entry only
 * ends the lap). Units, 0: no room.
 */
uint32_t rsk_indirect_put(uint8_t *buf, uint64_t at, uint32_t room, uint32_t sid, uint32_t off,
			  const uint8_t *src, uint32_t *bytes);

/*
 * rsk_indirect_take - the entry at @at, from a peer that may be hostile: *e is a copy, checked: its cells, which
 * follow it in @buf, lie within a ring of @ring_bytes of one of @streams, or within a word. @avail units have come.
 * Units, or -EPROTO.
 */
int rsk_indirect_take(const uint8_t *buf, uint64_t at, uint32_t avail, uint32_t streams,
		      uint32_t ring_bytes, struct rsk_indirect_entry *e);

#endif
