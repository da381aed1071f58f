// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_rails.c - several rails between the two ends of duplex.c, and their keepers, as stream/remote_rail.c and
 * stream/remote_lost.c have them. A rail swallows what is put for a while, dies, is noticed at either end at a time of
 * its own or by the other's LOST; what one end still has under way lands until the other closes; gaps are named, and
 * put once more by the others; it comes back. When the last one dies the link breaks (BREAK, RESUME), and is made anew
 * under another epoch.
 */
#include "duplex_parts.h"

#include <stdlib.h>
#include <string.h>

#define RAILS RSK_RAILS_MOST
#define TALK 4096u

struct talk {
	enum {
		TALK_LOST,
		TALK_GAP,
		TALK_NAMED,
		TALK_RAIL,
		TALK_RING,
		TALK_BREAK,
		TALK_RESUME
	} what;
	uint32_t of;	/* epoch of the link */
	uint32_t rail;	/* and which rail, */
	uint32_t epoch; /* in its how manieth life */
	uint64_t from, to;
};

struct keeps {
	bool up;
	uint32_t epoch;
	struct {
		enum {
			IDLE,
			COMING,
			UP,
			LOST
		} state;
		bool established, heard;
		uint32_t epoch;
	} rail[RAILS];
	struct talk inbox[TALK];
	uint32_t first, n;
};

struct duplex_rails {
	struct rsk_rail one[2];
	struct rsk_rails rs[2];
	struct rsk_chaos chaos[2][RAILS];
	struct keeps keeper[2];
	bool there[RAILS], dead[RAILS]; /* made; and there is no way through it any more */
	uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
};

static void say(struct duplex *d, uint32_t end, struct talk talk)
{
	struct keeps *to = &d->rails->keeper[!end];

	CHECK(d, to->n < TALK, "the control connection is full");
	to->inbox[(to->first + to->n++) % TALK] = talk;
}

/* ---- a rail ends ---- */

/* The queue pair of @end: nothing comes in by it any more, nor goes out; what is on its way to the other end is. */
static void close_pair(struct duplex *d, uint32_t end, uint32_t k)
{
	rsk_chaos_break(&d->rails->chaos[!end][k]);
	rsk_chaos_stop(&d->rails->chaos[end][k]);
	d->rails->dead[k] = true;
}

static void break_link(struct duplex *d, uint32_t end)
{
	struct keeps *keeper = &d->rails->keeper[end];
	struct talk resume = { .what = TALK_RESUME, .of = keeper->epoch };

	keeper->up = false;
	d->sums->all_lost++;
	for (uint32_t k = 0; k < d->config->rails; k++) {
		close_pair(d, end, k);
		keeper->rail[k].state = IDLE;
	}
	rsk_rails_down(&d->rails->rs[end]);
	say(d, end, (struct talk){ .what = TALK_BREAK, .of = keeper->epoch });
	rsk_tx_break(&d->way[end].tx);
	rsk_rx_break(&d->way[!end].rx, &resume.from, &resume.to);
	say(d, end, resume);
}

struct gaps {
	struct duplex *d;
	uint32_t end, k;
};

static void name_gap(void *arg, uint64_t from, uint64_t to)
{
	const struct gaps *g = arg;
	const struct keeps *keeper = &g->d->rails->keeper[g->end];

	g->d->sums->gaps++;
	say(g->d, g->end,
	    (struct talk){ .what = TALK_GAP,
			   .of = keeper->epoch,
			   .rail = g->k,
			   .epoch = keeper->rail[g->k].epoch,
			   .from = from,
			   .to = to });
}

static void lose(struct duplex *d, uint32_t end, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *keeper = &r->keeper[end];
	struct talk talk = { .of = keeper->epoch, .rail = k, .epoch = keeper->rail[k].epoch };
	struct gaps g = { d, end, k };
	bool was_up = keeper->rail[k].state == UP;

	close_pair(d, end, k);
	keeper->rail[k].state = LOST;
	rsk_rails_lost(&r->rs[end], k);
	if (was_up && !rsk_rails_count(&r->rs[end])) {
		break_link(d, end);
		return;
	}
	d->sums->rails_lost += was_up;
	talk.what = TALK_LOST;
	say(d, end, talk);
	rsk_rx_missing(&d->way[!end].rx, r->scratch, name_gap, &g);
	talk.what = TALK_NAMED;
	say(d, end, talk);
	if (!was_up) /* it had carried nothing of ours */
		rsk_rails_named(&r->rs[end], k);
}

/* ---- a rail comes ---- */

