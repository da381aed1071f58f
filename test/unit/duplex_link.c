// SPDX-License-Identifier: BSD-2-Clause
/*
 * duplex_link.c - rails that break in the duplex model, and the progress threads of both ends,
 * which behave like stream/remote/remote_rail.c and stream/remote/recovery_break.c. The rail breaks
 * at any moment, and so may a new one before both ends have it. Each end notices by itself or is
 * told (BREAK), says what it has consumed (RESUME) and, on the next rail (RAIL), renews both its
 * halves under a key of that epoch (RING).
 */
#include "duplex_parts.h"

#include <string.h>

static void say(struct duplex *d, uint32_t end, struct word word)
{
	struct progress *to = &d->progress[!end];

	CHECK(d, to->n < WORDS, "the control connection is full");
	to->inbox[(to->first + to->n++) % WORDS] = word;
}

/* Nothing is received any more: the count of consumed bytes is final. */
static void broken(struct duplex *d, uint32_t end)
{
	struct progress *k = &d->progress[end];
	struct word resume = { .what = WORD_RESUME, .epoch = k->epoch };

	for (int i = 0; i < 2; i++)
		rsk_chaos_break(&d->chaos[i]);
	d->rail_there = k->up = k->established = k->open = false;
	say(d, end, (struct word){ .what = WORD_BREAK, .epoch = k->epoch });
	rsk_tx_break(&d->way[end].tx);
	resume.owed = rsk_tx_owed_to(&d->way[end].tx);
	resume.ring_end = rsk_tx_ring_end(&d->way[end].tx);
	rsk_rx_break(&d->way[!end].rx, &resume.pos, &resume.cell);
	say(d, end, resume);
}

static void renew(struct duplex *d, uint32_t end)
{
	struct progress *k = &d->progress[end];

	k->up = true;
	rsk_chaos_repair(&d->chaos[end]);
	rsk_rx_renew(&d->way[!end].rx, d->key[!end] + k->epoch);
	rsk_tx_renew(&d->way[end].tx, d->key[end] + k->epoch);
	say(d, end, (struct word){ .what = WORD_RING, .epoch = k->epoch });
	d->sums->renewals++;
}

static void resume(struct duplex *d, uint32_t end, const struct word *word)
{
	struct way *w = &d->way[end];
	int rc;

	CHECK(d, !d->progress[end].up, "RESUME heard too late");
	duplex_owe(&d->way[!end], word->owed, word->ring_end);
	w->in_tx = true;
	rc = rsk_tx_resume(&w->tx, &w->at_tx.c, word->pos, word->cell);
	w->in_tx = false;
	CHECK(d, rc == 0, "resume: %d", rc);
	d->sums->resumes++;
}

static void hear(struct duplex *d, uint32_t end)
{
	struct progress *k = &d->progress[end];
	struct word word = k->inbox[k->first];

	k->first = (k->first + 1) % WORDS;
	k->n--;
	switch (word.what) {
	case WORD_BREAK:
		if (k->up && word.epoch == k->epoch)
			broken(d, end);
		break;
	case WORD_RESUME:
		resume(d, end, &word);
		break;
	case WORD_RAIL:
		if (word.epoch == k->epoch)
			k->heard = true;
		break;
	case WORD_RING:
		if (k->up && word.epoch == k->epoch)
			k->open = true;
		break;
	}
}

/* Each end sees a new rail established at a moment of its own. */
static void rail_work(struct duplex *d, uint32_t end)
{
	struct progress *k = &d->progress[end];

	if (k->up)
		return;
	if (!d->rail_there) {
		/* The accepting end takes a new rail only when it knows that the last one broke. */
		if (d->progress[0].up || d->progress[1].up || !chance(d, 10))
			return;
		for (int i = 0; i < 2; i++)
			d->progress[i].heard = d->progress[i].established = false;
		d->progress[0].epoch = d->progress[1].epoch = d->progress[0].epoch + 1;
		d->rail_there = true;
	} else if (!k->established) {
		if (!chance(d, 30))
			return;
		k->established = true;
		say(d, end, (struct word){ .what = WORD_RAIL, .epoch = k->epoch });
	}
	if (k->established && k->heard)
		renew(d, end);
}

static void break_work(struct duplex *d)
{
	bool all = d->progress[0].up && d->progress[1].up;

	if (!d->rail_there) /* one end knows; the other one notices later */
		return;
	if (d->calm || below(d, all ? d->config->steps / 8 : 60))
		return;
	d->sums->breaks++;
	d->rail_there = false;
	for (int i = 0; i < 2; i++) {
		rsk_chaos_break(&d->chaos[i]);
		d->progress[i].established = false;
	}
}

void duplex_link_init(struct duplex *d)
{
	d->rail_there = true;
	for (int i = 0; i < 2; i++)
		d->progress[i] = (struct progress){
			.up = true, .established = true, .open = true, .epoch = 1
		};
}

/*
 * Progress threads take the locks of both halves, so they do not run while a call of either does.
 */
void duplex_link_step(struct duplex *d)
{
	uint32_t end = (uint32_t)below(d, 2);
	struct progress *k = &d->progress[end];

	break_work(d);
	if (d->way[end].in_tx || d->way[!end].in_rx)
		return;
	if (k->up && !d->rail_there && chance(d, 10))
		broken(d, end);
	if (k->n && chance(d, 20))
		hear(d, end);
	rail_work(d, end);
	CHECK(d, rsk_tx_validate(&d->way[end].tx) && rsk_rx_validate(&d->way[!end].rx),
	      "invalid at end %u, epoch %u", end, k->epoch);
}

/* ---- one rail, which may break and is not replaced ---- */

static void do_break(struct duplex *d)
{
	for (int i = 0; i < 2; i++)
		rsk_chaos_break(&d->chaos[i]);
	d->sums->breaks++;
}

/*
 * Each end notices by itself; the consumed position C goes from receiver to sender by another way,
 * some time later.
 */
static void notice_break(struct duplex *d)
{
	struct way *w = &d->way[below(d, 2)];
	int rc;

	if (!d->rail[0]->broken || (!d->finishing && !chance(d, 10)))
		return;
	switch (below(d, 3)) {
	case 0:
		rsk_tx_break(&w->tx);
		break;
	case 1:
		if (!w->c_cell) {
			rsk_rx_break(&w->rx, &w->c_pos, &w->c_cell);
			w->was_broken = true;
		}
		break;
	default:
		if (!w->was_broken)
			break;
		w->in_tx = true;
		rsk_tx_break(&w->tx);
		duplex_owe(w, rsk_tx_owed_to(&w->tx), rsk_tx_ring_end(&w->tx));
		rc = rsk_tx_resume(&w->tx, &w->at_tx.c, w->c_pos, w->c_cell);
		CHECK(d, rc == 0, "resume: %d", rc);
		w->was_broken = false;
		w->in_tx = false;
		d->sums->resumes++;
		break;
	}
	CHECK(d, rsk_tx_validate(&w->tx) && rsk_rx_validate(&w->rx), "invalid after a break");
}

void duplex_break_step(struct duplex *d)
{
	if (!d->rail[0]->broken && below(d, d->config->steps) == 0)
		do_break(d);
	notice_break(d);
}
