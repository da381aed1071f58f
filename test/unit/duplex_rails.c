// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_rails.c - several rails between the two ends of duplex.c, and the faults that are injected
 * into them: a rail swallows what is put for a while, fails, alone or with all others, and comes
 * back. The reaction is that of the progress threads (duplex_progress.c).
 */
#include "duplex_rails.h"

#include <stdlib.h>

static void befall(struct duplex *d)
{
	struct duplex_rails *r = d->rails;
	uint32_t k = d->config->rails ? (uint32_t)below(d, d->config->rails) : 0, dice;

	for (uint32_t i = 0; i < d->config->rails; i++)
		if (chance(d, d->calm ? 10 : 2))
			duplex_progress_dial(d, i);
	if (d->calm || !r->there[k] || r->dead[k])
		return;
	dice = (uint32_t)below(d, 1000);
	if (dice < 2)
		for (uint32_t i = 0; i < d->config->rails; i++)
			r->dead[i] = true; /* the whole host fails */
	else if (dice < 8)
		r->dead[k] = true;
	else if (dice < 12)
		r->chaos[below(d, 2)][k].swallows = true;
	/* A rail that swallows gives no error: only what does not arrive shows it. */
	if ((r->chaos[0][k].swallows || r->chaos[1][k].swallows) && chance(d, 3))
		r->dead[k] = true;
}

void duplex_several_step(struct duplex *d)
{
	struct duplex_rails *r = d->rails;

	for (int e = 0; e < 2; e++)
		for (uint32_t k = 0; k < d->config->rails; k++)
			rsk_chaos_step(&r->chaos[e][k]);
	befall(d);
	duplex_progress_step(d, (uint32_t)below(d, 2));
	/* A rail that swallows is noticed in the end, also when no more faults are injected. */
	for (uint32_t k = 0; d->calm && k < d->config->rails; k++)
		if (r->chaos[0][k].swallows || r->chaos[1][k].swallows)
			r->dead[k] = true;
}

/* ---- set-up ---- */

void duplex_several_init(struct duplex *d)
{
	const struct rsk_rails_layout at = { .ctl_off = TX_WORD_OFF,
					     .rx_word_off = RX_WORD_OFF,
					     .ring_off = RING_OFF,
					     .ring_bytes = d->config->cells * RSK_CELL_BYTES,
					     .streams = 1 };
	struct duplex_rails *r = d->rails = calloc(1, sizeof(*r));

	for (int e = 0; e < 2; e++) {
		const struct rsk_rails_record record = { r->bytes[e], &r->again[e] };
		struct rsk_rail *one = &r->one[e];

		one->window = calloc(1, d->segment_bytes);
		one->window_bytes = one->segment_bytes = d->segment_bytes;
		one->segment = d->segment[e];
		cr_assert_eq(rsk_rails_init(&r->rs[e], one, &at), 0);
		cr_assert_eq(rsk_rails_reach(&r->rs[e], 0, &record), 0);
		d->rail[e] = one;
		r->progress[e].up = true;
		r->progress[e].epoch = 1;
	}
	for (uint32_t k = 0; k < d->config->rails; k++) {
		uint32_t speed = below(d, 4) ? 1u << (4 + below(d, 10)) : 0;

		r->there[k] = true;
		for (int e = 0; e < 2; e++) {
			struct rsk_chaos_config config = rsk_chaos_reliable;
			struct rsk_chaos *c = &r->chaos[e][k];

			config.bytes_per_step = speed;
			cr_assert_eq(rsk_chaos_open(c, &config, dice_roll(&d->rng), d->segment[e],
						    d->segment[!e], d->segment_bytes),
				     0);
			free(c->rail.window); /* all rails share one window */
			c->rail.window = r->one[e].window;
			r->rs[e].rail[k] = &c->rail;
			r->progress[e].rail[k].state = UP;
			r->progress[e].rail[k].generation = 1;
			rsk_rails_up(&r->rs[e], k);
		}
	}
}

void duplex_several_sum(struct duplex *d)
{
	struct duplex_rails *r = d->rails;

	for (int e = 0; e < 2; e++) {
		d->sums->put_again += r->again[e];
		for (uint32_t k = 0; k < d->config->rails; k++) {
			d->sums->by_rail[k] += r->bytes[e][k];
			d->sums->faults += rsk_chaos_injected(&r->chaos[e][k]);
		}
	}
}

void duplex_several_fini(struct duplex *d)
{
	struct duplex_rails *r = d->rails;

	for (int e = 0; e < 2; e++) {
		for (uint32_t k = 0; k < d->config->rails; k++) {
			r->chaos[e][k].rail.window = NULL;
			rsk_chaos_close(&r->chaos[e][k]);
		}
		free(r->one[e].window);
		rsk_rails_fini(&r->rs[e]);
	}
	free(r);
}
