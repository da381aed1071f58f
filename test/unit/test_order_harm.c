// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_order_harm.c - tests tags that no honest sender writes, and acknowledgements that no honest
 * receiver sends: they are refused, and nothing changes.
 */
#include "dice.h"
#include "order_kit.h"

#define CELLS 64u
#define WINDOW 8u

#define FIRST RSK_ORDER_FIRST
#define LAST RSK_ORDER_LAST
#define INDEXED RSK_ORDER_INDEXED

struct copy {
	struct rsk_order_rx rx;
	struct rsk_order_element elements[WINDOW];
	uint64_t places[RSK_ORDER_WORDS(CELLS)];
};

static void keep_copy(const struct order_pair *p, struct copy *c)
{
	memset(c, 0, sizeof(*c));
	memcpy(&c->rx, &p->rx, sizeof(c->rx));
	memcpy(c->elements, p->elements, sizeof(c->elements));
	memcpy(c->places, p->places, sizeof(c->places));
}

/* Compares bytes, padding included: a refused packet changes nothing. */
static bool same(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n) == 0;
}

/*
 * Sees a packet @at cells from the beginning, and returns the machine's result; after an error
 * nothing may have changed.
 */
static int see(struct order_pair *p, uint32_t tag, int64_t at, uint32_t cells)
{
	struct rsk_order_seen seen;
	struct copy before, after;
	int rc;

	keep_copy(p, &before);
	rc = rsk_order_rx_see(&p->rx, (uint16_t)tag, p->setup.place + (uint64_t)at, cells, &seen);
	keep_copy(p, &after);
	if (rc < 0)
		cr_assert(same(&before, &after, sizeof(before)), "mark %04x", tag);
	order_check(p);
	return rc;
}

Test(order_harm, firsts_and_lasts)
{
	struct order_pair p;

	order_init(&p, "wrapping:6", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, INDEXED | 1, 20, 2), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 22, 2), -EPROTO, "the first above another");
	cr_assert_eq(see(&p, LAST | INDEXED | 1, 18, 2), -EPROTO, "the last below another");
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 16, 2), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 18, 2), -EPROTO, "two firsts");
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 14, 2), -EPROTO, "two firsts");
	cr_assert_eq(see(&p, INDEXED | 1, 14, 2), -EPROTO, "before the first");
	cr_assert_eq(see(&p, LAST | INDEXED | 1, 24, 2), 0);
	cr_assert_eq(see(&p, LAST | INDEXED | 1, 26, 2), -EPROTO, "two lasts");
	cr_assert_eq(see(&p, INDEXED | 1, 26, 2), -EPROTO, "after the last");
	cr_assert_eq(see(&p, INDEXED | 1, 18, 2), 0);
	cr_assert_eq(see(&p, INDEXED | 1, 22, 2), 0);
	cr_assert_eq(p.rx.completed, 1);
	cr_assert_eq(see(&p, INDEXED | 1, 26, 2), -EPROTO, "of a complete one");
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 1, 26, 2), -EPROTO, "of a complete one");
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 0, 30, 2), -EPROTO, "above a higher one");
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 2, 10, 2), -EPROTO, "below a lower one");
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 0, 0, 16), 0);
	cr_assert_eq(p.rx.low, 2);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 40, 2), -ERANGE,
		     "of a complete one that is gone");
	order_free(&p);
}

Test(order_harm, places)
{
	struct order_pair p;

	order_init(&p, "wrapping:6", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 0), -EPROTO, "no cells");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, CELLS + 1), -EPROTO);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 60, 5), -EPROTO, "around the ring's end");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, UINT32_MAX), -EPROTO);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, CELLS, 1), -ERANGE, "not free yet");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, INT64_MAX, 1), -EPROTO);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, INT64_MIN, 1), -EPROTO);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, -1, 1), -EALREADY, "taken long ago");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 4), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 4), -EALREADY, "put again");
	cr_assert_eq(see(&p, INDEXED | 0, 2, 4), -EPROTO, "half of another");
	cr_assert_eq(rsk_order_rx_take(&p.rx, p.setup.place + 5), -EINVAL);
	cr_assert_eq(rsk_order_rx_take(&p.rx, p.setup.place - 1), -EINVAL);
	cr_assert_eq(rsk_order_rx_take(&p.rx, p.setup.place + 2), 0);
	order_check(&p);
	cr_assert_eq(see(&p, INDEXED | 0, 0, 4), -EPROTO, "half of it taken");
	cr_assert_eq(see(&p, LAST | INDEXED | 0, 4, 1), 0);
	/* The skipped cells lie behind everything seen, and nothing is missing. */
	cr_assert_eq(see(&p, FIRST | INDEXED | 2, 8, 1), 0);
	cr_assert_eq(rsk_order_rx_take(&p.rx, p.setup.place + CELLS), -EINVAL);
	order_check(&p);
	order_free(&p);
}

