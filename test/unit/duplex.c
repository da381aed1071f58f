// SPDX-License-Identifier: BSD-2-Clause
/* duplex.c - runs both ends of a stream against each other; see duplex.h. */
#include "duplex.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duplex_parts.h"

/* ---- the peer process, run inside a call of this one ---- */

/*
 * The sender switches to the ring, falls back, and goes on by TCP, all while the receiver is inside
 * one read.
 */
static void overtake(struct way *w)
{
	int rc;

	if (w->fin_asked)
		return;
	w->in_tx = true;
	rc = rsk_tx_serve(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -EAGAIN, "serve: %d", rc);
	duplex_send(w);
	rc = rsk_tx_fall_back(&w->tx, &w->at_tx.c);
	CHECK(w->d, rc == 0 || rc == -EAGAIN || rc == -ENETDOWN, "move: %d", rc);
	duplex_send(w);
	w->in_tx = false;
}

/* Runs the peer's machine while this one is inside a call. */
void duplex_meanwhile(struct way *w)
{
	struct duplex *d = w->d;

	if (!d->config->interleave || d->depth > 2)
		return;
	/* A FALLBACK_TX from a sender that checked for a FALLBACK_RX just before it was written. */
	if (w->leaving && !w->in_tx && chance(d, 50)) {
		w->in_tx = true;
		rsk_tx_fall_back(&w->tx, &w->at_tx.c);
		w->in_tx = false;
	}
	if (!chance(d, 25))
		return;
	d->depth++;
	if (w->in_rx && !w->in_tx && w->rx.state == RSK_RX_WATCH && chance(d, 30))
		overtake(w);
	for (uint64_t n = 1 + below(d, 4); n; n--) {
		if (w->in_rx && !w->in_tx)
			duplex_act_tx(w);
		else if (w->in_tx && !w->in_rx)
			duplex_act_rx(w);
	}
	d->depth--;
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
	rsk_tx_init(&w->tx, d->rail[i], RING_OFF, d->config->cells, TX_WORD_OFF,
		    (const struct rsk_control_word *)(const void *)(d->segment[i] + RX_WORD_OFF),
		    key);
	rsk_rx_init(&w->rx, d->rail[!i], d->segment[!i] + RING_OFF, d->config->cells, RX_WORD_OFF,
		    (const struct rsk_control_word *)(const void *)(d->segment[!i] + TX_WORD_OFF),
		    key);
	if (d->config->lap_cells) {
		rsk_tx_laps(&w->tx, d->config->lap_cells);
		rsk_rx_laps(&w->rx, d->config->lap_cells);
	}
	w->widest = w->tx.ring.lap_cells;
	w->first_lap = rsk_ring_first_lap(key);
	if (d->config->rails)
		duplex_txn_tags_init(w);
	if (d->config->pauses)
		w->rx.ended = w->tx.ended = &w->promotion_end;
	if (d->config->fabric != DUPLEX_SHM) {
		duplex_credit_init(w);
		return;
	}
	atomic_store(&w->taken, w->rx.ring.next);
	w->rx.credit.consumed = &w->taken;
	w->tx.ring.taken = &w->taken;
}

static void step(struct duplex *d)
{
	struct way *w = &d->way[below(d, 2)];
	const struct rsk_ring_tx *ring = &w->tx.ring;
	uint64_t before = ring->next;

	if (d->config->lap_cells && below(d, 200) == 0 && ring->lap_cells < ring->cells) {
		rsk_ring_tx_widen(&w->tx.ring, 2 * ring->lap_cells);
		d->sums->wider++;
	} else if (d->config->lap_cells && below(d, 40) == 0 &&
		   ring->lap_cells > d->config->lap_cells) {
		d->sums->narrower += rsk_tx_narrow(&w->tx);
		CHECK(d, rsk_tx_validate(&w->tx), "tx after rsk_tx_narrow()");
	}
	if (chance(d, 50))
		duplex_act_tx(w);
	else
		duplex_act_rx(w);
	if (ring->lap_cells > w->widest)
		w->widest = ring->lap_cells;
	if (ring->lap_cells < ring->cells && ring->next > before)
		d->sums->last_slots += ring->next / ring->cells - before / ring->cells;
	CHECK(d, w->owes == (rsk_tx_retransmits(&w->tx) && w->tx.resend.pos < w->tx.pos),
	      "the TCP socket %s bytes to be repeated, tx %d",
	      w->owes ? "waits for" : "knows of no", w->tx.state);
	if (d->config->fabric == DUPLEX_SHM)
		return;
	duplex_credit_step(d);
	if (d->config->harm)
		duplex_harm_step(d);
	if (d->config->rails) {
		duplex_several_step(d);
		return;
	}
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

/*
 * With the rails up and no operator request pending, each direction that still sends returns to the
 * ring.
 */
static void come_back(struct duplex *d)
{
	uint64_t limit = 400000;
	uint32_t before[2];

	d->calm = true;
	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		if (w->off[0])
			duplex_request_tx(w);
		if (w->off[1])
			duplex_request_rx(w);
		before[i] = w->rx.counts.promotions;
	}
	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		while (w->rx.counts.promotions == before[i] && !w->fin_asked && !d->over) {
			CHECK(d, --limit, "way %d is not promoted again: tx %d, rx %d, up %d %d", i,
			      w->tx.state, w->rx.state, d->progress[0].up, d->progress[1].up);
			step(d);
		}
		d->sums->promoted_again += !w->fin_asked;
	}
}

