// SPDX-License-Identifier: BSD-2-Clause
#include "rx.h"

#include <errno.h>
#include <sys/socket.h>

#include "arena.h"
#include "rx_parts.h"

void rsk_rx_init(struct rsk_rx *rx, struct rsk_rail *rail, const uint8_t *ring, uint32_t cells,
		 uint64_t mail_off, const struct rsk_mail *word, uint64_t key_seed)
{
	*rx = (struct rsk_rx){
		.rail = rail, .mail_off = mail_off, .word = word, .state = RSK_RX_TCP
	};
	rsk_ring_rx_init(&rx->ring, ring, cells, rsk_ring_first_lap(key_seed),
			 rail->ops->caps & RSK_FABRIC_SYNC);
	rx->credit_sent = rx->ring.next;
	rsk_key_init(&rx->key, key_seed);
}

static void free_hold(struct rsk_rx *rx)
{
	rsk_arena_free(rx->hold);
	rx->hold = NULL;
	rx->hold_len = rx->hold_off = 0;
}

void rsk_rx_fini(struct rsk_rx *rx)
{
	free_hold(rx);
	rsk_rx_free_stage(rx);
}

bool rsk_rx_validate(const struct rsk_rx *rx)
{
	if (!rsk_ring_rx_validate(&rx->ring) || rx->state > RSK_RX_ONRING)
		return false;
	if (rx->stage_off > rx->stage_len || rx->hold_off > rx->hold_len)
		return false;
	if (rx->stage_len && (!rx->stage || rx->stage_cell >= rx->ring.next))
		return false;
	if (rx->credit_sent > rx->ring.next)
		return false;
	if (rx->promotions - rx->demotions != (rx->state == RSK_RX_ONRING))
		return false;
	return rx->state != RSK_RX_SWITCHING || rx->pos <= rx->switch_pos;
}

static int see_word(struct rsk_rx *rx, const struct rsk_mail *m)
{
	if (m->what == RSK_TX_PROPOSE) {
		if (m->gen > rx->proposed)
			rx->proposed = m->gen;
		return 0;
	}
	if (m->what == RSK_TX_AGAIN && rx->doubt) {
		if (m->gen != rx->gen ||
		    (m->pos != rx->leave_pos && rx->leave_pos != RSK_POS_START))
			return -EPROTO;
		rx->heeded = true;
		return 0;
	}
	if (m->what != RSK_TX_RING || rx->state != RSK_RX_WATCH || m->gen != rx->gen)
		return 0;
	if (m->cells != rx->ring.next)
		return -EPROTO;
	rx->switch_pos = m->pos;
	rx->switch_cell = m->cells;
	rx->state = RSK_RX_SWITCHING;
	/* A broken rail is the sender's to find. */
	if (!(rx->rail->ops->caps & RSK_FABRIC_SYNC))
		rsk_rx_say(rx, RSK_RX_SWITCHED, 0);
	return 0;
}

/* An N that cannot be: leave the machine in a state that is one; the stream is to be ended. */
static int refuse(struct rsk_rx *rx)
{
	rx->state = RSK_RX_TCP;
	rx->left = true;
	return -EPROTO;
}

static int take_word(struct rsk_rx *rx)
{
	struct rsk_mail m;

	if (rx->left || rx->fin || !rsk_mail_fresh(rx->word, rx->word_seen) ||
	    !rsk_mail_get(rx->word, &rx->key, RSK_MAIL_TX, &m))
		return 0;
	__atomic_store_n(&rx->word_seen, m.hash, __ATOMIC_RELAXED);
	return see_word(rx, &m);
}

static void arrive(struct rsk_rx *rx)
{
	if (rx->state == RSK_RX_SWITCHING && rx->pos == rx->switch_pos) {
		rx->state = RSK_RX_ONRING;
		rx->promotions++;
	}
}

/* The sender heeded a LEAVE that was taken back: it repeats from there, also what was read here since. */
static void follow(struct rsk_rx *rx)
{
	if (rx->pos > rx->leave_pos) {
		rx->skip = rx->pos - rx->leave_pos;
		rx->ring_bytes -= rx->skip;
	}
	rsk_rx_free_stage(rx);
	rx->demotions += rx->state == RSK_RX_ONRING;
	rx->state = RSK_RX_TCP;
	rx->doubt = false;
}

