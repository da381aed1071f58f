// SPDX-License-Identifier: BSD-2-Clause
/*
 * ring_laps.c - where a sender's laps end, and what room they leave: see ring.h. Design:
 * docs/adr/ring-width.md.
 */
#include "ring.h"

void rsk_ring_tx_skip(struct rsk_ring_tx *tx, uint64_t cells)
{
	if (tx->paced_to != UINT64_MAX)
		tx->paced_to += cells;
}

/* Drained: the next slot is the first one of the next lap, and no slot has the indexes left. */
static void leave_lap(struct rsk_ring_tx *tx)
{
	tx->left_out_from = tx->next;
	tx->left_out_to = rsk_ring_next_lap(tx->cells, tx->next);
	rsk_ring_tx_skip(tx, tx->left_out_to - tx->next);
	tx->next = tx->credit = tx->told = tx->left_out_to;
}

/*
 * The receiver's index of what it has taken is not hashed, but bounded as its credit is. The sender
 * reads it less and less often, down to once per lap, if the stream is never drained: it is in a
 * cache line that the receiver writes all the time.
 */
void rsk_ring_tx_restart_if_taken(struct rsk_ring_tx *tx, size_t len)
{
	uint32_t cell = rsk_ring_cell(tx->cells, tx->next);
	uint32_t first = len < RSK_SLOT_MAX_PAYLOAD ? (uint32_t)len : RSK_SLOT_MAX_PAYLOAD;

	/* Includes the cell after the slot: the receiver polls it, which touches its page. */
	if (!tx->taken || cell + rsk_slot_cells(first) < RSK_RING_PAGE_CELLS)
		return;
	if (tx->credit != tx->next)
		rsk_ring_tx_credit(tx, atomic_load_explicit(tx->taken, memory_order_acquire));
	if (tx->credit != tx->next) {
		tx->restart_at = tx->next + tx->restart_step;
		if (tx->restart_step < tx->cells)
			tx->restart_step *= 2;
		return;
	}
	tx->restart_step = RSK_RING_PAGE_CELLS;
	leave_lap(tx);
}

void rsk_ring_tx_widen(struct rsk_ring_tx *tx, uint32_t cells)
{
	if (cells > tx->lap_cells && cells <= tx->cells)
		tx->lap_cells = cells;
}

void rsk_ring_tx_end_lap(struct rsk_ring_tx *tx)
{
	uint32_t cell = rsk_ring_cell(tx->cells, tx->next);

	if (tx->lap_cells == tx->cells || cell <= tx->lap_cells - RSK_RING_RESERVE_CELLS)
		return;
	leave_lap(tx);
}

/*
 * A slot of the lap before may be in the way; or this lap must not end yet; or there is room up to
 * its end, and from the beginning of the next one to the credit.
 */
uint64_t rsk_ring_tx_lap_limit(const struct rsk_ring_tx *tx)
{
	uint64_t lap = tx->next - rsk_ring_cell(tx->cells, tx->next), end = lap + tx->lap_cells;
	uint64_t to = tx->credit + tx->cells - RSK_RING_RESERVE_CELLS;

	if (rsk_ring_tx_may_end_lap(tx))
		return end + (tx->credit - lap) - RSK_RING_RESERVE_CELLS;
	end -= RSK_RING_RESERVE_CELLS;
	return to < end ? to : end;
}

/* Cells from the next one on that one slot may take, whether or not they are free. */
static uint32_t to_lap_end(const struct rsk_ring_tx *tx)
{
	uint32_t left = tx->lap_cells - rsk_ring_cell(tx->cells, tx->next);

	if (!rsk_ring_tx_is_lapped(tx) || rsk_ring_tx_may_end_lap(tx))
		return left;
	return left > RSK_RING_RESERVE_CELLS ? left - RSK_RING_RESERVE_CELLS : 0;
}

bool rsk_ring_tx_lap_fits(const struct rsk_ring_tx *tx, uint32_t cells)
{
	return cells <= rsk_ring_tx_free(tx) && cells <= to_lap_end(tx);
}

uint32_t rsk_ring_tx_room(const struct rsk_ring_tx *tx)
{
	uint64_t n = rsk_ring_tx_free(tx);
	uint32_t to_end = to_lap_end(tx);

	if (!n || !to_end)
		return 0;
	if (n > to_end)
		n = to_end;
	return rsk_slot_payload_in(n < RSK_SLOT_MAX_CELLS ? (uint32_t)n : RSK_SLOT_MAX_CELLS);
}

void rsk_ring_tx_mark_last(const struct rsk_ring_tx *tx, struct rsk_slot_head *head)
{
	uint32_t end = rsk_ring_cell(tx->cells, tx->next) + rsk_slot_cells(head->len);

	if (end > tx->lap_cells - RSK_RING_RESERVE_CELLS)
		head->kind |= RSK_SLOT_LAST;
}