static void rail_up(struct duplex *d, uint32_t end, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *keeper = &r->keeper[end];
	bool renew = !keeper->up;

	keeper->rail[k].state = UP;
	rsk_chaos_mend(&r->chaos[end][k]);
	r->chaos[end][k].shut = true;
	if (renew) {
		keeper->up = true;
		rsk_rx_renew(&d->way[!end].rx, d->key[!end] + keeper->epoch);
		rsk_tx_renew(&d->way[end].tx, d->key[end] + keeper->epoch);
		d->sums->renewals++;
	}
	rsk_rails_up(&r->rs[end], k);
	d->sums->rails_back++;
	say(d, end,
	    (struct talk){ .what = TALK_RING,
			   .of = keeper->epoch,
			   .rail = k,
			   .epoch = keeper->rail[k].epoch });
}

/* To a link that is up at both ends; or to one that has broken at both, which it brings back, one rail at first. */
static void come(struct duplex *d, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *a = &r->keeper[0], *b = &r->keeper[1];
	uint32_t epoch = a->rail[k].epoch > b->rail[k].epoch ? a->rail[k].epoch : b->rail[k].epoch;

	if (a->rail[k].state != IDLE || b->rail[k].state != IDLE || a->up != b->up)
		return;
	if (a->up && a->epoch != b->epoch)
		return;
	if (!a->up) {
		for (uint32_t i = 0; i < d->config->rails; i++)
			if (a->rail[i].state != IDLE || b->rail[i].state != IDLE)
				return;
		a->epoch = b->epoch = (a->epoch > b->epoch ? a->epoch : b->epoch) + 1;
	}
	for (int e = 0; e < 2; e++) {
		r->keeper[e].rail[k].state = COMING;
		r->keeper[e].rail[k].established = r->keeper[e].rail[k].heard = false;
		r->keeper[e].rail[k].epoch = epoch + 1;
		r->chaos[e][k].swallows = false;
	}
	r->there[k] = true;
	r->dead[k] = false;
}

static void coming(struct duplex *d, uint32_t end, uint32_t k)
{
	struct keeps *keeper = &d->rails->keeper[end];

	if (d->rails->dead[k]) {
		/* Whether the other end had it up already is for him to say. */
		if (keeper->up) {
			lose(d, end, k);
		} else {
			close_pair(d, end, k);
			keeper->rail[k].state = IDLE;
		}
		return;
	}
	if (!keeper->rail[k].established && chance(d, 40)) {
		keeper->rail[k].established = true;
		say(d, end,
		    (struct talk){ .what = TALK_RAIL,
				   .of = keeper->epoch,
				   .rail = k,
				   .epoch = keeper->rail[k].epoch });
	}
	if (keeper->rail[k].established && keeper->rail[k].heard)
		rail_up(d, end, k);
}

/* ---- what is heard ---- */

static void heard_of_rail(struct duplex *d, uint32_t end, const struct talk *talk)
{
	struct duplex_rails *r = d->rails;
	struct keeps *keeper = &r->keeper[end];
	uint32_t k = talk->rail;
	struct way *w = &d->way[end];
	int rc = 0;

	if (talk->of != keeper->epoch || talk->epoch != keeper->rail[k].epoch)
		return;
	switch (talk->what) {
	case TALK_RAIL:
		keeper->rail[k].heard = true;
		if (keeper->rail[k].state == COMING && keeper->rail[k].established)
			rail_up(d, end, k);
		break;
	case TALK_LOST:
		if (!keeper->up)
			break;
		if (keeper->rail[k].state == UP || keeper->rail[k].state == COMING)
			lose(d, end, k);
		if (keeper->up)
			rsk_rails_closed(&r->rs[end], k);
		break;
	case TALK_GAP:
		w->in_tx = true;
		if (keeper->up && keeper->rail[k].state == LOST)
			rc = rsk_ring_tx_again(&w->tx.ring, talk->from, talk->to, k);
		w->in_tx = false;
		break;
	case TALK_NAMED:
		if (!keeper->up || keeper->rail[k].state != LOST)
			break;
		rsk_rails_named(&r->rs[end], k);
		keeper->rail[k].state = IDLE;
		break;
	case TALK_RING:
		if (!keeper->up || keeper->rail[k].state != UP)
			break;
		r->chaos[end][k].shut = false;
		rsk_rails_changed(&r->rs[end]);
		w->in_tx = true;
		rc = rsk_ring_tx_again(&w->tx.ring, 0, UINT64_MAX, RSK_RAILS_NOBODY);
		w->in_tx = false;
		break;
	default:
		break;
	}
	CHECK(d, rc == 0, "again: %d", rc);
}

