// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_peek.c - the receiving machine's unread slots, examined without consuming them: peeks,
 * readiness, counts, the end behind them, and what is missing when a rail failed. See rx.h.
 */
#include <errno.h>

#include "arena.h"
#include "rx_parts.h"
#include "touch.h"

/* Bounds a walk over the unread slots, however much the sender writes meanwhile. */
static bool within(const struct rsk_rx *rx, const struct rsk_ring_rx *ring)
{
	return ring->next - rx->ring.next < 2 * (uint64_t)ring->cells;
}

/*
 * Copies a slot that is not a command to @scratch, without consuming it. Returns 1; 0: not whole
 * (yet); -errno. Checks of the next slot are counted as those of recv are, so that a caller that
 * only peeks does not check a slot forever whose hash will never be right.
 */
static int peek_slot(struct rsk_rx *rx, struct rsk_ring_rx *ring, const struct rsk_slot_view *v,
		     uint8_t *scratch)
{
	bool next = ring->next == rx->ring.next, whole;

	if (!scratch)
		return -ENOMEM;
	whole = rsk_ring_copy(ring, &rx->key, v, scratch);
	if (next)
		rx->ring.bad_looks = ring->bad_looks;
	if (!whole)
		return next ? rsk_rx_bad_check(rx) : 0;
	return (rsk_slot_is_data(v->head.kind) && v->head.len) || rsk_slot_is_empty(&v->head) ?
		       1 :
		       -EPROTO;
}

/* A slot that does not fit @dst goes through a scratch buffer. */
ssize_t rsk_rx_peek_ring(struct rsk_rx *rx, struct rsk_iovcur *dst, bool *command)
{
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_view v = { 0 };
	uint8_t *scratch = NULL;
	size_t total = 0;
	int rc = 0;

	*command = false;
	rx->stamp.peeked_ns = rx->stamp.taken_ns; /* of the partial slot */
	if (rx->partial.len) {
		size_t n = rx->partial.len - rx->partial.off;

		total = n < dst->left ? n : dst->left;
		if (!rsk_touch_scatters(dst, total))
			return -EFAULT;
		rsk_iovcur_scatter(dst, rx->partial.bytes + rx->partial.off, total);
	}
	while (dst->left && rx->state >= RSK_RX_DRAIN_TCP && !rx->fin && within(rx, &ring) &&
	       rsk_rx_peek(rx, &ring, &v)) {
		size_t n = v.head.len < dst->left ? v.head.len : dst->left;

		if (!scratch)
			scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
		/* A damaged head may look like one: bytes of TCP do not follow the ring's then. */
		if (v.head.kind == RSK_SLOT_CONTROL) {
			*command = scratch && rsk_ring_copy(&ring, &rx->key, &v, scratch);
			break;
		}
		rc = peek_slot(rx, &ring, &v, scratch);
		if (rc > 0 && !rsk_touch_scatters(dst, n))
			rc = -EFAULT;
		if (rc <= 0)
			break;
		rsk_iovcur_scatter(dst, scratch, n);
		total += n;
		rx->stamp.peeked_ns = rsk_rx_stamp_of(rx, &v);
		rsk_ring_consume(&ring, &v);
	}
	rx->ring.retries = ring.retries;
	rsk_arena_free(scratch);
	return total ? (ssize_t)total : rc < 0 ? rc : 0;
}

/* The next slot was checked once more, and is not whole. */
static bool is_stuck(struct rsk_rx *rx)
{
	if (rx->whole.part_at != rx->ring.next) {
		rx->whole.part_at = rx->ring.next;
		rx->whole.looks = 0;
	}
	return ++rx->whole.looks >= RSK_RX_BAD_CHECKS;
}

/*
 * On a fabric where a put takes time, a slot whose head is here may be here in part. It must not
 * count as readable, since a read would return nothing; the sleeper is woken when the rest arrives.
 * A slot that stays so counts, and recv reports what is wrong with it.
 */
static bool peek_whole(struct rsk_rx *rx, const struct rsk_ring_rx *ring, struct rsk_slot_view *v)
{
	if (!rsk_rx_peek(rx, ring, v))
		return false;
	if (rx->rail->ops->caps & RSK_FABRIC_SYNC || v->head.index < rx->whole.to)
		return true;
	if (!rsk_ring_whole(&rx->key, v))
		return ring->next == rx->ring.next && is_stuck(rx);
	rx->whole.to = v->head.index + rsk_slot_extent(&v->head, ring->cells);
	return true;
}

bool rsk_rx_ready(struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	if (__builtin_expect(rsk_rx_is_quiesced(rx), 0))
		return false;
	if (rsk_rx_run_commands(rx) < 0)
		return true; /* recv will report what is wrong */
	if (rx->partial.len || rx->fin || rsk_rx_ended(rx) || rx->tcp.err)
		return true;
	if (rx->state != RSK_RX_ONRING)
		return rx->overread.len > 0 && !rsk_rx_awaits_report(rx);
	if (peek_whole(rx, &rx->ring, &v))
		return true;
	rsk_rx_look_ahead(rx);
	return false;
}

/*
 * Walks over what is in the ring, from @ring's next slot on, up to a command or to where nothing
 * has arrived. Adds the payload lengths to *bytes. Returns true at a command.
 */