int rsk_rx_serve(struct rsk_rx *rx, struct rsk_companion *c)
{
	uint64_t tcp_pos;
	int rc;

	if (rx->left || rx->fin)
		return 0;
	rc = take_word(rx);
	if (rc < 0)
		return rc;
	/* Every read looks at the word right behind it, so no honest N lies behind us here. */
	if (rx->state == RSK_RX_SWITCHING && rx->pos > rx->switch_pos)
		return refuse(rx);
	/* Who only waits for readiness has to see the ring as well, when all before it is read already. */
	arrive(rx);
	if (rx->doubt && rx->heeded && rx->state >= RSK_RX_SWITCHING)
		follow(rx);
	if (rx->proposed > rx->gen && !rx->gave_up && !rx->hold_len &&
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
		rx->doubt = false; /* who proposes has not seen a LEAVE */
		rx->state = RSK_RX_WATCH;
		rsk_rx_say(rx, RSK_RX_WATCHING, 0);
	}
	return 0;
}

/* ---- the companion ---- */

static ssize_t take_hold(struct rsk_rx *rx, struct rsk_iovcur *dst, bool peek)
{
	size_t n = rx->hold_len - rx->hold_off;

	if (n > dst->left)
		n = dst->left;
	rsk_iovcur_scatter(dst, rx->hold + rx->hold_off, n);
	if (!peek) {
		rx->hold_off += n;
		rx->pos += n;
		if (rx->hold_off == rx->hold_len)
			free_hold(rx);
	}
	return (ssize_t)n;
}

/*
 * N turned out to lie before what this read returned: the bytes after it were written after a MOVE, behind
 * ring data that we have not read. Keep them aside until then. @at: the vector before the read of @n bytes.
 */
static ssize_t take_back(struct rsk_rx *rx, struct rsk_iovcur at, ssize_t n)
{
	size_t over = (size_t)(rx->pos - rx->switch_pos);

	if (over > (size_t)n)
		return refuse(rx);
	rx->hold = rsk_arena_alloc_raw(over);
	if (!rx->hold) {
		refuse(rx);
		return -ENOMEM;
	}
	rsk_iovcur_run(&at, &(uint8_t *){ NULL });
	rsk_iovcur_advance(&at, (size_t)n - over);
	rsk_iovcur_gather(&at, rx->hold, over);
	rx->hold_len = over;
	rx->hold_off = 0;
	rx->pos = rx->switch_pos;
	arrive(rx);
	return n - (ssize_t)over;
}

/*
 * After a LEAVE that met a MOVE: has the sender heeded it? It says so before it repeats, so the word is decided
 * when a byte can be read. What comes twice is dropped. 1: go on reading; 0 end; -errno.
 */
static ssize_t settle_doubt(struct rsk_rx *rx, struct rsk_companion *c)
{
	uint8_t scratch[1024];
	struct iovec iov = { scratch, 1 };
	ssize_t n;

	if (rx->doubt) {
		n = c->ops->recv(c, &iov, 1, 1, MSG_PEEK);
		if (n <= 0)
			return n;
		n = take_word(rx);
		if (n < 0)
			return n;
		if (rx->heeded) {
			rx->skip = rx->pos - rx->leave_pos;
			rx->ring_bytes -= rx->skip;
		}
		rx->doubt = false;
	}
	iov.iov_len = sizeof(scratch);
	while (rx->skip) {
		n = c->ops->recv(c, &iov, 1,
				 rx->skip < sizeof(scratch) ? rx->skip : sizeof(scratch), 0);
		if (n <= 0)
			return n;
		rx->skip -= (uint64_t)n;
	}
	return 1;
}

static ssize_t recv_tcp(struct rsk_rx *rx, struct rsk_companion *c, struct rsk_iovcur *dst,
			bool peek)
{
	struct rsk_iovcur before = *dst;
	struct iovec first;
	size_t cap = dst->left;
	ssize_t n;

	if ((rx->doubt || rx->skip) && rx->state == RSK_RX_TCP) {
		n = settle_doubt(rx, c);
		if (n <= 0)
			return n;
	}
	if (rx->hold_len && rx->state != RSK_RX_ONRING)
		return take_hold(rx, dst, peek);
	if (rx->tcp_err) {
		int err = rx->tcp_err;

		if (!peek) {
			rx->tcp_err = 0;
			rx->tcp_eof = true;
		}
		return err;
	}
	if (rx->state == RSK_RX_SWITCHING && cap > rx->switch_pos - rx->pos)
		cap = rx->switch_pos - rx->pos;
	if (dst->off) {
		uint8_t *p = NULL;

		first.iov_len = rsk_iovcur_run(dst, &p);
		first.iov_base = p;
		n = c->ops->recv(c, &first, 1, cap < first.iov_len ? cap : first.iov_len,
				 peek ? MSG_PEEK : 0);
	} else {
		n = c->ops->recv(c, dst->v, dst->n, cap, peek ? MSG_PEEK : 0);
	}
	if (n <= 0)
		return n;
	if (peek) {
		if (rx->state == RSK_RX_WATCH) {
			int rc = take_word(rx);

			if (rc < 0)
				return rc;
			if (rx->state == RSK_RX_SWITCHING && rx->pos > rx->switch_pos)
				return refuse(rx);
			if (rx->state == RSK_RX_SWITCHING && (uint64_t)n > rx->switch_pos - rx->pos)
				n = (ssize_t)(rx->switch_pos - rx->pos);
		}
		rsk_iovcur_advance(dst, (size_t)n);
		arrive(rx);
		return n;
	}
	rx->pos += (uint64_t)n;
	if (rx->state == RSK_RX_WATCH) {
		/* Was the ring announced while we read? */
		int rc = take_word(rx);

		if (rc < 0)
			return rc;
		if (rx->state == RSK_RX_SWITCHING && rx->pos > rx->switch_pos)
			n = take_back(rx, before, n);
	}
	if (n > 0)
		rsk_iovcur_advance(dst, (size_t)n);
	arrive(rx);
	return n;
}

