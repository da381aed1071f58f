// SPDX-License-Identifier: BSD-2-Clause
#include "tx.h"

#include <errno.h>

#include "arena.h"

void rsk_tx_init(struct rsk_tx *tx, struct rsk_rail *rail, uint64_t ring_off, uint32_t cells,
		 uint64_t mail_off, const struct rsk_mail *answer, uint64_t key_seed)
{
	*tx = (struct rsk_tx){ .mail_off = mail_off, .answer = answer, .state = RSK_TX_TCP };
	rsk_ring_tx_init(&tx->ring, rail, ring_off, cells, rsk_ring_first_lap(key_seed));
	rsk_key_init(&tx->key, key_seed);
}

void rsk_tx_fini(struct rsk_tx *tx)
{
	rsk_arena_free(tx->scratch);
	tx->scratch = NULL;
}

bool rsk_tx_validate(const struct rsk_tx *tx)
{
	if (!rsk_ring_tx_validate(&tx->ring) || tx->state > RSK_TX_BROKEN)
		return false;
	if (tx->state == RSK_TX_ONRING && (!tx->gen || tx->pos < tx->start_pos))
		return false;
	if (tx->stay_off & ~(RSK_TX_STAY_ASKED | RSK_TX_STAY_OWN | RSK_TX_STAY_FORK))
		return false;
	if (tx->resend_off > tx->resend_len || tx->resend_len > RSK_SLOT_MAX_PAYLOAD)
		return false;
	if (tx->promotions - tx->demotions != (tx->state == RSK_TX_ONRING))
		return false;
	if (tx->held && tx->state != RSK_TX_RESEND)
		return false;
	return tx->state != RSK_TX_RESEND || tx->resend_pos <= tx->pos;
}

static int put_word(struct rsk_tx *tx)
{
	return rsk_mail_put(tx->ring.rail, tx->mail_off, &tx->key, RSK_MAIL_TX, &tx->word);
}

/* Slots that the receiver has not said to have taken, and that could still be lost with the rail. */
static bool undrained(const struct rsk_tx *tx)
{
	const struct rsk_rail *rail = tx->ring.rail;

	if (tx->ring.credit == tx->ring.next || tx->safe_to == tx->ring.next || tx->peer_left ||
	    tx->peer_closed || (rail->ops->caps & RSK_FABRIC_DURABLE))
		return false;
	return !rail->ops->arrived || !rail->ops->arrived(tx->ring.rail, tx->ring.off);
}

bool rsk_tx_held_back(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_RESEND || tx->state == RSK_TX_BROKEN ||
	       (tx->state <= RSK_TX_PROPOSED && undrained(tx));
}

bool rsk_tx_arrived(const struct rsk_tx *tx)
{
	return tx->state == RSK_TX_TCP && !undrained(tx);
}

uint64_t rsk_tx_under_way(const struct rsk_tx *tx)
{
	uint64_t n, carried = tx->pos - tx->start_pos;

	if (tx->ring.data_end <= tx->ring.credit || !undrained(tx))
		return 0;
	n = (tx->ring.data_end - tx->ring.credit) * RSK_CELL_BYTES;
	return n < carried ? n : carried;
}

int rsk_tx_propose(struct rsk_tx *tx)
{
	int rc;

	if (tx->peer_left || tx->peer_closed || tx->fin || tx->gave_up)
		return -EPERM;
	/*
	 * Not before the receiver has taken the last promotion's last slot: our one mail still has to tell
	 * it where that promotion began.
	 */
	if (tx->state != RSK_TX_TCP || tx->ring.credit != tx->ring.next || tx->stay_off)
		return -EAGAIN;
	tx->gen++;
	tx->watched = false;
	tx->acked = false;
	tx->state = RSK_TX_PROPOSED;
	tx->word = (struct rsk_mail){ .what = RSK_TX_PROPOSE, .gen = tx->gen };
	rc = put_word(tx);
	if (rc < 0)
		rsk_tx_break(tx);
	return rc;
}

/* The receiver watches: fix N and go. Not now (positions in motion) is no error. */
static int try_switch(struct rsk_tx *tx, struct rsk_companion *c)
{
	uint64_t tcp_pos;
	int rc = c->ops->tx_pos(c, &tcp_pos);

	if (rc == -EAGAIN)
		return 0;
	if (rc < 0) {
		tx->gave_up = true;
		rsk_tx_move(tx, c);
		return 0;
	}
	tx->pos = tcp_pos + tx->ring_bytes;
	tx->start_pos = tx->pos;
	tx->start_cell = tx->ring.next;
	tx->word = (struct rsk_mail){
		.what = RSK_TX_RING, .gen = tx->gen, .pos = tx->pos, .cells = tx->ring.next
	};
	if (put_word(tx) < 0) {
		rsk_tx_break(tx);
		return 0;
	}
	tx->state = RSK_TX_ONRING;
	tx->promotions++;
	return 0;
}