static bool go_ahead(struct rsk_rx *rx, struct rsk_ring_rx *ring, uint64_t *bytes)
{
	struct rsk_slot_view v;

	while (rx->state >= RSK_RX_DRAIN_TCP && within(rx, ring) && peek_whole(rx, ring, &v)) {
		if (!rsk_slot_is_data(v.head.kind))
			return true;
		*bytes += v.head.len;
		rsk_ring_consume(ring, &v);
	}
	return false;
}

/*
 * On a SYNC fabric, where a slot that shows is whole, each slot is counted once. Otherwise a
 * program that asks after each read of a part would walk over everything each time.
 */
uint64_t rsk_rx_pending(struct rsk_rx *rx, bool *alone)
{
	struct rsk_ring_rx ring = rx->ring;
	uint64_t n = 0;
	bool command;

	if (rx->state >= RSK_RX_DRAIN_TCP && rx->rail->ops->caps & RSK_FABRIC_SYNC &&
	    rx->counted.to > ring.next) {
		ring.next = rx->counted.to;
		n = rx->counted.bytes;
	}
	/*
	 * Includes slots that come after bytes of the TCP socket: a program may count on every byte
	 * that is here by now.
	 */
	command = go_ahead(rx, &ring, &n);
	rx->counted.to = ring.next;
	rx->counted.bytes = n;
	if (alone)
		*alone = rsk_rx_on_fast_path(rx) && !command && !rx->overread.len && !rx->tcp.eof &&
			 !rx->tcp.err;
	return n + rx->partial.len - rx->partial.off + rx->overread.len - rx->overread.off;
}

bool rsk_rx_unread(struct rsk_rx *rx)
{
	return rsk_rx_pending(rx, NULL) > 0;
}

/*
 * With a command behind unread data, nothing can be retransmitted in order. (On a fabric that is
 * not DURABLE the sender waits for the receiver before it sends anything newer.)
 */
bool rsk_rx_moved_on(struct rsk_rx *rx)
{
	struct rsk_ring_rx ring = rx->ring;
	uint64_t bytes = rx->partial.len;

	if (rx->state < RSK_RX_DRAIN_TCP || rx->fin ||
	    (!(rx->rail->ops->caps & RSK_FABRIC_DURABLE) && !rx->rail->ops->arrived))
		return false;
	return go_ahead(rx, &ring, &bytes) && bytes;
}

/* The command after everything that is unread; -1: there is none. */
static int last_word(struct rsk_rx *rx)
{
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_command cmd;
	uint8_t command[sizeof(cmd)];
	struct rsk_slot_view v;
	uint64_t bytes = 0;

	if (!go_ahead(rx, &ring, &bytes) || !rsk_rx_peek(rx, &ring, &v) ||
	    v.head.len != sizeof(command) || !rsk_ring_copy(&ring, &rx->key, &v, command))
		return -1;
	memcpy(&cmd, command, sizeof(cmd));
	return (int)cmd.what;
}

bool rsk_rx_told_end(struct rsk_rx *rx)
{
	return rx->fin || (rx->state == RSK_RX_ONRING && last_word(rx) == RSK_COMMAND_FIN);
}

enum rsk_rx_end rsk_rx_end(struct rsk_rx *rx)
{
	int word;

	if (rx->fin)
		return RSK_RX_END_HERE;
	if (rx->tcp.eof && rx->rail_loss.owed == RSK_RX_OWED_UNKNOWN && !rsk_rx_ended(rx))
		return RSK_RX_END_BEHIND;
	if (rsk_rx_awaits_report(rx) || rsk_rx_is_quiesced(rx))
		return RSK_RX_END_BEHIND;
	if (rx->state != RSK_RX_ONRING || rx->tcp.err || rx->tcp.err_told || rx->rail_loss.lost ||
	    rx->rail_loss.limit || rx->rail->ops->caps & RSK_FABRIC_SYNC)
		return RSK_RX_END_TCP;
	word = last_word(rx);
	if (word < 0)
		return RSK_RX_END_BEHIND;
	return word == RSK_COMMAND_FIN ? RSK_RX_END_HERE : RSK_RX_END_TCP;
}

void rsk_rx_missing(struct rsk_rx *rx, uint8_t scratch[static RSK_SLOT_MAX_PAYLOAD],
		    struct rsk_txn_tags_missing *missing,
		    void (*gap)(void *arg, uint64_t from, uint64_t to), void *arg)
{
	struct rsk_txn_tags_rx *tags = NULL;
	struct rsk_ring_rx ring = rx->ring;
	uint64_t from = ring.next, end = rsk_rx_free_below(rx) + ring.cells;
	struct rsk_slot_view v;

	/* What is still read came by an older rail; nothing was read of this rail's ring. */
	if (rx->rail_loss.limit || rx->rail_loss.renew_seed) {
		from = 0;
		end = ring.next;
	} else if (rsk_rx_txn_tags_begin(rx)) {
		tags = rsk_rx_txn_tags(rx);
	}
	*missing = (struct rsk_txn_tags_missing){ 0 };
	while (ring.next < end) {
		if (!rsk_ring_peek(&ring, &v) || !rsk_ring_copy(&ring, &rx->key, &v, scratch)) {
			ring.next = rsk_ring_next_place(&ring, ring.next);
			continue;
		}
		if (from < ring.next)
			gap(arg, from, ring.next);
		if (tags)
			rsk_txn_tags_ahead(tags, &v.head);
		rsk_ring_consume(&ring, &v);
		from = ring.next;
	}
	if (tags)
		*missing = rsk_txn_tags_count(tags);
	gap(arg, from, UINT64_MAX);
}
