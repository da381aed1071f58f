// SPDX-License-Identifier: BSD-2-Clause
/* pending_writes.c - see pending_writes.h. */
#include "pending_writes.h"

#include <rsock/slot.h>

static uint32_t cell_end(uint32_t at)
{
	return (at + RSK_CELL_BYTES - 1) & ~(RSK_CELL_BYTES - 1);
}

/* Extends range @i to include [from, to). */
static void cover(struct rsk_pending_writes *n, uint32_t i, uint32_t from, uint32_t to)
{
	if (from < n->range[i].from)
		n->range[i].from = from;
	if (to > n->range[i].to)
		n->range[i].to = to;
}

/* True if they overlap or are adjacent. */
static bool touch(const struct rsk_pending_writes *n, uint32_t i, uint32_t from, uint32_t to)
{
	return from <= cell_end(n->range[i].to) && n->range[i].from <= cell_end(to);
}

/* Removes range @i; the others keep their order. */
static void drop(struct rsk_pending_writes *n, uint32_t i)
{
	n->ranges--;
	for (; i < n->ranges; i++)
		n->range[i] = n->range[i + 1];
}

bool rsk_pending_range(struct rsk_pending_writes *n, uint32_t off, uint32_t len)
{
	uint32_t to = off + len, i = 0;

	while (i < n->ranges && !touch(n, i, off, to))
		i++;
	if (i == n->ranges) {
		if (i == RSK_PENDING_RANGES)
			return false;
		n->range[i].from = off;
		n->range[i].to = to;
		n->ranges++;
		return true;
	}
	cover(n, i, off, to);
	/* The range may have grown until it touches others: merge them into it. */
	for (uint32_t k = 0; k < n->ranges;)
		if (k != i && touch(n, k, n->range[i].from, n->range[i].to)) {
			cover(n, i, n->range[k].from, n->range[k].to);
			drop(n, k);
			i -= k < i;
			k = 0;
		} else {
			k++;
		}
	return true;
}

bool rsk_pending_writes_first(const struct rsk_pending_writes *n, uint32_t *off, uint32_t *len)
{
	if (!n->ranges)
		return false;
	*off = n->range[0].from;
	*len = n->range[0].to - n->range[0].from;
	return true;
}

void rsk_pending_writes_took(struct rsk_pending_writes *n, uint32_t len)
{
	n->range[0].from += len;
	if (n->range[0].from < n->range[0].to)
		return;
	drop(n, 0);
}

bool rsk_pending_writes_validate(const struct rsk_pending_writes *n, uint32_t ring_bytes)
{
	if (n->ranges > RSK_PENDING_RANGES ||
	    n->words > (RSK_PENDING_TX_WORD | RSK_PENDING_RX_WORD))
		return false;
	for (uint32_t i = 0; i < n->ranges; i++)
		if (n->range[i].from >= n->range[i].to || n->range[i].to > ring_bytes ||
		    n->range[i].from % RSK_CELL_BYTES)
			return false;
	for (uint32_t i = 0; i < n->ranges; i++)
		for (uint32_t k = i + 1; k < n->ranges; k++)
			if (touch(n, i, n->range[k].from, n->range[k].to))
				return false;
	return true;
}
