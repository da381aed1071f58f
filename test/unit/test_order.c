// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_order.c - tests the special receive queue with the worked cases of the source, packet by
 * packet. Transactions A, B, C, … have the numbers 1, 2, 3, …
 */
#include <stdio.h>

#include "order_kit.h"

#define TRANSACTIONS 6u
#define PACKETS 3u

struct stage {
	struct order_pair p;
	struct order_packet packets[TRANSACTIONS][PACKETS];
};

/* @sizes: the number of packets of A, B, C, …, one digit each. */
static void stage_init(struct stage *s, const char *sizes)
{
	order_init(&s->p, RSK_ORDER_DEFAULT, 512, 256, 1);
	for (uint32_t i = 0; sizes[i]; i++)
		order_send(&s->p, s->packets[i], (uint32_t)(sizes[i] - '0'));
	cr_assert_eq(s->p.rx.next, 1);
}

static const struct order_packet *named(const struct stage *s, const char *name)
{
	return &s->packets[name[0] - 'A'][name[1] - '1'];
}

/*
 * Delivers packet @name ("A1") and compares the result with @wanted: '+' if an element is created,
 * '.' if one is found; then the transaction that is complete and leaves the queue, or ' '; then the
 * consumer pointer; then the elements in the queue.
 */
static void arrives(struct stage *s, const char *name, const char *wanted)
{
	struct rsk_order_seen seen = order_see(&s->p, named(s, name));
	char got[16];
	int n = snprintf(got, sizeof(got), "%c%c%" PRIu64, seen.created ? '+' : '.',
			 seen.complete ? name[0] : ' ', s->p.rx.next);

	for (uint64_t i = 1; i <= TRANSACTIONS; i++)
		if (rsk_order_rx_element(&s->p.rx, i))
			got[n++] = (char)('A' + i - 1);
	got[n] = '\0';
	cr_assert_str_eq(got, wanted, "%s", name);
}

/*
 * Compares what is missing, in order: "B" for an absent transaction, "b1" for one without its first
 * packet, "b" for one that lacks others.
 */
static void lacks(const struct stage *s, const char *wanted)
{
	uint64_t from = 0, n = 0;
	char got[32] = "";
	size_t len = 0;
	int lack;

	while ((lack = rsk_order_rx_missing(&s->p.rx, from, &n))) {
		got[len++] = (char)((lack == RSK_ORDER_ABSENT ? 'A' : 'a') + n - 1);
		if (lack == RSK_ORDER_HEADLESS)
			got[len++] = '1';
		got[len] = '\0';
		from = n + 1;
	}
	cr_assert_str_eq(got, wanted);
}

Test(order, one_transaction_in_any_order)
{
	struct stage s;

	stage_init(&s, "3");
	arrives(&s, "A1", "+ 2A");
	arrives(&s, "A3", ". 2A");
	lacks(&s, "a");
	arrives(&s, "A2", ".A2");
	lacks(&s, "");
	cr_assert_eq(s.p.rx.low, 2);
	cr_assert_eq(rsk_order_rx_takable(&s.p.rx), 3);
	order_take_all(&s.p);
	cr_assert_eq(s.p.tx.una, 2);
	order_free(&s.p);
}

/* The higher transaction starts among the lower one's packets. */
Test(order, two_transactions_mixed)
{
	struct stage s;

	stage_init(&s, "332");
	arrives(&s, "A1", "+ 2A");
	arrives(&s, "A3", ". 2A");
	arrives(&s, "A2", ".A2");
	arrives(&s, "B1", "+ 3B");
	arrives(&s, "B2", ". 3B");
	arrives(&s, "C1", "+ 4BC");
	arrives(&s, "B3", ".B4C");
	arrives(&s, "C2", ".C4");
	cr_assert_eq(s.p.rx.overtook, 0);
	cr_assert_eq(s.p.rx.completed, 3);
	order_take_all(&s.p);
	cr_assert_eq(s.p.tx.una, 4);
	order_free(&s.p);
}

/*
 * C leaves the queue before B, whose element B2 created: it lacks its first packet, and nothing
 * else.
 */