static void hear(struct duplex *d, uint32_t end)
{
	struct keeps *keeper = &d->rails->keeper[end];
	struct talk talk = keeper->inbox[keeper->first];
	struct way *w = &d->way[end];
	int rc;

	keeper->first = (keeper->first + 1) % TALK;
	keeper->n--;
	switch (talk.what) {
	case TALK_BREAK:
		if (keeper->up && talk.of == keeper->epoch)
			break_link(d, end);
		break;
	case TALK_RESUME:
		CHECK(d, !keeper->up, "RESUME heard too late");
		w->in_tx = true;
		rc = rsk_tx_resume(&w->tx, &w->at_tx.c, talk.from, talk.to);
		w->in_tx = false;
		CHECK(d, rc == 0, "resume: %d", rc);
		d->sums->resumes++;
		break;
	default:
		heard_of_rail(d, end, &talk);
		break;
	}
}

/* ---- what befalls rails ---- */

static void befall(struct duplex *d)
{
	struct duplex_rails *r = d->rails;
	uint32_t k = d->config->rails ? (uint32_t)below(d, d->config->rails) : 0, dice;

	for (uint32_t i = 0; i < d->config->rails; i++)
		if (chance(d, d->calm ? 10 : 2))
			come(d, i);
	if (d->calm || !r->there[k] || r->dead[k])
		return;
	dice = (uint32_t)below(d, 1000);
	if (dice < 2)
		for (uint32_t i = 0; i < d->config->rails; i++)
			r->dead[i] = true; /* the host's */
	else if (dice < 8)
		r->dead[k] = true;
	else if (dice < 12)
		r->chaos[below(d, 2)][k].swallows = true;
	/* Nobody hears of that but by what does not come. */
	if ((r->chaos[0][k].swallows || r->chaos[1][k].swallows) && chance(d, 3))
		r->dead[k] = true;
}

static void end_step(struct duplex *d, uint32_t end)
{
	struct keeps *keeper = &d->rails->keeper[end];

	if (d->way[end].in_tx || d->way[!end].in_rx)
		return;
	for (uint32_t k = 0; k < d->config->rails; k++) {
		if (keeper->rail[k].state == COMING)
			coming(d, end, k);
		else if (keeper->rail[k].state == UP && d->rails->dead[k] && chance(d, 10))
			lose(d, end, k);
	}
	while (keeper->n && chance(d, 60))
		hear(d, end);
	CHECK(d, rsk_rails_validate(&d->rails->rs[end]), "rails of end %u are invalid", end);
	CHECK(d, rsk_tx_validate(&d->way[end].tx) && rsk_rx_validate(&d->way[!end].rx),
	      "invalid at end %u, epoch %u", end, keeper->epoch);
}

void duplex_several_step(struct duplex *d)
{
	struct duplex_rails *r = d->rails;

	for (int e = 0; e < 2; e++)
		for (uint32_t k = 0; k < d->config->rails; k++)
			rsk_chaos_step(&r->chaos[e][k]);
	befall(d);
	end_step(d, (uint32_t)below(d, 2));
	/* One that swallows is noticed in the end, also when nothing is to befall any. */
	for (uint32_t k = 0; d->calm && k < d->config->rails; k++)
		if (r->chaos[0][k].swallows || r->chaos[1][k].swallows)
			r->dead[k] = true;
}

/* ---- from the start ---- */

void duplex_several_init(struct duplex *d)
{
	const struct rsk_rails_layout at = { .ctl_off = MAIL_TX_OFF,
					     .rxmail_off = MAIL_RX_OFF,
					     .ring_off = RING_OFF,
					     .ring_bytes = d->config->cells * RSK_CELL_BYTES,
					     .streams = 1 };
	struct duplex_rails *r = d->rails = calloc(1, sizeof(*r));

	for (int e = 0; e < 2; e++) {
		struct rsk_rail *one = &r->one[e];

		one->window = calloc(1, d->segment_bytes);
		one->window_bytes = one->segment_bytes = d->segment_bytes;
		one->segment = d->segment[e];
		cr_assert_eq(rsk_rails_init(&r->rs[e], one, &at), 0);
		cr_assert_eq(rsk_rails_reach(&r->rs[e], 0), 0);
		d->rail[e] = one;
		r->keeper[e].up = true;
		r->keeper[e].epoch = 1;
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
			free(c->rail.window); /* they have one in common */
			c->rail.window = r->one[e].window;
			r->rs[e].rail[k] = &c->rail;
			r->keeper[e].rail[k].state = UP;
			r->keeper[e].rail[k].epoch = 1;
			rsk_rails_up(&r->rs[e], k);
		}
	}
}

void duplex_several_sum(struct duplex *d)
{
	struct duplex_rails *r = d->rails;

	for (int e = 0; e < 2; e++)
		for (uint32_t k = 0; k < d->config->rails; k++) {
			d->sums->by_rail[k] += atomic_load(&r->rs[e].slots[k]);
			d->sums->put_again += atomic_load(&r->rs[e].repeated[k]);
			d->sums->faults += rsk_chaos_injected(&r->chaos[e][k]);
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