/* Everything from @pos, which lies in the slot at @cell, once more over the companion. */
static int start_resend(struct rsk_tx *tx, struct rsk_companion *c, uint64_t pos, uint64_t cell)
{
	uint64_t tcp_pos;

	if (pos == RSK_POS_START) {
		pos = tx->start_pos;
		cell = tx->start_cell;
	}
	cell = rsk_ring_tx_index(&tx->ring, cell);
	if (pos < tx->start_pos || pos > tx->pos || cell < tx->start_cell || cell > tx->ring.next)
		return -EPROTO;
	if (tx->state == RSK_TX_TCP && pos != tx->pos) {
		int rc = c->ops->tx_pos(c, &tcp_pos);

		if (rc == -EAGAIN)
			return rc;
		/*
		 * We had moved already: in order only if nothing newer is on the companion. If there is, we did
		 * not see the LEAVE behind our command, so the receiver saw the command behind its LEAVE, and
		 * stays (fences in command() and rsk_rx_leave(); model: demotion).
		 */
		if (rc < 0 || tcp_pos != tx->moved_tcp_pos)
			return 0;
	}
	tx->demotions += tx->state == RSK_TX_ONRING;
	tx->ring_bytes -= tx->pos - pos;
	tx->resend_pos = pos;
	tx->resend_cell = cell;
	tx->resend_len = 0;
	tx->resend_off = 0;
	tx->state = pos == tx->pos ? RSK_TX_TCP : RSK_TX_RESEND;
	return 0;
}

/* Fetch the next data slot to repeat; its bytes before resend_pos were consumed by the receiver. */
static int load_resend(struct rsk_tx *tx, bool first, uint64_t first_pos)
{
	uint16_t kind = 0;
	ssize_t n;

	if (!tx->scratch)
		tx->scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (!tx->scratch)
		return -ENOMEM;
	do {
		if (tx->resend_cell >= tx->ring.next)
			return -EPROTO;
		n = rsk_ring_tx_read(&tx->ring, &tx->key, &tx->resend_cell, &kind, tx->scratch);
		if (n < 0)
			return (int)n;
	} while (kind != RSK_SLOT_DATA);
	tx->resend_len = (uint32_t)n;
	tx->resend_off = 0;
	if (first) {
		/* The slot's first byte stands at pos less all the data from this slot on. */
		uint64_t after = 0, at = tx->resend_cell;

		while (at < tx->ring.next) {
			const uint8_t *p = tx->ring.rail->window + tx->ring.off +
					   (at & (tx->ring.cells - 1)) * RSK_CELL_BYTES;
			struct rsk_slot_head h;

			memcpy(&h, p, sizeof(h));
			if (h.index != at || h.len > RSK_SLOT_MAX_PAYLOAD)
				return -EPROTO;
			after += h.kind == RSK_SLOT_DATA ? h.len : 0;
			at += rsk_slot_cells(h.len);
		}
		if (after + (uint64_t)n > tx->pos || tx->pos - after - (uint64_t)n > first_pos ||
		    first_pos - (tx->pos - after - (uint64_t)n) > (uint64_t)n)
			return -EPROTO;
		tx->resend_off = (uint32_t)(first_pos - (tx->pos - after - (uint64_t)n));
	}
	return 0;
}

static int resend(struct rsk_tx *tx, struct rsk_companion *c)
{
	bool first = tx->resend_len == 0;

	while (tx->resend_pos < tx->pos) {
		struct iovec iov;
		ssize_t n;

		if (tx->resend_off == tx->resend_len) {
			int rc = load_resend(tx, first, tx->resend_pos);

			if (rc < 0)
				return rc;
			first = false;
			if (tx->resend_off == tx->resend_len)
				continue;
		}
		iov.iov_base = tx->scratch + tx->resend_off;
		iov.iov_len = tx->resend_len - tx->resend_off;
		n = c->ops->send(c, &iov, 1, iov.iov_len, 0);
		if (n < 0)
			return (int)n;
		tx->resend_off += (uint32_t)n;
		tx->resend_pos += (uint64_t)n;
	}
	tx->state = RSK_TX_TCP;
	rsk_arena_free(tx->scratch);
	tx->scratch = NULL;
	return 0;
}

void rsk_tx_unhold(struct rsk_tx *tx)
{
	tx->held = false;
	tx->safe_to = tx->ring.next;
}

