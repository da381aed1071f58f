// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_quiesce.c - quiescing: the receiving machine stops reading until the sender answers in the
 * ring whether it retransmits what was not read. The progress thread's links use it; see
 * rsk_rx_quiesce() in rx.h.
 */
#include <errno.h>

#include "rx_parts.h"

/* Is there a command at the next index, with the right hash? Goes on behind it. */
static bool take_command(struct rsk_ring_rx *ring, const struct rsk_key *key,
			 struct rsk_slot_command *cmd)
{
	struct rsk_slot_view v;

	if (!rsk_ring_peek(ring, &v) || v.head.kind != RSK_SLOT_CONTROL ||
	    v.head.len != sizeof(*cmd) || !rsk_ring_copy(ring, key, &v, (uint8_t *)cmd))
		return false;
	rsk_ring_consume(ring, &v);
	return true;
}

/*
 * Finds the first command behind what is in the ring. Its hash is checked; of the slots before it
 * only the heads are read, and a head may be damaged. So if there is none it is looked for at any
 * cell: it is one wherever it is found, since its hash covers its index.
 */
static bool find_command(const struct rsk_rx *rx, struct rsk_ring_rx *ring,
			 struct rsk_slot_command *cmd)
{
	uint64_t end = ring->next + 2 * (uint64_t)ring->cells;
	struct rsk_slot_view v;

	while (ring->next < end && rsk_ring_peek(ring, &v) && v.head.kind != RSK_SLOT_CONTROL)
		rsk_ring_consume(ring, &v);
	if (take_command(ring, &rx->key, cmd))
		return true;
	end = rsk_rx_free_below(rx) + ring->cells;
	for (ring->next = rx->ring.next; ring->next < end;
	     ring->next = rsk_ring_next_place(ring, ring->next))
		if (take_command(ring, &rx->key, cmd))
			return true;
	return false;
}

bool rsk_rx_has_command(const struct rsk_rx *rx)
{
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_command cmd;

	return find_command(rx, &ring, &cmd);
}

/* Can the sender have put so much behind what is read here? */
static bool can_be_end(const struct rsk_rx *rx, uint64_t pos)
{
	return pos >= rx->fallback.pos &&
	       pos - rx->fallback.pos < (uint64_t)rx->ring.cells * RSK_CELL_BYTES;
}

/*
 * The sender retransmits what is unread, up to position @to; @ring begins behind its command
 * RETRANSMIT. Should it be killed before it has, the end of the TCP socket comes too early.
 */
static void go_by_tcp(struct rsk_rx *rx, const struct rsk_ring_rx *ring, uint64_t to)
{
	uint64_t command = rsk_slot_cells(sizeof(struct rsk_slot_command));

	rx->rail_loss.owed = RSK_RX_OWED_TO;
	rx->rail_loss.owed_to = to;
	rx->fallback.repeated = rx->partial.len || ring->next != rx->ring.next + command;
	rsk_rx_free_partial(rx);
	rx->ring = *ring;
	rx->counted.to = rx->counted.bytes = rx->whole.to = 0;
	rsk_rx_to_tcp(rx);
	rx->fallback.step = RSK_FALLBACK_NONE;
	rsk_rx_publish_consumed(rx);
	rsk_rx_say_stay(rx);
}

int rsk_rx_see_answer(struct rsk_rx *rx)
{
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_command cmd;

	if (!find_command(rx, &ring, &cmd))
		return 0;
	if (cmd.what != RSK_COMMAND_RETRANSMIT) {
		/* The command is run when everything before it is read. */
		rx->fallback.step = RSK_FALLBACK_NONE;
		rsk_rx_say_stay(rx);
		return 0;
	}
	if (!can_be_end(rx, cmd.pos) || cmd.gen != rx->gen)
		return rsk_rx_refuse(rx);
	go_by_tcp(rx, &ring, cmd.pos);
	return 0;
}

/*
 * The word may overtake slots. They may land where nothing is read any more: the sender sends
 * nothing before all have landed.
 */
int rsk_rx_see_retransmit(struct rsk_rx *rx, const struct rsk_control_word *m)
{
	struct rsk_ring_rx ring = rx->ring;

	if (!rsk_rx_is_quiesced(rx) || m->gen != rx->gen)
		return 0;
	if (!can_be_end(rx, m->pos) || m->cells <= ring.next ||
	    m->cells > rsk_rx_free_below(rx) + ring.cells)
		return rsk_rx_refuse(rx);
	ring.next = m->cells;
	go_by_tcp(rx, &ring, m->pos);
	return 0;
}

bool rsk_rx_ask_answer(struct rsk_rx *rx)
{
	if (!rsk_rx_is_quiesced(rx))
		return false;
	rx->own.word.repair++;
	if (rsk_rx_say(rx, RSK_RX_QUIESCED, rx->fallback.pos) == RSK_RAIL_MUTE) {
		rx->own.word.repair--;
		return false;
	}
	rx->repair.reminded = true;
	return true;
}

void rsk_rx_see_refusal(struct rsk_rx *rx)
{
	if (!rsk_rx_is_quiesced(rx) || !(rx->repair.gave_up || rx->repair.reminded) ||
	    rsk_rx_repair_open(rx))
		return;
	rsk_rx_unquiesce(rx);
	rsk_rx_say_stay(rx);
}

int rsk_rx_quiesce(struct rsk_rx *rx)
{
	struct rsk_control_word before;
	uint64_t pos;
	int rc;

	if (rx->state < RSK_RX_DRAIN_TCP || rx->fin)
		return 0;
	if (!rsk_rx_is_quiesced(rx)) {
		if (!rx->rail->ops->arrived || rx->fell_back || rsk_rx_in_race(rx) ||
		    rx->overread.len || rx->skip || rx->rail_loss.limit || rsk_rx_moved_on(rx))
			return -EBUSY;
		before = rx->own.word;
		pos = rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos : rx->pos;
		if (rsk_rx_say(rx, RSK_RX_QUIESCED, pos) == RSK_RAIL_MUTE) {
			rx->own.word = before;
			return -EBUSY;
		}
		rx->fallback.pos = pos;
		rx->fallback.step = RSK_FALLBACK_QUIESCED;
		rx->fallback.repeated = rx->repair.reminded = false;
	}
	rc = rsk_rx_see_answer(rx);
	if (rc < 0)
		return rc;
	if (rsk_rx_is_quiesced(rx))
		return -EAGAIN;
	return rx->state < RSK_RX_DRAIN_TCP ? 0 : -EBUSY;
}
