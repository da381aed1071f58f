// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_ring.c - the receiving machine's ring: slots to bytes, commands, credit, and what is unread
 * there. See rx.h.
 */
#include <errno.h>

#include "arena.h"
#include "rx_parts.h"
#include "touch.h"

/* Checks of an announced slot with a wrong hash before a repair is requested. */
#define BAD_LOOKS_BEFORE_REPAIR 64

uint64_t rsk_rx_free_below(const struct rsk_rx *rx)
{
	return rx->partial.len ? rx->partial.cell : rx->ring.next;
}

int rsk_rx_say(struct rsk_rx *rx, uint32_t what, uint64_t pos)
{
	rx->own.word.what = what;
	rx->own.word.gen = rx->gen;
	rx->own.word.pos = pos;
	rx->own.word.cells = rsk_rx_free_below(rx);
	if (what != RSK_RX_FALLBACK_RX) {
		rx->credit.sent = rx->own.word.cells;
		if (rsk_rx_txn_tags(rx))
			rsk_txn_tags_credited(rx->tags.machine, rx->partial.len);
	}
	return rsk_control_word_put(rx->rail, rx->own.off, &rx->key, RSK_CONTROL_WORD_RX,
				    &rx->own.word);
}

static void publish_credit(struct rsk_rx *rx)
{
	const struct rsk_mailbox_credit is = { .pos = rx->pos,
					       .cells = rsk_rx_free_below(rx),
					       .gen = rx->gen };

	/*
	 * Off the ring the control word says everything, and a quiesced receiver has reported where
	 * retransmission begins.
	 */
	if (rx->credit.mailbox.at && rx->state == RSK_RX_ONRING && !rx->fell_back &&
	    !rsk_rx_is_quiesced(rx))
		rsk_mailbox_publish(&rx->credit.mailbox, RSK_MAILBOX_CREDIT, &is, sizeof(is));
}

void rsk_rx_publish_consumed(struct rsk_rx *rx)
{
	if (rx->credit.consumed)
		atomic_store_explicit(rx->credit.consumed, rsk_rx_free_below(rx),
				      memory_order_release);
	else
		publish_credit(rx);
}

void rsk_rx_give_credit(struct rsk_rx *rx, bool all)
{
	uint64_t free;

	rsk_rx_publish_consumed(rx);
	if (rx->fell_back)
		return;
	free = rsk_rx_free_below(rx) - rx->credit.sent;
	if (free >= (all || rx->fin ? 1 : rx->ring.cells / 8) ||
	    (free && rsk_rx_txn_tags(rx) &&
	     rsk_txn_tags_credit_due(rx->tags.machine, rx->partial.len)))
		rsk_rx_say(rx, rx->own.word.what, rx->own.word.pos);
}

void rsk_rx_free_partial(struct rsk_rx *rx)
{
	rsk_arena_free(rx->partial.bytes);
	rx->partial.bytes = NULL;
	rx->partial.len = rx->partial.off = 0;
}

static int run_command(struct rsk_rx *rx, const struct rsk_slot_command *cmd)
{
	if (cmd->pos != rx->pos || cmd->gen != rx->gen)
		return -EPROTO;
	if (cmd->what == RSK_COMMAND_FIN) {
		rx->fin = true;
	} else if (cmd->what == RSK_COMMAND_FALLBACK_TX) {
		rsk_rx_to_tcp(rx);
	} else {
		return -EPROTO;
	}
	return 0;
}

/*
 * Returns 0, or -EPROTO: on a fabric where a put has landed when its index has, a hash that stays
 * wrong for so long will never be right.
 */
static int note_bad_look(struct rsk_rx *rx)
{
	if (rx->ring.bad_looks < BAD_LOOKS_BEFORE_REPAIR)
		return 0;
	rx->ring.bad_looks = 0;
	if (rx->rail->ops->caps & RSK_FABRIC_SYNC)
		return -EPROTO;
	rx->own.word.repair++;
	rsk_rx_say(rx, rx->own.word.what, rx->own.word.pos);
	return 0;
}

static void drop_partial_if_done(struct rsk_rx *rx)
{
	if (rx->partial.off == rx->partial.len)
		rsk_rx_free_partial(rx);
}

/*
 * Subtracts this slot from what rsk_rx_pending() has counted. Not below 0, whatever the peer has
 * written since.
 */
static void uncount(struct rsk_rx *rx, const struct rsk_slot_view *v)
{
	uint64_t n = v->head.kind == RSK_SLOT_DATA ? v->head.len : 0;

	rx->counted.bytes -= n < rx->counted.bytes ? n : rx->counted.bytes;
}

/*
 * Takes the slot. A sender that skips a part of the lap knows that everything before it was taken,
 * so that part counts as credited. Returns 0, or -EPROTO: a correct sender does not write that tag.
 */