/* Nothing was ever composed where no lap has reached. */
static void check_laps(struct duplex *d, const struct way *w)
{
	const struct rsk_ring_tx *ring = &w->tx.ring;
	const uint8_t *at = ring->rail->window + ring->off;

	for (size_t i = (size_t)w->widest * RSK_CELL_BYTES;
	     i < (size_t)ring->cells * RSK_CELL_BYTES; i++)
		CHECK(d, !at[i], "byte %zu of a ring of which %u cells are used", i, w->widest);
}

static void sum_up(struct duplex *d)
{
	struct duplex_sums *s = d->sums;

	for (int i = 0; i < 2; i++) {
		struct way *w = &d->way[i];

		s->bytes += w->received;
		check_laps(d, w);
		s->ring_bytes += w->rx.ring_bytes;
		s->slots += w->tx.ring.slots;
		/* The ring of another rail starts at another lap. */
		s->laps += d->config->renews || d->config->rails ?
				   0 :
				   w->tx.ring.next / w->tx.ring.cells - w->first_lap;
		s->promotions += w->rx.counts.promotions;
		s->demotions += w->tx.counts.demotions;
		s->restarts += w->tx.ring.left_out_to != 0;
		s->repairs += w->rx.own.word.repair;
		s->retries += w->rx.ring.retries;
		if (d->config->fabric != DUPLEX_SHM && !d->config->rails)
			s->faults += rsk_chaos_injected(&d->chaos[i]);
	}
}

static void duplex_fini(struct duplex *d)
{
	for (int i = 0; i < 2; i++) {
		rsk_tx_fini(&d->way[i].tx);
		rsk_rx_fini(&d->way[i].rx);
		free(d->way[i].fifo);
		if (d->config->fabric != DUPLEX_SHM && !d->config->rails)
			rsk_chaos_close(&d->chaos[i]);
	}
	if (d->config->rails)
		duplex_several_fini(d);
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
	for (uint32_t i = 0; i < config->steps && !d->over; i++) {
		struct way *w = &d->way[below(d, 2)];

		step(d);
		if (!w->fin_asked && below(d, config->steps) < 2) {
			w->in_tx = true;
			duplex_fin(w);
			w->in_tx = false;
		}
	}
	if ((config->renews || config->quiesced || config->rails) && !config->leave && !d->over)
		come_back(d);
	/* Everything that was sent must be received in bounded time, and then the end of stream. */
	d->finishing = true;
	for (int i = 0; i < 2; i++) {
		d->way[i].in_tx = true;
		duplex_fin(&d->way[i]);
		d->way[i].in_tx = false;
	}
	while (!d->over && (!d->way[0].ended || !d->way[1].ended)) {
		CHECK(d, --limit,
		      "stuck: tx %d/%d rx %d/%d, %" PRIu64 "/%" PRIu64 " of %" PRIu64 "/%" PRIu64,
		      d->way[0].tx.state, d->way[1].tx.state, d->way[0].rx.state,
		      d->way[1].rx.state, d->way[0].received, d->way[1].received, d->way[0].sent,
		      d->way[1].sent);
		step(d);
	}
	for (int i = 0; i < 2 && config->rails && !d->over; i++)
		duplex_txn_tags_end(&d->way[i]);
	sum_up(d);
	if (config->rails)
		duplex_several_sum(d);
	duplex_fini(d);
}
