// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_ahead.c - tests what a receiver over several rails sees of slots that have overtaken the
 * next one: the name of the gap, what is delivered, what one look costs, and when there is none.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "rx.h"
#include "tx.h"

#define CELLS 4096u
#define TX_WORD 0u
#define RX_WORD 64u
#define RING 128u
#define BYTES (RING + CELLS * RSK_CELL_BYTES)
#define PUTS 64

/* The test decides when a slot lands; control words land at once. */
static struct {
	uint8_t segment[2][BYTES] __attribute__((aligned(64)));
	uint8_t window[2][BYTES] __attribute__((aligned(64)));
	uint64_t sent, received;
	struct rsk_tcp tcp;
	struct rsk_stats_ahead seen;
	struct rsk_rail rail[2]; /* the sender's, the receiver's */
	struct rsk_tx tx;
	struct rsk_rx rx;
	struct {
		uint64_t off;
		size_t len;
	} put[PUTS];
	uint32_t puts;
	bool tags, several; /* at the sender, at the receiver: more than one rail is up */
} w;

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	uint8_t *to = w.segment[rail == &w.rail[0]];

	if (off < RING) {
		memcpy(to + off, rail->window + off, len);
		return 0;
	}
	cr_assert(rail == &w.rail[0] && w.puts < PUTS);
	w.put[w.puts].off = off;
	w.put[w.puts++].len = len;
	return 0;
}

static bool several(const struct rsk_rail *rail)
{
	return rail == &w.rail[0] ? w.tags : w.several;
}

static const struct rsk_fabric_ops ops = { .name = "several",
					   .caps = RSK_FABRIC_RELIABLE,
					   .put = put,
					   .several = several };

static ssize_t nothing(struct rsk_tcp *c, const struct iovec *iov, int n, size_t cap, int flags)
{
	return -EAGAIN;
}

static int at_none(struct rsk_tcp *c, uint64_t *pos)
{
	*pos = 0;
	return 0;
}

static const struct rsk_tcp_ops tcp_ops = { .send = nothing,
					    .recv = nothing,
					    .tx_pos = at_none,
					    .rx_pos = at_none };

/* @len bytes of slot @n land, from its beginning. */
static void land_some(uint32_t n, size_t len)
{
	memcpy(w.segment[1] + w.put[n].off, w.window[0] + w.put[n].off, len);
}

static void land(uint32_t n)
{
	cr_assert_lt(n, w.puts);
	land_some(n, w.put[n].len);
}

/* Both ends on the ring; nothing is put yet. */
static void on_ring(const char *form_text)
{
	struct rsk_order_form form;
	const char *error;

	memset(&w, 0, sizeof(w));
	w.tcp.ops = &tcp_ops;
	w.tags = w.several = true;
	for (int i = 0; i < 2; i++)
		w.rail[i] = (struct rsk_rail){ .ops = &ops,
					       .window = w.window[i],
					       .window_bytes = BYTES,
					       .segment = w.segment[i],
					       .segment_bytes = BYTES };
	rsk_tx_init(&w.tx, &w.rail[0], RING, CELLS, TX_WORD,
		    (const struct rsk_control_word *)(const void *)(w.segment[0] + RX_WORD), 7);
	rsk_rx_init(&w.rx, &w.rail[1], w.segment[1] + RING, CELLS, RX_WORD,
		    (const struct rsk_control_word *)(const void *)(w.segment[1] + TX_WORD), 7);
	cr_assert_eq(rsk_order_parse(&form, form_text, &error), 0, "%s", error);
	rsk_tx_tag(&w.tx, &form);
	rsk_rx_tag(&w.rx, &form, &w.seen);
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	for (int i = 0; i < 3; i++)
		cr_assert(rsk_rx_serve(&w.rx, &w.tcp) == 0 && rsk_tx_serve(&w.tx, &w.tcp) == 0);
	cr_assert(w.tx.state == RSK_TX_ONRING && w.rx.state == RSK_RX_ONRING);
}

static void end(void)
{
	rsk_tx_fini(&w.tx);
	rsk_rx_fini(&w.rx);
}

static uint8_t byte_at(uint64_t pos)
{
	return (uint8_t)(pos * 167 + (pos >> 8) * 13);
}

/* One send() of @len bytes that fit. */
static void send_all(size_t len)
{
	static uint8_t from[4 * RSK_SLOT_MAX_PAYLOAD];
	struct iovec iov = { from, len };
	struct rsk_iovcur cur;

	for (size_t i = 0; i < len; i++)
		from[i] = byte_at(w.sent + i);
	rsk_iovcur_init(&cur, &iov, 1);
	cr_assert_eq(rsk_tx_send(&w.tx, &w.tcp, &cur, 0), (ssize_t)len);
	w.sent += len;
}

