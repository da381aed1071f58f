// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_progress.c - the progress threads of the model's rails (duplex_rails.c), which behave like
 * stream/remote/remote_rail.c and stream/remote/rail_failure.c. Each end notices the failure of a
 * rail at a time of its own, or by the other's RAIL_DOWN. What one end still has under way lands
 * until the other closes; the receiver reports gaps, and the sender repeats them by the other
 * rails. When the last rail fails the link breaks (BREAK, RESUME) and is made anew under another
 * epoch.
 */
#include "duplex_rails.h"

static void say(struct duplex *d, uint32_t end, struct talk talk)
{
	struct keeps *to = &d->rails->progress[!end];

	CHECK(d, to->n < TALK, "the control connection is full");
	to->inbox[(to->first + to->n++) % TALK] = talk;
}

/* ---- a rail ends ---- */

/*
 * Closes the queue pair of @end: nothing is received or sent by it any more, except what is already
 * on its way to the other end.
 */
static void close_pair(struct duplex *d, uint32_t end, uint32_t k)
{
	rsk_chaos_break(&d->rails->chaos[!end][k]);
	rsk_chaos_stop(&d->rails->chaos[end][k]);
	d->rails->dead[k] = true;
}

static void break_link(struct duplex *d, uint32_t end)
{
	struct keeps *progress = &d->rails->progress[end];
	struct talk resume = { .what = TALK_RESUME, .of = progress->epoch };

	progress->up = false;
	d->sums->all_lost++;
	for (uint32_t k = 0; k < d->config->rails; k++) {
		close_pair(d, end, k);
		progress->rail[k].state = IDLE;
	}
	rsk_rails_down(&d->rails->rs[end]);
	say(d, end, (struct talk){ .what = TALK_BREAK, .of = progress->epoch });
	rsk_tx_break(&d->way[end].tx);
	resume.owed = rsk_tx_owed_to(&d->way[end].tx);
	resume.ring_end = rsk_tx_ring_end(&d->way[end].tx);
	rsk_rx_break(&d->way[!end].rx, &resume.from, &resume.to);
	say(d, end, resume);
}

struct gaps {
	struct duplex *d;
	uint32_t end;
	struct talk talk;
};

static void name_gap(void *arg, uint64_t from, uint64_t to)
{
	struct gaps *g = arg;

	struct duplex_gaps *gaps = &g->d->rails->gaps;

	g->d->sums->gaps++;
	CHECK(g->d, gaps->n < sizeof(gaps->at) / sizeof(gaps->at[0]), "more gaps than cells");
	gaps->at[gaps->n].from = from;
	gaps->at[gaps->n++].to = to;
	g->talk.from = from;
	g->talk.to = to;
	say(g->d, g->end, g->talk);
}

static void say_rail_down(struct duplex *d, uint32_t end, uint32_t k, uint32_t generation)
{
	struct keeps *progress = &d->rails->progress[end];
	struct talk talk = { .of = progress->epoch, .rail = k, .generation = generation };
	struct gaps g = { d, end, talk };
	struct rsk_txn_tags_missing missing;

	if (generation <= progress->rail[k].told_generation)
		return;
	progress->rail[k].told_generation = generation;
	talk.what = TALK_LOST;
	say(d, end, talk);
	g.talk.what = TALK_GAP;
	d->rails->gaps.n = 0;
	rsk_rx_missing(&d->way[!end].rx, d->rails->scratch, &missing, name_gap, &g);
	duplex_txn_tags_missing(&d->way[!end], &d->rails->gaps, &missing);
	talk.what = TALK_NAMED;
	say(d, end, talk);
}

static void lose(struct duplex *d, uint32_t end, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *progress = &r->progress[end];

	close_pair(d, end, k);
	d->sums->rails_lost += progress->rail[k].state == UP;
	progress->rail[k].state = LOST;
	rsk_rails_lost(&r->rs[end], k);
	if (!rsk_rails_count(&r->rs[end]))
		break_link(d, end);
	else
		say_rail_down(d, end, k, progress->rail[k].generation);
}

/* ---- a rail comes up ---- */

static void give_up(struct duplex *d, uint32_t end, uint32_t k)
{
	close_pair(d, end, k);
	d->rails->progress[end].rail[k].state = IDLE;
}

