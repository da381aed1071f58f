// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_break.c - the receiving machine when its rail breaks, there is another one, or the sender is
 * gone: what has arrived is read, the rest is retransmitted by TCP, or is lost. The progress thread
 * and the link code call it.
 */
#include <errno.h>

#include "arena.h"
#include "rx_parts.h"

/*
 * Goes over whole slots from the next index on, up to and including a command, and adds their bytes
 * to *pos. Returns the index after the last one; *command: that is a command.
 */
static uint64_t scan(const struct rsk_rx *rx, uint64_t *pos, bool *command)
{
	uint8_t *scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_view v;

	*command = false;
	/*
	 * The bound ends the loop for a sender that goes on writing, or whose slots have no bytes.
	 */
	while (scratch && ring.next - rx->ring.next < 2 * (uint64_t)ring.cells &&
	       rsk_ring_peek(&ring, &v) && rsk_ring_copy(&ring, &rx->key, &v, scratch)) {
		if (rsk_slot_is_data(v.head.kind) && !v.head.len && !rsk_slot_is_empty(&v.head))
			break;
		rsk_ring_consume(&ring, &v);
		*command = !rsk_slot_is_data(v.head.kind);
		if (*command)
			break;
		*pos += v.head.len;
	}
	rsk_arena_free(scratch);
	return ring.next;
}

/*
 * What the sender has put may not have arrived, or may not all be retransmitted: the sender will
 * report how far it had put. @found: up to where it is here.
 */
static void ask_what_is_owed(struct rsk_rx *rx, bool due, uint64_t found)
{
	if (!due)
		return;
	rx->rail_loss.owed = RSK_RX_OWED_UNKNOWN;
	rx->rail_loss.owed_to = found;
}

void rsk_rx_break(struct rsk_rx *rx, uint64_t *pos, uint64_t *cell)
{
	bool command, due;
	int rc;

	if (rx->fell_back && rx->own.word.what == RSK_RX_FALLBACK_RX) {
		/* RETRANSMIT has said it already. */
		ask_what_is_owed(rx, rx->fallback.asked && !rx->fallback.repeated, UINT64_MAX);
		/*
		 * What was said at the fallback still holds: since then only bytes that were
		 * already there came by TCP.
		 */
		*pos = rx->own.word.pos;
		*cell = rx->own.word.cells;
		return;
	}
	/*
	 * The rail before this one broke too, and what it brought is still being read: nothing can
	 * have arrived by this one.
	 */
	if (rx->rail_loss.limit) {
		rx->rail_loss.renew_seed = 0;
		*pos = RSK_POS_START;
		*cell = rx->rail_loss.limit;
		return;
	}
	due = rx->state >= RSK_RX_WATCH && !rx->fin;
	/* The sender's last control word may have arrived too. */
	rc = rsk_rx_take_word(rx);
	if (rc == 0)
		rsk_rx_arrive(rx);
	if (rc == 0 && rsk_rx_is_quiesced(rx))
		rc = rsk_rx_see_answer(rx);
	if (rc == 0 && rsk_rx_is_quiesced(rx)) {
		/* No answer has arrived, and none will. Report what QUIESCED said. */
		*pos = rx->fallback.pos;
		ask_what_is_owed(rx, due, *pos);
		*cell = rsk_rx_free_below(rx);
		rsk_rx_free_partial(rx);
		rsk_rx_to_tcp(rx);
		rx->fallback.step = RSK_FALLBACK_NONE;
		rx->fell_back = rx->fallback.repeated = true;
		rx->rail_loss.no_command = true;
		return;
	}
	/* If the answer was found just now, it says what is owed, unless it was refused. */
	due = due && (rc < 0 || rx->state >= RSK_RX_WATCH);
	*cell = rx->ring.next;
	if (rx->state < RSK_RX_DRAIN_TCP || rx->fin) {
		*pos = rx->state == RSK_RX_WATCH ? RSK_POS_START : rx->pos;
		ask_what_is_owed(rx, due, rx->pos);
		rx->fell_back = true;
		rx->state = rx->fin ? rx->state : RSK_RX_TCP;
		return;
	}
	if (!(rx->rail->ops->caps & RSK_FABRIC_RELIABLE)) {
		/* Slots in the ring may still be overwritten, so only what was read counts. */
		*pos = rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos : rx->pos;
		*cell = rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.cell : rsk_rx_free_below(rx);
		ask_what_is_owed(rx, due, *pos);
		rsk_rx_free_partial(rx);
		rsk_rx_to_tcp(rx);
		rx->fell_back = true;
		return;
	}
	*pos = rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos :
					       rx->pos + rx->partial.len - rx->partial.off;
	*cell = rx->rail_loss.limit = scan(rx, pos, &command);
	ask_what_is_owed(rx, due, *pos);
	rx->rail_loss.no_command = !command;
	/*
	 * Nothing has arrived: TCP continues at once, even before the position where the ring would
	 * have begun.
	 */
	if (rx->state == RSK_RX_DRAIN_TCP && rx->rail_loss.limit == rx->ring.next) {
		rx->state = RSK_RX_TCP;
		rx->rail_loss.limit = 0;
		rx->fell_back = true;
	}
	rsk_rx_lift_ring_limit(rx);
}

/*
 * A sender that owes nothing has left the ring, and all that it had put had landed. Then it was
 * found here up to that end, unless a slot, or the control word that tells of the ring, was damaged
 * since. Of a sender that does not say where the end was, only a command tells that nothing is
 * missing before it.
 */
int rsk_rx_owe(struct rsk_rx *rx, uint64_t to, uint64_t ring_end)
{
	if (rx->rail_loss.owed != RSK_RX_OWED_UNKNOWN)
		return 0;
	if (!to && (ring_end == RSK_RX_NO_REPORT ? rx->rail_loss.no_command :
						   ring_end > rx->rail_loss.owed_to))
		return -EPROTO;
	rsk_rx_owe_is_moot(rx);
	rx->rail_loss.owed = to ? RSK_RX_OWED_TO : RSK_RX_OWED_NOTHING;
	rx->rail_loss.owed_to = to;
	return 0;
}

void rsk_rx_owe_is_moot(struct rsk_rx *rx)
{
	rx->rail_loss.owed = RSK_RX_OWED_NOTHING;
	rx->rail_loss.no_command = false;
}

void rsk_rx_ending(struct rsk_rx *rx, uint64_t cell)
{
	rx->rail_loss.last_cell = cell;
	if (!cell && rx->state == RSK_RX_WATCH)
		rx->state = RSK_RX_TCP;
}

void rsk_rx_lose(struct rsk_rx *rx)
{
	if (rsk_rx_is_quiesced(rx) && rsk_rx_take_word(rx) == 0 && rsk_rx_is_quiesced(rx))
		rsk_rx_see_answer(rx);
	rsk_rx_unquiesce(rx);
	rx->rail_loss.lost = true;
	/*
	 * The sender's control word may just have arrived; bytes that it put afterwards may not
	 * have.
	 */
	if (rx->state == RSK_RX_WATCH && rsk_rx_take_word(rx) == 0)
		rsk_rx_arrive(rx);
	if (rx->state == RSK_RX_WATCH) {
		rx->state = RSK_RX_TCP;
		rx->fell_back = true;
		rx->rail_loss.owed = RSK_RX_OWED_UNKNOWN;
	}
}
