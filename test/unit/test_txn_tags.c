// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_txn_tags.c - tests the transactions of a stream over several rails: the tags of its slots,
 * the names of missing transactions, and arbitrary tags from a peer.
 */
#include <inttypes.h>
#include <stdio.h>

#include "dice.h"
#include "txn_tags.h"
#include "ring_kit.h"

static bool several_up;

static bool several(const struct rsk_rail *rail)
{
	return several_up;
}

static const struct rsk_fabric_ops rails_ops = {
	.name = "several",
	.caps = RSK_FABRIC_RELIABLE,
	.several = several,
};

/* Both ends, as a promotion leaves them. */
struct ends {
	struct pair p;
	struct rsk_order_form form;
	struct rsk_txn_tags_tx *tx;
	struct rsk_txn_tags_rx *rx;
};

static void begin(struct ends *e, const char *form)
{
	const char *error;

	*e = (struct ends){ 0 };
	pair_init(&e->p);
	e->p.rail.ops = &rails_ops;
	cr_assert_eq(rsk_order_parse(&e->form, form, &error), 0, "%s: %s", form, error);
	cr_assert(rsk_txn_tags_tx_begin(&e->tx, &e->form, CELLS, e->p.tx.next));
	cr_assert(rsk_txn_tags_rx_begin(&e->rx, &e->form, CELLS, e->p.rx.next));
	e->p.tx.order = &e->tx->order;
	several_up = true;
}

static void end(struct ends *e)
{
	free(e->p.memory);
	/*
	 * Memory of the arena is not freed: each test runs in a process with an arena of its own.
	 */
}

/* One send() of @len bytes. Returns how many were taken. */
static size_t send_some(struct ends *e, size_t len)
{
	static uint8_t from[4 * BYTES];
	struct iovec iov = { from, len };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	while (cur.left && rsk_ring_put_data(&e->p.tx, &e->p.key, &cur, cur.left) > 0)
		;
	cr_assert(rsk_order_tx_validate(&e->tx->order));
	return len - cur.left;
}

