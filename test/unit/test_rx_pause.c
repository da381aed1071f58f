// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_pause.c - tests a receiver that ends a promotion by itself (rsk_rx_pause(), around a
 * fork), and what may come after that.
 */
#include "way_kit.h"

static _Atomic(uint64_t) ended;

/* All that came by the ring is read, and the receiver has left the ring. */
static void paused(void)
{
	on_ring(&at_once, 10);
	atomic_store(&ended, 0);
	w.tx.ended = w.rx.ended = &ended;
	cr_assert_eq(send_some(100), 100);
	rsk_rx_stay_off(&w.rx, true);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(rsk_rx_pause(&w.rx), 0);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
}

Test(rx_pause, what_is_sent_next_goes_by_tcp)
{
	paused();
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(w.wire.in, 50);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert(rsk_tx_validate(&w.tx));
	cr_assert(rsk_rx_validate(&w.rx));
}

Test(rx_pause, one_that_leaves_after_that_is_no_broken_peer)
{
	bool again = true;

	paused();
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert_eq(rsk_rx_fall_back(&w.rx, false, &again), 0);
	cr_assert_not(again);
	/*
	 * The command names a position behind newer bytes on TCP, and a slot that is not read any
	 * more.
	 */
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(send_some(5), 5);
	cr_assert_eq(w.wire.in, 55, "something was repeated");
	cr_assert_eq(recv_some(4096), 5);
}

Test(rx_pause, and_leaves_before_the_sender_has_heard_of_it)
{
	bool again = true;

	paused();
	cr_assert_eq(rsk_rx_fall_back(&w.rx, false, &again), 0);
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(w.wire.in, 50);
	cr_assert_eq(recv_some(4096), 40);
}
