// SPDX-License-Identifier: BSD-2-Clause
/*
 * rx_ring.c - the receiving machine's ring: slots to bytes, commands, credit, and a ring that
 * begins anew over another rail. See rx.h; what is unread there is examined by rx_peek.c.
 */
#include <errno.h>

#include "arena.h"
#include "rx_parts.h"
#include "touch.h"

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
		rx->repair.taken = false;
		if (rsk_rx_txn_tags(rx))
			rsk_txn_tags_credited(rx->tags.machine, rx->partial.len);
	}
	return rsk_control_word_put(rx->rail, rx->own.off, &rx->key, RSK_CONTROL_WORD_RX,
				    &rx->own.word);
}

int rsk_rx_want_stamps(struct rsk_rx *rx)
{
	if (!rx->ring.sync || rx->fell_back || rx->own.word.flags)
		return 0;
	rx->own.word.flags = RSK_RX_WORD_STAMPS;
	return rsk_rx_say(rx, rx->own.word.what, rx->own.word.pos);
}

/*
 * Only a sender that has no room looks at the mailbox, so nothing is published while all that has
 * arrived is read, as in a round trip: publishing costs more than reading 64 bytes.
 */
static bool leaves_some(const struct rsk_rx *rx)
{
	return rx->partial.len || __atomic_load_n(rsk_ring_place(&rx->ring, rx->ring.next),
						  __ATOMIC_RELAXED) == rx->ring.next;
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
	    !rsk_rx_is_quiesced(rx) && leaves_some(rx))
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

/* Is so much worth a message? An eighth of what the sender uses of a lap is. */
static bool is_large_part(struct rsk_rx *rx, uint64_t free)
{
	return free >= rx->ring.lap_cells / 8 &&
	       free >= rsk_ring_lap_cells(&rx->ring, rsk_rx_free_below(rx)) / 8;
}