/* Consumes the next slot. Returns its tag. */
static uint16_t take_one(struct ends *e)
{
	uint8_t out[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_slot_view v;

	cr_assert(rsk_ring_peek(&e->p.rx, &v));
	cr_assert(rsk_ring_copy(&e->p.rx, &e->p.key, &v, out));
	cr_assert_eq(rsk_txn_tags_take(e->rx, &v.head), 0, "mark %x", v.head.order);
	rsk_ring_consume(&e->p.rx, &v);
	cr_assert(rsk_order_rx_validate(&e->rx->order));
	return v.head.order;
}

static void credit(struct ends *e)
{
	cr_assert_eq(rsk_ring_tx_credit(&e->p.tx, e->p.rx.next), 0);
	cr_assert_eq(rsk_order_tx_ack_below(&e->tx->order, e->p.rx.next), 0);
	rsk_txn_tags_credited(e->rx, false);
}

#define FIRST_LAST_0 (RSK_ORDER_FIRST | RSK_ORDER_LAST | RSK_ORDER_INDEXED)

Test(tags, only_over_several_rails)
{
	struct ends e;

	begin(&e, RSK_ORDER_DEFAULT);
	several_up = false;
	send_some(&e, 10);
	several_up = true;
	send_some(&e, 10);
	several_up = false;
	send_some(&e, 10);
	cr_assert_eq(take_one(&e), 0);
	cr_assert_eq(take_one(&e), FIRST_LAST_0);
	cr_assert_eq(take_one(&e), 0);
	cr_assert_eq(e.rx->order.completed, 1);
	end(&e);
}

/*
 * The ring is full in the middle of a send: what follows belongs to the same transaction, even if
 * only one rail is up by then.
 */
Test(tags, a_send_that_finds_no_room_goes_on)
{
	struct ends e;
	uint16_t tag = 0;
	size_t sent;

	begin(&e, RSK_ORDER_DEFAULT);
	sent = send_some(&e, 2 * BYTES);
	cr_assert(sent && sent < 2 * (size_t)BYTES && e.tx->order.open);
	cr_assert_eq(take_one(&e), RSK_ORDER_FIRST | RSK_ORDER_INDEXED);
	while (e.p.rx.next != e.p.tx.next)
		tag = take_one(&e);
	cr_assert_not(tag & RSK_ORDER_LAST);
	cr_assert_eq(rsk_txn_tags_count(e.rx).transactions, 0, "the rest was not put");
	credit(&e);
	several_up = false;
	send_some(&e, 5);
	cr_assert_eq(take_one(&e), RSK_ORDER_LAST | RSK_ORDER_INDEXED);
	cr_assert_eq(e.rx->order.completed, 1);
	send_some(&e, 5);
	cr_assert_eq(take_one(&e), 0);
	end(&e);
}

Test(tags, a_command_ends_what_is_open)
{
	struct rsk_slot_command cmd = { .what = RSK_COMMAND_FALLBACK_TX };
	struct ends e;

	begin(&e, RSK_ORDER_DEFAULT);
	send_some(&e, 2 * BYTES);
	cr_assert_eq(rsk_ring_put_command(&e.p.tx, &e.p.key, &cmd), 0);
	cr_assert_not(e.tx->order.open);
	while (e.p.rx.next + 1 != e.p.tx.next)
		take_one(&e);
	cr_assert_eq(take_one(&e), RSK_ORDER_LAST | RSK_ORDER_INDEXED);
	cr_assert_eq(e.rx->order.completed, 1);
	cr_assert_eq(e.rx->order.low, e.rx->order.next);
	end(&e);

	begin(&e, RSK_ORDER_DEFAULT);
	send_some(&e, 5);
	cr_assert_eq(rsk_ring_put_command(&e.p.tx, &e.p.key, &cmd), 0);
	cr_assert_eq(take_one(&e), FIRST_LAST_0);
	cr_assert_eq(take_one(&e), 0);
	end(&e);
}

/*
 * Six sends; some slots have not come when a rail fails. The slot's place is found by its
 * transaction number.
 */
Test(tags, what_is_missing_has_a_name)
{
	uint8_t out[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_txn_tags_missing m;
	uint64_t begins[6];
	struct ends e;

	begin(&e, RSK_ORDER_DEFAULT);
	for (int i = 0; i < 6; i++) {
		begins[i] = e.p.tx.next;
		send_some(&e, 20);
	}
	/* 0 is consumed; something of 2 and 4 has come; 5 lies beyond that. */
	take_one(&e);
	for (uint64_t i = 2; i <= 4; i += 2) {
		struct rsk_ring_rx ring = e.p.rx;
		struct rsk_slot_view v;

		ring.next = begins[i];
		cr_assert(rsk_ring_peek(&ring, &v) && rsk_ring_copy(&ring, &e.p.key, &v, out));
		rsk_txn_tags_ahead(e.rx, &v.head);
		cr_assert(rsk_order_rx_validate(&e.rx->order));
	}
	m = rsk_txn_tags_count(e.rx);
	cr_assert_eq(m.transactions, 2);
	cr_assert_eq(m.first, 2);
	cr_assert_eq(m.lowest, 1);
	/* They come after all, and what was seen ahead is consumed as usual. */
	for (int i = 1; i < 6; i++)
		take_one(&e);
	cr_assert_eq(rsk_txn_tags_count(e.rx).transactions, 0);
	cr_assert_eq(e.rx->order.completed, 6);
	cr_assert_eq(e.rx->order.overtook, 2);
	end(&e);
}

/*
 * For every form: a sender that waits for credit gets it, though far less than an eighth of the
 * ring was consumed.
 */
Test(tags, credit_comes_before_all_wait)
{
	static const char *const forms[] = { "wrapping:1",	"wrapping:3+stop", "relative:1",
					     "relative:3/4",	"relative:2+stop", "relative:12",
					     RSK_ORDER_DEFAULT, "absolute:4" };

	for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
		uint64_t dice = dice_seed(forms[f]);
		uint32_t waited = 0;
		struct ends e;

		begin(&e, forms[f]);
		for (int sent = 0; sent < 3000;) {
			bool ready = rsk_order_tx_ready(&e.tx->order);
			size_t n = dice_roll(&dice) % 4 ? send_some(&e, 9) : 0;

			sent += n != 0;
			if (n && e.tx->order.next < 16)
				cr_assert(ready, "%s: sent, though it was not ready", forms[f]);
			while (e.p.rx.next != e.p.tx.next && dice_roll(&dice) % 3)
				take_one(&e);
			if (rsk_txn_tags_credit_due(e.rx, false)) {
				credit(&e);
			} else if (rsk_ring_tx_free(&e.p.tx) && !rsk_order_tx_ready(&e.tx->order)) {
				waited++;
				cr_assert(e.p.rx.next != e.p.tx.next ||
						  e.form.kind == RSK_ORDER_ABSOLUTE,
					  "%s: all is taken, and it waits for ever", forms[f]);
			}
			if (rsk_ring_tx_free(&e.p.tx) < 2)
				credit(&e);
		}
		printf("%s: waited %u times, %" PRIu64 " restarts\n", forms[f], waited,
		       e.tx->order.restarts);
		cr_assert(e.form.kind != RSK_ORDER_RELATIVE || e.form.bits > 9 ||
			  e.tx->order.restarts > 10);
		end(&e);
	}
}

/* Absolute counting comes to its end: later slots have no tag, which does no harm. */
Test(tags, absolute_counting_ends)
{
	struct ends e;

	begin(&e, "absolute:2");
	for (int i = 0; i < 9; i++) {
		cr_assert_eq(send_some(&e, 9), 9);
		cr_assert_eq(take_one(&e) != 0, i < 4);
		credit(&e);
	}
	end(&e);
}

/*
 * A peer that knows the key writes any tag: whether the tag is accepted or refused, the machine
 * stays valid.
 */
Test(tags, any_tag)
{
	uint64_t dice = dice_seed("any_tag");
	uint32_t refused = 0, taken = 0;

	for (int run = 0; run < 2000; run++) {
		static const char *const forms[] = { "wrapping:2+stop", "relative:3+stop",
						     "absolute:5", "relative:1/2",
						     RSK_ORDER_DEFAULT };
		struct ends e;

		begin(&e, forms[dice_roll(&dice) % 5]);
		for (int i = 0; i < 60; i++) {
			uint64_t r = dice_roll(&dice);
			struct rsk_slot_head head = { .index = e.p.rx.next,
						      .len = 1 + (uint32_t)(r % 300),
						      .kind = RSK_SLOT_DATA,
						      .order = (uint16_t)(r >> 16) };
			bool ahead = r >> 32 & 1;

			/* Often one that could be right. */
			if (r >> 33 & 3)
				head.order &= (uint16_t)(0xe000 | (e.rx->order.next & 3));
			head.index += ahead ? r >> 40 & 7 : 0;
			if (!rsk_slot_fits(&head, CELLS, head.index))
				head.len = 1;
			if (ahead) {
				rsk_txn_tags_ahead(e.rx, &head);
			} else if (rsk_txn_tags_take(e.rx, &head) == 0) {
				e.p.rx.next += rsk_slot_cells(head.len);
				taken++;
				cr_assert_eq(e.rx->order.base, e.p.rx.next);
			} else {
				refused++;
			}
			if (!rsk_order_rx_validate(&e.rx->order))
				cr_assert_fail("run %d: mark %x at %" PRIu64 " broke it", run,
					       head.order, head.index);
			cr_assert_leq(rsk_txn_tags_count(e.rx).transactions, RSK_TXN_TAGS_WINDOW);
		}
		end(&e);
	}
	printf("any_tag: %u taken, %u refused\n", taken, refused);
	cr_assert_gt(taken, 5000);
	cr_assert_gt(refused, 5000);
}
