/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order_kit.h - for tests of ordered delivery: the sender's and the receiver's machine, each with
 * memory of exactly the size that it asks for.
 */
#ifndef RSK_TEST_ORDER_KIT_H
#define RSK_TEST_ORDER_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "order.h"

struct order_pair {
	struct rsk_order_setup setup;
	struct rsk_order_tx tx;
	struct rsk_order_rx rx;
	struct rsk_order_sent *sent;
	struct rsk_order_element *elements;
	uint64_t *places;
};

/* A packet under way. */
struct order_packet {
	uint64_t number, place;
	uint32_t cells;
	uint16_t tag;
};

static inline struct rsk_order_form order_form(const char *text)
{
	struct rsk_order_form form;
	const char *error;

	cr_assert_eq(rsk_order_parse(&form, text, &error), 0, "%s: %s", text, error);
	cr_assert(rsk_order_form_validate(&form), "%s", text);
	return form;
}

static inline void order_check(const struct order_pair *p)
{
	cr_assert(rsk_order_tx_validate(&p->tx), "sender: una %" PRIu64 " next %" PRIu64, p->tx.una,
		  p->tx.next);
	cr_assert(rsk_order_rx_validate(&p->rx), "receiver: low %" PRIu64 " next %" PRIu64,
		  p->rx.low, p->rx.next);
}

static inline void order_init(struct order_pair *p, const char *form, uint32_t window,
			      uint32_t cells, uint64_t number)
{
	memset(p, 0, sizeof(*p));
	p->setup = (struct rsk_order_setup){ order_form(form), window, cells, number,
					     UINT64_C(7) * cells };
	p->sent = malloc(window * sizeof(*p->sent));
	p->elements = malloc(window * sizeof(*p->elements));
	p->places = malloc(RSK_ORDER_WORDS(cells) * sizeof(*p->places));
	cr_assert_eq(rsk_order_tx_init(&p->tx, &p->setup, p->sent), 0);
	cr_assert_eq(rsk_order_rx_init(&p->rx, &p->setup, p->elements, p->places), 0);
	order_check(p);
}

static inline void order_free(struct order_pair *p)
{
	free(p->sent);
	free(p->elements);
	free(p->places);
}

/* Takes the next packet of the transaction that was begun. */
static inline struct order_packet order_put(struct order_pair *p, uint32_t cells, bool last)
{
	struct order_packet o = { .number = p->tx.next - 1,
				  .place = p->tx.top,
				  .cells = cells,
				  .tag = rsk_order_tx_tag(&p->tx, last) };
	int rc = rsk_order_tx_put(&p->tx, o.place, cells, last);

	cr_assert_eq(rc, 0, "put: %d", rc);
	order_check(p);
	return o;
}

/* Sends a whole transaction of @n packets of one cell each, into packets[n]. */
static inline void order_send(struct order_pair *p, struct order_packet *packets, uint32_t n)
{
	int rc = rsk_order_tx_begin(&p->tx);

	cr_assert_eq(rc, 0, "begin: %d", rc);
	for (uint32_t i = 0; i < n; i++)
		packets[i] = order_put(p, 1, i + 1 == n);
}

static inline struct rsk_order_seen order_see(struct order_pair *p, const struct order_packet *o)
{
	struct rsk_order_seen seen = { 0 };
	int rc = rsk_order_rx_see(&p->rx, o->tag, o->place, o->cells, &seen);

	cr_assert_eq(rc, 0, "see %" PRIu64 " at %" PRIu64 ", mark %04x: %d", o->number, o->place,
		     o->tag, rc);
	cr_assert_eq(seen.number, o->number, "mark %04x of %" PRIu64 " was read as %" PRIu64,
		     o->tag, o->number, seen.number);
	order_check(p);
	return seen;
}

/* Consumes everything that has come, and acknowledges it to the sender. */
static inline void order_take_all(struct order_pair *p)
{
	cr_assert_eq(rsk_order_rx_take(&p->rx, p->rx.base + rsk_order_rx_takable(&p->rx)), 0);
	cr_assert_eq(rsk_order_tx_ack_below(&p->tx, p->rx.base), 0);
	order_check(p);
}

#endif
