// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_end.c - tests what a receiver on the ring returns when its sender is gone, on a fabric
 * whose puts take time: bytes first, then a clean end of stream if nothing can be missing, else
 * ECONNRESET. While the sender lives, the receiver reports no end before the sender's last slot has
 * come. Also tests what a sender knows after a fallback.
 */
#include "way_kit.h"

Test(rx_end, who_lives_may_still_have_put_something)
{
	on_ring(&at_once, 10);
	cr_assert_eq(send_some(100), 100);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
	cr_assert_eq(send_some(50), 50);
	cr_assert_eq(recv_some(4096), 50);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_rx_ready(&w.rx));
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, a_dead_sender_is_a_reset_behind_what_came)
{
	on_ring(&at_once, 0);
	cr_assert_eq(send_some(100), 100);
	w.dark = true;
	cr_assert_eq(send_some(100), 100);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(40), 40);
	cr_assert_eq(recv_some(4096), 60);
	rsk_rx_check_tcp(&w.rx, &w.wire.c);
	cr_assert(rsk_rx_ready(&w.rx));
	cr_assert_eq(recv_some(4096), -ECONNRESET);
	/* Returned once, as by the kernel. */
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, lost_is_not_said_before_the_tcp_socket_ends)
{
	on_ring(&at_once, 0);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(1), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
	w.wire.end = true;
	cr_assert_eq(recv_some(1), -ECONNRESET);
}

/*
 * A dead sender cannot report that it goes on by TCP; bytes come there only if everything before
 * them was taken.
 */
Test(rx_end, lost_and_the_tcp_socket_goes_on)
{
	on_ring(&at_once, 5);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_lose(&w.rx);
	w.wire.in += 70;
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(recv_some(30), 30);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(w.rx.counts.demotions, 1);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 0);
	cr_assert(rsk_rx_validate(&w.rx));
}

/*
 * A sender on the ring has sent by TCP without a report: those bytes are not due yet, and are no
 * further event.
 */
Test(rx_end, the_tcp_socket_is_ahead)
{
	on_ring(&at_once, 5);
	cr_assert_eq(send_some(100), 100);
	w.wire.in += 70;
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(recv_some(30), -EAGAIN);
	cr_assert(w.rx.tcp.ahead);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
	cr_assert_not(rsk_rx_ready(&w.rx));
	cr_assert_eq(send_some(10), 10);
	cr_assert_eq(recv_some(30), 10);
	/* It reports that: now they are due. */
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(recv_some(4096), 70);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert(rsk_rx_validate(&w.rx));
}

/*
 * That held for one promotion. In the next one the TCP socket is silent, so its end, or a reset, is
 * an event.
 */
Test(rx_end, the_tcp_socket_is_ahead_no_more)
{
	on_ring(&at_once, 5);
	w.wire.in += 70;
	cr_assert_eq(recv_some(30), -EAGAIN);
	cr_assert(w.rx.tcp.ahead);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(recv_some(4096), 70);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	w.tx.ring.credit = w.tx.ring.next;
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING);
	cr_assert_not(w.rx.tcp.ahead, "nobody would listen for the TCP socket's end");
}

/*
 * A waiter for readiness is notified: the kernel shows the bytes on the TCP socket, and this end
 * reads there.
 */
Test(rx_end, lost_and_the_tcp_socket_shows_more)
{
	on_ring(&at_once, 5);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_lose(&w.rx);
	w.wire.in += 70;
	rsk_rx_check_tcp(&w.rx, &w.wire.c);
	cr_assert_eq(w.rx.state, RSK_RX_ONRING, "the ring's bytes come first");
	cr_assert_eq(recv_some(100), 100);
	rsk_rx_check_tcp(&w.rx, &w.wire.c);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(recv_some(4096), 70);
}

/*
 * It has reported how much it put, and not all of that has come. Bytes that follow would leave a
 * gap before them.
 */