static int consume(struct rsk_rx *rx, const struct rsk_slot_view *v)
{
	if (__builtin_expect(rx->tags.on | v->head.order, 0) && rsk_rx_txn_tags_begin(rx) &&
	    rsk_txn_tags_take(rx->tags.machine, &v->head) < 0)
		return -EPROTO;
	if (v->head.index != rx->ring.next)
		rx->credit.sent = v->head.index;
	if (rx->counted.bytes)
		uncount(rx, v);
	rsk_ring_consume(&rx->ring, v);
	return 0;
}

/*
 * How much of a slot of @len bytes, which is longer than the current run of @dst, can be copied
 * there directly.
 */
static uint32_t split_at(struct rsk_iovcur *dst, uint32_t len, uint8_t **first)
{
	size_t run = rsk_iovcur_run(dst, first);
	uint32_t most = len ? (len - 1) / RSK_HASH_SPLIT_BYTES * RSK_HASH_SPLIT_BYTES : 0;

	return run < most ? (uint32_t)run / RSK_HASH_SPLIT_BYTES * RSK_HASH_SPLIT_BYTES : most;
}

/*
 * Copies the next slot into the partial slot, or runs a command. What fits in the current run of
 * @dst goes there directly, all but a last part: partial.off bytes. @dst advances. Returns 1: there
 * is a partial slot; 0: nothing; 2: a command was run; -errno.
 */
static int keep_partial(struct rsk_rx *rx, const struct rsk_slot_view *v, struct rsk_iovcur *dst)
{
	uint8_t *first = NULL;
	uint32_t split;
	uint8_t command[sizeof(struct rsk_slot_command)];
	struct rsk_slot_command cmd;

	if (v->head.kind == RSK_SLOT_CONTROL && v->head.len == sizeof(command)) {
		if (!rsk_ring_copy(&rx->ring, &rx->key, v, command)) {
			return note_bad_look(rx);
		}
		memcpy(&cmd, command, sizeof(cmd));
		if (consume(rx, v) < 0)
			return -EPROTO;
		return run_command(rx, &cmd) < 0 ? -EPROTO : 2;
	}
	if (!rx->partial.bytes)
		rx->partial.bytes = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (!rx->partial.bytes)
		return -ENOMEM;
	split = dst ? split_at(dst, v->head.len, &first) : 0;
	if (split && !rsk_touch_writes(first, split))
		split = 0; /* nothing of the slot is delivered yet */
	if (!rsk_ring_copy_split(&rx->ring, &rx->key, v, first, split, rx->partial.bytes)) {
		rsk_rx_free_partial(rx);
		return note_bad_look(rx);
	}
	if (v->head.kind != RSK_SLOT_DATA || !v->head.len || consume(rx, v) < 0)
		return -EPROTO;
	if (split)
		rsk_iovcur_advance(dst, split);
	rx->partial.len = v->head.len;
	rx->partial.off = split;
	rx->partial.cell = v->head.index;
	rx->pos += split;
	rx->ring_bytes += split;
	return 1;
}

int rsk_rx_run_commands(struct rsk_rx *rx)
{
	struct rsk_slot_view v;
	int rc = 2;

	while (rc == 2 && rx->state == RSK_RX_ONRING && !rx->fin && !rx->partial.len &&
	       !rsk_rx_is_quiesced(rx) && rsk_rx_peek(rx, &rx->ring, &v) &&
	       v.head.kind == RSK_SLOT_CONTROL)
		rc = keep_partial(rx, &v, NULL);
	if (rx->state != RSK_RX_ONRING || rx->fin)
		rsk_rx_give_credit(rx, true);
	return rc < 0 ? rc : 0;
}

/* Returns bytes, or -EFAULT: nothing is taken. */
static ssize_t take_partial(struct rsk_rx *rx, struct rsk_iovcur *dst)
{
	size_t n = rx->partial.len - rx->partial.off;

	if (n > dst->left)
		n = dst->left;
	if (!rsk_touch_scatters(dst, n))
		return -EFAULT;
	rsk_iovcur_scatter(dst, rx->partial.bytes + rx->partial.off, n);
	rx->partial.off += (uint32_t)n;
	rx->pos += n;
	rx->ring_bytes += n;
	drop_partial_if_done(rx);
	return (ssize_t)n;
}