/*
 * A command among the packets of a transaction, whichever comes first, also when it was consumed
 * already.
 */
Test(order_harm, commands)
{
	struct order_pair p;

	order_init(&p, "wrapping:6", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 8, 2), 0);
	cr_assert_eq(see(&p, INDEXED | 1, 14, 2), 0);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, p.setup.place + 10, 2), -EPROTO);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, p.setup.place + 16, 1), 0);
	order_check(&p);
	cr_assert_eq(see(&p, LAST | INDEXED | 1, 18, 1), -EPROTO);
	cr_assert_eq(see(&p, LAST | INDEXED | 0, 6, 2), 0);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, p.setup.place + 2, 1), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 2), -EPROTO);
	order_check(&p);
	order_free(&p);

	order_init(&p, "wrapping:6", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 2), 0);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, p.setup.place + 2, 2), 0);
	cr_assert_eq(rsk_order_rx_take(&p.rx, p.setup.place + 4), 0);
	cr_assert_eq(see(&p, LAST | INDEXED | 0, 4, 2), -EPROTO);
	order_free(&p);
}

Test(order_harm, indexes)
{
	struct order_pair p;

	order_init(&p, "wrapping:6", WINDOW, CELLS, 0);
	for (uint32_t i = WINDOW; i < 64; i++)
		cr_assert_eq(see(&p, FIRST | INDEXED | i, 8, 1), -ERANGE, "%" PRIu32, i);
	cr_assert_eq(see(&p, FIRST | INDEXED | 64, 8, 1), -EPROTO, "wider than agreed");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0x1fff, 8, 1), -EPROTO);
	cr_assert_eq(see(&p, 0, 8, 1), -EPROTO, "no mark");
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 8, 1), -EPROTO,
		     "bare, in a form that keeps the index");
	order_free(&p);

	order_init(&p, "absolute:6", WINDOW, CELLS, 5);
	cr_assert_eq(see(&p, FIRST | INDEXED | 4, 0, 1), -EPROTO, "below the first number");
	cr_assert_eq(see(&p, FIRST | INDEXED | 13, 0, 1), -ERANGE);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 5, 0, 1), 0);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 5, 1, 1), -EPROTO);
	order_free(&p);
}

Test(order_harm, epochs)
{
	struct order_pair p;

	order_init(&p, "relative:4", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 16, 0, 1), -EPROTO, "a restart before anything");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 1), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 16, 2, 1), -EPROTO, "a restart with one open");
	cr_assert_eq(see(&p, INDEXED | 32, 1, 1), -EPROTO, "above the epoch");
	cr_assert_eq(see(&p, LAST | INDEXED | 0, 1, 1), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 24, 2, 1), -ERANGE);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 16 | 2, 4, 1), 0);
	cr_assert_eq(p.rx.next, 4);
	cr_assert_eq(p.rx.origin, 1);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 1, 3, 1), -EPROTO, "back, with two missing");
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 16 | 1, 3, 1), 0);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 16 | 0, 2, 1), 0);
	cr_assert_eq(p.rx.low, 4);
	cr_assert_eq(see(&p, FIRST | LAST | INDEXED | 16 | 2, 5, 1), -EPROTO, "of a complete one");
	order_free(&p);
}

Test(order_harm, bare)
{
	struct order_pair p;

	order_init(&p, "wrapping:4+stop", WINDOW, CELLS, 0);
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 0, 1), -EPROTO, "whose?");
	cr_assert_eq(see(&p, FIRST | RSK_ORDER_BARE, 0, 1), -EPROTO, "a first without an index");
	cr_assert_eq(see(&p, INDEXED | 0, 1, 1), 0);
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 2, 1), -EPROTO, "the first was not seen");
	cr_assert_eq(see(&p, FIRST | INDEXED | 0, 0, 1), 0);
	cr_assert_eq(see(&p, 2, 2, 1), -EPROTO, "neither bare nor indexed");
	cr_assert_eq(see(&p, 0, 2, 1), -EPROTO);
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 2, 1), 0);
	cr_assert_eq(see(&p, FIRST | INDEXED | 1, 8, 1), 0);
	cr_assert_eq(see(&p, RSK_ORDER_BARE | LAST, 9, 1), 0);
	cr_assert_eq(p.rx.completed, 1);
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 10, 1), -EPROTO, "after the last");
	cr_assert_eq(see(&p, RSK_ORDER_BARE | LAST, 3, 1), 0);
	cr_assert_eq(p.rx.low, 2);
	cr_assert_eq(see(&p, RSK_ORDER_BARE, 10, 1), -EPROTO, "all are complete");
	order_free(&p);
}

