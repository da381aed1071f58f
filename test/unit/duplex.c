// SPDX-License-Identifier: BSD-2-Clause
#include "duplex.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duplex_parts.h"

#define MAX_MESSAGE 60000u

static void act_tx(struct way *w);
static void act_rx(struct way *w);
static void do_send(struct way *w);

/* ---- the other process, inside a call of this one ---- */

/* The sender goes on the ring, off it again, and on by TCP, all while the receiver is inside one read. */
static void overtake(struct way *w)
{
	int rc;

	if (w->fin_asked)
		return;
	w->in_tx = true;
	rc = rsk_tx_serve(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -EAGAIN, "serve: %d", rc);
	do_send(w);
	rc = rsk_tx_move(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -EAGAIN || rc == -ENETDOWN, "move: %d", rc);
	do_send(w);
	w->in_tx = false;
}

/* The other process runs while this one is inside a call. */
void duplex_meanwhile(struct way *w)
{
	struct duplex *d = w->d;

	if (!d->config->interleave || d->depth > 2)
		return;
	/* A MOVE whose sender looked for a LEAVE just before there was one. */
	if (w->leaving && !w->in_tx && chance(d, 50)) {
		w->in_tx = true;
		rsk_tx_move(&w->tx, &w->at_tx.c);
		w->in_tx = false;
	}
	if (!chance(d, 25))
		return;
	d->depth++;
	if (w->in_rx && !w->in_tx && w->rx.state == RSK_RX_WATCH && chance(d, 30))
		overtake(w);
	for (uint64_t n = 1 + below(d, 4); n; n--) {
		if (w->in_rx && !w->in_tx)
			act_tx(w);
		else if (w->in_tx && !w->in_rx)
			act_rx(w);
	}
	d->depth--;
}

/* ---- one step of an end ---- */

static bool may_break(const struct duplex *d)
{
	return d->config->breaks || d->config->renews;
}

/* @len bytes cut into a few runs, some of them empty. */
static int cut(struct duplex *d, uint8_t *base, size_t len, struct iovec iov[static 6])
{
	int n = 1 + (int)below(d, 5), i = 0;

	for (; i < n - 1; i++) {
		size_t part = chance(d, 15) ? 0 : below(d, len + 1);

		iov[i] = (struct iovec){ base, part };
		base += part;
		len -= part;
	}
	iov[i] = (struct iovec){ base, len };
	return n;
}

static size_t message_bytes(struct duplex *d)
{
	switch (below(d, 8)) {
	case 0:
		return 1;
	case 1:
		return 1 + below(d, MAX_MESSAGE);
	case 2:
		return RSK_SLOT_MAX_PAYLOAD - 2 + below(d, 5);
	case 3:
		return 1 + below(d, 4000);
	case 4:
		return 38 + below(d, 5); /* around one cell */
	default:
		return 1 + below(d, 200);
	}
}

/* A file, of which @len bytes are asked for; it may give fewer, end early, or fail. */
struct file {
	struct rsk_fill fill;
	struct way *w;
	uint64_t end;
	size_t gave;
};

static ssize_t file_read(struct rsk_fill *f, uint8_t *to, size_t len, size_t left)
{
	struct file *file = (struct file *)(void *)f;
	struct duplex *d = file->w->d;

	if (chance(d, 3))
		return chance(d, 50) ? 0 : -EIO;
	if (chance(d, 20))
		len = chance(d, 50) ? 1 + below(d, len) : 1 + below(d, len < 300 ? len : 300);
	for (size_t i = 0; i < len; i++)
		to[i] = dice_byte(file->w->id, file->end - left + i);
	file->gave += len;
	return (ssize_t)len;
}

static void do_send_file(struct way *w)
{
	struct duplex *d = w->d;
	size_t len = message_bytes(d);
	struct file file = { .fill = { file_read, 1 }, .w = w, .end = w->sent + len };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init_fill(&cur, &file.fill, len);
	n = rsk_tx_send(&w->tx, &w->at_tx.c, &cur, 0);
	CHECK(d, n > 0 || n == -EAGAIN || (n == 0 && file.fill.rc != 1) || n == file.fill.rc,
	      "send: %zd, the file said %d", n, file.fill.rc);
	CHECK(d, file.fill.rc <= 0 || n < 0 || cur.left == len - (size_t)n,
	      "%zd of %zu bytes sent, but %zu left", n, len, cur.left);
	CHECK(d, may_break(d) || file.gave == (n > 0 ? (size_t)n : 0), "%zd sent, %zu were read", n,
	      file.gave);
	if (n > 0)
		w->sent += (uint64_t)n;
	d->sums->file_bytes += n > 0 ? (uint64_t)n : 0;
}

