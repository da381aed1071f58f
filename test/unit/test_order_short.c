// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_order_short.c - tests the receiver's fast path for packets in order against the general one:
 * two machines get the same packets, in every form and width, mostly in order, else reordered,
 * lost, repeated, or with a tag, a place or a length that no honest sender writes. One machine
 * takes the fast path where it applies. After each packet both are in the same state.
 */
#include <stdio.h>

#include "dice.h"
#include "order_kit.h"
#include "order_parts.h"

#define QUEUE 64u
#define RUNS 3000u
#define STEPS 400u

struct world {
	struct order_pair p; /* its receiver takes the fast path */
	struct rsk_order_rx all;
	struct rsk_order_element *elements;
	uint64_t *places;
	struct order_packet queue[QUEUE], old; /* under way; one that has arrived */
	uint32_t n;
	uint64_t dice, seed;
};

static struct {
	uint64_t faults, refused, at_once, packets;
} sums;

static uint32_t roll(struct world *w, uint32_t n)
{
	return (uint32_t)(dice_roll(&w->dice) % n);
}

#define check(w, condition) cr_assert(condition, "RSOCK_SEED=%" PRIu64 ": " #condition, (w)->seed)

static void check_same(const struct world *w)
{
	const struct rsk_order_rx *a = &w->p.rx, *b = &w->all;

	check(w, a->low == b->low && a->next == b->next);
	check(w, a->base == b->base && a->floor == b->floor && a->top == b->top);
	check(w, a->origin == b->origin && a->epoch == b->epoch);
	check(w, a->opened == b->opened && a->completed == b->completed);
	check(w, a->overtook == b->overtook);
	check(w, memcmp(a->open, b->open, sizeof(a->open)) == 0);
	check(w, memcmp(a->done, b->done, sizeof(a->done)) == 0);
	check(w, memcmp(a->places, b->places, RSK_ORDER_WORDS(a->cells) * sizeof(*a->places)) == 0);
	for (uint64_t n = a->low; n < a->next; n++) {
		const struct rsk_order_element *x = &a->elements[n & (a->window - 1)];
		const struct rsk_order_element *y = &b->elements[n & (b->window - 1)];

		check(w, x->lo == y->lo && x->hi == y->hi && x->had == y->had);
		check(w, x->first == y->first && x->last == y->last);
	}
}

/* Both machines see the packet. Returns 0 or the error that both returned. */
static int see(struct world *w, const struct order_packet *k)
{
	struct rsk_order_seen a = { 0 }, b = { 0 };
	int rc, all;

	if (!k->tag) {
		rc = rsk_order_rx_see_other(&w->p.rx, k->place, k->cells);
		all = rsk_order_rx_see_other(&w->all, k->place, k->cells);
	} else {
		rc = rsk_order_rx_see(&w->p.rx, k->tag, k->place, k->cells, &a);
		all = rsk_order_rx_see_any(&w->all, k->tag, k->place, k->cells, &b);
		sums.packets += rc == 0;
	}
	check(w, rc == all);
	check(w, a.number == b.number && a.created == b.created && a.complete == b.complete);
	sums.refused += rc < 0;
	check_same(w);
	return rc;
}

/*
 * Sees and consumes a packet at once, as a receiver does in order. Returns false if that was not
 * possible.
 */
static bool see_next(struct world *w, const struct order_packet *k)
{
	struct rsk_order_seen seen;

	if (!k->tag || !rsk_order_rx_next(&w->p.rx, k->tag, k->place, k->cells)) {
		check_same(w);
		return false;
	}
	check(w, rsk_order_rx_see_any(&w->all, k->tag, k->place, k->cells, &seen) == 0);
	check(w, rsk_order_rx_take(&w->all, k->place + k->cells) == 0);
	sums.packets++;
	sums.at_once++;
	check_same(w);
	return true;
}

static void take(struct world *w)
{
	uint64_t n = rsk_order_rx_takable(&w->p.rx), to;

	check(w, n == rsk_order_rx_takable(&w->all));
	to = w->p.rx.base + (roll(w, 4) ? n : roll(w, (uint32_t)n + 1));
	check(w, rsk_order_rx_take(&w->p.rx, to) == rsk_order_rx_take(&w->all, to));
	check_same(w);
}

/* Makes a packet that no honest sender writes out of one that was sent. */
static void harm(struct world *w, struct order_packet k)
{
	switch (roll(w, 5)) {
	case 0:
		k.tag ^= (uint16_t)(1u << roll(w, 16));
		break;
	case 1:
		k.tag = (uint16_t)roll(w, 0x10000);
		break;
	case 2:
		k.place += roll(w, 5) - 2u;
		break;
	case 3:
		k.cells = roll(w, 2) ? roll(w, 4) : roll(w, 2 * w->p.setup.cells);
		break;
	default:
		k = w->old; /* it arrives once more */
	}
	sums.faults++;
	/* If both accept it, they go on from there together. */
	(void)see(w, &k);
}