Test(order_harm, acknowledgements)
{
	uint64_t begin, end, at;
	struct order_packet o;
	struct order_pair p;

	order_init(&p, "wrapping:4", WINDOW, CELLS, 0);
	at = p.setup.place;
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at), 0);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at + 1), -EPROTO, "nothing was put");
	cr_assert_eq(rsk_order_tx_put(&p.tx, at, 1, true), -EINVAL, "nothing was begun");
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	cr_assert_eq(rsk_order_tx_where(&p.tx, 0, &begin, &end), -ENOENT);
	cr_assert_eq(rsk_order_tx_put(&p.tx, at - 1, 1, true), -EINVAL);
	cr_assert_eq(rsk_order_tx_put(&p.tx, at + 62, 3, true), -EINVAL);
	o = order_put(&p, 4, false);
	cr_assert_eq(rsk_order_tx_put(&p.tx, at + 5, 1, true), -EINVAL,
		     "not behind the one before");
	cr_assert_eq(rsk_order_tx_put_other(&p.tx, at + 4, 1), -EBUSY);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at + 3), -EPROTO, "half of the first");
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at + 5), -EPROTO, "more than was put");
	order_put(&p, 4, true);
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	order_put(&p, 50, false);
	cr_assert_eq(rsk_order_tx_put(&p.tx, at + 58, 6, false), 0);
	cr_assert_eq(rsk_order_tx_put(&p.tx, at + 64, 1, true), -ENOBUFS, "on what was not read");
	order_check(&p);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at + 9), -EPROTO, "half of another's first");
	cr_assert(p.tx.una == 0 && p.tx.floor == at, "changed by what was refused");
	order_check(&p);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, o.place + 4), 0);
	cr_assert_eq(p.tx.una, 0, "its last packet is not acknowledged");
	order_check(&p);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, o.place + 8), 0);
	cr_assert_eq(p.tx.una, 1);
	order_check(&p);
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, o.place + 8), 0, "once more");
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, at), 0, "older");
	cr_assert_eq(rsk_order_tx_ack_below(&p.tx, UINT64_MAX), -EPROTO);
	order_check(&p);
	order_free(&p);
}

/*
 * Any tags and places: the machine stays valid, a refused packet changes nothing, and an accepted
 * one keeps the rules.
 */
Test(order_harm, anything)
{
	static const char *const forms[] = { "wrapping:3", "wrapping:13+stop", "absolute:10+stop",
					     "relative:3", "relative:5/2+stop" };
	uint64_t seed = dice_seed("anything"), dice = seed, accepted = 0, complete = 0;

	for (int run = 0; run < 2000; run++) {
		struct order_pair p;

		order_init(&p, forms[run % 5], WINDOW, CELLS, run % 3);
		for (int i = 0; i < 100; i++) {
			uint64_t r = dice_roll(&dice);
			uint32_t tag = (uint32_t)(r & 0xe000) | (r >> 16 & 7);
			int64_t at = (int64_t)(p.rx.base - p.setup.place) + (int64_t)(r >> 24 & 15);

			if (!(r >> 60))
				tag ^= (uint32_t)(r >> 40 & 0x1fff);
			else if (!(tag & INDEXED))
				tag = (tag & 0xe000) | RSK_ORDER_BARE;
			accepted += see(&p, tag, at, 1 + (uint32_t)(r >> 32 & 1)) == 0;
			if (r >> 56 & 1)
				order_check(&p);
			if (!(r >> 57 & 7)) {
				uint64_t n = rsk_order_rx_takable(&p.rx);

				cr_assert_eq(rsk_order_rx_take(&p.rx, p.rx.base + n), 0,
					     "seed %" PRIu64 ", run %d", seed, run);
				order_check(&p);
			}
		}
		complete += p.rx.completed;
		order_free(&p);
	}
	cr_assert_gt(accepted, 10000, "seed %" PRIu64, seed);
	cr_assert_gt(complete, 1000, "seed %" PRIu64, seed);
}
