// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_order_rails.c - tests a stream striped over rails of different speed that reorder, repeat
 * and fail, against an oracle. The ring is an array of packet names: what is consumed must be what
 * was put, in order, once. A rail that fails loses everything under way on it; the receiver names
 * what is missing, and the sender puts that on another rail.
 */
#include <stdio.h>

#include "dice.h"
#include "order_kit.h"

#define CELLS 1024u
#define RAILS 4u
#define QUEUE 2048u
#define HISTORY 1024u /* transactions that the oracle remembers; more than any window */

struct packet {
	struct order_packet o;
	uint64_t name; /* a counter of packets */
};

struct rail {
	struct packet queue[QUEUE];
	uint32_t n, speed; /* speed: of 100 */
	bool dead;
};

/* The oracle's record of a transaction. */
struct truth {
	uint32_t packets, seen;
	bool whole, first, known;
};

struct world {
	struct order_pair p;
	struct rail rails[RAILS];
	struct packet ring[CELLS];   /* sender's: by the cell of the packet's place */
	uint64_t landed[CELLS];	     /* receiver's: name of the packet there */
	struct truth truth[HISTORY]; /* by number */
	uint64_t credit;	     /* under way to the sender */
	uint64_t dice, seed, names, delivered, highest;
	uint64_t losses, repeats, swaps, lost_acks, deaths, asked, faults, transactions, overtook;
};

static uint32_t roll(struct world *w, uint32_t n)
{
	return (uint32_t)(dice_roll(&w->dice) % n);
}

static struct truth *truth_of(struct world *w, uint64_t n)
{
	return &w->truth[n % HISTORY];
}

#define check(w, condition) cr_assert(condition, "RSOCK_SEED=%" PRIu64 ": " #condition, (w)->seed)

static void arrive(struct world *w, const struct packet *k);

static struct packet off_rail(struct rail *r, uint32_t i)
{
	struct packet k = r->queue[i];

	memmove(&r->queue[i], &r->queue[i + 1], (r->n - i - 1) * sizeof(*r->queue));
	r->n--;
	return k;
}

/*
 * Puts a packet on a rail that is up; one always is. If its queue is full, the oldest packet
 * arrives first.
 */
static void onto_rail(struct world *w, const struct packet *k)
{
	uint32_t i = roll(w, RAILS);
	struct rail *r;

	while (w->rails[i].dead)
		i = (i + 1) % RAILS;
	r = &w->rails[i];
	if (r->n == QUEUE) {
		struct packet oldest = off_rail(r, 0);

		arrive(w, &oldest);
	}
	r->queue[r->n++] = *k;
}

static void send_packet(struct world *w)
{
	uint32_t cells = roll(w, 8) ? 1 + roll(w, 4) : 1 + roll(w, 60);
	uint64_t place = w->p.tx.top, to_end = CELLS - (place & (CELLS - 1));
	bool last = !roll(w, 4);
	struct packet k;

	if (!w->p.tx.open) {
		int rc = rsk_order_tx_begin(&w->p.tx);

		if (rc == -EAGAIN)
			return;
		check(w, rc == 0);
		*truth_of(w, w->p.tx.next - 1) = (struct truth){ .known = true };
		w->transactions++;
	}
	if (cells > to_end)
		cells = (uint32_t)to_end;
	k.o = (struct order_packet){ w->p.tx.next - 1, place, cells,
				     rsk_order_tx_tag(&w->p.tx, last) };
	k.name = w->names;
	if (place + cells - w->p.tx.floor > CELLS) {
		check(w, rsk_order_tx_put(&w->p.tx, place, cells, last) == -ENOBUFS);
		return;
	}
	check(w, rsk_order_tx_put(&w->p.tx, place, cells, last) == 0);
	w->names++;
	truth_of(w, k.o.number)->packets++;
	truth_of(w, k.o.number)->whole = last;
	w->ring[place & (CELLS - 1)] = k;
	onto_rail(w, &k);
}

/* Compares with the oracle, after a packet that was not seen before. */
static void compare(struct world *w, const struct packet *k, const struct rsk_order_seen *seen)
{
	struct truth *t = truth_of(w, k->o.number);

	check(w, seen->number == k->o.number);
	check(w, seen->created == !t->seen);
	t->seen++;
	t->first |= !!(k->o.tag & RSK_ORDER_FIRST);
	check(w, t->known && t->seen <= t->packets);
	check(w, seen->complete == (t->whole && t->seen == t->packets));
	if (k->o.number + 1 > w->highest)
		w->highest = k->o.number + 1;
	check(w, w->p.rx.next == w->highest);
}

