// SPDX-License-Identifier: BSD-2-Clause
/*
 * tx_retransmit.c - the sending machine retransmits by TCP what it had put into the ring, for a
 * receiver that falls back (FALLBACK_RX, PAUSE), is quiesced (QUIESCED), or whose rail broke. tx.c
 * calls it; rsk_tx_resume() is for the progress thread.
 */
#include <errno.h>

#include "arena.h"
#include "tx_parts.h"

#define WORD_LOOKS 64

static void owes(struct rsk_tcp *c, bool some)
{
	if (c->ops->owes)
		c->ops->owes(c, some);
}

/* Begins to retransmit everything from @pos, which is in the slot at @cell, by TCP. */
static int start_resend(struct rsk_tx *tx, struct rsk_tcp *c, uint64_t pos, uint64_t cell)
{
	uint64_t tcp_pos;

	if (pos == RSK_POS_START) {
		pos = tx->start.pos;
		cell = tx->start.cell;
	}
	cell = rsk_ring_tx_index(&tx->ring, cell);
	if (pos < tx->start.pos || pos > tx->pos || cell < tx->start.cell || cell > tx->ring.next)
		return -EPROTO;
	if (tx->state == RSK_TX_TCP && pos != tx->pos) {
		int rc = c->ops->tx_pos(c, &tcp_pos);

		if (rc == -EAGAIN)
			return rc;
		/*
		 * We had fallen back already, so retransmission is in order only if nothing newer
		 * is on the TCP socket. If there is, we did not see the FALLBACK_RX after our
		 * command, so the receiver saw the command after its FALLBACK_RX, and stays (fences
		 * in command() and rsk_rx_fall_back(); model: demotion).
		 */
		if (rc < 0 || tcp_pos != tx->moved_tcp_pos)
			return 0;
	}
	tx->counts.demotions += tx->state == RSK_TX_ONRING;
	tx->ring_bytes -= tx->pos - pos;
	tx->resend.pos = pos;
	tx->resend.cell = cell;
	tx->resend.len = 0;
	tx->resend.off = 0;
	tx->state = pos == tx->pos ? RSK_TX_TCP : RSK_TX_RESEND;
	if (tx->state == RSK_TX_RESEND)
		owes(c, true);
	return 0;
}

/* Loads the next data slot to retransmit; the receiver has consumed its bytes before resend.pos. */
static int load_resend(struct rsk_tx *tx, bool first, uint64_t first_pos)
{
	uint16_t kind = 0;
	ssize_t n;

	if (!tx->resend.scratch)
		tx->resend.scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (!tx->resend.scratch)
		return -ENOMEM;
	do {
		if (tx->resend.cell >= tx->ring.next)
			return -EPROTO;
		n = rsk_ring_tx_read(&tx->ring, &tx->key, &tx->resend.cell, &kind,
				     tx->resend.scratch);
		if (n < 0)
			return (int)n;
	} while (kind != RSK_SLOT_DATA || !n);
	tx->resend.len = (uint32_t)n;
	tx->resend.off = 0;
	if (first) {
		/*
		 * The position of the slot's first byte is tx->pos less all data from this slot on.
		 */
		uint64_t after = 0, at = tx->resend.cell;

		while (at < tx->ring.next) {
			const uint8_t *p = tx->ring.rail->window + tx->ring.off +
					   (at & (tx->ring.cells - 1)) * RSK_CELL_BYTES;
			struct rsk_slot_head h;

			memcpy(&h, p, sizeof(h));
			if (h.index != at || h.len > RSK_SLOT_MAX_PAYLOAD)
				return -EPROTO;
			after += rsk_slot_is_data(h.kind) ? h.len : 0;
			at += rsk_slot_extent(&h, tx->ring.cells);
		}
		if (after + (uint64_t)n > tx->pos || tx->pos - after - (uint64_t)n > first_pos ||
		    first_pos - (tx->pos - after - (uint64_t)n) > (uint64_t)n)
			return -EPROTO;
		tx->resend.off = (uint32_t)(first_pos - (tx->pos - after - (uint64_t)n));
	}
	return 0;
}