/* Reports the rails that the other end had up, and lost, before this end was up for that epoch. */
static void say_early(struct duplex *d, uint32_t end)
{
	struct keeps *progress = &d->rails->progress[end];

	for (uint32_t k = 0; k < d->config->rails; k++)
		if (progress->rail[k].early_of == progress->epoch)
			say_rail_down(d, end, k, progress->rail[k].early_generation);
}

static void rail_up(struct duplex *d, uint32_t end, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *progress = &r->progress[end];
	bool renew = !progress->up;
	uint32_t of = progress->rail[k].of;

	if (renew ? of <= progress->epoch : of != progress->epoch) {
		/*
		 * The rail is for a former epoch. If this end is up, the other end may have the
		 * rail up, too.
		 */
		if (progress->up)
			lose(d, end, k);
		else
			give_up(d, end, k);
		return;
	}
	progress->rail[k].state = UP;
	rsk_chaos_repair(&r->chaos[end][k]);
	r->chaos[end][k].shut = true;
	if (renew) {
		for (uint32_t i = 0; i < d->config->rails; i++)
			if (progress->rail[i].state == COMING && progress->rail[i].of != of)
				give_up(d, end, i);
		progress->up = true;
		progress->epoch = of;
		rsk_rx_renew(&d->way[!end].rx, d->key[!end] + of);
		rsk_tx_renew(&d->way[end].tx, d->key[end] + of);
		d->sums->renewals++;
	}
	rsk_rails_up(&r->rs[end], k);
	rsk_tx_several(&d->way[end].tx);
	d->sums->rails_back++;
	say(d, end,
	    (struct talk){ .what = TALK_RING,
			   .of = of,
			   .rail = k,
			   .generation = progress->rail[k].generation });
	if (renew)
		say_early(d, end);
}

void duplex_progress_dial(struct duplex *d, uint32_t k)
{
	struct duplex_rails *r = d->rails;
	struct keeps *a = &r->progress[0], *b = &r->progress[1];
	uint32_t of = a->epoch + !a->up, generation;

	if (a->rail[k].state != IDLE)
		return;
	generation = ++a->rail[k].generation;
	if (b->rail[k].state > COMING || generation <= b->rail[k].generation ||
	    (b->up ? of != b->epoch : of <= b->epoch))
		return;
	close_pair(d, 1, k);
	for (int e = 0; e < 2; e++) {
		r->progress[e].rail[k].state = COMING;
		r->progress[e].rail[k].established = r->progress[e].rail[k].heard = false;
		r->progress[e].rail[k].generation = generation;
		r->progress[e].rail[k].of = of;
		r->chaos[e][k].swallows = false;
	}
	r->there[k] = true;
	r->dead[k] = false;
}

static void coming(struct duplex *d, uint32_t end, uint32_t k)
{
	struct keeps *progress = &d->rails->progress[end];

	if (d->rails->dead[k]) {
		/* If the rail was established here, the other end may have it up. */
		if (progress->up && progress->rail[k].established)
			lose(d, end, k);
		else
			give_up(d, end, k);
		return;
	}
	if (!progress->rail[k].established && chance(d, 40)) {
		progress->rail[k].established = true;
		say(d, end,
		    (struct talk){ .what = TALK_RAIL,
				   .of = progress->rail[k].of,
				   .rail = k,
				   .generation = progress->rail[k].generation });
	}
	if (progress->rail[k].established && progress->rail[k].heard)
		rail_up(d, end, k);
}

/* ---- messages received ---- */

