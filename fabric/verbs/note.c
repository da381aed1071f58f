// SPDX-License-Identifier: BSD-2-Clause
#include "note.h"

#include <rsock/slot.h>

static uint32_t cell_end(uint32_t at)
{
	return (at + RSK_CELL_BYTES - 1) & ~(RSK_CELL_BYTES - 1);
}

/* Makes range @i cover [from, to) as well. */
static void cover(struct rsk_note *n, uint32_t i, uint32_t from, uint32_t to)
{
	if (from < n->range[i].from)
		n->range[i].from = from;
	if (to > n->range[i].to)
		n->range[i].to = to;
}

/* Do they overlap, or lie side by side? */
static bool touch(const struct rsk_note *n, uint32_t i, uint32_t from, uint32_t to)
{
	return from <= cell_end(n->range[i].to) && n->range[i].from <= cell_end(to);
}

static uint32_t gap(const struct rsk_note *n, uint32_t i, uint32_t from, uint32_t to)
{
	return from > n->range[i].to ? from - n->range[i].to : n->range[i].from - to;
}

void rsk_note_range(struct rsk_note *n, uint32_t off, uint32_t len)
{
	uint32_t to = off + len, i;

	for (i = 0; i < n->ranges; i++)
		if (touch(n, i, off, to))
			break;
	if (i == n->ranges && n->ranges < RSK_NOTE_RANGES) {
		n->range[i].from = off;
		n->range[i].to = to;
		n->ranges++;
		return;
	}
	if (i == n->ranges)
		i = gap(n, 0, off, to) <= gap(n, 1, off, to) ? 0 : 1;
	cover(n, i, off, to);
	if (n->ranges == 2 && touch(n, 0, n->range[1].from, n->range[1].to)) {
		cover(n, 0, n->range[1].from, n->range[1].to);
		n->ranges = 1;
	}
}

bool rsk_note_first(const struct rsk_note *n, uint32_t *off, uint32_t *len)
{
	if (!n->ranges)
		return false;
	*off = n->range[0].from;
	*len = n->range[0].to - n->range[0].from;
	return true;
}

void rsk_note_took(struct rsk_note *n, uint32_t len)
{
	n->range[0].from += len;
	if (n->range[0].from < n->range[0].to)
		return;
	n->range[0] = n->range[1];
	n->ranges--;
}

bool rsk_note_validate(const struct rsk_note *n, uint32_t ring_bytes)
{
	if (n->ranges > RSK_NOTE_RANGES || n->mails > (RSK_NOTE_TXMAIL | RSK_NOTE_RXMAIL))
		return false;
	for (uint32_t i = 0; i < n->ranges; i++)
		if (n->range[i].from >= n->range[i].to || n->range[i].to > ring_bytes ||
		    n->range[i].from % RSK_CELL_BYTES)
			return false;
	return n->ranges < 2 || !touch(n, 0, n->range[1].from, n->range[1].to);
}
