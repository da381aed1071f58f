// SPDX-License-Identifier: BSD-2-Clause
/*
 * tx_repair.c - the sending machine puts a slot again that has arrived and whose hash stays wrong
 * at the receiver (rx_repair.c), which asks for it by a number in its control word. The slot is
 * still in the window: its cells are free only when the receiver has taken it. rsk_tx_serve() calls
 * this, so a call of the program does, or the progress thread (APPLY, and the linger list while a
 * request is due).
 *
 * Why no byte can come out wrong:
 *  - The same bytes go to the same place. A receiver that has the slot by now, and even has taken
 *    it, finds nothing else there. Nothing newer goes there before both copies have landed: the
 *    cells are not free before (ring.twice_from), whatever the receiver reports.
 *  - It is done only when nothing of the stream is under way, so a slot that is merely late is not
 *    put twice, and the first copy cannot land after the second one. While a rail is lost that is
 *    not known; its failure is settled first (rails.h), and names the slot if that rail had it.
 *  - A rail that fails under the second copy is treated as under any slot: @carried names that
 *    rail, and the receiver names the slot unless it is whole.
 *  - A request of another promotion, or after a break, is not for what is in the ring now: @gen is
 *    compared, and a word of another epoch has another key.
 *
 * A request counts as answered when the slot was put, or never will be. The answer is a number in
 * our control word, and may overtake the slot: then the receiver asks once more than needed.
 */
#include <errno.h>

#include "rails.h"
#include "tx_parts.h"

/* How often one slot is put again, whatever the receiver asks. */
#define REPAIRS 16

void rsk_tx_ask(struct rsk_tx *tx, const struct rsk_control_word *m)
{
	if (m->repair == tx->repair.seen)
		return;
	tx->repair.seen = m->repair;
	tx->repair.index = m->cells;
	tx->repair.gen = m->gen;
	tx->repair.due = true;
}

void rsk_tx_repair_command(struct rsk_tx *tx, uint32_t gen)
{
	if (tx->state != RSK_TX_TCP || gen != tx->gen || tx->ring.told == tx->ring.next)
		return;
	tx->repair.index = tx->ring.told;
	tx->repair.gen = gen;
	tx->repair.command = tx->repair.due = true;
}

/* The receiver may read what is in the ring, and there is a rail to put it by. */
static bool reads_ring(const struct rsk_tx *tx)
{
	return (tx->state == RSK_TX_ONRING || tx->state == RSK_TX_TCP) && !tx->peer_fell_back &&
	       !tx->rail_loss.ring_over && !tx->passed_on && tx->reader == RSK_READER_THERE;
}

/* Puts the slot that begins at @index. Returns as rsk_ring_tx_retransmit(). */
static int put_one(struct rsk_tx *tx, uint64_t index)
{
	return rsk_ring_tx_retransmit(&tx->ring, index, index + 1, RSK_RAILS_ASKED);
}

/*
 * Puts the slot at the requested index. The receiver's index is that of the first cell that is not
 * free. If it has taken a part of the slot there, the damaged one is behind it: a second request
 * for the same index includes that one, and no other: a copy of a slot that the receiver has not
 * come to may still wait in an indirect buffer of its rail. If a lost rail has carried the one
 * behind, the receiver names it when that rail's failure is settled. Returns as
 * rsk_ring_tx_retransmit().
 */
static int put_slot(struct rsk_tx *tx)
{
	uint64_t from = tx->repair.index;
	int rc;

	if (tx->repair.command) {
		rc = rsk_ring_tx_retransmit(&tx->ring, tx->ring.data_end, UINT64_MAX,
					    RSK_RAILS_ASKED);
		if (rc < 0 || tx->repair.seen == tx->repair.answered)
			return rc;
	}
	if (tx->repair.last != from)
		tx->repair.times = 0;
	tx->repair.last = from;
	if (tx->repair.times == REPAIRS)
		return 0;
	rc = put_one(tx, from);
	if (rc < 0)
		return rc;
	tx->repair.times++;
	if (tx->repair.times > 1)
		rc = put_one(tx, rsk_ring_tx_after(&tx->ring, from));
	return rc == -EAGAIN ? 0 : rc;
}

static int answer(struct rsk_tx *tx)
{
	int rc;

	tx->repair.due = tx->repair.command = false;
	tx->repair.answered = tx->repair.seen;
	rc = rsk_tx_put_word(tx);
	if (rc < 0 && rc != RSK_RAIL_MUTE)
		rsk_tx_break(tx);
	return 0;
}

/* On a fabric that loses puts: everything from the credit on, and the control word. */
static int put_all(struct rsk_tx *tx)
{
	if (rsk_ring_tx_reput(&tx->ring, tx->ring.credit) < 0) {
		tx->repair.due = false;
		rsk_tx_break(tx);
		return 0;
	}
	return answer(tx);
}

int rsk_tx_repair(struct rsk_tx *tx)
{
	struct rsk_rail *rail = tx->ring.rail;
	int rc;

	if (rail->ops->caps & RSK_FABRIC_SYNC) { /* the only copy is the receiver's */
		tx->repair.due = false;
		return 0;
	}
	if (!rail->ops->arrived)
		return put_all(tx);
	/* A receiver that is answered by TCP, or by a rail's failure, does not wait for this. */
	if (!reads_ring(tx) || tx->repair.gen != tx->gen) {
		tx->repair.due = false;
		return 0;
	}
	if (tx->repair.index < tx->ring.told || tx->repair.index >= tx->ring.next)
		return answer(tx);
	if (!rail->ops->arrived(rail, tx->ring.off))
		return 0;
	rc = put_slot(tx);
	if (rc == -EAGAIN)
		return 0;
	if (rc == -EPROTO)
		return rc;
	if (rc < 0 && rc != -EOPNOTSUPP) {
		tx->repair.due = false;
		if (rc != RSK_RAIL_MUTE)
			rsk_tx_break(tx);
		return 0;
	}
	return answer(tx);
}