static int resend_all(struct rsk_tx *tx, struct rsk_tcp *c)
{
	bool first = tx->resend.len == 0;

	while (tx->resend.pos < tx->pos) {
		struct iovec iov;
		ssize_t n;

		if (tx->resend.off == tx->resend.len) {
			int rc = load_resend(tx, first, tx->resend.pos);

			if (rc < 0)
				return rc;
			first = false;
			if (tx->resend.off == tx->resend.len)
				continue;
		}
		iov.iov_base = tx->resend.scratch + tx->resend.off;
		iov.iov_len = tx->resend.len - tx->resend.off;
		n = c->ops->send(c, &iov, 1, iov.iov_len, 0);
		if (n < 0)
			return (int)n;
		tx->resend.off += (uint32_t)n;
		tx->resend.pos += (uint64_t)n;
	}
	tx->state = RSK_TX_TCP;
	owes(c, false);
	rsk_arena_free(tx->resend.scratch);
	tx->resend.scratch = NULL;
	return 0;
}

void rsk_tx_unhold(struct rsk_tx *tx)
{
	if (tx->state == RSK_TX_HELD)
		tx->state = RSK_TX_RESEND;
	tx->rail_loss.safe_to = tx->ring.next;
}

/* Retransmission may begin: the receiver knows of it, or will when it checks the ring. */
static bool announced(struct rsk_tx *tx)
{
	struct rsk_rail *rail = tx->ring.rail;

	if (tx->state == RSK_TX_HELD && rail->ops->arrived &&
	    rail->ops->arrived(rail, tx->ring.off))
		rsk_tx_unhold(tx);
	return tx->state != RSK_TX_HELD;
}

int rsk_tx_repeat(struct rsk_tx *tx, struct rsk_tcp *c)
{
	if (tx->passed_on)
		return 0;
	/* The TCP socket's own errors recur at the next send or recv. */
	return announced(tx) && resend_all(tx, c) == -EPROTO ? -EPROTO : 0;
}

/*
 * The answer to QUIESCED was given, and the receiver asks for it once more: its control word says
 * it again. Returns false: it was not given.
 */
static bool answer_again(struct rsk_tx *tx, const struct rsk_control_word *m)
{
	if (tx->own.word.what != RSK_TX_RETRANSMIT || !tx->own.word.cells ||
	    tx->own.word.gen != m->gen)
		return false;
	tx->repair.seen = tx->repair.answered = m->repair;
	rsk_tx_put_word(tx); /* of a rail that broke RESUME reports more */
	return true;
}

/*
 * A sender that fell back before, or has ended, has put its command into the ring; the receiver
 * finds that command instead of RETRANSMIT. It waits for nothing else, so if the command might be
 * damaged there, it is put again. RETRANSMIT is told by control word as well, and that as often as
 * it is asked for.
 */
int rsk_tx_on_quiesced(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m)
{
	struct rsk_slot_command cmd = { .pos = tx->pos,
					.what = RSK_COMMAND_RETRANSMIT,
					.gen = tx->gen };
	const struct rsk_tx before = *tx;
	int rc;

	tx->stay_off |= RSK_TX_STAY_ASKED;
	if (tx->state != RSK_TX_ONRING || m->gen != tx->gen) {
		if (!answer_again(tx, m))
			rsk_tx_repair_command(tx, m->gen);
		return 0;
	}
	if (m->pos == RSK_POS_START || !tx->ring.rail->ops->arrived)
		return -EPROTO;
	tx->answered = RSK_ANSWERED_SWITCHED;
	rc = start_resend(tx, c, m->pos, m->cells);
	if (rc < 0)
		return rc;
	/* Also with nothing to retransmit: newer bytes must not come before RETRANSMIT either. */
	tx->state = RSK_TX_HELD;
	rc = rsk_ring_put_command(&tx->ring, &tx->key, &cmd);
	if (rc == RSK_RAIL_MUTE) {
		/* The process that owns the rail learns of it through its progress thread. */
		*tx = before;
		owes(c, false);
		return -EAGAIN;
	}
	tx->resend.asked = m->pos;
	tx->own.word = (struct rsk_control_word){
		.what = RSK_TX_RETRANSMIT, .gen = tx->gen, .pos = tx->pos, .cells = tx->ring.next
	};
	rsk_tx_put_word(tx);
	return 0; /* also if the rail broke: RESUME reports more */
}

