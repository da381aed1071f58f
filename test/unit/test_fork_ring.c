// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_fork_ring.c - tests that a fork takes the unread bytes out of a ring (family.c), whatever
 * the other end does meanwhile.
 */
#include <criterion/criterion.h>

#include "family.h"
#include "over.h"
#include "remote_kit.h"
#include "way_kit.h"

#define SLOT_BYTES 100u
#define MOST_REFILLS 10000u

static struct rsk_stream *receiver;
static uint32_t refills; /* number that is left */
static _Atomic(uint64_t) ended;

static void fill(void)
{
	static uint8_t bytes[SLOT_BYTES];
	struct iovec iov = { bytes, sizeof(bytes) };
	struct rsk_iovcur cur;

	do
		rsk_iovcur_init(&cur, &iov, 1);
	while (rsk_ring_put_data(&w.tx.ring, &w.tx.key, &cur, sizeof(bytes)) ==
	       (ssize_t)sizeof(bytes));
}

/*
 * A sender that ignores the request to leave the ring, and fills it again at each control word of
 * the receiver.
 */
static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	int peer = rail == &w.rail[0];

	memcpy(w.segment[peer] + off, rail->window + off, len);
	if (peer || !receiver || !refills)
		return 0;
	refills--;
	w.tx.ring.credit = w.tx.ring.told = receiver->rx.ring.next;
	fill();
	return 0;
}

static const struct rsk_fabric_ops here = {
	.name = "here",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_SYNC | RSK_FABRIC_DURABLE,
	.put = put,
};

/* A stream of this process whose receiver has @w's sender at the other end. */
static struct kit_stream stream(struct kit *k)
{
	struct kit_stream ks;

	kit_init();
	kit_link(k, true);
	kit_rail_up(k, 0);
	ks = kit_stream(k, false);
	receiver = NULL;
	refills = 0;
	on_ring(&here, 0);
	rsk_rx_fini(&ks.s->rx);
	ks.s->rx = w.rx;
	atomic_store(&ended, 0);
	ks.s->rx.ended = w.tx.ended = &ended;
	receiver = ks.s;
	return ks;
}

Test(fork_ring, what_is_unread_is_taken_out)
{
	struct kit_stream ks;
	struct kit k;

	ks = stream(&k);
	cr_assert_eq(send_some(300), 300);
	rsk_stream_share(ks.s, ks.fd);
	cr_assert_not(rsk_stream_failed(ks.s));
	cr_assert_eq(rsk_over_unread(ks.s), 300);
	cr_assert_eq(ks.s->rx.state, RSK_RX_TCP);
}

/*
 * After a break, before the report: a slot is damaged, and what the TCP socket has is newer. The
 * child would not learn what is missing.
 */
Test(fork_ring, a_child_before_the_report)
{
	struct kit_stream ks;
	uint64_t pos, cell;
	struct kit k;

	kit_init();
	kit_link(&k, true);
	kit_rail_up(&k, 0);
	ks = kit_stream(&k, false);
	on_ring(&far, 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(7), 7);
	w.segment[1][RING + (w.rx.ring.next & (CELLS - 1)) * RSK_CELL_BYTES + 30] ^= 1;
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_fini(&ks.s->rx);
	ks.s->rx = w.rx;
	cr_assert(rsk_rx_awaits_report(&ks.s->rx));
	rsk_stream_share(ks.s, ks.fd);
	cr_assert(atomic_load(&ks.s->fork.torn));
	cr_assert_not(rsk_stream_failed(ks.s), "the parent may still get the report");
}

Test(fork_ring, a_sender_that_does_not_stop_is_refused)
{
	struct kit_stream ks;
	struct kit k;

	ks = stream(&k);
	fill();
	refills = MOST_REFILLS;
	rsk_stream_share(ks.s, ks.fd);
	cr_assert_neq(refills, 0, "it took %lu bytes", (unsigned long)ks.s->over.bytes);
	cr_assert(rsk_stream_failed(ks.s));
	cr_assert_eq(ks.s->rx.state, RSK_RX_TCP);
}
