// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_rx.c - one random step of a receiving end: it receives, peeks, counts, falls back,
 * quiesces, or gets an operator request.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "duplex_parts.h"

void duplex_request_rx(struct way *w)
{
	w->off[1] = !w->off[1];
	w->d->sums->requests++;
	rsk_rx_stay_off(&w->rx, w->off[1]);
}

static void do_recv(struct way *w, bool peek)
{
	struct duplex *d = w->d;
	size_t len = duplex_message_bytes(d);
	uint8_t *in = malloc(len);
	bool sure;
	struct rsk_iovcur cur;
	struct iovec iov[6];
	int runs = duplex_cut(d, in, len, iov);
	ssize_t n;
	uint64_t had = w->rx.overread.len, skip = w->rx.skip;

	rsk_iovcur_init(&cur, iov, runs);
	/* With one thread and a fabric that never shows partial slots, "ready" is a promise. */
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
	d->sums->held_reads += !had && w->rx.overread.len;
	d->sums->twice_bytes += w->rx.skip < skip ? skip - w->rx.skip : 0;
	d->sums->peeks += peek && n > 0;
	free(in);
}

/*
 * Returns some of the ring's unread bytes to the TCP path, where the sender would write them
 * (../../stream/fallback/return_unread.c).
 */
static void hand_back(struct way *w)
{
	struct duplex *d = w->d;
	uint64_t in = w->fifo_in, room = d->config->fifo_bytes - (in - w->fifo_out);
	uint8_t bytes[100];
	struct iovec iov = { bytes, room && !w->fifo_end ? below(d, room < 100 ? room : 100) : 0 };
	struct rsk_iovcur cur;
	ssize_t n;

	d->sums->ended_first++;
	duplex_meanwhile(w);
	CHECK(d, w->fifo_in == in, "the sender writes before it was told from where");
	rsk_iovcur_init(&cur, &iov, 1);
	n = w->rx.state == RSK_RX_ONRING ? rsk_rx_recv_ring(&w->rx, &cur) : 0;
	for (ssize_t i = 0; i < n; i++)
		w->fifo[w->fifo_in++ % d->config->fifo_bytes] = bytes[i];
	duplex_meanwhile(w);
	CHECK(d, w->fifo_in == in + (uint64_t)(n > 0 ? n : 0), "the sender writes in between");
}

static void do_fall_back(struct way *w)
{
	bool again = false, stay = chance(w->d, 25);
	int rc;

	if (w->tx.state == RSK_TX_ONRING && !w->in_tx && !w->fin_asked && chance(w->d, 50)) {
		w->in_tx = true;
		duplex_send(w); /* leaves something unread */
		w->in_tx = false;
	}
	w->leaving = true;
	if (!stay && rsk_rx_end_it(&w->rx))
		hand_back(w);
	rc = rsk_rx_fall_back(&w->rx, stay, &again);
	w->leaving = false;
	CHECK(w->d,
	      rc == 0 || rc == -EBUSY ||
		      (rc == -EAGAIN &&
		       (rsk_rx_is_quiesced(&w->rx) || rsk_rx_awaits_report(&w->rx))),
	      "leave: %d", rc);
	w->d->sums->leaves += rc == 0;
	w->d->sums->busy_falls_back += rc == -EBUSY;
	w->d->sums->doubts += rsk_rx_in_race(&w->rx);
	CHECK(w->d,
	      rc < 0 || !stay || !again || w->tx.own.word.what == RSK_TX_RETRANSMIT ||
		      w->rx.fallback.repeated,
	      "left with bytes unread");
}

/* As in a process that forks: quiesces with bytes unread, and later comes back. */
static void do_quiesce(struct way *w)
{
	int rc;

	if (w->tx.state == RSK_TX_ONRING && !w->in_tx && !w->fin_asked && chance(w->d, 50)) {
		w->in_tx = true;
		duplex_send(w);
		w->in_tx = false;
	}
	rc = rsk_rx_quiesce(&w->rx);
	CHECK(w->d, rc == 0 || rc == -EBUSY || (rc == -EAGAIN && rsk_rx_is_quiesced(&w->rx)),
	      "rest: %d", rc);
	w->d->sums->quiesced += rsk_rx_is_quiesced(&w->rx);
	duplex_request_rx(w);
}

/*
 * As in a process that forks, on one host: reads what is in the ring, then ends the promotion
 * (family.c).
 */
static void do_pause(struct way *w)
{
	uint64_t before;
	int rc = 0;

	if (!w->off[1])
		duplex_request_rx(w);
	for (int i = 0; i < 4; i++) {
		do {
			before = w->received;
			rc = rsk_rx_serve(&w->rx, &w->at_rx.c);
			CHECK(w->d, rc == 0, "serve: %d", rc);
			do_recv(w, false);
		} while (w->received != before);
		rc = w->ended ? 0 : rsk_rx_pause(&w->rx);
		CHECK(w->d, rc == 0 || rc == -EAGAIN, "pause: %d", rc);
		w->d->sums->paused_again += rc != 0;
		if (rc == 0)
			break;
	}
	w->d->sums->pauses += w->rx.fallback.paused != 0;
	CHECK(w->d, rc || w->rx.fin || w->rx.state == RSK_RX_TCP, "paused in state %d",
	      w->rx.state);
}

/*
 * The count is never more than there is. Where a put has landed when it returns, it is all that a
 * sender on the ring has put.
 */
static void do_count(struct way *w)
{
	struct duplex *d = w->d;
	bool alone = false, both_on = w->rx.state == RSK_RX_ONRING && w->tx.state == RSK_TX_ONRING;
	uint64_t n = rsk_rx_pending(&w->rx, &alone), unread = w->sent - w->received;

	if (d->config->fabric != DUPLEX_SHM || w->in_tx)
		return;
	CHECK(d, n <= unread + w->rx.skip, "%" PRIu64 " pending, %" PRIu64 " sent", n, unread);
	CHECK(d, !both_on || n == unread, "%" PRIu64 " pending of %" PRIu64, n, unread);
	CHECK(d, !alone || n == unread, "the TCP socket has some of %" PRIu64, unread);
	d->sums->counts += alone && n;
}

void duplex_act_rx(struct way *w)
{
	struct duplex *d = w->d;
	bool rested = rsk_rx_is_quiesced(&w->rx);
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
		if (d->config->requests && !d->calm && chance(d, w->off[1] ? 30 : 6))
			duplex_request_rx(w);
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
		if (d->config->leave && !w->rx.fell_back &&
		    chance(d, rsk_rx_is_quiesced(&w->rx) ? 50 : 4))
			do_fall_back(w);
		else if (d->config->pauses && !w->rx.fell_back && w->off[1] && chance(d, 30))
			duplex_request_rx(w);
		else if (d->config->pauses && !w->rx.fell_back && !w->off[1] &&
			 w->rx.state != RSK_RX_TCP && chance(d, 40))
			do_pause(w);
		else if (d->config->quiesced && !w->rx.fell_back && !d->calm &&
			 chance(d, w->off[1] || w->rx.state == RSK_RX_ONRING ? 40 : 0))
			do_quiesce(w);
		break;
	default:
		do_recv(w, false);
		break;
	}
	CHECK(d, rc == 0 || (rc == -ENETDOWN && may_break(d)), "receiver's call: %d", rc);
	d->sums->repeats += rested && !rsk_rx_is_quiesced(&w->rx) && w->rx.fallback.repeated;
	CHECK(d, rsk_rx_validate(&w->rx), "rx invalid, state %d", w->rx.state);
	w->in_rx = false;
}