/* What the receiver reports as missing must be what the oracle misses. */
static void compare_missing(struct world *w)
{
	uint64_t from = w->p.setup.number, n = 0, low = w->highest;

	for (uint64_t i = w->p.rx.low; i < w->highest; i++) {
		const struct truth *t = truth_of(w, i);
		int lack = rsk_order_rx_missing(&w->p.rx, from, &n);

		if (t->whole && t->seen == t->packets)
			continue;
		low = low < i ? low : i;
		check(w, lack && n == i);
		check(w, lack == (!t->seen  ? RSK_ORDER_ABSENT :
				  !t->first ? RSK_ORDER_HEADLESS :
					      RSK_ORDER_PARTIAL));
		from = n + 1;
	}
	check(w, !rsk_order_rx_missing(&w->p.rx, from, &n));
	check(w, w->p.rx.low == low);
}

static void arrive(struct world *w, const struct packet *k)
{
	struct rsk_order_seen seen = { 0 };
	bool before = k->name < w->delivered || w->landed[k->o.place & (CELLS - 1)] == k->name + 1;
	int rc = rsk_order_rx_see(&w->p.rx, k->o.tag, k->o.place, k->o.cells, &seen);

	check(w, rc == (before ? -EALREADY : 0));
	if (rc == 0) {
		w->landed[k->o.place & (CELLS - 1)] = k->name + 1;
		compare(w, k, &seen);
	}
	check(w, rsk_order_rx_validate(&w->p.rx));
}

/*
 * Delivers one packet of one rail: mostly the oldest, otherwise any; it may stay there to arrive a
 * second time.
 */
static void step_rail(struct world *w, struct rail *r)
{
	struct packet k;
	uint32_t i = 0;

	if (r->dead || !r->n || roll(w, 100) >= r->speed)
		return;
	if (r->n > 1 && !roll(w, 3)) {
		i = 1 + roll(w, r->n - 1);
		w->swaps++;
		w->faults++;
	}
	k = r->queue[i];
	if (roll(w, 20)) {
		off_rail(r, i);
	} else {
		w->repeats++;
		w->faults++;
	}
	arrive(w, &k);
}

/* Consumes in order, once: every packet by its name. */
static void deliver(struct world *w)
{
	uint64_t n = rsk_order_rx_takable(&w->p.rx), to = w->p.rx.base;

	while (to < w->p.rx.base + n) {
		const struct packet *k = &w->ring[to & (CELLS - 1)];

		check(w, w->landed[to & (CELLS - 1)] == k->name + 1);
		check(w, k->name == w->delivered);
		w->delivered++;
		to += k->o.cells;
	}
	check(w, to == w->p.rx.base + n);
	check(w, rsk_order_rx_take(&w->p.rx, to) == 0);
	check(w, rsk_order_rx_validate(&w->p.rx));
}

/* Credit comes late, or not at all: a later one says more. */
static void step_acks(struct world *w)
{
	if (!roll(w, 8)) {
		if (roll(w, 10)) {
			check(w, rsk_order_tx_ack_below(&w->p.tx, w->credit) == 0);
		} else {
			w->lost_acks++;
			w->faults++;
		}
		w->credit = w->p.rx.base;
	}
	check(w, rsk_order_tx_validate(&w->p.tx));
}

/* Repeats the packets of one transaction, as they lie in the sender's window. */
static void again(struct world *w, uint64_t number)
{
	uint64_t begin, end;

	if (rsk_order_tx_where(&w->p.tx, number, &begin, &end) == -ENOENT)
		return;
	w->asked++;
	while (begin < end) {
		const struct packet *k = &w->ring[begin & (CELLS - 1)];

		check(w, k->o.place == begin && k->o.number == number);
		onto_rail(w, k);
		begin += k->o.cells;
	}
}

/*
 * Loses everything under way on that rail. The receiver names what is missing; the sender knows
 * what lies beyond the receiver's pointer.
 */
static void kill_rail(struct world *w)
{
	struct rail *r = &w->rails[roll(w, RAILS)];
	uint64_t n = 0, from = 0;
	uint32_t alive = 0;

	for (uint32_t i = 0; i < RAILS; i++)
		alive += !w->rails[i].dead;
	if (alive == 1 || r->dead)
		return;
	r->dead = true;
	w->deaths++;
	w->losses += r->n;
	w->faults += r->n + 1;
	r->n = 0;
	compare_missing(w);
	for (; rsk_order_rx_missing(&w->p.rx, from, &n); from = n + 1)
		again(w, n);
	for (n = w->p.rx.next; n < w->p.tx.next; n++)
		again(w, n);
}