void rsk_rx_give_credit(struct rsk_rx *rx, bool all)
{
	uint64_t free;

	rsk_rx_publish_consumed(rx);
	if (rx->fell_back)
		return;
	free = rsk_rx_free_below(rx) - rx->credit.sent;
	if ((all || rx->fin || rx->repair.taken ? free >= 1 : is_large_part(rx, free)) ||
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

/*
 * Its turn has come: all slots below its index are read. A sender that obeys the protocol has put
 * it at that position of the stream (docs/adr/mechanisms.md).
 */
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

/* Returns 0, or -EPROTO: the slot cannot be retransmitted either. */
static int give_up(struct rsk_rx *rx)
{
	int rc;

	if (rx->repair.gave_up)
		return -EPROTO;
	rx->repair.gave_up = true;
	/* One more request: its answer means that QUIESCED has none (rsk_rx_see_refusal()). */
	rx->own.word.repair++;
	rx->whole.to = 0; /* whatever was whole, a damaged head must not pass for a command's */
	rc = rsk_rx_quiesce(rx);
	return rc == 0 || rc == -EAGAIN ? 0 : -EPROTO;
}

int rsk_rx_ask(struct rsk_rx *rx)
{
	bool again = rx->repair.index == rx->ring.next;

	if (rx->rail_loss.limit)
		return -EPROTO;
	if (rx->fell_back || rsk_rx_is_quiesced(rx))
		return 0;
	if (again && rx->rail->ops->arrived) {
		if (rsk_rx_repair_open(rx))
			return 0;
		if (rx->repair.vain == RSK_RX_REPAIRS)
			return give_up(rx);
		rx->repair.vain++;
	}
	rx->own.word.repair++;
	if (rsk_rx_say(rx, rx->own.word.what, rx->own.word.pos) == RSK_RAIL_MUTE) {
		rx->own.word.repair--;
		return 0;
	}
	if (!again)
		rx->repair.vain = 0;
	rx->repair.gave_up &= again;
	rx->repair.index = rx->ring.next;
	return 0;
}

int rsk_rx_bad_check(struct rsk_rx *rx)
{
	if (rx->ring.bad_looks < RSK_RX_BAD_CHECKS)
		return 0;
	rx->ring.bad_looks = 0;
	return rx->rail->ops->caps & RSK_FABRIC_SYNC ? -EPROTO : rsk_rx_ask(rx);
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
	uint64_t n = rsk_slot_is_data(v->head.kind) ? v->head.len : 0;

	rx->counted.bytes -= n < rx->counted.bytes ? n : rx->counted.bytes;
}

/*
 * The slot is being taken. A sender that skips a part of the lap knows that everything before it
 * was taken, so that part counts as credited. Returns 0, or -EPROTO: a correct sender does not
 * write that tag.
 */
static int note_taken(struct rsk_rx *rx, const struct rsk_slot_view *v)
{
	if (__builtin_expect(rx->tags.on | v->head.order, 0) && rsk_rx_txn_tags_begin(rx) &&
	    rsk_txn_tags_take(rx->tags.machine, &v->head) < 0)
		return -EPROTO;
	if (v->head.index != rx->ring.next)
		rx->credit.sent = v->head.index;
	if (rx->counted.bytes)
		uncount(rx, v);
	/* The sender is told at once, or it puts the slot again for nothing. */
	if (__builtin_expect(v->head.index == rx->repair.index, 0))
		rx->repair.taken = true;
	return 0;
}

static int consume(struct rsk_rx *rx, const struct rsk_slot_view *v)
{
	int rc = note_taken(rx, v);

	if (rc == 0)
		rsk_ring_consume(&rx->ring, v);
	return rc;
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
 * Copies the next slot into the partial slot, or runs a command, or takes an empty slot. What fits
 * in the current run of @dst goes there directly, all but a last part: partial.off bytes. @dst
 * advances. Returns 1: there is a partial slot; 0: nothing; 2: one of the others was; -errno.
 */
static int keep_partial(struct rsk_rx *rx, const struct rsk_slot_view *v, struct rsk_iovcur *dst)
{
	uint8_t *first = NULL;
	uint32_t split;
	uint8_t command[sizeof(struct rsk_slot_command)];
	struct rsk_slot_command cmd;

	if (v->head.kind == RSK_SLOT_CONTROL && v->head.len == sizeof(command)) {
		if (!rsk_ring_copy(&rx->ring, &rx->key, v, command)) {
			return rsk_rx_bad_check(rx);
		}
		memcpy(&cmd, command, sizeof(cmd));
		if (consume(rx, v) < 0)
			return -EPROTO;
		return run_command(rx, &cmd) < 0 ? -EPROTO : 2;
	}
	if (rsk_slot_is_empty(&v->head)) {
		/* Where laps are as long as the ring, nobody puts one. */
		if (rx->ring.sync)
			return -EPROTO;
		if (!rsk_ring_copy(&rx->ring, &rx->key, v, command))
			return rsk_rx_bad_check(rx);
		if (consume(rx, v) < 0)
			return -EPROTO;
		/* The sender waits for that, to give back what it does not use. */
		rsk_rx_give_credit(rx, true);
		return 2;
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
		return rsk_rx_bad_check(rx);
	}
	if (!rsk_slot_is_data(v->head.kind) || !v->head.len || consume(rx, v) < 0)
		return -EPROTO;
	rx->stamp.taken_ns = rsk_rx_stamp_of(rx, v);
	if (split)
		rsk_iovcur_advance(dst, split);
	rx->partial.len = v->head.len;
	rx->partial.off = split;
	rx->partial.cell = v->head.index;
	rx->pos += split;
	rx->ring_bytes += split;
	return 1;
}

static bool may_run(const struct rsk_rx *rx, struct rsk_slot_view *v)
{
	return rx->state == RSK_RX_ONRING && !rx->fin && !rx->partial.len &&
	       !rsk_rx_is_quiesced(rx) && rsk_rx_peek(rx, &rx->ring, v) &&
	       v->head.kind != RSK_SLOT_DATA;
}

/* The part that most calls do not need. */
static __attribute__((noinline)) int run_commands(struct rsk_rx *rx)
{
	struct rsk_slot_view v;
	int rc = 2;

	while (rc == 2 && may_run(rx, &v) &&
	       (v.head.kind == RSK_SLOT_CONTROL || rsk_slot_is_empty(&v.head)))
		rc = keep_partial(rx, &v, NULL);
	if (rx->state != RSK_RX_ONRING || rx->fin)
		rsk_rx_give_credit(rx, true);
	return rc < 0 ? rc : 0;
}

int rsk_rx_catch_up(struct rsk_rx *rx)
{
	int rc = rsk_rx_run_commands(rx);

	if (rc == 0 && rx->state == RSK_RX_ONRING)
		rsk_rx_give_credit(rx, true);
	return rc;
}

int rsk_rx_run_commands(struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	if (rx->state == RSK_RX_ONRING && !rx->fin && !may_run(rx, &v))
		return 0;
	return run_commands(rx);
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
		/*
		 * Directly to the destination, if the payload fits there in one run. The last one
		 * of a lap, which is rare, goes the longer way.
		 */
		if (v.head.kind == RSK_SLOT_DATA && v.head.len &&
		    rsk_iovcur_run(dst, &p) >= v.head.len) {
			if (!rsk_touch_writes(p, v.head.len)) {
				rc = -EFAULT;
				break;
			}
			if (!rsk_ring_copy(&rx->ring, &rx->key, &v, p)) {
				rc = rsk_rx_bad_check(rx);
				break;
			}
			rc = note_taken(rx, &v);
			if (rc < 0)
				break;
			rsk_ring_step(&rx->ring, &v, rsk_slot_cells(v.head.len));
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
	/* Otherwise nothing was taken but a slot of no bytes, which has given credit. */
	if (total || rx->fin || rx->state != RSK_RX_ONRING)
		rsk_rx_give_credit(rx, rx->state != RSK_RX_ONRING);
	rsk_rx_lift_ring_limit(rx);
	return total ? (ssize_t)total : rc < 0 ? rc : 0;
}

static void renew(struct rsk_rx *rx)
{
	uint64_t seed = rx->rail_loss.renew_seed;
	struct rsk_control_word m;

	rx->rail_loss.renew_seed = 0;
	rsk_rx_free_partial(rx);
	rsk_ring_rx_init(&rx->ring, rx->ring.base, rx->ring.cells, rsk_ring_first_lap(seed),
			 rx->ring.sync);
	if (rx->rail_loss.lap_cells)
		rx->ring.lap_cells = rx->rail_loss.lap_cells;
	rsk_key_init(&rx->key, seed);
	if (rx->credit.mailbox.at)
		rsk_rx_publish_at(rx, rx->credit.mailbox.at, rx->credit.mailbox.bytes);
	/*
	 * A word of the old key would count as new forever. The sender's first word with the new
	 * key must count as new.
	 */
	__atomic_store_n(&rx->word.seen,
			 rsk_control_word_get(rx->word.at, &rx->key, RSK_CONTROL_WORD_TX, &m) ?
				 0 :
				 __atomic_load_n(&rx->word.at->hash, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	rx->own.word = (struct rsk_control_word){ 0 };
	rx->fallback.step = RSK_FALLBACK_NONE;
	rx->fell_back = rx->fallback.repeated = rx->rail_loss.no_command = false;
	rx->gen = rx->proposed = 0;
	rx->counted.to = rx->counted.bytes = rx->whole.to = 0;
	rsk_rx_repair_reset(rx);
	rx->repair.answered = 0;
	rx->credit.sent = rx->ring.next;
	rsk_rx_publish_consumed(rx);
}

void rsk_rx_lift_ring_limit(struct rsk_rx *rx)
{
	if (__builtin_expect(!rx->rail_loss.limit, 1) || rx->partial.len || rx->fin)
		return;
	if (rx->state == RSK_RX_DRAIN_TCP ||
	    (rx->state == RSK_RX_ONRING && rx->ring.next < rx->rail_loss.limit))
		return;
	rsk_rx_to_tcp(rx);
	rx->rail_loss.limit = 0;
	rx->fell_back = true;
	if (rx->rail_loss.renew_seed)
		renew(rx);
}

void rsk_rx_renew(struct rsk_rx *rx, uint64_t key_seed)
{
	if (rx->fin || rx->own.word.what == RSK_RX_CLOSED)
		return;
	rx->rail_loss.renew_seed = key_seed;
	if (!rx->rail_loss.limit)
		renew(rx);
}