Test(rx_end, lost_and_something_is_missing_before_more)
{
	for (int looks = 0; looks < 2; looks++) {
		on_ring(&at_once, 5);
		cr_assert_eq(send_some(100), 100);
		w.dark = true;
		cr_assert_eq(send_some(1), 1);
		w.rx.rail_loss.last_cell = w.tx.ring.next;
		rsk_rx_lose(&w.rx);
		w.wire.in += 70;
		cr_assert_eq(recv_some(100), 100);
		if (looks) {
			rsk_rx_check_tcp(&w.rx, &w.wire.c);
			cr_assert(rsk_rx_ready(&w.rx));
			cr_assert_eq(recv_some(4096), -ECONNRESET);
		} else {
			cr_assert_eq(recv_some(4096), -EPROTO);
		}
	}
}

Test(rx_end, who_ended_in_order_is_believed_when_all_is_here)
{
	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	w.rx.rail_loss.last_cell = w.tx.ring.next; /* from ENDING */
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, who_ended_in_order_but_something_is_missing)
{
	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	w.dark = true;
	cr_assert_eq(send_some(1), 1);
	w.rx.rail_loss.last_cell = w.tx.ring.next;
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -ECONNRESET);
}

Test(rx_end, a_last_word_is_an_end_whoever_is_dead)
{
	on_ring(&at_once, 3);
	/* it learns that its ring command was received */
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);

	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_end, the_tcp_socket_own_error_comes_behind_what_came)
{
	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	w.wire.err = -ETIMEDOUT;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -ETIMEDOUT);
	cr_assert_neq(recv_some(4096), -ETIMEDOUT);
}

Test(rx_end, behind_the_tcp_socket_error_is_the_end)
{
	static const int errs[] = { -ECONNRESET, -ETIMEDOUT, -EPIPE };

	/* The peer and its rail live: no further slot will come. */
	for (int i = 0; i < 3; i++) {
		on_ring(&at_once, 3);
		cr_assert_eq(send_some(100), 100);
		w.wire.err = errs[i];
		cr_assert_eq(recv_some(50), 50);
		w.wire.end = true;
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
		rsk_rx_check_tcp(&w.rx, &w.wire.c);
		w.wire.err = 0; /* read once, it is cleared in the kernel */
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
		cr_assert_eq(recv_some(4096), 50);
		cr_assert_eq(recv_some(10), errs[i]);
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
		cr_assert(rsk_rx_ready(&w.rx));
		cr_assert_eq(recv_some(10), 0);
		cr_assert_eq(recv_some(10), 0);
	}
}

Test(rx_end, an_error_in_the_middle_of_a_call_is_for_the_next)
{
	/*
	 * Between the bytes of the ring, a check of the TCP socket and a read from it: the reset
	 * may come at any point.
	 */
	for (uint32_t late = 1; late < 6; late++) {
		ssize_t n;

		on_ring(&at_once, 3);
		cr_assert_eq(send_some(100), 100);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		w.wire.err = -ECONNRESET;
		w.wire.err_late = late;
		cr_assert_eq(recv_some(4096), 100);
		do
			n = recv_some(10);
		while (n == -EAGAIN);
		cr_assert_eq(n, -ECONNRESET, "%zd, %u", n, late);
		cr_assert_eq(recv_some(10), 0);
	}
}

Test(rx_end, an_error_that_somebody_else_was_told)
{
	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	w.wire.end = true;
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(recv_some(10), -EAGAIN);
	rsk_rx_told(&w.rx, -EHOSTUNREACH); /* about a packet: nothing has ended */
	cr_assert_eq(recv_some(10), -EAGAIN);
	rsk_rx_told(&w.rx, -ECONNRESET); /* by a send, or as SO_ERROR */
	cr_assert_eq(recv_some(10), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
}

Test(rx_end, on_tcp_a_dead_peer_is_what_the_kernel_says)
{
	on_ring(&at_once, 3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(20), 20);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 20);
	cr_assert_eq(recv_some(4096), 0);
}

/* ---- does the end of the TCP socket count: rsk_rx_end() ---- */

