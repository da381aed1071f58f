// SPDX-License-Identifier: BSD-2-Clause
/* rx.c - the receiving machine's states and its fallback to TCP: see rx.h. */
#include "rx.h"

#include <errno.h>

#include "arena.h"
#include "rx_parts.h"

void rsk_rx_init(struct rsk_rx *rx, struct rsk_rail *rail, const uint8_t *ring, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *word, uint64_t key_seed)
{
	*rx = (struct rsk_rx){
		.rail = rail, .word.at = word, .own.off = word_off, .state = RSK_RX_TCP
	};
	rsk_ring_rx_init(&rx->ring, ring, cells, rsk_ring_first_lap(key_seed),
			 rail->ops->caps & RSK_FABRIC_SYNC);
	rx->credit.sent = rx->ring.next;
	rsk_key_init(&rx->key, key_seed);
}

void rsk_rx_free_overread(struct rsk_rx *rx)
{
	rsk_arena_free(rx->overread.bytes);
	rx->overread.bytes = NULL;
	rx->overread.len = rx->overread.off = 0;
}

void rsk_rx_fini(struct rsk_rx *rx)
{
	rsk_rx_free_overread(rx);
	rsk_rx_free_partial(rx);
	rsk_arena_free(rx->tags.machine);
	rx->tags.machine = NULL;
	rx->tags.on = false;
}

/* On the ring, the tags' machine must have taken exactly what the ring has. */
static bool tags_ok(const struct rsk_rx *rx)
{
	const struct rsk_txn_tags_rx *m = rsk_rx_txn_tags(rx);

	return !m || (rsk_order_rx_validate(&m->order) && m->order.base == rx->ring.next &&
		      m->credited <= m->order.low);
}

/* Which steps can be, in which state: see enum rsk_rx_fallback. */
static bool fallback_ok(const struct rsk_rx *rx)
{
	switch (rx->fallback.step) {
	case RSK_FALLBACK_NONE:
	case RSK_FALLBACK_RACE:
	case RSK_FALLBACK_APPLIED:
		return true;
	case RSK_FALLBACK_ENDED:
		return rx->ended && rx->state >= RSK_RX_DRAIN_TCP;
	case RSK_FALLBACK_QUIESCED:
		return rx->state >= RSK_RX_DRAIN_TCP && !rx->fin && !rx->fell_back;
	default:
		return false;
	}
}

bool rsk_rx_validate(const struct rsk_rx *rx)
{
	if (!rsk_ring_rx_validate(&rx->ring) || rx->state > RSK_RX_ONRING)
		return false;
	if (rx->partial.off > rx->partial.len || rx->overread.off > rx->overread.len)
		return false;
	if (rx->partial.len && (!rx->partial.bytes || rx->partial.cell >= rx->ring.next))
		return false;
	if (rx->credit.sent > rx->ring.next)
		return false;
	if (rx->counts.promotions - rx->counts.demotions != (rx->state == RSK_RX_ONRING))
		return false;
	if (!fallback_ok(rx) || !tags_ok(rx) || rx->repair.index > rx->ring.next ||
	    rx->repair.vain > RSK_RX_REPAIRS)
		return false;
	return rx->state != RSK_RX_DRAIN_TCP || rx->pos <= rx->switch_at.pos;
}

/*
 * There is one control word, so it also carries the acknowledgement (SWITCHED) that the sender
 * waits for.
 */
static void say_req_fallback(struct rsk_rx *rx)
{
	rsk_rx_say(rx, RSK_RX_REQ_FALLBACK, rx->state >= RSK_RX_DRAIN_TCP);
}

/*
 * The sender continues after slots that it had put into a ring that we had left, or in the next lap
 * (rsk_ring_tx_end_lap()). Returns 0 or -EPROTO.
 */
static int jump(struct rsk_rx *rx, uint64_t cells)
{
	if (cells < rx->ring.next || cells - rx->ring.next > 2 * (uint64_t)rx->ring.cells)
		return -EPROTO;
	if (!rx->fallback.jumps && cells != rsk_ring_next_lap(rx->ring.cells, rx->ring.next))
		return -EPROTO;
	rx->ring.next = rx->credit.sent = cells;
	rx->counted.to = rx->counted.bytes = rx->whole.to = 0;
	rsk_rx_publish_consumed(rx);
	return 0;
}