static void do_send(struct way *w)
{
	struct duplex *d = w->d;
	size_t len = message_bytes(d);
	uint8_t *out = malloc(len);
	struct rsk_iovcur cur;
	struct iovec iov[6];
	ssize_t n;
	int runs;

	for (size_t i = 0; i < len; i++)
		out[i] = dice_byte(w->id, w->sent + i);
	runs = cut(d, out, len, iov);
	rsk_iovcur_init(&cur, iov, runs);
	n = rsk_tx_send(&w->tx, &w->at_tx.c, &cur, 0);
	CHECK(d, n > 0 || n == -EAGAIN, "send: %zd", n);
	CHECK(d, cur.left == len - (n > 0 ? (size_t)n : 0), "%zd of %zu bytes sent, but %zu left",
	      n, len, cur.left);
	if (n > 0)
		w->sent += (uint64_t)n;
	free(out);
}

static bool drained(const struct way *w)
{
	return w->tx.ring.credit == w->tx.ring.next || w->tx.peer_left;
}

static void maybe_end(struct way *w)
{
	struct duplex *d = w->d;
	bool early = d->config->early_fin;

	if (!w->fin_asked || w->fifo_end || w->tx.state != RSK_TX_TCP)
		return;
	if (w->was_broken || (!early && !drained(w)))
		return;
	w->fifo_end = true;
}

static void do_fin(struct way *w)
{
	int rc;
	bool on_ring = w->tx.state == RSK_TX_ONRING;

	if (!w->fin_asked)
		*(on_ring ? &w->d->sums->fins_on_ring : &w->d->sums->fins_on_tcp) += 1;
	/* Before the call: the receiver may act inside it. */
	w->fin_asked = true;
	rc = rsk_tx_fin(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -ENETDOWN, "fin: %d", rc);
}

/* One end of a direction is wished off the ring, or back. */
static void wish_tx(struct way *w)
{
	w->off[0] = !w->off[0];
	w->d->sums->wishes++;
	rsk_tx_stay_off(&w->tx, RSK_TX_STAY_OWN, w->off[0]);
}

static void wish_rx(struct way *w)
{
	w->off[1] = !w->off[1];
	w->d->sums->wishes++;
	rsk_rx_stay_off(&w->rx, w->off[1]);
}

/* Kept off at this end: whatever was said before, it is not on the ring behind a look, where no answer is needed. */
static void check_off(struct way *w)
{
	struct duplex *d = w->d;

	if (w->off[0] && d->config->fabric == DUPLEX_SHM && !w->tx.peer_closed)
		CHECK(d, w->tx.state == RSK_TX_TCP || w->tx.state == RSK_TX_RESEND,
		      "kept off the ring, in state %d", w->tx.state);
}

