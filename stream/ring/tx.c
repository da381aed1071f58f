// SPDX-License-Identifier: BSD-2-Clause
/* tx.c - the sending machine's states: see tx.h. tx_send.c has its bytes. */
#include "tx.h"

#include <errno.h>

#include "arena.h"
#include "tx_parts.h"

void rsk_tx_init(struct rsk_tx *tx, struct rsk_rail *rail, uint64_t ring_off, uint32_t cells,
		 uint64_t word_off, const struct rsk_control_word *answer, uint64_t key_seed)
{
	*tx = (struct rsk_tx){ .answer.at = answer, .own.off = word_off, .state = RSK_TX_TCP };
	rsk_ring_tx_init(&tx->ring, rail, ring_off, cells, rsk_ring_first_lap(key_seed));
	rsk_key_init(&tx->key, key_seed);
}

void rsk_tx_laps(struct rsk_tx *tx, uint32_t cells)
{
	tx->ring.lap_cells = tx->rail_loss.lap_cells = cells;
}

/*
 * A receiver that has seen wide laps gives credit for large parts of them, and would for a narrow
 * lap in vain. It learns by the slot of no bytes that they become narrow, or as a promotion begins.
 */
static bool told_narrow(struct rsk_tx *tx)
{
	if (tx->state == RSK_TX_TCP || tx->lap_ended == tx->ring.next)
		return true;
	if (rsk_ring_put_last(&tx->ring, &tx->key) == 0)
		tx->lap_ended = tx->ring.next;
	return false;
}

bool rsk_tx_narrow(struct rsk_tx *tx)
{
	uint32_t cells = tx->rail_loss.lap_cells;

	if (!cells || tx->ring.lap_cells <= cells)
		return cells;
	if ((tx->state != RSK_TX_TCP && tx->state != RSK_TX_ONRING) || tx->rail_loss.ring_over ||
	    tx->ring.credit != tx->ring.next || !told_narrow(tx))
		return false;
	tx->ring.lap_cells = cells;
	return true;
}

void rsk_tx_fini(struct rsk_tx *tx)
{
	rsk_arena_free(tx->resend.scratch);
	tx->resend.scratch = NULL;
	tx->ring.order = NULL;
	rsk_arena_free(tx->tags.machine);
	tx->tags.machine = NULL;
}

/* On the ring, the tags' machine must have exactly what was put. */
static bool tags_ok(const struct rsk_tx *tx)
{
	const struct rsk_order_tx *o = tx->ring.order;

	if (!o || tx->state != RSK_TX_ONRING)
		return true;
	return tx->tags.machine && o == &tx->tags.machine->order && rsk_order_tx_validate(o) &&
	       o->top == tx->ring.next &&
	       (o->floor <= tx->ring.told || o->floor == tx->tags.machine->begun);
}

bool rsk_tx_validate(const struct rsk_tx *tx)
{
	if (!rsk_ring_tx_validate(&tx->ring) || tx->state > RSK_TX_BROKEN)
		return false;
	if (tx->state == RSK_TX_ONRING && (!tx->gen || tx->pos < tx->start.pos))
		return false;
	if (tx->stay_off &
	    ~(RSK_TX_STAY_ASKED | RSK_TX_STAY_OWN | RSK_TX_STAY_FORK | RSK_TX_STAY_END))
		return false;
	if (tx->resend.off > tx->resend.len || tx->resend.len > RSK_SLOT_MAX_PAYLOAD)
		return false;
	if (tx->counts.promotions - tx->counts.demotions != (tx->state == RSK_TX_ONRING))
		return false;
	if (tx->answered > RSK_ANSWERED_SWITCHED || tx->reader > RSK_READER_LOST ||
	    tx->fin > RSK_FIN_DONE || !tags_ok(tx))
		return false;
	/* The ring begins after WATCHING, and SWITCHED says that it has begun. */
	if (tx->state == RSK_TX_PROPOSED && tx->answered == RSK_ANSWERED_SWITCHED)
		return false;
	return !rsk_tx_retransmits(tx) || tx->resend.pos <= tx->pos;
}

