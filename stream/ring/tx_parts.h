/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tx_parts.h - what tx.c (states, sending) and tx_retransmit.c (repeating) share of struct rsk_tx. Only for these two; the
 * caller holds the lock of the direction.
 */
#ifndef RSK_TX_PARTS_H
#define RSK_TX_PARTS_H

#include "tx.h"

/* 0 or -errno of the rail. */
static inline int rsk_tx_put_word(struct rsk_tx *tx)
{
	return rsk_control_word_put(tx->ring.rail, tx->word_off, &tx->key, RSK_CONTROL_WORD_TX,
				    &tx->word);
}

/* What the receiver's word asks for. 0; -EAGAIN: not now; -EPROTO. */
int rsk_tx_on_fallback_rx(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m);
int rsk_tx_on_quiesced(struct rsk_tx *tx, struct rsk_tcp *c, const struct rsk_control_word *m);

/*
 * On the ring, and the receiver has ended this promotion (PAUSE, LEAVE): what it has not read is repeated. 0; -EPROTO;
 * -EAGAIN: it has not said yet from where (rsk_rx_end_it()). Until then nothing goes by TCP.
 */
int rsk_tx_paused(struct rsk_tx *tx, struct rsk_tcp *c);

/* In RSK_TX_RESEND: as much as goes now. 0 or -EPROTO. */
int rsk_tx_repeat(struct rsk_tx *tx, struct rsk_tcp *c);

#endif
