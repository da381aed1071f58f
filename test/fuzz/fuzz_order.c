// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_order.c - fuzzes the receiver of ordered delivery with any tags and places, its sender with
 * any acknowledgements, and the parser of the setting. What is refused changes nothing; both
 * machines stay valid after every step.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

#define CELLS 128u
#define WINDOW 8u
#define TEXT 24u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p, *end;
};

struct state {
	struct rsk_order_setup setup;
	struct rsk_order_tx tx;
	struct rsk_order_rx rx;
	struct rsk_order_sent
		*sent; /* separate allocations, so that a sanitizer sees the byte beyond */
	struct rsk_order_element *elements;
	uint64_t *places;
};

static uint32_t take(struct input *in, size_t bytes)
{
	uint32_t v = 0;

	for (size_t i = 0; i < bytes && in->p < in->end; i++)
		v |= (uint32_t)*in->p++ << 8 * i;
	return v;
}

static void must(bool truth)
{
	if (!truth)
		abort();
}

/* Compares bytes, padding included: a refused packet changes nothing. */
static bool same(const void *a, const void *b, size_t n)
{
	return memcmp(a, b, n) == 0;
}

/*
 * Parses the text, which a zero or the input ends. Returns a form that both machines accept,
 * whatever the text said.
 */
static struct rsk_order_form form_of(struct input *in)
{
	struct rsk_order_form form = { RSK_ORDER_WRAPPING, 3, true, 1 }, before = form;
	char *text = calloc(1, TEXT + 1);
	const char *error = NULL;
	int rc;

	must(text);
	for (size_t i = 0; i < TEXT && (text[i] = (char)take(in, 1)); i++)
		;
	rc = rsk_order_parse(&form, text, &error);
	must(error && (rc == 0 || (rc == -EINVAL && *error)));
	must(rc == 0 || same(&form, &before, sizeof(form)));
	must(rsk_order_form_validate(&form));
	free(text);
	return form;
}

static void see(struct state *s, struct input *in)
{
	uint16_t tag = (uint16_t)take(in, 2);
	uint32_t at = take(in, 1), cells = take(in, 1);
	uint64_t place = s->rx.base + at - 16;
	struct rsk_order_element elements[WINDOW];
	uint64_t places[RSK_ORDER_WORDS(CELLS)];
	struct rsk_order_seen seen;
	struct rsk_order_rx rx;
	int rc;

	memcpy(&rx, &s->rx, sizeof(rx));
	memcpy(elements, s->elements, sizeof(elements));
	memcpy(places, s->places, sizeof(places));
	rc = cells & 0x80 ? rsk_order_rx_see_other(&s->rx, place, cells & 0x7f) :
			    rsk_order_rx_see(&s->rx, tag, place, cells, &seen);
	must(rc == 0 || rc == -EALREADY || rc == -ERANGE || rc == -EPROTO);
	if (rc == 0)
		return;
	must(same(&rx, &s->rx, sizeof(rx)) && same(elements, s->elements, sizeof(elements)) &&
	     same(places, s->places, sizeof(places)));
}

/* The names of missing transactions, and the gaps, are in order, and their number is finite. */
static void look(const struct state *s)
{
	uint64_t from = 0, n = 0, begin = 0, end = s->rx.base;

	while (rsk_order_rx_missing(&s->rx, from, &n)) {
		must(n >= from && n >= s->rx.low && n < s->rx.next);
		from = n + 1;
	}
	while (rsk_order_rx_gap(&s->rx, end, &begin, &end))
		must(begin >= s->rx.base && begin < end && end <= s->rx.top);
}

static void put(struct state *s, struct input *in)
{
	uint32_t cells = take(in, 1) & 31, how = take(in, 1);
	uint64_t place = s->tx.top + (how >> 4 == 15 ? 1 : 0);

	if (how & 1)
		rsk_order_tx_begin(&s->tx);
	must(!rsk_order_tx_tag(&s->tx, how & 2) == !s->tx.open);
	if (how & 4)
		rsk_order_tx_put(&s->tx, place, cells, how & 2);
	else
		rsk_order_tx_put_other(&s->tx, place, cells);
}

static void acknowledge(struct state *s, struct input *in)
{
	uint64_t place = s->tx.floor + take(in, 1) - 16, floor = s->tx.floor;
	int rc = rsk_order_tx_ack_below(&s->tx, place);

	must(rc == 0 || rc == -EPROTO);
	must(s->tx.floor == (rc == 0 && place > floor ? place : floor));
}

static void one_step(struct state *s, struct input *in)
{
	switch (take(in, 1) % 6) {
	case 0:
	case 1:
		see(s, in);
		break;
	case 2:
		look(s);
		break;
	case 3:
		rsk_order_rx_take(&s->rx,
				  s->rx.base + (take(in, 1) & 1 ? rsk_order_rx_takable(&s->rx) :
								  take(in, 1)));
		break;
	case 4:
		put(s, in);
		break;
	default:
		acknowledge(s, in);
		break;
	}
	must(rsk_order_rx_validate(&s->rx));
	must(rsk_order_tx_validate(&s->tx));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct state s;
	int rc;

	memset(&s, 0, sizeof(s));
	s.setup = (struct rsk_order_setup){ form_of(&in), WINDOW, CELLS, take(&in, 1), CELLS };
	s.sent = malloc(WINDOW * sizeof(*s.sent));
	s.elements = malloc(WINDOW * sizeof(*s.elements));
	s.places = malloc(RSK_ORDER_WORDS(CELLS) * sizeof(*s.places));
	rc = rsk_order_tx_init(&s.tx, &s.setup, s.sent);
	must(rc == rsk_order_rx_init(&s.rx, &s.setup, s.elements, s.places));
	must(rc == 0 || rc == -ERANGE);
	while (rc == 0 && in.p < in.end)
		one_step(&s, &in);
	free(s.sent);
	free(s.elements);
	free(s.places);
	return 0;
}