static void act_tx(struct way *w)
{
	struct duplex *d = w->d;
	uint64_t before = w->fifo_in;
	uint32_t demotions = w->tx.demotions;
	bool resending, own_move = false;
	int rc = 0;

	if (w->in_tx)
		return;
	w->in_tx = true;
	resending = w->tx.state == RSK_TX_RESEND;
	switch (below(d, 16)) {
	case 0:
	case 1:
		if (d->config->renews && !d->keeper[w->id].open)
			break;
		rc = rsk_tx_propose(&w->tx);
		if (rc == -EAGAIN || rc == -EPERM)
			rc = 0;
		break;
	case 2:
		own_move = true;
		rc = rsk_tx_move(&w->tx, &w->at_tx.c);
		if (rc == -EAGAIN)
			rc = 0;
		break;
	case 3:
		if (d->config->wishes && !d->calm && chance(d, w->off[0] ? 30 : 6))
			wish_tx(w);
		rc = rsk_tx_serve(&w->tx, &w->at_tx.c);
		if (rc == 0)
			check_off(w);
		break;
	case 4:
		if (!(w->tx.ring.rail->ops->caps & RSK_FABRIC_RELIABLE))
			rc = rsk_tx_tick(&w->tx);
		break;
	case 5:
		maybe_end(w);
		break;
	default:
		if (!w->fin_asked && w->tx.state == RSK_TX_ONRING && chance(d, 25))
			do_send_file(w);
		else if (!w->fin_asked)
			do_send(w);
		else
			rc = rsk_tx_serve(&w->tx, &w->at_tx.c);
		break;
	}
	if (rc == -EAGAIN)
		rc = 0; /* serve: a LEAVE that cannot be heeded now */
	d->sums->sent_off += w->tx.demotions != demotions && !own_move &&
			     w->tx.stay_off == RSK_TX_STAY_ASKED;
	if (resending)
		d->sums->resent_bytes += w->fifo_in - before;
	CHECK(d, rc == 0 || (rc == -ENETDOWN && may_break(d)), "sender's call: %d", rc);
	CHECK(d, rsk_tx_validate(&w->tx), "tx invalid, state %d", w->tx.state);
	w->in_tx = false;
}

static void do_recv(struct way *w, bool peek)
{
	struct duplex *d = w->d;
	size_t len = message_bytes(d);
	uint8_t *in = malloc(len);
	bool sure;
	struct rsk_iovcur cur;
	struct iovec iov[6];
	int runs = cut(d, in, len, iov);
	ssize_t n;
	uint64_t had = w->rx.hold_len, skip = w->rx.skip;

	rsk_iovcur_init(&cur, iov, runs);
	/* On one thread and a fabric that never shows halves, "ready" is a promise. */
	sure = d->config->fabric == DUPLEX_SHM && !d->config->interleave && rsk_rx_ready(&w->rx);
	n = rsk_rx_recv(&w->rx, &w->at_rx.c, &cur, peek, chance(d, 50));
	CHECK(d, n >= 0 || n == -EAGAIN, "recv: %zd in state %d", n, w->rx.state);
	CHECK(d, !sure || n >= 0, "said to be ready, but has nothing (peek %d)", peek);
	CHECK(d, n <= (ssize_t)len, "more than was asked for");
	CHECK(d, cur.left == len - (n > 0 ? (size_t)n : 0), "%zd of %zu received, but %zu left", n,
	      len, cur.left);
	for (ssize_t i = 0; i < n; i++)
		CHECK(d, in[i] == dice_byte(w->id, w->received + (uint64_t)i),
		      "wrong byte at %" PRIu64 " of way %u (peek %d, state %d)",
		      w->received + (uint64_t)i, w->id, peek, w->rx.state);
	if (n == 0) {
		CHECK(d, w->fin_asked && w->received == w->sent,
		      "end at %" PRIu64 " of %" PRIu64 " bytes", w->received, w->sent);
		w->ended = true;
	}
	CHECK(d, n <= 0 || !w->ended, "bytes behind the end");
	if (n > 0 && !peek)
		w->received += (uint64_t)n;
	d->sums->held_reads += !had && w->rx.hold_len;
	d->sums->twice_bytes += w->rx.skip < skip ? skip - w->rx.skip : 0;
	d->sums->peeks += peek && n > 0;
	free(in);
}

static void do_leave(struct way *w)
{
	bool again = false, stay = chance(w->d, 25);
	int rc;

	if (w->tx.state == RSK_TX_ONRING && !w->in_tx && !w->fin_asked && chance(w->d, 50)) {
		w->in_tx = true;
		do_send(w); /* so that something is unread */
		w->in_tx = false;
	}
	w->leaving = true;
	rc = rsk_rx_leave(&w->rx, stay, &again);
	w->leaving = false;
	CHECK(w->d, rc == 0 || rc == -EBUSY || (rc == -EAGAIN && w->rx.rest), "leave: %d", rc);
	w->d->sums->leaves += rc == 0;
	w->d->sums->busy_leaves += rc == -EBUSY;
	w->d->sums->doubts += w->rx.doubt;
	CHECK(w->d, rc < 0 || !stay || !again || w->rx.heeded || w->rx.repeated,
	      "left with bytes unread");
}