/* One call that may take everything. Returns its result; the bytes are right. */
static ssize_t recv_some(void)
{
	static uint8_t to[8 * RSK_SLOT_MAX_PAYLOAD];
	struct iovec iov = { to, sizeof(to) };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = rsk_rx_recv(&w.rx, &w.tcp, &cur, false, false);
	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(to[i], byte_at(w.received + (uint64_t)i), "at %zd", i);
	w.received += n > 0 ? (uint64_t)n : 0;
	cr_assert(rsk_rx_validate(&w.rx) && rsk_tx_validate(&w.tx));
	return n;
}

#define check_gap(transactions, number)                                                            \
	cr_assert(w.seen.gap == (transactions) && w.seen.gap_lowest == (number), "%u from %u",     \
		  (unsigned int)w.seen.gap, (unsigned int)w.seen.gap_lowest)

Test(rx_ahead, a_gap_has_a_name_while_all_rails_work)
{
	on_ring(RSK_ORDER_DEFAULT);
	for (int i = 0; i < 5; i++)
		send_all(100);
	land(0);
	cr_assert_eq(recv_some(), 100);
	/* 1 and 3 are missing. */
	land(2);
	land(4);
	cr_assert_eq(recv_some(), -EAGAIN, "nothing is delivered early");
	cr_assert_eq(w.seen.slots, 2);
	cr_assert_eq(w.seen.overtook, 2);
	check_gap(2, 1);
	/* Looking once more changes nothing. */
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 2);
	land(1);
	cr_assert_eq(recv_some(), 200);
	check_gap(2, 1); /* it is renewed when a reader finds nothing */
	cr_assert_eq(recv_some(), -EAGAIN);
	check_gap(1, 3);
	land(3);
	cr_assert_eq(recv_some(), 200);
	check_gap(0, 0); /* all that was seen is read */
	cr_assert_eq(w.rx.tags.machine->order.completed, 5);
	end();
}

/* The first slot with a tag is the one that is missing: the machine begins all the same. */
Test(rx_ahead, the_first_one_is_overtaken)
{
	on_ring("relative:4/2+stop");
	send_all(100);
	send_all(3 * RSK_SLOT_MAX_PAYLOAD);
	land(2);
	cr_assert_not(rsk_rx_ready(&w.rx));
	cr_assert(w.rx.tags.on, "a poll looks as well");
	for (int i = 0; i < 8; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 1);
	check_gap(2, 0);
	for (uint32_t i = 0; i < 2; i++)
		land(i);
	cr_assert_eq(recv_some(), 100 + 2 * RSK_SLOT_MAX_PAYLOAD);
	land(3);
	cr_assert_eq(recv_some(), RSK_SLOT_MAX_PAYLOAD);
	end();
}

Test(rx_ahead, half_a_slot_is_not_seen)
{
	on_ring(RSK_ORDER_DEFAULT);
	send_all(100);
	send_all(1000);
	land_some(1, 500);
	for (int i = 0; i < 40; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 0);
	check_gap(0, 0);
	land(1);
	/* They have gone on further ahead, 16 cells each by now, to 1024. */
	for (int i = 0; i < 65; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 1);
	check_gap(1, 0);
	end();
}

/*
 * 64 cells a look, and 16 KiB to hash: the next looks go on from there, and begin behind what was
 * seen.
 */
Test(rx_ahead, one_look_is_bounded)
{
	uint32_t looks = 0;

	on_ring(RSK_ORDER_DEFAULT);
	send_all(RSK_SLOT_MAX_PAYLOAD); /* 257 cells */
	send_all(100);
	land(1);
	while (!w.seen.slots && looks++ < 100)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(looks, 5, "%u looks", looks);
	for (int i = 0; i < 4; i++)
		send_all(RSK_SLOT_MAX_PAYLOAD);
	for (uint32_t i = 2; i < 6; i++)
		land(i);
	for (uint64_t i = 2; i < 6; i++) {
		cr_assert_eq(recv_some(), -EAGAIN);
		cr_assert_eq(w.seen.slots, i);
	}
	/* To the end of the ring, and again: nothing is seen twice. */
	for (uint32_t i = 0; i < 2 * CELLS / 16; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 5);
	cr_assert_eq(w.seen.overtook, 5);
	check_gap(1, 0);
	land(0);
	cr_assert_eq(recv_some(), 5 * RSK_SLOT_MAX_PAYLOAD + 100);
	end();
}

