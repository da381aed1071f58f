/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * indirect.h - format of a rail's indirect buffer. It carries cells of any stream's ring, each run
 * behind an entry that names the stream, and in the same way control messages of the peer's
 * progress thread (control_msgs.h). Used by flush.c (sender) and poll.c (receiver). Pure.
 *
 * The buffer is a ring of units of 64 bytes. An entry takes one unit and its cells follow it; a run
 * never wraps around the end. Positions count units and never wrap; each entry contains its own
 * position. The immediate of a message says how many units the message has brought, so that the
 * receiver reads nothing that has not arrived. The peer may change the content at any time.
 */
#ifndef RSK_VERBS_INDIRECT_H
#define RSK_VERBS_INDIRECT_H

#include <stdint.h>

#include <rsock/slot.h>

#define RSK_INDIRECT_UNITS 256u
#define RSK_INDIRECT_BYTES (RSK_INDIRECT_UNITS * RSK_CELL_BYTES)
/*
 * A value of @sid that is no stream's: the entry carries a piece of a control message, and @off is
 * the offset in the message
 */
#define RSK_INDIRECT_WORDS UINT32_MAX
#define RSK_INDIRECT_WORD_BYTES 640u

struct rsk_indirect_entry {
	uint64_t at; /* position of this entry */
	uint32_t sid;
	uint32_t off;	/* offset in the stream's ring, a multiple of RSK_CELL_BYTES */
	uint32_t bytes; /* a multiple of RSK_CELL_BYTES; 0: continue at the buffer's start */
	uint32_t zero;
	uint8_t pad[40];
};
_Static_assert(sizeof(struct rsk_indirect_entry) == RSK_CELL_BYTES, "an entry is a unit");

static inline uint32_t rsk_indirect_place(uint64_t at)
{
	return (uint32_t)(at % RSK_INDIRECT_UNITS) * RSK_CELL_BYTES;
}

/*
 * rsk_indirect_put - writes an entry at position @at of @buf, of which @room units are free, and as
 * many of the cells at @src as fit. The cells belong at offset @off in the ring of stream @sid.
 * *bytes is the number of bytes at @src on entry and the number of bytes copied on return (0: the
 * entry only ends the lap). Returns the number of units written; 0 if there is no room.
 */
uint32_t rsk_indirect_put(uint8_t *buf, uint64_t at, uint32_t room, uint32_t sid, uint32_t off,
			  const uint8_t *src, uint32_t *bytes);

/*
 * rsk_indirect_take - reads the entry at position @at, which a hostile peer may have written. *e is
 * a checked copy: the cells, which follow the entry in @buf, lie within the ring, of @ring_bytes,
 * of one of @streams streams, or within a control message. @avail units have arrived. Returns the
 * number of units, or -EPROTO.
 */
int rsk_indirect_take(const uint8_t *buf, uint64_t at, uint32_t avail, uint32_t streams,
		      uint32_t ring_bytes, struct rsk_indirect_entry *e);

#endif