/* A process that forks: off the ring with bytes unread, and later back. */
static void do_rest(struct way *w)
{
	int rc;

	if (w->tx.state == RSK_TX_ONRING && !w->in_tx && !w->fin_asked && chance(w->d, 50)) {
		w->in_tx = true;
		do_send(w);
		w->in_tx = false;
	}
	rc = rsk_rx_rest(&w->rx);
	CHECK(w->d, rc == 0 || rc == -EBUSY || (rc == -EAGAIN && w->rx.rest), "rest: %d", rc);
	w->d->sums->rests += w->rx.rest;
	wish_rx(w);
}

/* Never more than there is; and, where a put has landed when it returns, all that a sender on the ring has put. */
static void do_count(struct way *w)
{
	struct duplex *d = w->d;
	bool alone = false, both_on = w->rx.state == RSK_RX_ONRING && w->tx.state == RSK_TX_ONRING;
	uint64_t n = rsk_rx_pending(&w->rx, &alone), unread = w->sent - w->received;

	if (d->config->fabric != DUPLEX_SHM || w->in_tx)
		return;
	CHECK(d, n <= unread + w->rx.skip, "%" PRIu64 " pending, %" PRIu64 " sent", n, unread);
	CHECK(d, !both_on || n == unread, "%" PRIu64 " pending of %" PRIu64, n, unread);
	CHECK(d, !alone || n == unread, "the companion has some of %" PRIu64, unread);
	d->sums->counts += alone && n;
}

static void act_rx(struct way *w)
{
	struct duplex *d = w->d;
	bool rested = w->rx.rest;
	int rc = 0;

	if (w->in_rx)
		return;
	if (w->mute && !d->finishing) {
		w->mute--;
		return;
	}
	w->in_rx = true;
	switch (below(d, 16)) {
	case 0:
		if (d->config->wishes && !d->calm && chance(d, w->off[1] ? 30 : 6))
			wish_rx(w);
		rc = rsk_rx_serve(&w->rx, &w->at_rx.c);
		break;
	case 1:
		if (!(d->rail[0]->ops->caps & RSK_FABRIC_RELIABLE))
			rc = rsk_rx_tick(&w->rx);
		break;
	case 2:
	case 3:
		do_recv(w, true);
		break;
	case 4:
		do_count(w);
		if (chance(d, 10))
			w->mute = (uint32_t)below(d, 200);
		break;
	case 5:
		if (d->config->leave && !w->rx.left && chance(d, w->rx.rest ? 50 : 4))
			do_leave(w);
		else if (d->config->rests && !w->rx.left && !d->calm &&
			 chance(d, w->off[1] || w->rx.state == RSK_RX_ONRING ? 40 : 0))
			do_rest(w);
		break;
	default:
		do_recv(w, false);
		break;
	}
	CHECK(d, rc == 0 || (rc == -ENETDOWN && may_break(d)), "receiver's call: %d", rc);
	d->sums->repeats += rested && !w->rx.rest && w->rx.repeated;
	CHECK(d, rsk_rx_validate(&w->rx), "rx invalid, state %d", w->rx.state);
	w->in_rx = false;
}

/* ---- a run ---- */

/* Direction i: from end i to end 1-i. */
static void way_init(struct duplex *d, uint32_t i)
{
	struct way *w = &d->way[i];
	uint64_t key = dice_roll(&d->rng);

	d->key[i] = key;
	*w = (struct way){ .d = d, .id = i };
	w->at_tx = (struct end){ { &duplex_fifo_ops, -1 }, w };
	w->at_rx = (struct end){ { &duplex_fifo_ops, -1 }, w };
	w->fifo = malloc(d->config->fifo_bytes);
	rsk_tx_init(&w->tx, d->rail[i], RING_OFF, d->config->cells, MAIL_TX_OFF,
		    (const struct rsk_mail *)(const void *)(d->segment[i] + MAIL_RX_OFF), key);
	rsk_rx_init(&w->rx, d->rail[!i], d->segment[!i] + RING_OFF, d->config->cells, MAIL_RX_OFF,
		    (const struct rsk_mail *)(const void *)(d->segment[!i] + MAIL_TX_OFF), key);
	w->first_lap = rsk_ring_first_lap(key);
	if (d->config->fabric != DUPLEX_SHM)
		return;
	atomic_store(&w->taken, w->rx.ring.next);
	w->rx.consumed = &w->taken;
	w->tx.ring.taken = &w->taken;
}