bool rsk_tx_held_back(const struct rsk_tx *tx)
{
	return rsk_tx_retransmits(tx) || tx->state == RSK_TX_BROKEN ||
	       (tx->state <= RSK_TX_PROPOSED && rsk_tx_undrained(tx));
}

bool rsk_tx_arrived(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_TCP && !rsk_tx_undrained(tx);
}

bool rsk_tx_secure(struct rsk_tx *tx)
{
	if (!rsk_tx_arrived(tx))
		return false;
	tx->rail_loss.safe_to = tx->ring.next;
	return true;
}

uint64_t rsk_tx_under_way(const struct rsk_tx *tx)
{
	uint64_t n, carried = tx->pos - tx->start.pos;

	if (tx->ring.data_end <= tx->ring.told || !rsk_tx_undrained(tx))
		return 0;
	n = (tx->ring.data_end - tx->ring.told) * RSK_CELL_BYTES;
	return n < carried ? n : carried;
}

int rsk_tx_propose(struct rsk_tx *tx)
{
	int rc;

	if (tx->peer_fell_back || tx->reader != RSK_READER_THERE || tx->fin || tx->gave_up)
		return -EPERM;
	/*
	 * Not before the receiver has taken the last slot of the previous promotion: there is one
	 * control word, and it still has to tell the receiver where that promotion began.
	 */
	if (tx->state != RSK_TX_TCP || tx->ring.credit != tx->ring.next || tx->stay_off)
		return -EAGAIN;
	tx->gen++;
	/* A request that is open is about slots of an earlier promotion. */
	tx->repair.due = tx->repair.command = false;
	tx->repair.answered = tx->repair.seen;
	tx->answered = RSK_ANSWERED_NOTHING;
	tx->state = RSK_TX_PROPOSED;
	tx->own.word = (struct rsk_control_word){ .what = RSK_TX_PROPOSE, .gen = tx->gen };
	rc = rsk_tx_put_word(tx);
	if (rc == RSK_RAIL_MUTE)
		tx->state = RSK_TX_TCP;
	else if (rc < 0)
		rsk_tx_break(tx);
	return rc;
}

/*
 * The receiver watches: fix the switch position and go to the ring. It is no error if that is not
 * possible now (the positions are in motion).
 */
static int try_switch(struct rsk_tx *tx, struct rsk_tcp *c)
{
	uint64_t tcp_pos;
	int rc = c->ops->tx_pos(c, &tcp_pos);

	if (rc == -EAGAIN)
		return 0;
	if (rc < 0) {
		tx->gave_up = true;
		rsk_tx_fall_back(tx, c);
		return 0;
	}
	rsk_ring_tx_end_lap(&tx->ring);
	tx->pos = tcp_pos + tx->ring_bytes;
	tx->start.pos = tx->read_pos = tx->pos;
	tx->start.cell = tx->ring.next;
	tx->own.word = (struct rsk_control_word){
		.what = RSK_TX_RING, .gen = tx->gen, .pos = tx->pos, .cells = tx->ring.next
	};
	rc = rsk_tx_put_word(tx);
	if (rc < 0) {
		if (rc != RSK_RAIL_MUTE)
			rsk_tx_break(tx);
		return 0;
	}
	tx->ring.order = NULL;
	tx->state = RSK_TX_ONRING;
	tx->counts.promotions++;
	rsk_tx_several(tx);
	return 0;
}

void rsk_tx_several(struct rsk_tx *tx)
{
	const struct rsk_rail *rail = tx->ring.rail;

	if (tx->state != RSK_TX_ONRING || tx->rail_loss.ring_over ||
	    tx->tags.promotion == tx->counts.promotions || !rail->ops->several ||
	    !rail->ops->several(rail))
		return;
	/*
	 * Set even if the machine cannot start, or is dropped later: it starts at most once in a
	 * promotion.
	 */
	tx->tags.promotion = tx->counts.promotions;
	if (rsk_txn_tags_tx_begin(&tx->tags.machine, &tx->tags.form, tx->ring.cells, tx->ring.next))
		tx->ring.order = &tx->tags.machine->order;
}

