// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_repair.c - the receiving machine checks a slot that shows at the next index, and whose hash
 * stays wrong, for a reader that sleeps: rsk_rx_recheck().
 *
 * A slot whose hash is not right is landing, as a rule. One that is damaged stays so. So does one
 * of which only the index is wrong: with the right one the hash is right. The request for it
 * (rsk_rx_ask()) is the number @repair in our control word; a second one follows when the sender
 * has answered the first (tx_repair.c), which it does when the slot has landed again. So a slot
 * that is late, however late, costs one request. After RSK_RX_REPAIRS answers in vain something
 * damages this memory again and again: then the sender is asked to retransmit the slot, and all
 * behind it, by TCP (QUIESCED). It cannot if it has left the ring already, since what follows is on
 * the TCP socket by then; and nothing can be put any more into the ring of a rail that broke. Then
 * the stream ends, with no wrong byte delivered.
 *
 * On a fabric that is SYNC the ring is the only copy, and the stream ends at once.
 */
#include <errno.h>

#include "rx_parts.h"

bool rsk_rx_is_damaged(const struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	/* What a broken rail has put is read: what shows behind it is not believed. */
	if (rx->rail_loss.limit && rx->ring.next >= rx->rail_loss.limit)
		return false;
	if (rsk_rx_peek(rx, &rx->ring, &v))
		return !rsk_ring_whole(&rx->key, &v);
	return rsk_ring_misfits(&rx->ring) ||
	       (rsk_ring_hides(&rx->ring, &v) && rsk_ring_whole(&rx->key, &v));
}

int rsk_rx_recheck(struct rsk_rx *rx)
{
	int rc;

	if (rsk_rx_is_quiesced(rx)) {
		rc = rsk_rx_take_word(rx);
		if (rc == 0 && rsk_rx_is_quiesced(rx))
			rc = rsk_rx_see_answer(rx);
		if (rc == 0)
			rsk_rx_see_refusal(rx);
		if (rc < 0 || rsk_rx_is_quiesced(rx))
			return rc < 0 ? rc : 1;
		return rx->repair.gave_up && rx->state == RSK_RX_ONRING;
	}
	if (rx->state != RSK_RX_ONRING || rx->fin || !rsk_rx_is_damaged(rx)) {
		rx->repair.checked = 0;
		return 0;
	}
	rx->ring.retries++;
	rc = rsk_rx_take_word(rx);
	if (rc == 0 && rx->repair.checked == rx->ring.next)
		rc = rsk_rx_ask(rx);
	rx->repair.checked = rx->ring.next;
	return rc < 0 ? rc : 1;
}