ssize_t rsk_rx_recv_ring(struct rsk_rx *rx, struct rsk_iovcur *dst)
{
	size_t total = 0;
	int rc = 0;

	while (dst->left) {
		struct rsk_slot_view v;
		uint8_t *p = NULL;

		if (rx->partial.len) {
			ssize_t n = take_partial(rx, dst);

			if (n < 0) {
				rc = (int)n;
				break;
			}
			total += (size_t)n;
			continue;
		}
		if (rx->state != RSK_RX_ONRING || rx->fin || !rsk_rx_peek(rx, &rx->ring, &v))
			break;
		/* Directly to the destination, if the payload fits there in one run. */
		if (v.head.kind == RSK_SLOT_DATA && v.head.len &&
		    rsk_iovcur_run(dst, &p) >= v.head.len) {
			if (!rsk_touch_writes(p, v.head.len)) {
				rc = -EFAULT;
				break;
			}
			if (!rsk_ring_copy(&rx->ring, &rx->key, &v, p)) {
				rc = note_bad_look(rx);
				break;
			}
			rc = consume(rx, &v);
			if (rc < 0)
				break;
			rsk_iovcur_advance(dst, v.head.len);
			rx->pos += v.head.len;
			rx->ring_bytes += v.head.len;
			total += v.head.len;
			/* A large buffer takes many slots: let the sender continue meanwhile. */
			if (total >= rsk_rx_round_bytes(rx))
				break;
			if (dst->left)
				rsk_rx_give_credit(rx, false);
			continue;
		}
		rc = keep_partial(rx, &v, dst);
		if (rc == 1)
			total += rx->partial.off;
		if (rc <= 0)
			break;
	}
	rsk_rx_give_credit(rx, rx->state != RSK_RX_ONRING);
	rsk_rx_lift_ring_limit(rx);
	return total ? (ssize_t)total : rc < 0 ? rc : 0;
}

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
		return next ? note_bad_look(rx) : 0;
	return v->head.kind == RSK_SLOT_DATA && v->head.len ? 1 : -EPROTO;
}

/* A slot that does not fit @dst goes through a scratch buffer. */
ssize_t rsk_rx_peek_ring(struct rsk_rx *rx, struct rsk_iovcur *dst, bool *command)
{
	struct rsk_ring_rx ring = rx->ring;
	struct rsk_slot_view v = { 0 };
	uint8_t *scratch = NULL;
	size_t total = 0;
	int rc = 0;

	if (rx->partial.len) {
		size_t n = rx->partial.len - rx->partial.off;

		total = n < dst->left ? n : dst->left;
		if (!rsk_touch_scatters(dst, total)) {
			*command = false;
			return -EFAULT;
		}
		rsk_iovcur_scatter(dst, rx->partial.bytes + rx->partial.off, total);
	}
	while (dst->left && rx->state >= RSK_RX_DRAIN_TCP && !rx->fin && within(rx, &ring) &&
	       rsk_rx_peek(rx, &ring, &v) && v.head.kind != RSK_SLOT_CONTROL) {
		size_t n = v.head.len < dst->left ? v.head.len : dst->left;

		if (!scratch)
			scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
		rc = peek_slot(rx, &ring, &v, scratch);
		if (rc > 0 && !rsk_touch_scatters(dst, n))
			rc = -EFAULT;
		if (rc <= 0)
			break;
		rsk_iovcur_scatter(dst, scratch, n);
		total += n;
		rsk_ring_consume(&ring, &v);
	}
	rx->ring.retries = ring.retries;
	rsk_arena_free(scratch);
	*command = v.head.kind == RSK_SLOT_CONTROL;
	return total ? (ssize_t)total : rc < 0 ? rc : 0;
}

/* The next slot was checked once more, and is not whole. */
static bool is_stuck(struct rsk_rx *rx)
{
	if (rx->whole.part_at != rx->ring.next) {
		rx->whole.part_at = rx->ring.next;
		rx->whole.looks = 0;
	}
	return ++rx->whole.looks >= BAD_LOOKS_BEFORE_REPAIR;
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
	rx->whole.to = v->head.index + rsk_slot_cells(v->head.len);
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
	if (rx->state == RSK_RX_ONRING)
		return peek_whole(rx, &rx->ring, &v);
	return rx->overread.len > 0;
}

/*
 * Walks over what is in the ring, from @ring's next slot on, up to a command or to where nothing
 * has arrived. Adds the payload lengths to *bytes. Returns true at a command.
 */
static bool go_ahead(struct rsk_rx *rx, struct rsk_ring_rx *ring, uint64_t *bytes)
{
	struct rsk_slot_view v;

	while (rx->state >= RSK_RX_DRAIN_TCP && within(rx, ring) && peek_whole(rx, ring, &v)) {
		if (v.head.kind != RSK_SLOT_DATA)
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
	if (rx->state != RSK_RX_ONRING || rx->tcp.err || rx->tcp.err_told || rx->rail_loss.lost ||
	    rx->rail_loss.limit || rx->rail->ops->caps & RSK_FABRIC_SYNC)
		return RSK_RX_END_TCP;
	word = rsk_rx_is_quiesced(rx) ? -1 : last_word(rx);
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
			ring.next++;
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