Test(order, the_higher_one_is_done_first)
{
	uint64_t begin, end;
	struct stage s;

	stage_init(&s, "332");
	arrives(&s, "A1", "+ 2A");
	arrives(&s, "A2", ". 2A");
	arrives(&s, "A3", ".A2");
	arrives(&s, "B2", "+ 3B");
	lacks(&s, "b1");
	arrives(&s, "B3", ". 3B");
	arrives(&s, "C1", "+ 4BC");
	arrives(&s, "C2", ".C4B");
	lacks(&s, "b1");
	cr_assert_eq(s.p.rx.overtook, 1);
	/* Delivery is in order all the same: nothing of C can be consumed yet. */
	cr_assert_eq(rsk_order_rx_takable(&s.p.rx), 3);
	cr_assert(rsk_order_rx_gap(&s.p.rx, 0, &begin, &end));
	cr_assert_eq(begin, named(&s, "B1")->place);
	cr_assert_eq(end, named(&s, "B2")->place);
	arrives(&s, "B1", ".B4");
	cr_assert_not(rsk_order_rx_gap(&s.p.rx, 0, &begin, &end));
	cr_assert_eq(rsk_order_rx_takable(&s.p.rx), 8);
	order_take_all(&s.p);
	order_free(&s.p);
}

/*
 * Untagged operations: transaction n takes receive element n, whichever of its packets comes first,
 * and each packet goes straight into that element's buffer, without waiting for lower ones. The
 * pointer: 1, 2, 4, and it stays 4 after B completes.
 */
Test(order, sends_take_the_element_of_their_index)
{
	static const char *const arrive[] = { "A1", "C1", "C2", "B3", "B2", "B1" };
	static const char *const wanted[] = { ".A2", "+ 4C", ".C4", "+ 4B", ". 4B", ".B4" };
	char elements[4][2 * PACKETS + 1] = { "", "", "", "" };
	struct stage s;

	stage_init(&s, "132");
	cr_assert_eq(s.p.rx.next, 1, "the pointer names the first transaction expected");
	for (size_t i = 0; i < sizeof(arrive) / sizeof(*arrive); i++) {
		const struct order_packet *o = named(&s, arrive[i]);

		arrives(&s, arrive[i], i ? wanted[i] : "+A2");
		memcpy(elements[o->number] + 2 * (o->place - s.packets[o->number - 1][0].place),
		       arrive[i], 2);
		if (!strcmp(arrive[i], "C2"))
			lacks(&s, "B");
	}
	cr_assert_str_eq(elements[1], "A1");
	cr_assert_str_eq(elements[2], "B1B2B3");
	cr_assert_str_eq(elements[3], "C1C2");
	cr_assert_eq(s.p.rx.next, 4, "the pointer stays where it is when a lower one completes");
	cr_assert_eq(s.p.rx.low, 4);
	order_free(&s.p);
}

/*
 * The first packets of three of six transactions are seen: they show what is missing below the
 * highest of them, and nothing beyond it.
 */
Test(order, three_first_packets_of_six)
{
	uint64_t begin, end;
	struct stage s;

	stage_init(&s, "222222");
	arrives(&s, "A1", "+ 2A");
	arrives(&s, "C1", "+ 4AC");
	arrives(&s, "D1", "+ 5ACD");
	lacks(&s, "aBcd");
	arrives(&s, "A2", ".A5CD");
	arrives(&s, "D2", ".D5C");
	lacks(&s, "Bc");
	/* The sender alone knows of E and F: it has no acknowledgement of them. */
	order_take_all(&s.p);
	cr_assert_eq(s.p.tx.una, 2);
	cr_assert_eq(s.p.tx.next, 7);
	cr_assert_eq(rsk_order_tx_where(&s.p.tx, 1, &begin, &end), -ENOENT);
	cr_assert_eq(rsk_order_tx_where(&s.p.tx, 7, &begin, &end), -ENOENT);
	cr_assert_eq(rsk_order_tx_where(&s.p.tx, 6, &begin, &end), 0);
	cr_assert_eq(begin, named(&s, "F1")->place);
	cr_assert_eq(end, begin + 2);
	/* Requested again by number: C whole, of which one packet is there already. */
	for (int i = 0; i < 2; i++) {
		struct rsk_order_seen seen;
		const struct order_packet *o = &s.packets[2][i];

		cr_assert_eq(rsk_order_rx_see(&s.p.rx, o->tag, o->place, o->cells, &seen),
			     i ? 0 : -EALREADY);
		order_check(&s.p);
	}
	lacks(&s, "B");
	arrives(&s, "B2", "+ 5B");
	lacks(&s, "b1");
	arrives(&s, "B1", ".B5");
	arrives(&s, "F1", "+ 7F");
	lacks(&s, "Ef");
	order_free(&s.p);
}