/* A stream on which nothing comes: a look is cheaper after the first ones. */
Test(rx_ahead, in_vain)
{
	uint64_t at;

	on_ring(RSK_ORDER_DEFAULT);
	for (uint64_t i = 0; i < 16; i++) {
		cr_assert_eq(recv_some(), -EAGAIN);
		at = w.rx.tags.machine->ahead.at - w.rx.ring.next;
		cr_assert_eq(at, 64 * (i + 1) < 1024 ? 64 * (i + 1) + 1 : 1024);
	}
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.rx.tags.machine->ahead.at - w.rx.ring.next, 65 + 16);
	/* Something comes: the next looks are as the first ones. */
	send_all(10);
	land(0);
	cr_assert_eq(recv_some(), 10);
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.rx.tags.machine->ahead.at - w.rx.ring.next, 65);
	end();
}

/* A look reaches all of the ring, and no cell of the next lap. */
Test(rx_ahead, over_the_end_of_the_ring)
{
	on_ring(RSK_ORDER_DEFAULT);
	for (uint32_t i = 0; i < 15; i++) {
		send_all(RSK_SLOT_MAX_PAYLOAD);
		land(i);
		cr_assert_eq(recv_some(), RSK_SLOT_MAX_PAYLOAD);
		rsk_rx_give_credit(&w.rx, true);
	}
	w.puts = 0;
	/* 241 cells are left of the lap: the fourth begins the next one. */
	for (uint32_t i = 0; i < 8; i++)
		send_all(5000);
	for (uint32_t i = 1; i < w.puts; i++)
		land(i);
	for (uint32_t i = 0; i < 2 * CELLS / 16; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, w.puts - 1);
	land(0);
	cr_assert_eq(recv_some(), 8 * 5000);
	end();
}

Test(rx_ahead, not_over_one_rail)
{
	on_ring(RSK_ORDER_DEFAULT);
	w.several = false;
	send_all(100);
	send_all(100);
	land(1);
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_not(w.rx.tags.on, "one rail, and a machine");
	cr_assert_eq(w.seen.slots, 0);
	w.several = true;
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 1);
	/* One is left: what was missing before has its name until it comes. */
	for (int i = 0; i < 3; i++)
		send_all(100);
	land(3);
	for (int i = 0; i < 17; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	check_gap(2, 0);
	w.several = false;
	land(0);
	cr_assert_eq(recv_some(), 200);
	check_gap(2, 0);
	cr_assert_eq(recv_some(), -EAGAIN);
	check_gap(1, 2);
	/* What comes now is not looked for: it comes in order. */
	land(4);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 2);
	land(2);
	cr_assert_eq(recv_some(), 300);
	check_gap(0, 0);
	end();
}

Test(rx_ahead, the_gap_ends_with_the_ring)
{
	uint64_t pos, cell;

	on_ring(RSK_ORDER_DEFAULT);
	for (int i = 0; i < 3; i++)
		send_all(100);
	land(1);
	cr_assert_eq(recv_some(), -EAGAIN);
	check_gap(1, 0);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(pos, 0);
	land(2);
	rsk_rx_ready(&w.rx);
	recv_some();
	cr_assert_eq(w.seen.slots, 1, "a broken link's ring is looked at");
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	check_gap(0, 0);
	end();
}

/*
 * Transactions are complete before they are taken. The sender waits for the credit of what is
 * taken, and gets it.
 */
Test(rx_ahead, credit_is_for_what_was_taken)
{
	on_ring("wrapping:3");
	w.tags = false;
	send_all(10);
	w.tags = true;
	for (int i = 0; i < 8; i++)
		send_all(10);
	cr_assert_not(rsk_order_tx_ready(w.tx.ring.order), "all numbers are under way");
	for (uint32_t i = 1; i < 9; i++)
		land(i);
	cr_assert_eq(recv_some(), -EAGAIN);
	cr_assert_eq(w.seen.slots, 8);
	cr_assert_eq(w.rx.tags.machine->order.low, 8);
	/* A word for another reason carries the credit for nothing. */
	rsk_rx_stay_off(&w.rx, true);
	rsk_rx_stay_off(&w.rx, false);
	cr_assert_eq(w.rx.tags.machine->credited, 0);
	land(0);
	cr_assert_eq(recv_some(), 90);
	cr_assert_eq(w.rx.tags.machine->credited, 8);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.tcp), 0);
	cr_assert(rsk_order_tx_ready(w.tx.ring.order), "the sender waits for ever");
	end();
}