static void step(struct world *w)
{
	if (!roll(w, 2))
		send_packet(w);
	for (uint32_t i = 0; i < RAILS; i++)
		step_rail(w, &w->rails[i]);
	step_acks(w);
	if (!roll(w, 4))
		deliver(w);
	if (!roll(w, 16))
		compare_missing(w);
	if (!roll(w, 500))
		kill_rail(w);
	if (!roll(w, 400))
		w->rails[roll(w, RAILS)].dead = false;
}

/* Sends nothing more, and runs until everything has arrived and the sender knows it. */
static void finish(struct world *w)
{
	for (uint32_t i = 0; i < 200000 && w->p.tx.una < w->p.tx.next; i++) {
		for (uint32_t k = 0; k < RAILS; k++)
			step_rail(w, &w->rails[k]);
		deliver(w);
		step_acks(w);
		if (w->p.tx.open)
			send_packet(w);
	}
	deliver(w);
	check(w, w->p.tx.una == w->p.tx.next);
	check(w, w->delivered == w->names);
	check(w, w->p.rx.low == w->p.tx.next);
	check(w, w->p.rx.completed == w->transactions);
}

static void run(struct world *w, const char *form, uint32_t window, uint64_t seed, uint32_t steps,
		struct world *sums)
{
	struct rsk_order_form f = order_form(form);

	memset(w, 0, sizeof(*w));
	w->seed = w->dice = seed;
	order_init(&w->p, form, window, CELLS,
		   f.kind == RSK_ORDER_WRAPPING ? dice_roll(&w->dice) >> 2 : 0);
	w->credit = w->p.rx.base;
	w->highest = w->p.setup.number;
	for (uint32_t i = 0; i < RAILS; i++)
		w->rails[i].speed = 3u << (2 * (i % 3)); /* 3, 12, 48, 3 of 100 */
	for (uint32_t i = 0; i < steps; i++) {
		if (f.kind == RSK_ORDER_ABSOLUTE && w->p.tx.next >= rsk_order_span(&f) &&
		    !w->p.tx.open)
			break;
		step(w);
	}
	finish(w);
	sums->names += w->names;
	sums->transactions += w->transactions;
	sums->overtook += w->p.rx.overtook;
	sums->losses += w->losses;
	sums->repeats += w->repeats;
	sums->swaps += w->swaps;
	sums->lost_acks += w->lost_acks;
	sums->deaths += w->deaths;
	sums->asked += w->asked;
	sums->faults += w->faults;
	order_free(&w->p);
}

static void series(const char *const *forms, const uint32_t *windows, uint32_t n, const char *name)
{
	uint64_t faults = dice_number("RSK_CHAOS_FAULTS", 120000), seed = dice_seed(name);
	struct world *w = malloc(sizeof(*w)), *sums = calloc(1, sizeof(*sums));

	for (uint64_t i = 0; i < n || sums->faults < faults; i++) {
		uint64_t dice = seed + i;

		run(w, forms[i % n], windows[i % n], i ? dice_roll(&dice) : seed, 20000, sums);
	}
	printf("%s: %" PRIu64 " packets of %" PRIu64 " transactions (%" PRIu64
	       " overtook a lower one), %" PRIu64 " faults: %" PRIu64 " swapped, %" PRIu64
	       " repeated, %" PRIu64 " lost with %" PRIu64 " rails, %" PRIu64
	       " acknowledgements lost; %" PRIu64 " transactions asked for by name\n",
	       name, sums->names, sums->transactions, sums->overtook, sums->faults, sums->swaps,
	       sums->repeats, sums->losses, sums->deaths, sums->lost_acks, sums->asked);
	fflush(stdout);
	cr_assert_gt(sums->overtook, sums->transactions / 20);
	cr_assert_gt(sums->swaps, faults / 20);
	cr_assert(sums->losses > 100 && sums->deaths > 20 && sums->asked > 100);
	cr_assert(sums->repeats > 100 && sums->lost_acks > 100);
	free(w);
	free(sums);
}

Test(order_rails, wrapping)
{
	static const char *const forms[] = { RSK_ORDER_DEFAULT, "wrapping:9+stop", "wrapping:5",
					     "wrapping:3+stop", "wrapping:1" };
	static const uint32_t windows[] = { 512, 512, 16, 8, 2 };

	series(forms, windows, 5, "rails_wrapping");
}

Test(order_rails, relative)
{
	static const char *const forms[] = { "relative:12", "relative:6/3+stop", "relative:4/2",
					     "relative:3+stop", "relative:2/7" };
	static const uint32_t windows[] = { 64, 32, 16, 8, 2 };

	series(forms, windows, 5, "rails_relative");
}

Test(order_rails, absolute)
{
	static const char *const forms[] = { "absolute", "absolute:12+stop" };
	static const uint32_t windows[] = { 512, 128 };

	series(forms, windows, 2, "rails_absolute");
}