/*
 * Puts a packet, or a command between two transactions. Returns false if there is no room, or if
 * the counting has ended.
 */
static bool put(struct world *w)
{
	struct rsk_order_tx *tx = &w->p.tx;
	uint64_t to_end = tx->cells - (tx->top & (tx->cells - 1));
	uint32_t cells = 1 + roll(w, roll(w, 4) ? 3 : 30);
	bool last = !roll(w, 3);
	struct order_packet k;
	uint16_t tag;

	if (cells > to_end)
		cells = (uint32_t)to_end;
	if (w->n == QUEUE)
		return false;
	if (!tx->open && !roll(w, 10)) {
		k = (struct order_packet){ 0, tx->top, cells, 0 };
		if (rsk_order_tx_put_other(tx, k.place, cells) < 0)
			return false;
		w->queue[w->n++] = k;
		return true;
	}
	if (!tx->open && rsk_order_tx_begin(tx) < 0)
		return false;
	tag = rsk_order_tx_tag(tx, last);
	k = (struct order_packet){ tx->next - 1, tx->top, cells, tag };
	if (rsk_order_tx_put(tx, k.place, cells, last) < 0)
		return false;
	w->queue[w->n++] = k;
	return true;
}

/* A packet arrives: the next one, or one that overtakes others. */
static void come(struct world *w)
{
	uint32_t i = roll(w, 8) ? 0 : roll(w, w->n);
	struct order_packet k = w->queue[i];

	sums.faults += i != 0;
	memmove(&w->queue[i], &w->queue[i + 1], (w->n - i - 1) * sizeof(k));
	w->n--;
	w->old = k;
	if (!roll(w, 12)) {
		/* Lost, and put again behind others. */
		sums.faults++;
		w->queue[w->n++] = k;
		return;
	}
	if (roll(w, 2) && see_next(w, &k))
		return;
	(void)see(w, &k);
}

static void run(struct world *w, uint64_t seed)
{
	static const char *const kinds[] = { "absolute", "relative", "wrapping" };
	uint32_t kind, bits, window;
	bool hostile;
	char form[48], every[16];

	memset(w, 0, sizeof(*w));
	w->seed = w->dice = seed;
	kind = roll(w, 3);
	bits = 1 + roll(w, kind == RSK_ORDER_RELATIVE ? 12 : 13);
	window = 1u << roll(w, bits < 9 ? bits + 1 : 10);
	hostile = roll(w, 2);
	snprintf(every, sizeof(every), "/%u", 1 + roll(w, 4));
	snprintf(form, sizeof(form), "%s:%u%s%s", kinds[kind], bits,
		 kind == RSK_ORDER_RELATIVE ? every : "", roll(w, 2) ? "+stop" : "+keep");
	order_init(&w->p, form, window, 64u << roll(w, 5),
		   kind == RSK_ORDER_ABSOLUTE ? 0 : dice_roll(&w->dice) >> 8);
	w->elements = malloc(window * sizeof(*w->elements));
	w->places = malloc(RSK_ORDER_WORDS(w->p.setup.cells) * sizeof(*w->places));
	check(w, rsk_order_rx_init(&w->all, &w->p.setup, w->elements, w->places) == 0);
	for (uint32_t i = 0; i < STEPS; i++) {
		while (roll(w, 3) && put(w))
			;
		if (hostile && w->n && !roll(w, 20))
			harm(w, w->queue[roll(w, w->n)]);
		if (w->n)
			come(w);
		if (!roll(w, 4))
			take(w);
		if (!roll(w, 4))
			(void)rsk_order_tx_ack_below(&w->p.tx, w->p.rx.base);
		check(w, rsk_order_rx_validate(&w->p.rx));
	}
	free(w->elements);
	free(w->places);
	order_free(&w->p);
}

Test(order_short, as_the_way_for_all, .timeout = 300)
{
	uint64_t seed = dice_seed("order_short"), dice = seed;
	static struct world w;

	for (uint32_t i = 0; i < RUNS; i++)
		run(&w, i ? dice_roll(&dice) : seed);
	printf("order_short: %" PRIu64 " packets, %" PRIu64 " seen and taken at once, %" PRIu64
	       " faults, %" PRIu64 " refused\n",
	       sums.packets, sums.at_once, sums.faults, sums.refused);
	cr_assert_geq(sums.faults, 100000);
	cr_assert_gt(sums.refused, 1000);
	cr_assert_gt(sums.at_once, 10000);
	cr_assert_gt(sums.packets, sums.at_once + 10000);
}