Test(rx_end, the_end_is_behind_what_is_on_its_way)
{
	on_ring(&at_once, 3);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND, "there are bytes, and no last word");
	w.dark = true; /* a slot that has not come, followed by the end */
	cr_assert_eq(send_some(100), 100);
	w.dark = false;
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	memcpy(w.segment[1], w.window[0], BYTES); /* now it has come */
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE);
	cr_assert_eq(rsk_rx_pending(&w.rx, NULL), 200);
	cr_assert_eq(recv_some(150), 150);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE, "a part of a slot is unread");
	cr_assert_eq(recv_some(4096), 50);
	cr_assert_eq(recv_some(4096), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE);
}

Test(rx_end, a_last_word_that_is_not_whole_is_none)
{
	struct rsk_slot_view v;

	on_ring(&at_once, 3);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_ring_peek(&w.rx.ring, &v));
	w.segment[1]
		 [RING + w.rx.ring.next % CELLS * RSK_CELL_BYTES + sizeof(struct rsk_slot_head)]++;
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
}

/* Damages a byte of the slot, as if it had not landed, or restores it. */
static void spoil(uint64_t index, bool on)
{
	static uint8_t was;
	uint8_t *last = w.segment[1] + RING + (index % CELLS) * RSK_CELL_BYTES + 90;

	if (on)
		was = *last;
	*last = on ? (uint8_t)~was : was;
}

/* A slot that stays torn is reported as ready in the end: recv has to return the error. */
Test(rx_end, a_torn_slot_shows_when_it_is_stuck)
{
	uint64_t at;
	int looks = 0;

	on_ring(&at_once, 3);
	at = w.rx.ring.next;
	cr_assert_eq(send_some(100), 100);
	spoil(at, true);
	for (int i = 0; i < 40; i++)
		cr_assert_not(rsk_rx_ready(&w.rx));
	spoil(at, false);
	cr_assert_eq(rsk_rx_pending(&w.rx, NULL), 100);
	cr_assert_eq(recv_some(100), 100);

	/* Checks of that slot do not count for the next one. */
	at = w.rx.ring.next;
	cr_assert_eq(send_some(100), 100);
	spoil(at, true);
	while (!rsk_rx_ready(&w.rx))
		cr_assert_lt(++looks, 1000);
	cr_assert_gt(looks, 40);
}

/* A slot with others before it is under way, however often those are checked. */
Test(rx_end, a_torn_slot_behind_others_is_never_counted)
{
	uint64_t behind;

	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	behind = w.tx.ring.next;
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	spoil(behind, true);
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(rsk_rx_pending(&w.rx, NULL), 100);
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	}
	spoil(behind, false);
	cr_assert_eq(rsk_rx_pending(&w.rx, NULL), 200);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_HERE);
}

Test(rx_end, who_moved_on_ends_by_the_tcp_socket)
{
	on_ring(&at_once, 3);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
}

Test(rx_end, nothing_more_comes_from_the_dead_or_by_a_broken_rail)
{
	uint64_t pos, cell;

	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
	on_ring(&at_once, 3);
	cr_assert_eq(send_some(100), 100);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
}

Test(rx_end, who_quiesces_waits_for_the_answer)
{
	on_ring(&far, 10);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
}

Test(tx_end, what_has_arrived_is_remembered_for_who_cannot_ask)
{
	on_ring(&far, 3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(100), 100);
	cr_assert_not(rsk_tx_secure(&w.tx)); /* still on the ring */
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	w.unheard = true;
	cr_assert_not(rsk_tx_secure(&w.tx));
	cr_assert_eq(send_some(20), -EAGAIN);
	w.unheard = false;
	cr_assert(rsk_tx_secure(&w.tx));
	/*
	 * A child's rail carries nothing, and no credit may come as long as the peer is a child,
	 * too.
	 */
	w.unheard = true;
	cr_assert_eq(send_some(20), 20);
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(recv_some(4096), 20);
}