int rsk_tx_on_fallback_rx(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m)
{
	bool first = !tx->peer_fell_back;
	int rc;

	tx->peer_fell_back = true;
	if (tx->state == RSK_TX_PROPOSED) {
		tx->state = RSK_TX_TCP;
		return 0;
	}
	if (!first || m->gen != tx->gen || !tx->gen)
		return 0;
	if (rsk_tx_retransmits(tx) || !tx->counts.promotions)
		return 0;
	/*
	 * Fallen back before, and the receiver has taken everything, or has ended that promotion
	 * itself: its position counts newer bytes too.
	 */
	if (tx->state == RSK_TX_TCP && (rsk_ring_tx_index(&tx->ring, m->cells) == tx->ring.next ||
					tx->ring.credit == tx->ring.next))
		return 0;
	rc = start_resend(tx, c, m->pos, m->cells);
	if (rc == -EAGAIN)
		tx->peer_fell_back = false; /* not handled yet */
	if (rc == 0 && rsk_tx_retransmits(tx)) {
		/*
		 * For a receiver that found our command after its FALLBACK_RX and cannot tell which
		 * came first.
		 */
		tx->own.word = (struct rsk_control_word){ .what = RSK_TX_RETRANSMIT,
							  .gen = tx->gen,
							  .pos = tx->resend.pos };
		if (rsk_tx_put_word(tx) < 0)
			rc = 0; /* the rail is not needed any more */
	}
	return rc;
}

int rsk_tx_paused(struct rsk_tx *tx, struct rsk_tcp *c)
{
	struct rsk_control_word m;
	bool there = false;
	int rc;

	/*
	 * The word stands until we confirm it; the receiver may rewrite it now and then, with the
	 * same content.
	 */
	for (int i = 0; i < WORD_LOOKS && !there; i++)
		there = rsk_control_word_get(tx->answer.at, &tx->key, RSK_CONTROL_WORD_RX, &m);
	if (there && m.what == RSK_RX_CLOSED) { /* said since then */
		rsk_tx_reader_gone(tx, RSK_READER_CLOSED);
		rsk_tx_to_tcp(tx);
		return 0;
	}
	if (there && m.what == RSK_RX_FALLBACK_RX && m.gen == tx->gen)
		return rsk_tx_on_fallback_rx(tx, c, &m);
	if (!there || m.what != RSK_RX_PAUSE || m.gen != tx->gen)
		return -EAGAIN;
	tx->stay_off |= RSK_TX_STAY_ASKED;
	rc = start_resend(tx, c, m.pos, m.cells);
	if (rc < 0)
		return rc;
	/* The receiver reads nothing there any more: the next promotion begins after it. */
	tx->ring.credit = tx->ring.told = tx->ring.next;
	tx->ring.data_end = m.cells < tx->ring.next ? m.cells : tx->ring.next;
	tx->own.word = (struct rsk_control_word){ .what = RSK_TX_RETRANSMIT,
						  .gen = tx->gen,
						  .pos = tx->resend.pos };
	rsk_tx_put_word(tx); /* a broken rail is not needed any more */
	return 0;
}

void rsk_tx_forgotten(struct rsk_tx *tx)
{
	if (tx->state != RSK_TX_BROKEN)
		return;
	rsk_tx_reader_gone(tx, RSK_READER_CLOSED);
	tx->state = RSK_TX_TCP;
}

int rsk_tx_resume(struct rsk_tx *tx, struct rsk_tcp *c, uint64_t pos, uint64_t cell)
{
	int rc;

	rsk_tx_break(tx);
	/* A quiesced receiver has learnt of the break, and its position is the one it reported. */
	if (tx->state == RSK_TX_HELD)
		rsk_tx_unhold(tx);
	if (tx->state != RSK_TX_BROKEN)
		return 0;
	rc = start_resend(tx, c, pos, cell);
	/* If there is nothing to retransmit. */
	rsk_tx_fin_now(tx, c);
	return rc;
}