static int see_word(struct rsk_rx *rx, const struct rsk_control_word *m)
{
	if (m->what == RSK_TX_PROPOSE) {
		if (m->gen > rx->proposed)
			rx->proposed = m->gen;
		return 0;
	}
	if (m->what == RSK_TX_RETRANSMIT && m->cells)
		return rsk_rx_see_retransmit(rx, m);
	if ((m->what == RSK_TX_RETRANSMIT || m->what == RSK_TX_NONE) && rx->fallback.paused &&
	    m->gen == rx->fallback.paused) {
		rx->fallback.paused = 0;
		if (!rx->stay_off) /* the request was withdrawn meanwhile */
			rsk_rx_say_stay(rx);
		return 0;
	}
	if (m->what == RSK_TX_RETRANSMIT && rsk_rx_in_race(rx)) {
		if (m->gen != rx->gen ||
		    (m->pos != rx->fallback.pos && rx->fallback.pos != RSK_POS_START))
			return -EPROTO;
		rx->fallback.step = RSK_FALLBACK_APPLIED;
		return 0;
	}
	/* The sender has withdrawn its proposal: neither answer it nor wait for it. */
	if (m->what == RSK_TX_NONE && m->gen >= rx->proposed) {
		rx->proposed = rx->gen;
		if (rx->state == RSK_RX_WATCH)
			rx->state = RSK_RX_TCP;
		return 0;
	}
	if (m->what != RSK_TX_RING || rx->state != RSK_RX_WATCH || m->gen != rx->gen)
		return 0;
	if (m->cells != rx->ring.next && jump(rx, m->cells) < 0)
		return -EPROTO;
	rx->fallback.jumps = rx->fallback.asked = false;
	if (rx->rail_loss.lap_cells)
		rx->ring.lap_cells = rx->rail_loss.lap_cells;
	rx->switch_at.pos = m->pos;
	rx->switch_at.cell = m->cells;
	rx->tags.on = false; /* until a slot has a tag, or has overtaken another */
	rsk_rx_repair_reset(rx);
	rx->state = RSK_RX_DRAIN_TCP;
	/* Errors of the rail are ignored here: the sender finds that it is broken. */
	if (!(rx->rail->ops->caps & RSK_FABRIC_SYNC)) {
		if (rx->own.word.what == RSK_RX_REQ_FALLBACK)
			say_req_fallback(rx);
		else
			rsk_rx_say(rx, RSK_RX_SWITCHED, 0);
	}
	return 0;
}

void rsk_rx_say_stay(struct rsk_rx *rx)
{
	if (rx->stay_off)
		say_req_fallback(rx);
	else if (rx->state == RSK_RX_WATCH)
		rsk_rx_say(rx, RSK_RX_WATCHING, 0);
	else
		rsk_rx_say(rx, rx->state == RSK_RX_TCP ? RSK_RX_NONE : RSK_RX_SWITCHED, 0);
}

int rsk_rx_refuse(struct rsk_rx *rx)
{
	rsk_rx_to_tcp(rx);
	rx->fell_back = true;
	rsk_rx_unquiesce(rx);
	return -EPROTO;
}

int rsk_rx_take_word(struct rsk_rx *rx)
{
	struct rsk_control_word m;

	if (rx->fell_back || rx->fin || !rsk_control_word_fresh(rx->word.at, rx->word.seen) ||
	    !rsk_control_word_get(rx->word.at, &rx->key, RSK_CONTROL_WORD_TX, &m))
		return 0;
	__atomic_store_n(&rx->word.seen, m.hash, __ATOMIC_RELAXED);
	rx->repair.answered = m.repair;
	return see_word(rx, &m);
}

void rsk_rx_arrive(struct rsk_rx *rx)
{
	if (rx->state == RSK_RX_DRAIN_TCP && rx->pos == rx->switch_at.pos) {
		rx->state = RSK_RX_ONRING;
		rx->counts.promotions++;
		rx->tcp.ahead = false; /* what was seen there is older than this promotion */
	}
}

/*
 * The sender applied a FALLBACK_RX that we had withdrawn: it retransmits from that position,
 * including what was read here since.
 */
static void follow(struct rsk_rx *rx)
{
	if (rx->pos > rx->fallback.pos) {
		rx->skip = rx->pos - rx->fallback.pos;
		rx->ring_bytes -= rx->skip;
	}
	rsk_rx_free_partial(rx);
	rsk_rx_to_tcp(rx);
	rx->fallback.step = RSK_FALLBACK_NONE;
}