/* The ring is empty: does the companion show the end? True: look at the ring once more. */
static bool look_at_companion(struct rsk_rx *rx, struct rsk_companion *c)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	ssize_t n;

	if (rx->tcp_eof || rx->tcp_err)
		return true;
	n = c->ops->recv(c, &iov, 1, 1, MSG_PEEK);
	if (n == 0)
		rx->tcp_eof = true;
	else if (n < 0 && n != -EAGAIN && n != -EINTR)
		rx->tcp_err = (int)n;
	return rx->tcp_eof || rx->tcp_err || n > 0;
}

static ssize_t ring_at_end(struct rsk_rx *rx)
{
	if (rx->tcp_err) {
		int err = rx->tcp_err;

		rx->tcp_err = 0;
		rx->tcp_eof = true;
		return err;
	}
	return rx->tcp_eof ? 0 : -EAGAIN;
}

/* @total: bytes that this call has got already. */
static ssize_t recv_on(struct rsk_rx *rx, struct rsk_companion *c, struct rsk_iovcur *dst,
		       bool peek, bool look, size_t total)
{
	bool looked = false;

	for (;;) {
		ssize_t n;
		int rc = rsk_rx_steady(rx) ? 0 : rsk_rx_serve(rx, c);

		if (rc < 0)
			return total ? (ssize_t)total : rc;
		if (!dst->left)
			return (ssize_t)total;
		if (rx->stage_len || rx->state == RSK_RX_ONRING) {
			if (peek) {
				n = rsk_rx_peek_ring(rx, dst);
				if (n > 0 || total)
					return (ssize_t)total + n;
				n = rsk_rx_run_commands(rx);
			} else {
				n = rsk_rx_recv_ring(rx, dst);
			}
			if (n < 0)
				return total ? (ssize_t)total : n;
			total += (size_t)n;
			if (rx->state != RSK_RX_ONRING)
				continue; /* moved: the companion has the rest */
			if (total)
				return (ssize_t)total;
			if (rx->fin)
				return 0;
			if (peek && rsk_rx_ready(rx))
				return -EAGAIN; /* a slot whose hash is not right yet */
			if (looked)
				return ring_at_end(rx);
			if (!look && !rx->tcp_eof && !rx->tcp_err)
				return -EAGAIN;
			looked = true;
			if (!look_at_companion(rx, c))
				return -EAGAIN;
			continue;
		}
		if (total && !rx->hold_len) {
			/* Never lose an error or an end of the companion behind bytes already taken. */
			look_at_companion(rx, c);
			if (rx->tcp_eof || rx->tcp_err || (c->ops->at_mark && c->ops->at_mark(c)))
				return (ssize_t)total;
		}
		n = recv_tcp(rx, c, dst, peek);
		if (n > 0) {
			total += (size_t)n;
			if (peek || rx->state != RSK_RX_ONRING)
				return (ssize_t)total;
			continue;
		}
		if (n == 0 && rx->state == RSK_RX_ONRING)
			continue; /* all of it was taken back */
		if (total)
			return (ssize_t)total;
		/* Nothing or the end, unless the ring was announced just before it. */
		if ((n == 0 || n == -EAGAIN) && rx->state == RSK_RX_WATCH) {
			rc = take_word(rx);
			if (rc < 0)
				return rc;
			if (rx->state != RSK_RX_WATCH)
				continue;
		}
		if (n == 0)
			rx->tcp_eof = true;
		return n;
	}
}

