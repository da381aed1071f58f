// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_quiesce.c - tests a receiver that quiesces (stream/ring/rx_quiesce.c): what it has to
 * read from the ring, what it leaves to the TCP socket, and what its sender answers.
 */
#include "way_kit.h"

/* Puts @put_len bytes by the ring, reads @read_len of them, and quiesces the receiver. */
static void quiesced(size_t put_len, size_t read_len)
{
	on_ring(&far, 10);
	cr_assert_eq(send_some(put_len), (ssize_t)put_len);
	cr_assert_eq(recv_some(read_len), (ssize_t)read_len);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
}

static void answer(void)
{
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_tx_validate(&w.tx));
}

Test(rx_quiesce, one_that_quiesces_has_all_that_is_unread_by_tcp)
{
	quiesced(100, 30);
	w.unheard = true;
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_HELD);
	cr_assert_eq(w.wire.in, 10, "repeated before the answer was known to be there");
	cr_assert_eq(send_some(5), -EAGAIN, "newer bytes before it");
	cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert(w.rx.fallback.repeated);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	w.unheard = false;
	cr_assert_eq(send_some(5), 5);
	cr_assert_eq(w.wire.in, 10 + 70 + 5);
	cr_assert_eq(recv_some(4096), 75);
	/* Back to the ring, after both ends have agreed again. */
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(recv_some(1), -EAGAIN);
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert_eq(w.wire.in, 85);
}

Test(rx_quiesce, nothing_unread_is_nothing_repeated)
{
	quiesced(100, 100);
	answer();
	cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
	cr_assert_not(w.rx.fallback.repeated);
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(w.wire.in, 10);
}

Test(rx_quiesce, whose_sender_had_moved_is_read_here)
{
	on_ring(&far, 10);
	cr_assert_eq(send_some(100), 100);
	w.dark = true; /* under way */
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	w.dark = false;
	w.tx.answered = RSK_ANSWERED_SWITCHED;
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	answer();
	cr_assert_eq(send_some(7), 7);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EBUSY);
	cr_assert_eq(recv_some(4096), 107);
}

Test(rx_quiesce, whose_sender_had_moved_with_nothing_unread_may_pause)
{
	on_ring(&far, 10);
	w.dark = true; /* the command is under way */
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	w.dark = false;
	w.tx.answered = RSK_ANSWERED_SWITCHED;
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_not(rsk_rx_is_quiesced(&w.rx));
	cr_assert_eq(rsk_rx_pause(&w.rx), 0);
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(send_some(7), 7);
	cr_assert_eq(recv_some(4096), 7);
}

Test(rx_quiesce, a_rail_that_breaks_is_an_answer)
{
	uint64_t pos, cell;

	quiesced(100, 30);
	w.dark = true;
	answer();
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(pos, 40);
	cr_assert_not(rsk_rx_is_quiesced(&w.rx));
	rsk_tx_break(&w.tx);
	cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx)), 0);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(recv_some(4096), 70);
}

Test(rx_quiesce, who_quiesces_reads_on_when_its_sender_is_dead)
{
	quiesced(100, 30);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 70);
	cr_assert_eq(recv_some(4096), -EAGAIN);

	quiesced(100, 30);
	answer();
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 70, "it had answered, and that lay here");
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_quiesce, an_answer_that_was_not_asked_for_is_refused)
{
	struct rsk_slot_command again = { .pos = 10, .what = RSK_COMMAND_RETRANSMIT, .gen = 1 };

	on_ring(&far, 10);
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &again), 0);
	cr_assert_eq(recv_some(4096), -EPROTO);

	quiesced(100, 30);
	again.pos = 39;
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &again), 0);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EPROTO);
	cr_assert(rsk_rx_validate(&w.rx));
}

/* A child works on a copy of its parent's machines, and takes nothing away from the parent. */
Test(rx_quiesce, a_child_changes_nothing)
{
	on_ring(&far, 10);
	cr_assert_eq(send_some(100), 100);
	w.mute = true;
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EBUSY);
	cr_assert_not(rsk_rx_is_quiesced(&w.rx));
	w.tx.answered = RSK_ANSWERED_SWITCHED;
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), -EAGAIN);
	cr_assert_eq(send_some(100), -EAGAIN);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);

	w.mute = false;
	cr_assert_eq(recv_some(30), 30);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	w.mute = true;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), -EAGAIN, "its parent has to answer");
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert(rsk_tx_validate(&w.tx) && rsk_rx_validate(&w.rx));
	w.mute = false;
	answer();
	cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
	cr_assert_eq(recv_some(4096), 70);
}