int rsk_rx_serve(struct rsk_rx *rx, struct rsk_tcp *c)
{
	uint64_t tcp_pos;
	int rc;

	if (rx->fell_back || rx->fin)
		return 0;
	rc = rsk_rx_take_word(rx);
	if (rc < 0)
		return rc;
	/*
	 * Every TCP read checks the control word directly afterwards, so a correct sender's switch
	 * position is not below ours here.
	 */
	if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
		return rsk_rx_refuse(rx);
	/*
	 * A call that only waits for readiness also has to reach the ring, when everything before
	 * it is read.
	 */
	rsk_rx_arrive(rx);
	rsk_rx_lift_ring_limit(rx);
	if (__builtin_expect(rsk_rx_is_quiesced(rx), 0)) {
		rc = rsk_rx_see_answer(rx);
		if (rc == 0)
			rsk_rx_see_refusal(rx);
		if (rc < 0 || rsk_rx_is_quiesced(rx))
			return rc;
	}
	if (rx->fallback.step == RSK_FALLBACK_APPLIED && rx->state >= RSK_RX_DRAIN_TCP)
		follow(rx);
	if (rx->proposed > rx->gen && !rx->gave_up && !rx->stay_off && !rx->overread.len &&
	    (rx->state == RSK_RX_TCP || rx->state == RSK_RX_WATCH)) {
		rc = c->ops->rx_pos(c, &tcp_pos);
		if (rc == -EAGAIN)
			return 0;
		if (rc < 0) {
			rx->gave_up = true;
			return 0;
		}
		rx->pos = tcp_pos + rx->ring_bytes;
		rx->gen = rx->proposed;
		/* A sender that proposes has not seen a FALLBACK_RX. */
		rx->fallback.step = RSK_FALLBACK_NONE;
		rx->fallback.repeated = false;
		rx->state = RSK_RX_WATCH;
		rsk_rx_say(rx, RSK_RX_WATCHING, 0);
	}
	return 0;
}

static bool unread_in_ring(const struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	return rx->state >= RSK_RX_DRAIN_TCP && !rx->fin &&
	       (rx->partial.len || rsk_rx_peek(rx, &rx->ring, &v));
}

static int stay_here(struct rsk_rx *rx, bool stay, const struct rsk_control_word *before)
{
	if (stay)
		say_req_fallback(rx);
	else if (before)
		rx->own.word = *before; /* credit goes out with this word from here on */
	return -EBUSY;
}

bool rsk_rx_end_it(struct rsk_rx *rx)
{
	if (!rx->ended || rx->fell_back || rx->fin || rsk_rx_in_race(rx) || rx->overread.len ||
	    rx->skip || rx->state < RSK_RX_DRAIN_TCP || rsk_rx_moved_on(rx))
		return false;
	if (!rsk_promotion_end(rx->ended, rx->gen, RSK_ENDED_BY_RX))
		return false;
	rx->fallback.step = RSK_FALLBACK_ENDED;
	return true;
}

/*
 * This end ended the promotion first (rsk_rx_end_it()): the sender retransmits what is unread,
 * whatever it puts meanwhile.
 */
