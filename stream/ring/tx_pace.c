// SPDX-License-Identifier: BSD-2-Clause
/*
 * tx_pace.c - pacing: the rate that policy has set for what one end sends (qos.h), kept by the
 * number of cells that may be put. See tx.h. Over TCP the kernel paces.
 */
#include "tx_parts.h"

#define BURST_NS 100000000u
#define BURST_LEAST_CELLS 64u
#define CELL_BIT_NS (8u * RSK_CELL_BYTES * 1000000000ull)

static uint64_t cells_in(uint64_t bps, uint64_t ns)
{
	return (uint64_t)((unsigned __int128)bps * ns / CELL_BIT_NS);
}

static uint64_t burst(const struct rsk_tx *tx)
{
	uint64_t cells = cells_in(tx->pace.bps, BURST_NS);
	uint64_t most = tx->ring.lap_cells - RSK_RING_RESERVE_CELLS;

	if (cells < BURST_LEAST_CELLS)
		cells = BURST_LEAST_CELLS;
	return cells < most ? cells : most;
}

uint64_t rsk_tx_low(const struct rsk_tx *tx)
{
	uint64_t low = tx->ring.lap_cells / 4;

	return tx->pace.bps && burst(tx) / 2 < low ? burst(tx) / 2 : low;
}

void rsk_tx_set_rate(struct rsk_tx *tx, uint64_t bps, uint64_t now_ns)
{
	tx->pace.bps = bps;
	tx->pace.base_ns = now_ns;
	tx->pace.added = 0;
	tx->ring.paced_to = bps ? tx->ring.next + burst(tx) : UINT64_MAX;
}

bool rsk_tx_pace(struct rsk_tx *tx, uint64_t now_ns)
{
	uint64_t most, to, added, had = rsk_ring_tx_free(&tx->ring);

	if (!tx->pace.bps || now_ns <= tx->pace.base_ns)
		return false;
	most = tx->ring.next + burst(tx);
	added = cells_in(tx->pace.bps, now_ns - tx->pace.base_ns);
	to = tx->ring.paced_to + added - tx->pace.added;
	tx->pace.added = added;
	/* A full bucket takes no more: the time counts from here. */
	if (to > most) {
		to = most;
		tx->pace.added = 0;
		tx->pace.base_ns = now_ns;
	}
	if (to > tx->ring.paced_to)
		tx->ring.paced_to = to;
	return rsk_ring_tx_free(&tx->ring) > had;
}

void rsk_tx_pace_moved(struct rsk_tx *tx, const struct rsk_ring_tx *from)
{
	if (tx->pace.bps)
		tx->ring.paced_to = from->paced_to + (tx->ring.next - from->next);
}
