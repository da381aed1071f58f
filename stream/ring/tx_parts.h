/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_parts.h - what tx.c (states), tx_send.c (sending), tx_retransmit.c (retransmission) and
 * tx_pace.c (pacing) share of struct rsk_tx. Only these include it; the caller holds the lock of
 * the direction.
 */
#ifndef RSK_TX_PARTS_H
#define RSK_TX_PARTS_H

#include "tx.h"

/* Puts our control word. Returns 0 or -errno of the rail. */
static inline int rsk_tx_put_word(struct rsk_tx *tx)
{
	tx->own.word.repair = tx->repair.answered;
	return rsk_control_word_put(tx->ring.rail, tx->own.off, &tx->key, RSK_CONTROL_WORD_TX,
				    &tx->own.word);
}

/* How many free cells make a ring writable that was full. */
uint64_t rsk_tx_low(const struct rsk_tx *tx);
/* The ring goes on at another index than @from, as it was before: so does pacing. */
void rsk_tx_pace_moved(struct rsk_tx *tx, const struct rsk_ring_tx *from);

/* Apply the receiver's FALLBACK_RX, or QUIESCED. Return 0; -EAGAIN: not now; -EPROTO. */
int rsk_tx_on_fallback_rx(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m);
int rsk_tx_on_quiesced(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m);

/*
 * On the ring, and the receiver has ended this promotion (PAUSE, FALLBACK_RX): retransmits what it
 * has not read. Returns 0; -EPROTO; -EAGAIN: it has not reported the position yet
 * (rsk_rx_end_it()), and until then nothing is sent by TCP.
 */
int rsk_tx_paused(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * rsk_tx_ask - @m is a new control word of the receiver: is there a request to put a slot again?
 * rsk_tx_repair - does so, if one is due and it is possible now. Returns 0 or -EPROTO.
 * rsk_tx_repair_command - the same as a request for the command that ended promotion @gen.
 */
void rsk_tx_ask(struct rsk_tx *tx, const struct rsk_control_word *m);
void rsk_tx_repair_command(struct rsk_tx *tx, uint32_t gen);
int rsk_tx_repair(struct rsk_tx *tx);

/* In RSK_TX_RESEND: retransmits as much as possible now. Returns 0 or -EPROTO. */
int rsk_tx_repeat(struct rsk_tx *tx, struct rsk_tcp *c);

/*
 * There are slots that the receiver has not reported as taken, and that could still be lost with
 * the rail.
 */
static inline bool rsk_tx_undrained(const struct rsk_tx *tx)
{
	const struct rsk_rail *rail = tx->ring.rail;

	if (tx->ring.told == tx->ring.next || tx->rail_loss.safe_to == tx->ring.next ||
	    tx->peer_fell_back || tx->reader != RSK_READER_THERE ||
	    (rail->ops->caps & RSK_FABRIC_DURABLE))
		return false;
	return !rail->ops->arrived || !rail->ops->arrived(tx->ring.rail, tx->ring.off);
}

#endif