ssize_t rsk_rx_recv(struct rsk_rx *rx, struct rsk_companion *c, struct rsk_iovcur *dst, bool peek,
		    bool look)
{
	return recv_on(rx, c, dst, peek, look, 0);
}

ssize_t rsk_rx_recv_rest(struct rsk_rx *rx, struct rsk_companion *c, struct rsk_iovcur *dst,
			 size_t got)
{
	return recv_on(rx, c, dst, false, false, got);
}

static bool unread_in_ring(const struct rsk_rx *rx)
{
	struct rsk_slot_view v;

	return rx->state >= RSK_RX_SWITCHING && !rx->fin &&
	       (rx->stage_len || rsk_ring_peek(&rx->ring, &v));
}

static int stay_here(struct rsk_rx *rx, bool stay, const struct rsk_mail *before)
{
	if (stay)
		rsk_rx_say(rx, RSK_RX_GO, 0);
	else if (before)
		rx->mail = *before; /* what credit goes with from here on */
	return -EBUSY;
}

int rsk_rx_leave(struct rsk_rx *rx, bool stay, bool *again)
{
	struct rsk_mail before;
	uint64_t pos;
	int rc;

	*again = false;
	if (rx->left)
		return 0;
	rc = take_word(rx);
	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_SWITCHING && rx->pos > rx->switch_pos)
		return refuse(rx);
	arrive(rx);
	rc = rsk_rx_run_commands(rx);
	if (rc < 0)
		return rc;
	if (rx->doubt)
		return -EBUSY;
	if (rx->hold_len || rx->skip || rsk_rx_moved_on(rx) || (stay && unread_in_ring(rx)))
		return stay_here(rx, stay, NULL);
	pos = rx->pos;
	if (rx->state == RSK_RX_WATCH)
		pos = RSK_POS_START;
	else if (rx->state == RSK_RX_SWITCHING)
		pos = rx->switch_pos;
	before = rx->mail;
	rx->doubt = true;
	rx->heeded = false;
	rx->leave_pos = pos;
	rsk_rx_say(rx, RSK_RX_LEAVE, pos);
	/* Our LEAVE before our look at the sender's commands; command() has the other half. */
	atomic_thread_fence(memory_order_seq_cst);
	rc = take_word(rx);
	if (rc < 0)
		return rc;
	if (rx->state == RSK_RX_SWITCHING && rx->pos > rx->switch_pos)
		return refuse(rx);
	if (!rx->heeded && (rsk_rx_moved_on(rx) || (stay && unread_in_ring(rx)))) {
		if (pos == RSK_POS_START)
			rx->leave_pos = rx->switch_pos;
		return stay_here(rx, stay, &before);
	}
	*again = unread_in_ring(rx);
	rx->doubt = false;
	rx->left = true;
	rsk_rx_free_stage(rx);
	if (rx->state == RSK_RX_ONRING && !rx->fin)
		rx->demotions++;
	if (!rx->fin)
		rx->state = RSK_RX_TCP;
	return 0;
}

void rsk_rx_close(struct rsk_rx *rx)
{
	rsk_rx_publish_consumed(rx);
	rsk_rx_say(rx, RSK_RX_CLOSED, 0);
	rx->left = true;
}

void rsk_rx_break(struct rsk_rx *rx, uint64_t *pos, uint64_t *cell)
{
	if (rx->left && rx->mail.what == RSK_RX_LEAVE) {
		/* What it said when it left still holds: nothing came by TCP since but what was there. */
		*pos = rx->mail.pos;
		*cell = rx->mail.cells;
		return;
	}
	*pos = rx->state == RSK_RX_WATCH     ? RSK_POS_START :
	       rx->state == RSK_RX_SWITCHING ? rx->switch_pos :
					       rx->pos;
	*cell = rx->state == RSK_RX_SWITCHING ? rx->switch_cell : rsk_rx_free_below(rx);
	rx->left = true;
	rsk_rx_free_stage(rx);
	if (rx->state == RSK_RX_ONRING && !rx->fin)
		rx->demotions++;
	if (!rx->fin)
		rx->state = RSK_RX_TCP;
}

int rsk_rx_tick(struct rsk_rx *rx)
{
	if (rx->left)
		return rsk_mail_put(rx->rail, rx->mail_off, &rx->key, RSK_MAIL_RX, &rx->mail);
	if (!rx->gen)
		return 0;
	return rsk_rx_say(rx, rx->mail.what, rx->mail.pos);
}

void rsk_rx_look(struct rsk_rx *rx, struct rsk_companion *c)
{
	look_at_companion(rx, c);
}