/* What is repeated may go: the receiver knows of it, or does when it looks. */
static bool announced(struct rsk_tx *tx)
{
	struct rsk_rail *rail = tx->ring.rail;

	if (tx->held && rail->ops->arrived && rail->ops->arrived(rail, tx->ring.off))
		rsk_tx_unhold(tx);
	return !tx->held;
}

/* Who moved before, or has ended, has said so in the ring, where the receiver finds it instead. */
static int on_back(struct rsk_tx *tx, struct rsk_companion *c, const struct rsk_mail *m)
{
	struct rsk_slot_command cmd = { .pos = m->pos, .what = RSK_COMMAND_AGAIN, .gen = tx->gen };
	int rc;

	tx->stay_off |= RSK_TX_STAY_ASKED;
	if (tx->state != RSK_TX_ONRING || m->gen != tx->gen)
		return 0;
	if (m->pos == RSK_POS_START || !tx->ring.rail->ops->arrived)
		return -EPROTO;
	tx->acked = true;
	rc = start_resend(tx, c, m->pos, m->cells);
	if (rc < 0)
		return rc;
	/* Also with nothing to repeat: newer bytes may not come before it either. */
	tx->state = RSK_TX_RESEND;
	tx->held = true;
	rsk_ring_put_command(&tx->ring, &tx->key,
			     &cmd); /* or the rail broke: its RESUME says more */
	return 0;
}

static int on_leave(struct rsk_tx *tx, struct rsk_companion *c, const struct rsk_mail *m)
{
	bool first = !tx->peer_left;
	int rc;

	tx->peer_left = true;
	if (tx->state == RSK_TX_PROPOSED) {
		tx->state = RSK_TX_TCP;
		return 0;
	}
	if (!first || m->gen != tx->gen || !tx->gen)
		return 0;
	if (tx->state == RSK_TX_RESEND || !tx->promotions)
		return 0;
	/* Moved before, and the receiver has taken all of it: its position counts newer bytes too. */
	if (tx->state == RSK_TX_TCP && rsk_ring_tx_index(&tx->ring, m->cells) == tx->ring.next)
		return 0;
	rc = start_resend(tx, c, m->pos, m->cells);
	if (rc == -EAGAIN)
		tx->peer_left = false; /* not seen yet */
	if (rc == 0 && tx->state == RSK_TX_RESEND) {
		/* For a receiver that found our command behind its LEAVE and cannot tell which came first. */
		tx->word = (struct rsk_mail){ .what = RSK_TX_AGAIN,
					      .gen = tx->gen,
					      .pos = tx->resend_pos };
		if (put_word(tx) < 0)
			rc = 0; /* the rail is not needed any more */
	}
	return rc;
}