static void heard_of_rail(struct duplex *d, uint32_t end, const struct talk *talk)
{
	struct duplex_rails *r = d->rails;
	struct keeps *progress = &r->progress[end];
	uint32_t k = talk->rail;
	struct way *w = &d->way[end];
	int rc = 0;

	if (talk->what == TALK_LOST && !progress->up && talk->of > progress->epoch) {
		progress->rail[k].early_of = talk->of;
		progress->rail[k].early_generation = talk->generation;
		if (progress->rail[k].state == COMING &&
		    progress->rail[k].generation == talk->generation)
			give_up(d, end, k);
		return;
	}
	if (talk->what == TALK_LOST && progress->up && talk->of == progress->epoch &&
	    talk->generation < progress->rail[k].generation)
		say_rail_down(d, end, k, talk->generation);
	if (talk->generation != progress->rail[k].generation ||
	    talk->of != (talk->what == TALK_RAIL ? progress->rail[k].of : progress->epoch))
		return;
	switch (talk->what) {
	case TALK_RAIL:
		if (progress->rail[k].state != COMING)
			break;
		progress->rail[k].heard = true;
		if (progress->rail[k].established)
			rail_up(d, end, k);
		break;
	case TALK_LOST:
		if (!progress->up)
			break;
		if (progress->rail[k].state == UP || progress->rail[k].state == COMING)
			lose(d, end, k);
		else if (progress->rail[k].state == IDLE)
			say_rail_down(d, end, k, talk->generation);
		if (progress->up)
			rsk_rails_closed(&r->rs[end], k);
		break;
	case TALK_GAP:
		w->in_tx = true;
		if (progress->up && progress->rail[k].state == LOST && !w->tx.rail_loss.ring_over)
			rc = rsk_ring_tx_retransmit(&w->tx.ring, talk->from, talk->to, k);
		w->in_tx = false;
		break;
	case TALK_NAMED:
		if (!progress->up || progress->rail[k].state != LOST)
			break;
		rsk_rails_named(&r->rs[end], k);
		progress->rail[k].state = IDLE;
		break;
	case TALK_RING:
		if (!progress->up || progress->rail[k].state != UP)
			break;
		r->chaos[end][k].shut = false;
		rsk_rails_changed(&r->rs[end]);
		w->in_tx = true;
		if (!w->tx.rail_loss.ring_over)
			rc = rsk_ring_tx_retransmit(&w->tx.ring, 0, UINT64_MAX, RSK_RAILS_NOBODY);
		w->in_tx = false;
		break;
	default:
		break;
	}
	CHECK(d, rc == 0, "again: %d", rc);
}

static void hear(struct duplex *d, uint32_t end)
{
	struct keeps *progress = &d->rails->progress[end];
	struct talk talk = progress->inbox[progress->first];
	struct way *w = &d->way[end];
	int rc;

	progress->first = (progress->first + 1) % TALK;
	progress->n--;
	switch (talk.what) {
	case TALK_BREAK:
		if (progress->up && talk.of == progress->epoch)
			break_link(d, end);
		else if (!progress->up && talk.of > progress->epoch)
			progress->epoch = talk.of;
		break;
	case TALK_RESUME:
		CHECK(d, !progress->up, "RESUME heard too late");
		duplex_owe(&d->way[!end], talk.owed, talk.ring_end);
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

/*
 * Reads the other end's RAIL_DOWN state by a rail that is up, before or after the message arrives
 * (../../stream/remote/remote_status.c).
 */
static void read_status(struct duplex *d, uint32_t end)
{
	const struct keeps *own = &d->rails->progress[end], *other = &d->rails->progress[!end];

	for (uint32_t k = 0; k < d->config->rails; k++) {
		bool open = other->rail[k].state == COMING || other->rail[k].state == UP;
		struct talk lost = { .what = TALK_LOST,
				     .of = own->epoch,
				     .rail = k,
				     .generation = own->rail[k].generation };

		if (!own->up || !other->up || own->epoch != other->epoch ||
		    other->rail[k].generation - open != lost.generation ||
		    (own->rail[k].state != UP && own->rail[k].state != LOST))
			continue;
		d->sums->read_lost += own->rail[k].state == UP;
		heard_of_rail(d, end, &lost);
	}
}

/* ---- turns ---- */

void duplex_progress_step(struct duplex *d, uint32_t end)
{
	struct keeps *progress = &d->rails->progress[end];

	if (d->way[end].in_tx || d->way[!end].in_rx)
		return;
	for (uint32_t k = 0; k < d->config->rails; k++) {
		if (progress->rail[k].state == COMING)
			coming(d, end, k);
		else if (progress->rail[k].state == UP && d->rails->dead[k] && chance(d, 10))
			lose(d, end, k);
	}
	if (chance(d, 3))
		read_status(d, end);
	while (progress->n && chance(d, 60))
		hear(d, end);
	CHECK(d, rsk_rails_validate(&d->rails->rs[end]), "rails of end %u are invalid", end);
	CHECK(d, rsk_tx_validate(&d->way[end].tx) && rsk_rx_validate(&d->way[!end].rx),
	      "invalid at end %u, epoch %u", end, progress->epoch);
	for (int i = 0; i < 2; i++)
		duplex_txn_tags_check(&d->way[i]);
}