static int fall_back_ours(struct rsk_rx *rx, bool *again)
{
	rsk_rx_say(rx, RSK_RX_FALLBACK_RX,
		   rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos : rx->pos);
	/*
	 * As in rsk_rx_fall_back(): a slot that the sender put before it saw our FALLBACK_RX is
	 * seen here.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	*again = rx->fallback.asked = unread_in_ring(rx);
	rx->fallback.step = RSK_FALLBACK_NONE;
	rx->fell_back = true;
	rsk_rx_free_partial(rx);
	rsk_rx_to_tcp(rx);
	return 0;
}

int rsk_rx_fall_back(struct rsk_rx *rx, bool stay, bool *again)
{
	struct rsk_control_word before;
	uint64_t pos;
	int rc;

	*again = false;
	/* Whoever reads the TCP socket from here on would not learn that bytes are missing. */
	if (rsk_rx_unreported(rx))
		return rx->rail_loss.lost ? rsk_rx_refuse(rx) : -EAGAIN;
	if (rx->fell_back)
		return 0;
	if (rx->fallback.step == RSK_FALLBACK_ENDED)
		return fall_back_ours(rx, again);
	rc = rsk_rx_take_word(rx);
	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
		return rsk_rx_refuse(rx);
	rsk_rx_arrive(rx);
	rc = rsk_rx_run_commands(rx);
	if (rc < 0)
		return rc;
	if (rx->fallback.paused) { /* PAUSE has already been said, with the position */
		rx->fell_back = true;
		return 0;
	}
	if (rsk_rx_in_race(rx))
		return -EBUSY;
	/* A FALLBACK_TX that is under way may arrive before our FALLBACK_RX does. */
	if (rx->rail->ops->arrived) {
		rc = rsk_rx_quiesce(rx);
		if (rc < 0)
			return rc == -EBUSY ? stay_here(rx, true, NULL) : rc;
	}
	if (rx->overread.len || rx->skip || rx->rail_loss.limit || rsk_rx_moved_on(rx) ||
	    (stay && unread_in_ring(rx)))
		return stay_here(rx, stay, NULL);
	pos = rx->pos;
	if (rx->state == RSK_RX_WATCH)
		pos = RSK_POS_START;
	else if (rx->state == RSK_RX_DRAIN_TCP)
		pos = rx->switch_at.pos;
	before = rx->own.word;
	rx->fallback.step = RSK_FALLBACK_RACE;
	rx->fallback.pos = pos;
	if (rsk_rx_say(rx, RSK_RX_FALLBACK_RX, pos) == RSK_RAIL_MUTE) {
		rx->own.word = before;
		rx->fallback.step = RSK_FALLBACK_NONE;
		return -EBUSY;
	}
	/*
	 * Order our FALLBACK_RX before our check of the sender's commands; command() in tx.c has
	 * the other half.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	rc = rsk_rx_take_word(rx);
	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
		return rsk_rx_refuse(rx);
	if (rx->fallback.step != RSK_FALLBACK_APPLIED &&
	    (rsk_rx_moved_on(rx) || (stay && unread_in_ring(rx)))) {
		if (pos == RSK_POS_START)
			rx->fallback.pos = rx->switch_at.pos;
		return stay_here(rx, stay, &before);
	}
	*again = rx->fallback.asked = rx->fallback.repeated || unread_in_ring(rx);
	rx->fallback.step = RSK_FALLBACK_NONE;
	rx->fell_back = true;
	rsk_rx_free_partial(rx);
	if (!rx->fin)
		rsk_rx_to_tcp(rx);
	return 0;
}

int rsk_rx_pause(struct rsk_rx *rx)
{
	int rc = rsk_rx_take_word(rx);
	uint64_t pos = rx->pos;

	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_DRAIN_TCP && rx->pos > rx->switch_at.pos)
		return rsk_rx_refuse(rx);
	rc = rsk_rx_run_commands(rx);
	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_TCP || rx->fin || rx->fell_back)
		return 0;
	if (!rx->ended)
		return -EOPNOTSUPP;
	if (rx->state == RSK_RX_WATCH)
		pos = RSK_POS_START;
	else if (rx->state == RSK_RX_DRAIN_TCP)
		pos = rx->switch_at.pos;
	rsk_rx_say(rx, RSK_RX_PAUSE, pos);
	if (!rsk_promotion_end(rx->ended, rx->gen, RSK_ENDED_BY_RX)) {
		rsk_rx_say_stay(rx);
		return -EAGAIN;
	}
	rx->fallback.paused = rx->gen;
	rx->fallback.asked =
		true; /* the sender retransmits from here what it put after what we read */
	rx->fallback.jumps = true;
	rsk_rx_free_partial(rx);
	rx->counted.to = rx->counted.bytes = rx->whole.to = 0;
	rsk_rx_to_tcp(rx);
	return 0;
}

void rsk_rx_stay_off(struct rsk_rx *rx, bool on)
{
	if (rx->fin || rx->gave_up || rx->stay_off == on)
		return;
	rx->stay_off = on;
	if (rx->fallback.paused)
		return; /* PAUSE includes that request, and the sender has to see PAUSE first */
	/* For good, or until there is another rail, on which no proposal is answered then. */
	if (rx->fell_back)
		return;
	if (!rsk_rx_is_quiesced(rx))
		rsk_rx_say_stay(rx);
}

void rsk_rx_close(struct rsk_rx *rx)
{
	rsk_rx_publish_consumed(rx);
	rsk_rx_say(rx, RSK_RX_CLOSED, 0);
	rx->fell_back = true;
	rsk_rx_unquiesce(rx);
}

int rsk_rx_tick(struct rsk_rx *rx)
{
	if (rx->fell_back)
		return rsk_control_word_put(rx->rail, rx->own.off, &rx->key, RSK_CONTROL_WORD_RX,
					    &rx->own.word);
	if (!rx->gen && !rx->own.word.hash)
		return 0;
	return rsk_rx_say(rx, rx->own.word.what, rx->own.word.pos);
}