static void renew(struct rsk_tx *tx)
{
	uint64_t seed = tx->renew_seed, slots = tx->ring.slots;
	struct rsk_mail m;

	tx->renew_seed = 0;
	rsk_ring_tx_init(&tx->ring, tx->ring.rail, tx->ring.off, tx->ring.cells,
			 rsk_ring_first_lap(seed));
	tx->ring.slots = slots;
	rsk_key_init(&tx->key, seed);
	/* As rsk_rx_renew(): no answer can be there that is not ours. */
	__atomic_store_n(&tx->answer_seen,
			 rsk_mail_get(tx->answer, &tx->key, RSK_MAIL_RX, &m) ?
				 0 :
				 __atomic_load_n(&tx->answer->hash, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELAXED);
	tx->watched = tx->acked = tx->peer_left = false;
	tx->stay_off &= (uint8_t)~RSK_TX_STAY_ASKED; /* who asks for it says so anew */
	tx->gen = tx->repair_seen = 0;
	tx->held = false;
	tx->safe_to = 0;
	tx->word = (struct rsk_mail){ 0 };
}

int rsk_tx_serve(struct rsk_tx *tx, struct rsk_companion *c)
{
	struct rsk_mail m;
	int rc = 0;

	if (__builtin_expect(tx->renew_seed && tx->state == RSK_TX_TCP, 0))
		renew(tx);
	if (rsk_mail_fresh(tx->answer, tx->answer_seen) &&
	    rsk_mail_get(tx->answer, &tx->key, RSK_MAIL_RX, &m)) {
		__atomic_store_n(&tx->answer_seen, m.hash, __ATOMIC_RELAXED);
		if (m.what != RSK_RX_LEAVE) {
			rc = rsk_ring_tx_credit(&tx->ring, m.cells);
			if (rc < 0)
				return rc;
		}
		/* A word that stands: whatever comes after it takes it back. */
		if (m.what != RSK_RX_GO && m.what != RSK_RX_BACK)
			tx->stay_off &= (uint8_t)~RSK_TX_STAY_ASKED;
		switch (m.what) {
		case RSK_RX_WATCHING:
			if (tx->state == RSK_TX_PROPOSED && m.gen == tx->gen)
				tx->watched = true;
			break;
		case RSK_RX_SWITCHED:
			if (m.gen == tx->gen)
				tx->acked = true;
			break;
		case RSK_RX_LEAVE:
			rc = on_leave(tx, c, &m);
			if (rc == -EAGAIN) {
				__atomic_store_n(
					&tx->answer_seen, 0,
					__ATOMIC_RELAXED); /* once more, before anything newer is sent */
				return rc;
			}
			break;
		case RSK_RX_BACK:
			rc = on_back(tx, c, &m);
			break;
		case RSK_RX_GO:
			tx->stay_off |= RSK_TX_STAY_ASKED;
			if (m.pos && m.gen == tx->gen)
				tx->acked = true;
			break;
		case RSK_RX_CLOSED:
			tx->peer_closed = true;
			if (tx->state == RSK_TX_ONRING)
				tx->demotions++;
			tx->state = RSK_TX_TCP;
			tx->held = false;
			break;
		default:
			break;
		}
		if (rc == 0 && m.repair != tx->repair_seen) {
			tx->repair_seen = m.repair;
			if (rsk_ring_tx_reput(&tx->ring, tx->ring.credit) < 0 || put_word(tx) < 0)
				rsk_tx_break(tx);
		}
	}
	if (rc == 0 && tx->stay_off)
		rsk_tx_move(tx, c); /* -EAGAIN: in a later call */
	if (rc == 0 && tx->state == RSK_TX_PROPOSED && tx->watched)
		rc = try_switch(tx, c);
	if (rc == 0 && tx->state == RSK_TX_RESEND && announced(tx)) {
		rc = resend(tx, c);
		if (rc != -EPROTO)
			rc = 0; /* the companion's own errors come up again at the next send or recv */
	}
	return rc;
}

/* @n: what the ring took of a slot. Bytes; 0: no room, or the rail broke. */
static ssize_t sent(struct rsk_tx *tx, ssize_t n)
{
	if (n < 0) {
		rsk_tx_break(tx);
		return 0;
	}
	tx->pos += (uint64_t)n;
	tx->ring_bytes += (uint64_t)n;
	return n;
}

static void maybe_restart(struct rsk_tx *tx, const struct rsk_iovcur *src)
{
	/* The first slot of all is where the receiver was told. */
	if (tx->ring.next != tx->start_cell)
		rsk_ring_tx_restart(&tx->ring, src->left);
}

static ssize_t send_ring(struct rsk_tx *tx, struct rsk_iovcur *src)
{
	ssize_t total = 0, n;

	maybe_restart(tx, src);
	while (src->left &&
	       (n = sent(tx, rsk_ring_put_data(&tx->ring, &tx->key, src, src->left))) > 0)
		total += n;
	return total || !src->left ? total : -EAGAIN;
}

ssize_t rsk_tx_send_whole(struct rsk_tx *tx, struct rsk_iovcur *src)
{
	if (!rsk_tx_steady(tx) || !src->left || src->left > RSK_SLOT_MAX_PAYLOAD)
		return 0;
	maybe_restart(tx, src);
	if (!rsk_ring_tx_fits(&tx->ring, (uint32_t)src->left))
		return 0;
	return sent(tx, rsk_ring_put_len(&tx->ring, &tx->key, src, (uint32_t)src->left));
}

ssize_t rsk_tx_send(struct rsk_tx *tx, struct rsk_companion *c, struct rsk_iovcur *src, int flags)
{
	struct iovec first;
	ssize_t n;
	int rc = rsk_tx_steady(tx) ? 0 : rsk_tx_serve(tx, c);

	if (rc < 0)
		return rc;
	switch (tx->state) {
	case RSK_TX_ONRING:
		return src->left ? send_ring(tx, src) : 0;
	case RSK_TX_RESEND:
	case RSK_TX_BROKEN:
		return -EAGAIN;
	default:
		break;
	}
	if (rsk_iovcur_fills(src))
		return src->fill->rc = -ENOSYS;
	/* What was moved from may still have to be repeated, and that in order. */
	if (undrained(tx))
		return -EAGAIN;
	tx->safe_to =
		tx->ring.next; /* whatever the rail says later: newer bytes are on the companion */
	if (src->off) {
		uint8_t *p = NULL;

		first.iov_len = rsk_iovcur_run(src, &p);
		first.iov_base = p;
		n = c->ops->send(c, &first, 1, first.iov_len, flags);
	} else {
		n = c->ops->send(c, src->v, src->n, src->left, flags);
	}
	if (n > 0)
		rsk_iovcur_advance(src, (size_t)n);
	return n;
}

bool rsk_tx_writable(const struct rsk_tx *tx)
{
	/* As TCP does: writable again only when a good part is free, not for every cell. */
	return tx->state == RSK_TX_ONRING && rsk_ring_tx_free(&tx->ring) >= tx->ring.cells / 4;
}

static int command(struct rsk_tx *tx, uint32_t what)
{
	struct rsk_slot_command cmd = { .pos = tx->pos, .what = what, .gen = tx->gen };
	int rc;

	/* Else bytes on the companion could overtake the word that tells where the ring began. */
	if (what == RSK_COMMAND_MOVE && !tx->acked && !(tx->ring.rail->ops->caps & RSK_FABRIC_SYNC))
		return -EAGAIN;
	rc = rsk_ring_put_command(&tx->ring, &tx->key, &cmd);
	if (rc < 0) {
		rsk_tx_break(tx);
		return rc;
	}
	/* The command before our next look at the receiver's LEAVE; rsk_rx_leave() has the other half. */
	atomic_thread_fence(memory_order_seq_cst);
	tx->moved_tcp_pos = tx->pos - tx->ring_bytes; /* the companion rested since the promotion */
	tx->state = RSK_TX_TCP;
	tx->demotions++;
	return 0;
}

int rsk_tx_move(struct rsk_tx *tx, struct rsk_companion *c)
{
	if (tx->state == RSK_TX_PROPOSED) {
		tx->state = RSK_TX_TCP;
		tx->word = (struct rsk_mail){ .what = RSK_TX_NONE, .gen = tx->gen };
		return put_word(tx);
	}
	return tx->state == RSK_TX_ONRING ? command(tx, RSK_COMMAND_MOVE) : 0;
}

void rsk_tx_stay_off(struct rsk_tx *tx, uint8_t why, bool on)
{
	if (on)
		tx->stay_off |= why;
	else
		tx->stay_off &= (uint8_t)~why;
}

int rsk_tx_fin(struct rsk_tx *tx, struct rsk_companion *c)
{
	if (tx->fin)
		return 0;
	tx->fin = true;
	if (tx->state == RSK_TX_PROPOSED)
		return rsk_tx_move(tx, c);
	return tx->state == RSK_TX_ONRING ? command(tx, RSK_COMMAND_FIN) : 0;
}

void rsk_tx_break(struct rsk_tx *tx)
{
	tx->demotions += tx->state == RSK_TX_ONRING;
	if (tx->state == RSK_TX_ONRING || (tx->state == RSK_TX_TCP && undrained(tx)))
		tx->state = RSK_TX_BROKEN;
	else if (tx->state == RSK_TX_PROPOSED)
		tx->state = RSK_TX_TCP;
	tx->peer_left = true;
}

int rsk_tx_resume(struct rsk_tx *tx, struct rsk_companion *c, uint64_t pos, uint64_t cell)
{
	rsk_tx_break(tx);
	if (tx->held)
		rsk_tx_unhold(
			tx); /* he who rests has heard of the break, and does so from where he said */
	if (tx->state != RSK_TX_BROKEN)
		return 0;
	return start_resend(tx, c, pos, cell);
}

void rsk_tx_renew(struct rsk_tx *tx, uint64_t key_seed)
{
	if (tx->fin || tx->peer_closed)
		return;
	tx->renew_seed = key_seed;
	if (tx->state == RSK_TX_TCP)
		renew(tx);
}

int rsk_tx_tick(struct rsk_tx *tx)
{
	int rc;

	if (!tx->gen || tx->state == RSK_TX_BROKEN)
		return 0;
	rc = put_word(tx);
	if (rc == 0)
		rc = rsk_ring_tx_reput(&tx->ring, tx->ring.credit);
	if (rc < 0)
		rsk_tx_break(tx);
	return rc;
}

void rsk_tx_recover(struct rsk_tx *tx)
{
	uint32_t n = 0;

	if (!tx->scratch)
		tx->scratch = rsk_arena_alloc_raw(RSK_SLOT_MAX_PAYLOAD);
	if (tx->scratch && tx->state == RSK_TX_ONRING &&
	    rsk_ring_tx_recover(&tx->ring, &tx->key, tx->scratch, &n)) {
		tx->pos += n;
		tx->ring_bytes += n;
	}
}