static void renew(struct rsk_tx *tx)
{
	uint64_t seed = tx->rail_loss.renew_seed;
	struct rsk_ring_tx former = tx->ring;
	struct rsk_control_word m;

	tx->rail_loss.renew_seed = 0;
	rsk_ring_tx_init(&tx->ring, tx->ring.rail, tx->ring.off, tx->ring.cells,
			 rsk_ring_first_lap(seed));
	tx->ring.slots = former.slots;
	if (tx->rail_loss.lap_cells)
		tx->ring.lap_cells = tx->rail_loss.lap_cells;
	rsk_tx_pace_moved(tx, &former);
	rsk_key_init(&tx->key, seed);
	/*
	 * As in rsk_rx_renew(): an answer with our key that is already there counts as new; one of
	 * the old key does not.
	 */
	__atomic_store_n(&tx->answer.seen,
			 rsk_control_word_get(tx->answer.at, &tx->key, RSK_CONTROL_WORD_RX, &m) ?
				 0 :
				 __atomic_load_n(&tx->answer.at->hash, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	tx->answered = RSK_ANSWERED_NOTHING;
	tx->peer_fell_back = tx->rail_loss.ring_over = false;
	tx->stay_off &= (uint8_t)~RSK_TX_STAY_ASKED; /* a receiver that requests it says so again */
	tx->gen = 0;
	memset(&tx->repair, 0, sizeof(tx->repair));
	tx->rail_loss.safe_to = 0;
	tx->own.word = (struct rsk_control_word){ 0 };
}

/* Cells that are free again were taken: the tags' machine counts their packets as acknowledged. */
static int believe_credit(struct rsk_tx *tx, uint64_t cells)
{
	int rc = rsk_ring_tx_credit(&tx->ring, cells);

	if (rc == 0 && tx->ring.order && tx->state == RSK_TX_ONRING)
		rc = rsk_order_tx_ack_below(tx->ring.order, cells);
	return rc;
}

int rsk_tx_credit(struct rsk_tx *tx, const struct rsk_mailbox_credit *is)
{
	if (tx->state != RSK_TX_ONRING || is->gen != tx->gen)
		return 0;
	if (is->pos < tx->start.pos || is->pos > tx->pos || is->cells < tx->start.cell ||
	    believe_credit(tx, is->cells) < 0)
		return -EPROTO;
	if (is->pos <= tx->read_pos)
		return 0;
	tx->read_pos = is->pos;
	return 1;
}

/* The receiver has seen where the ring of promotion @gen begins. */
static void see_switched(struct rsk_tx *tx, uint32_t gen)
{
	/* A correct receiver does not say so of a ring that has not begun. */
	if (gen == tx->gen && tx->state != RSK_TX_PROPOSED)
		tx->answered = RSK_ANSWERED_SWITCHED;
}

int rsk_tx_serve(struct rsk_tx *tx, struct rsk_tcp *c)
{
	struct rsk_control_word m;
	int rc = 0;

	if (__builtin_expect(tx->rail_loss.renew_seed && tx->state == RSK_TX_TCP, 0))
		renew(tx);
	if (__builtin_expect(tx->ring.told > tx->ring.credit, 0))
		rsk_ring_tx_credit(&tx->ring, tx->ring.told);
	if (rsk_control_word_fresh(tx->answer.at, tx->answer.seen) &&
	    rsk_control_word_get(tx->answer.at, &tx->key, RSK_CONTROL_WORD_RX, &m)) {
		__atomic_store_n(&tx->answer.seen, m.hash, __ATOMIC_RELAXED);
		tx->ring.stamped = (m.flags & RSK_RX_WORD_STAMPS) &&
				   (tx->ring.rail->ops->caps & RSK_FABRIC_SYNC);
		if (m.what != RSK_RX_FALLBACK_RX && m.what != RSK_RX_PAUSE) {
			rc = believe_credit(tx, m.cells);
			if (rc < 0)
				return rc;
		}
		/* The request stands until the receiver puts any other word. */
		if (m.what != RSK_RX_REQ_FALLBACK && m.what != RSK_RX_QUIESCED &&
		    m.what != RSK_RX_PAUSE)
			tx->stay_off &= (uint8_t)~RSK_TX_STAY_ASKED;
		switch (m.what) {
		case RSK_RX_WATCHING:
			if (tx->state == RSK_TX_PROPOSED && m.gen == tx->gen)
				tx->answered = RSK_ANSWERED_WATCHING;
			break;
		case RSK_RX_SWITCHED:
			see_switched(tx, m.gen);
			break;
		case RSK_RX_QUIESCED:
		case RSK_RX_FALLBACK_RX:
			rc = m.what == RSK_RX_QUIESCED ? rsk_tx_on_quiesced(tx, c, &m) :
							 rsk_tx_on_fallback_rx(tx, c, &m);
			/* Handle it again, before anything newer is sent. */
			if (rc == -EAGAIN) {
				__atomic_store_n(&tx->answer.seen, 0, __ATOMIC_RELAXED);
				return rc;
			}
			break;
		case RSK_RX_REQ_FALLBACK:
			tx->stay_off |= RSK_TX_STAY_ASKED;
			if (m.pos)
				see_switched(tx, m.gen);
			break;
		case RSK_RX_PAUSE:
			/*
			 * rsk_tx_fall_back() below does the rest: its command() finds that the
			 * promotion has ended.
			 */
			tx->stay_off |= RSK_TX_STAY_ASKED;
			break;
		case RSK_RX_CLOSED:
			rsk_tx_reader_gone(tx, RSK_READER_CLOSED);
			rsk_tx_to_tcp(tx);
			break;
		default:
			break;
		}
		if (rc == 0)
			rsk_tx_ask(tx, &m);
	}
	if (__builtin_expect(tx->repair.due, 0) && rc == 0)
		rc = rsk_tx_repair(tx);
	/* -EAGAIN: in a later call. */
	if (rc == 0 && tx->stay_off && rsk_tx_fall_back(tx, c) == -EPROTO)
		rc = -EPROTO;
	if (rc == 0 && tx->state == RSK_TX_PROPOSED && tx->answered == RSK_ANSWERED_WATCHING)
		rc = try_switch(tx, c);
	if (rc == 0 && rsk_tx_retransmits(tx))
		rc = rsk_tx_repeat(tx, c);
	if (__builtin_expect(tx->fin == RSK_FIN_DUE, 0))
		rsk_tx_fin_now(tx, c);
	return rc;
}

static int command(struct rsk_tx *tx, struct rsk_tcp *c, uint32_t what)
{
	struct rsk_slot_command cmd = { .pos = tx->pos, .what = what, .gen = tx->gen };
	int rc;

	/*
	 * Otherwise bytes on the TCP socket could overtake the control word that says where the
	 * ring began.
	 */
	if (what == RSK_COMMAND_FALLBACK_TX && tx->answered != RSK_ANSWERED_SWITCHED &&
	    !(tx->ring.rail->ops->caps & RSK_FABRIC_SYNC))
		return -EAGAIN;
	if (tx->ended && rsk_promotion_ended_by_rx(tx->ended, tx->gen))
		return rsk_tx_paused(tx, c);
	rc = rsk_ring_put_command(&tx->ring, &tx->key, &cmd);
	if (rc == RSK_RAIL_MUTE)
		return -EAGAIN;
	if (rc < 0) {
		rsk_tx_break(tx);
		return rc;
	}
	if (tx->ended && !rsk_promotion_end(tx->ended, tx->gen, RSK_ENDED_BY_TX))
		return rsk_tx_paused(tx, c);
	/*
	 * Order the command before our next check of the receiver's FALLBACK_RX; rsk_rx_fall_back()
	 * has the other half.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	/* Nothing was sent by TCP since the promotion. */
	tx->moved_tcp_pos = tx->pos - tx->ring_bytes;
	rsk_tx_to_tcp(tx);
	return 0;
}

int rsk_tx_fall_back(struct rsk_tx *tx, struct rsk_tcp *c)
{
	if (tx->state == RSK_TX_PROPOSED) {
		tx->state = RSK_TX_TCP;
		tx->own.word = (struct rsk_control_word){ .what = RSK_TX_NONE, .gen = tx->gen };
		return rsk_tx_put_word(tx);
	}
	return tx->state == RSK_TX_ONRING ? command(tx, c, RSK_COMMAND_FALLBACK_TX) : 0;
}

void rsk_tx_stay_off(struct rsk_tx *tx, uint8_t why, bool on)
{
	if (on)
		tx->stay_off |= why;
	else
		tx->stay_off &= (uint8_t)~why;
}

int rsk_tx_fin(struct rsk_tx *tx, struct rsk_tcp *c)
{
	if (tx->fin)
		return 0;
	tx->fin = RSK_FIN_DONE;
	if (tx->state == RSK_TX_PROPOSED)
		return rsk_tx_fall_back(tx, c);
	return tx->state == RSK_TX_ONRING ? command(tx, c, RSK_COMMAND_FIN) : 0;
}

bool rsk_tx_fin_waits(const struct rsk_tx *tx)
{
	return rsk_tx_owes(tx) || tx->state == RSK_TX_ONRING || rsk_tx_undrained(tx);
}

void rsk_tx_fin_later(struct rsk_tx *tx)
{
	tx->fin = RSK_FIN_DUE;
}

void rsk_tx_fin_now(struct rsk_tx *tx, struct rsk_tcp *c)
{
	if (tx->fin == RSK_FIN_DUE && !rsk_tx_fin_waits(tx) && c->ops->fin &&
	    c->ops->fin(c) != -EBADF)
		tx->fin = RSK_FIN_DONE;
}

void rsk_tx_break(struct rsk_tx *tx)
{
	tx->counts.demotions += tx->state == RSK_TX_ONRING;
	if (tx->state == RSK_TX_ONRING || (tx->state == RSK_TX_TCP && rsk_tx_undrained(tx)))
		tx->state = RSK_TX_BROKEN;
	else if (tx->state == RSK_TX_PROPOSED)
		tx->state = RSK_TX_TCP;
	tx->peer_fell_back = tx->rail_loss.ring_over = true;
}

void rsk_tx_renew(struct rsk_tx *tx, uint64_t key_seed)
{
	if (tx->fin || tx->reader != RSK_READER_THERE)
		return;
	tx->rail_loss.renew_seed = key_seed;
	if (tx->state == RSK_TX_TCP)
		renew(tx);
}

int rsk_tx_tick(struct rsk_tx *tx)
{
	int rc;

	if (!tx->gen || tx->state == RSK_TX_BROKEN)
		return 0;
	rc = rsk_tx_put_word(tx);
	if (rc == 0)
		rc = rsk_ring_tx_reput(&tx->ring, tx->ring.credit);
	if (rc < 0)
		rsk_tx_break(tx);
	return rc;
}

void rsk_tx_recover(struct rsk_tx *tx)
{
	uint32_t n = 0;

	/* It may be in the middle of a change: no tags until the next promotion. */
	tx->ring.order = NULL;
	if (!tx->resend.scratch)
		tx->resend.scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (tx->resend.scratch && tx->state == RSK_TX_ONRING &&
	    rsk_ring_tx_recover(&tx->ring, &tx->key, tx->resend.scratch, &n)) {
		tx->pos += n;
		tx->ring_bytes += n;
	}
}
