// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_tx.c - one random step of a sending end: it sends from memory or a file, falls back,
 * proposes, ends, or gets an operator request.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "duplex_parts.h"

#define MAX_MESSAGE 60000u

int duplex_cut(struct duplex *d, uint8_t *base, size_t len, struct iovec iov[static 6])
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

size_t duplex_message_bytes(struct duplex *d)
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

/* A file from which @len bytes are requested; it may give fewer, end early, or fail. */
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
	size_t len = duplex_message_bytes(d);
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

void duplex_send(struct way *w)
{
	struct duplex *d = w->d;
	size_t len = duplex_message_bytes(d);
	uint8_t *out = malloc(len);
	struct rsk_iovcur cur;
	struct iovec iov[6];
	ssize_t n;
	int runs;

	for (size_t i = 0; i < len; i++)
		out[i] = dice_byte(w->id, w->sent + i);
	runs = duplex_cut(d, out, len, iov);
	rsk_iovcur_init(&cur, iov, runs);
	n = rsk_tx_send(&w->tx, &w->at_tx.c, &cur, 0);
	CHECK(d, n > 0 || n == -EAGAIN, "send: %zd", n);
	CHECK(d, cur.left == len - (n > 0 ? (size_t)n : 0), "%zd of %zu bytes sent, but %zu left",
	      n, len, cur.left);
	if (n > 0)
		w->sent += (uint64_t)n;
	d->sums->stalls += n == -EAGAIN && w->tx.state == RSK_TX_ONRING && w->tx.ring.order &&
			   !rsk_order_tx_ready(w->tx.ring.order);
	free(out);
}

static bool drained(const struct way *w)
{
	return w->tx.ring.credit == w->tx.ring.next || w->tx.peer_fell_back;
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

void duplex_fin(struct way *w)
{
	int rc;
	bool on_ring = w->tx.state == RSK_TX_ONRING;

	if (!w->fin_asked)
		*(on_ring ? &w->d->sums->fins_on_ring : &w->d->sums->fins_on_tcp) += 1;
	/* Set before the call, since the receiver may act inside it. */
	w->fin_asked = true;
	rc = rsk_tx_fin(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -ENETDOWN, "fin: %d", rc);
}

void duplex_request_tx(struct way *w)
{
	w->off[0] = !w->off[0];
	w->d->sums->requests++;
	rsk_tx_stay_off(&w->tx, RSK_TX_STAY_OWN, w->off[0]);
}

/*
 * While this end is kept off the ring, it is not on the ring after a check, whatever happened
 * before, if no answer is needed.
 */
static void check_off(struct way *w)
{
	struct duplex *d = w->d;

	if (w->off[0] && d->config->fabric == DUPLEX_SHM && w->tx.reader == RSK_READER_THERE)
		CHECK(d, w->tx.state == RSK_TX_TCP || rsk_tx_owes(&w->tx),
		      "kept off the ring, in state %d", w->tx.state);
}

void duplex_act_tx(struct way *w)
{
	struct duplex *d = w->d;
	uint64_t before = w->fifo_in;
	uint32_t demotions = w->tx.counts.demotions;
	bool resending, own_fall_back = false;
	int rc = 0;

	if (w->in_tx)
		return;
	w->in_tx = true;
	resending = rsk_tx_retransmits(&w->tx);
	switch (below(d, 16)) {
	case 0:
	case 1:
		if (d->config->renews && !d->progress[w->id].open)
			break;
		rc = rsk_tx_propose(&w->tx);
		if (rc == -EAGAIN || rc == -EPERM)
			rc = 0;
		break;
	case 2:
		own_fall_back = true;
		rc = rsk_tx_fall_back(&w->tx, &w->at_tx.c);
		if (rc == -EAGAIN)
			rc = 0;
		break;
	case 3:
		if (d->config->requests && !d->calm && chance(d, w->off[0] ? 30 : 6))
			duplex_request_tx(w);
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
			duplex_send(w);
		else
			rc = rsk_tx_serve(&w->tx, &w->at_tx.c);
		break;
	}
	if (rc == -EAGAIN)
		rc = 0; /* serve: a FALLBACK_RX that cannot be applied now */
	d->sums->sent_off += w->tx.counts.demotions != demotions && !own_fall_back &&
			     w->tx.stay_off == RSK_TX_STAY_ASKED;
	if (resending)
		d->sums->resent_bytes += w->fifo_in - before;
	CHECK(d, rc == 0 || (rc == -ENETDOWN && may_break(d)), "sender's call: %d", rc);
	CHECK(d, rsk_tx_validate(&w->tx), "tx invalid, state %d", w->tx.state);
	w->in_tx = false;
}
