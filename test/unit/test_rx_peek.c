// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_peek.c - tests what a peek returns for a stream that lies on both paths: unread bytes of
 * TCP, those of the ring behind them, and those that were sent by TCP after the fallback. It may be
 * repeated, and consumes nothing.
 */
#include "way_kit.h"

#include <sys/socket.h>

static uint8_t in[4096];

static ssize_t peek(size_t len)
{
	/* Small runs: the result crosses their boundaries. */
	struct iovec iov[5] = {
		{ in, 2 }, { in + 2, 0 }, { in + 2, 9 }, { in + 11, 4 }, { in + 15, 4000 }
	};
	struct rsk_iovcur cur;
	size_t left = len;
	int n = 0;
	ssize_t got;

	for (; n < 5 && left; n++) {
		if (iov[n].iov_len > left)
			iov[n].iov_len = left;
		left -= iov[n].iov_len;
	}
	memset(in, 0, sizeof(in));
	rsk_iovcur_init(&cur, iov, n);
	got = rsk_rx_recv(&w.rx, &w.wire.c, &cur, true, true);
	cr_assert(rsk_rx_validate(&w.rx));
	return got;
}

/* Expects @a bytes of TCP, @b of the ring, @c of TCP; up to @len of them. */
static void shows(size_t len, size_t a, size_t b, size_t c)
{
	size_t all = a + b + c < len ? a + b + c : len;

	cr_assert_eq(peek(len), (ssize_t)all);
	for (size_t i = 0; i < sizeof(in); i++)
		cr_assert_eq(in[i], i >= all ? 0 : i < a || i >= a + b ? 'c' : 'r', "at %zu", i);
}

/* @before bytes are unread when the sender goes to the ring. */
static void to_the_ring(size_t before)
{
	world_init(&far, 5);
	cr_assert_eq(send_some(before), (ssize_t)before);
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	shows(4096, before, 0, 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
}

Test(rx_peek, all_three_parts)
{
	to_the_ring(5);
	cr_assert_eq(send_some(7), 7);
	shows(4096, 5, 7, 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	shows(4096, 5, 7, 0);
	cr_assert_eq(send_some(9), 9);
	for (size_t len = 1; len < 30; len++)
		shows(len, 5, 7, 9);
	/* Nothing was consumed. */
	cr_assert_eq(w.wire.out, 0u);
	cr_assert_eq(recv_some(4096), 21);
	cr_assert_eq(w.wire.out, 14u);
}

Test(rx_peek, a_ring_without_bytes)
{
	to_the_ring(5);
	shows(4096, 5, 0, 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(9), 9);
	shows(4096, 5, 0, 9);
	shows(7, 5, 0, 9);
	cr_assert_eq(recv_some(4096), 14);
}

Test(rx_peek, part_of_the_first_was_read)
{
	to_the_ring(5);
	cr_assert_eq(send_some(7), 7);
	shows(4096, 5, 7, 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(9), 9);
	cr_assert_eq(recv_some(3), 3);
	shows(4096, 2, 7, 9);
	cr_assert_eq(recv_some(3), 3);
	shows(4096, 0, 6, 9);
	cr_assert_eq(recv_some(4096), 15);
}