/*
 * Every order of the eight packets of three transactions: a transaction is complete when, and only
 * when, all of its packets have come.
 */
static uint32_t permute(const char *names[8], uint32_t n)
{
	uint32_t runs = 0;

	if (n == 8) {
		struct stage now;
		uint32_t had[3] = { 0 };

		stage_init(&now, "332");
		for (uint32_t i = 0; i < 8; i++) {
			struct rsk_order_seen seen = order_see(&now.p, named(&now, names[i]));
			uint32_t t = (uint32_t)(names[i][0] - 'A');

			cr_assert_eq(seen.created, !had[t]++, "%s", names[i]);
			cr_assert_eq(seen.complete, had[t] == (t == 2 ? 2 : 3), "%s", names[i]);
			cr_assert_eq(now.p.rx.next, had[2] ? 4 : had[1] ? 3 : 2);
		}
		order_take_all(&now.p);
		cr_assert_eq(now.p.tx.una, 4);
		order_free(&now.p);
		return 1;
	}
	for (uint32_t i = n; i < 8; i++) {
		const char *first = names[n];

		names[n] = names[i];
		names[i] = first;
		runs += permute(names, n + 1);
		names[i] = names[n];
		names[n] = first;
	}
	return runs;
}

Test(order, every_order_of_eight_packets)
{
	const char *names[8] = { "A1", "A2", "A3", "B1", "B2", "B3", "C1", "C2" };

	cr_assert_eq(permute(names, 0), 40320);
}

/*
 * Command slots lie between transactions, and the rest of a lap may be skipped when everything was
 * consumed.
 */
Test(order, places_that_are_no_packets)
{
	struct order_packet a[2], b[2], c;
	uint64_t begin, end, lap, command;
	struct order_pair p;

	order_init(&p, RSK_ORDER_DEFAULT, 8, 64, 5);
	order_send(&p, a, 2);
	command = p.tx.top;
	cr_assert_eq(rsk_order_tx_put_other(&p.tx, command, 2), 0);
	order_send(&p, b, 2);
	order_see(&p, &b[1]);
	order_see(&p, &b[0]);
	order_see(&p, &a[1]);
	order_see(&p, &a[0]);
	cr_assert_eq(rsk_order_rx_takable(&p.rx), 2);
	cr_assert(rsk_order_rx_gap(&p.rx, 0, &begin, &end));
	cr_assert(begin == command && end == command + 2);
	cr_assert_eq(rsk_order_rx_take(&p.rx, command + 1), -EINVAL);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, command, 2), 0);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, command, 2), -EALREADY);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, b[1].place, 2), -EPROTO);
	order_take_all(&p);
	cr_assert_eq(p.tx.floor, p.tx.top);
	cr_assert_eq(rsk_order_rx_see_other(&p.rx, command, 2), -EALREADY);
	/* A restart of the ring. */
	lap = (p.tx.top | 63) + 1;
	cr_assert_eq(rsk_order_tx_begin(&p.tx), 0);
	c = (struct order_packet){ 7, lap, 3, rsk_order_tx_tag(&p.tx, true) };
	cr_assert_eq(rsk_order_tx_put(&p.tx, lap, 3, true), 0);
	cr_assert_eq(rsk_order_rx_take(&p.rx, lap), 0);
	order_see(&p, &c);
	cr_assert_eq(p.rx.completed, 3);
	cr_assert_eq(rsk_order_rx_take(&p.rx, lap + 64), 0);
	cr_assert_eq(rsk_order_rx_take(&p.rx, lap), -EINVAL, "taken back");
	order_check(&p);
	order_free(&p);
}