static void step(struct duplex *d)
{
	struct way *w = &d->way[below(d, 2)];

	if (chance(d, 50))
		act_tx(w);
	else
		act_rx(w);
	if (d->config->fabric == DUPLEX_SHM)
		return;
	for (int i = 0; i < 2; i++)
		rsk_chaos_step(&d->chaos[i]);
	if (d->config->renews)
		duplex_link_step(d);
	if (d->config->breaks)
		duplex_break_step(d);
	if (chance(d, 2))
		CHECK(d, rsk_chaos_validate(&d->chaos[0]) && rsk_chaos_validate(&d->chaos[1]),
		      "chaos invalid");
}

/* The rail stays, and nobody wishes for anything: whoever still sends is on the ring again. */
static void come_back(struct duplex *d)
{
	uint64_t limit = 400000;
	uint32_t before[2];

	d->calm = true;
	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		if (w->off[0])
			wish_tx(w);
		if (w->off[1])
			wish_rx(w);
		before[i] = w->rx.promotions;
	}
	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		while (w->rx.promotions == before[i] && !w->fin_asked) {
			CHECK(d, --limit, "way %d is not promoted again: tx %d, rx %d, up %d %d", i,
			      w->tx.state, w->rx.state, d->keeper[0].up, d->keeper[1].up);
			step(d);
		}
		d->sums->promoted_again += !w->fin_asked;
	}
}

static void sum_up(struct duplex *d)
{
	struct duplex_sums *s = d->sums;

	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		s->bytes += w->received;
		s->ring_bytes += w->rx.ring_bytes;
		s->slots += w->tx.ring.slots;
		/* Another rail's ring begins at another lap. */
		s->laps += d->config->renews ? 0 :
					       w->tx.ring.next / w->tx.ring.cells - w->first_lap;
		s->promotions += w->rx.promotions;
		s->demotions += w->tx.demotions;
		s->restarts += w->tx.ring.left_out_to != 0;
		s->repairs += w->rx.mail.repair;
		s->retries += w->rx.ring.retries;
		if (d->config->fabric != DUPLEX_SHM)
			s->faults += rsk_chaos_injected(&d->chaos[i]);
	}
}

static void duplex_fini(struct duplex *d)
{
	for (int i = 0; i < 2; i++) {
		rsk_tx_fini(&d->way[i].tx);
		rsk_rx_fini(&d->way[i].rx);
		free(d->way[i].fifo);
		if (d->config->fabric != DUPLEX_SHM)
			rsk_chaos_close(&d->chaos[i]);
	}
	free(d->segment[0]);
	free(d->segment[1]);
	free(d);
}

void duplex_run(const struct duplex_config *config, struct duplex_sums *sums)
{
	struct duplex *d = calloc(1, sizeof(*d));
	uint64_t limit = 2000000;

	d->config = config;
	d->sums = sums;
	d->rng = config->seed;
	duplex_rails_init(d);
	for (uint32_t i = 0; i < 2; i++)
		way_init(d, i);
	duplex_link_init(d);
	for (uint32_t i = 0; i < config->steps; i++) {
		struct way *w = &d->way[below(d, 2)];

		step(d);
		if (!w->fin_asked && below(d, config->steps) < 2) {
			w->in_tx = true;
			do_fin(w);
			w->in_tx = false;
		}
	}
	if ((config->renews || config->rests) && !config->leave)
		come_back(d);
	/* Everything that was taken must come out, in bounded time, then the end. */
	d->finishing = true;
	for (int i = 0; i < 2; i++) {
		d->way[i].in_tx = true;
		do_fin(&d->way[i]);
		d->way[i].in_tx = false;
	}
	while (!d->way[0].ended || !d->way[1].ended) {
		CHECK(d, --limit,
		      "stuck: tx %d/%d rx %d/%d, %" PRIu64 "/%" PRIu64 " of %" PRIu64 "/%" PRIu64,
		      d->way[0].tx.state, d->way[1].tx.state, d->way[0].rx.state,
		      d->way[1].rx.state, d->way[0].received, d->way[1].received, d->way[0].sent,
		      d->way[1].sent);
		step(d);
	}
	sum_up(d);
	duplex_fini(d);
}
