// SPDX-License-Identifier: BSD-2-Clause
/* indirect.c - see indirect.h. */
#include "indirect.h"

#include <errno.h>
#include <string.h>

static uint32_t to_end(uint64_t at)
{
	return RSK_INDIRECT_UNITS - (uint32_t)(at % RSK_INDIRECT_UNITS);
}

uint32_t rsk_indirect_put(uint8_t *buf, uint64_t at, uint32_t room, uint32_t sid, uint32_t off,
			  const uint8_t *src, uint32_t *bytes)
{
	struct rsk_indirect_entry e = { .at = at, .sid = sid, .off = off };
	uint8_t *to = buf + rsk_indirect_place(at);
	uint32_t run = to_end(at);

	/*
	 * The last unit of a lap has no cell after it, so an entry there only ends the lap. It is
	 * not worth sending alone.
	 */
	if (room < 2)
		return 0;
	if (run > room)
		run = room;
	e.bytes = (run - 1) * RSK_CELL_BYTES;
	if (e.bytes > *bytes)
		e.bytes = *bytes;
	*bytes = e.bytes;
	memcpy(to, &e, sizeof(e));
	memcpy(to + sizeof(e), src, e.bytes);
	return 1 + e.bytes / RSK_CELL_BYTES;
}

int rsk_indirect_take(const uint8_t *buf, uint64_t at, uint32_t avail, uint32_t streams,
		      uint32_t ring_bytes, struct rsk_indirect_entry *e)
{
	uint32_t units, whole = ring_bytes;

	if (!avail)
		return -EPROTO;
	memcpy(e, buf + rsk_indirect_place(at), sizeof(*e));
	/*
	 * The compiler must check this copy, and not read the memory, which the peer can change,
	 * again.
	 */
	__asm__ volatile("" : : "r"(e) : "memory");
	if (e->sid == RSK_INDIRECT_WORDS)
		whole = RSK_INDIRECT_WORD_BYTES;
	else if (e->sid >= streams)
		return -EPROTO;
	if (e->at != at || e->zero || e->off % RSK_CELL_BYTES || e->bytes % RSK_CELL_BYTES ||
	    e->off > whole || e->bytes > whole - e->off)
		return -EPROTO;
	units = 1 + e->bytes / RSK_CELL_BYTES;
	if (units > avail || units > to_end(at) || (!e->bytes && to_end(at) != 1))
		return -EPROTO;
	return (int)units;
}
