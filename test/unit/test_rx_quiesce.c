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

/* The same, with 6 of 10 bytes unread that come by TCP before the ring's. */
static void quiesced_before_the_ring(size_t put_len)
{
	world_init(&far, 5);
	cr_assert_eq(send_some(10), 10);
	cr_assert_eq(recv_some(4), 4);
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_eq(w.rx.state, RSK_RX_WATCH);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(send_some(put_len), (ssize_t)put_len);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_eq(w.rx.state, RSK_RX_DRAIN_TCP);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
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
	cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx)), 0);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(recv_some(4096), 70);
}

/* Nothing is read until the answer is found: nor do the TCP socket's bytes count as readable. */
Test(rx_quiesce, before_the_ring)
{
	quiesced_before_the_ring(100);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_not(rsk_rx_ready(&w.rx));
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
	answer();
	cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
	cr_assert_eq(recv_some(4096), 106);
}

/* The rail breaks when all is retransmitted, and the answer was not looked at yet. */
Test(rx_quiesce, an_answer_that_is_found_at_the_break)
{
	for (int seen = 0; seen < 2; seen++) {
		uint64_t pos, cell;

		quiesced_before_the_ring(100);
		answer();
		answer();
		cr_assert_eq(w.tx.state, RSK_TX_TCP);
		cr_assert_eq(w.wire.in, 110);
		if (seen)
			cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
		rsk_tx_break(&w.tx);
		rsk_rx_break(&w.rx, &pos, &cell);
		cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx)), 0,
			     "%d: nothing is missing", seen);
		cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
		cr_assert_eq(recv_some(4096), 106);
	}
}

/* An answer that breaks the rules is found at the break: the report still says what is missing. */
Test(rx_quiesce, an_answer_that_is_refused_at_the_break)
{
	struct rsk_slot_command bad = { .pos = 39, .what = RSK_COMMAND_RETRANSMIT, .gen = 1 };
	uint64_t pos, cell;

	quiesced(100, 30);
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &bad), 0);
	rsk_rx_break(&w.rx, &pos, &cell);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 70, "of the slot that was read in part");
	cr_assert_eq(recv_some(4096), -EAGAIN, "more may be missing");
}

/* The reader has left for good, and the rail breaks: RETRANSMIT had said how much is to come. */
Test(rx_quiesce, a_sender_that_is_gone_before_it_reports)
{
	uint64_t pos, cell;
	bool again;

	for (int all = 0; all < 2; all++) {
		quiesced(100, 30);
		answer();
		cr_assert_eq(rsk_rx_fall_back(&w.rx, false, &again), 0);
		cr_assert(again);
		if (!all)
			w.wire.in -= 10;
		rsk_rx_break(&w.rx, &pos, &cell);
		rsk_rx_lose(&w.rx);
		w.wire.end = true;
		cr_assert_eq(recv_some(4096), all ? 70 : 60);
		cr_assert_eq(recv_some(4096), all ? 0 : -ECONNRESET);
	}
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

/*
 * The sender is killed after its answer, when it has retransmitted nothing, a part, or everything.
 * The end that the kernel then reports is in order only if nothing is missing before it.
 */
Test(rx_quiesce, a_sender_that_is_killed_between_answer_and_repetition)
{
	static const size_t repeated[] = { 0, 1, 69, 70 };

	for (int how = 0; how < 3; how++)
		for (size_t i = 0; i < sizeof(repeated) / sizeof(repeated[0]); i++) {
			size_t n = repeated[i];

			quiesced(100, 30);
			w.wire.narrow = true;
			w.wire.room = n;
			w.unheard = !n;
			answer();
			cr_assert_eq(w.wire.in, 10 + n);
			if (how == 0)
				cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
			else if (how == 1)
				cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
			w.wire.end = true;
			rsk_rx_lose(&w.rx);
			if (n)
				cr_assert_eq(recv_some(4096), (ssize_t)n);
			cr_assert_eq(recv_some(4096), n < 70 ? -ECONNRESET : 0, "%d, %zu", how, n);
			cr_assert_eq(recv_some(4096), 0, "once");
		}
}

/* After a fork: another process has read some of it, and nothing is missing. */
Test(rx_quiesce, what_is_repeated_is_read_by_another_process)
{
	quiesced(100, 30);
	answer();
	cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
	cr_assert_eq(recv_some(20), 20);
	w.wire.out += 50;
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 0);
}

/* The same, and the end is one of this end's own, which is in order. */
Test(rx_quiesce, a_reader_that_shuts_down_between_answer_and_repetition)
{
	quiesced(100, 30);
	w.unheard = true;
	answer();
	cr_assert_eq(rsk_rx_quiesce(&w.rx), 0);
	w.wire.end = w.wire.own_end = true;
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_quiesce, an_answer_that_was_not_asked_for_is_refused)
{
	struct rsk_slot_command again = { .pos = 10, .what = RSK_COMMAND_RETRANSMIT, .gen = 1 };

	on_ring(&far, 10);
	cr_assert_eq(rsk_ring_put_command(&w.tx.ring, &w.tx.key, &again), 0);
	cr_assert_eq(recv_some(4096), -EPROTO);

	quiesced(100, 30);
	again.pos = 39; /* 40 is read */
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

/* ---- the answer is damaged ---- */

/* Damages the command in the ring, and, if asked, the control word that says the same. */
static void harm_answer(bool word_too)
{
	uint64_t command = w.tx.ring.next - rsk_slot_cells(sizeof(struct rsk_slot_command));

	w.segment[1][RING + (command & (CELLS - 1)) * RSK_CELL_BYTES + RSK_SLOT_FRAME_BYTES] ^= 1;
	if (word_too)
		w.segment[1][WORD_TX + offsetof(struct rsk_control_word, pos)] ^= 1;
}

static void by_tcp_again(size_t len)
{
	cr_assert_eq(w.rx.state, RSK_RX_TCP);
	cr_assert_eq(recv_some(4096), (ssize_t)len);
	cr_assert_eq(send_some(5), 5);
	cr_assert_eq(recv_some(4096), 5);
	cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(recv_some(1), -EAGAIN);
	answer();
	cr_assert_eq(send_some(40), 40);
	cr_assert_eq(recv_some(4096), 40);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
}

/* One of the two is enough, whichever is damaged, and whoever looks. */
Test(rx_quiesce, an_answer_that_is_damaged_in_the_ring)
{
	for (int how = 0; how < 3; how++) {
		quiesced(100, 30);
		answer();
		harm_answer(false);
		if (how == 0)
			cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
		else if (how == 1)
			cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
		else
			rsk_rx_lose(&w.rx);
		cr_assert_eq(w.rx.state, RSK_RX_TCP, "%d", how);
		cr_assert(w.rx.fallback.repeated);
		cr_assert_eq(w.rx.ring.next, w.tx.ring.next);
		if (how < 2)
			by_tcp_again(70);
		else
			cr_assert_eq(recv_some(4096), 70);
	}
}

/* Both: the sender says it again, as often as it is asked, also when it has retransmitted. */
Test(rx_quiesce, an_answer_that_is_damaged_each_time)
{
	quiesced(100, 30);
	cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
	answer();
	for (uint32_t i = 0; i < 40; i++) {
		harm_answer(true);
		cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
		cr_assert_eq(recv_some(4096), -EAGAIN);
		cr_assert(rsk_rx_torn(&w.rx));
		harm_answer(false); /* right again, for the next round */
		cr_assert(rsk_rx_ask_answer(&w.rx));
		cr_assert(rsk_rx_repair_open(&w.rx));
		answer();
		cr_assert_eq(w.wire.in, 10 + 70);
	}
	harm_answer(false);
	cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
	by_tcp_again(70);
	cr_assert_eq(w.tx.repair.times, 0, "a slot was put again");
}

/* The request was damaged in the sender's memory: it is asked again as well. */
Test(rx_quiesce, a_request_that_is_damaged)
{
	quiesced(100, 30);
	w.segment[0][WORD_RX + offsetof(struct rsk_control_word, pos)] ^= 1;
	answer();
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
	cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
	cr_assert(rsk_rx_ask_answer(&w.rx));
	answer();
	cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
	by_tcp_again(70);
}

/*
 * The sender had left the ring, in its first promotion or a later one, and its command is damaged
 * for as long as the receiver is quiesced: it reads on in the ring, where damage is seen.
 */
Test(rx_quiesce, whose_sender_had_moved_and_its_command_is_damaged)
{
	for (int later = 0; later < 2; later++) {
		on_ring(&far, 10);
		if (later) {
			answer();
			cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
			cr_assert_eq(recv_some(1), -EAGAIN);
			rsk_rx_give_credit(&w.rx, true);
			answer();
			cr_assert_eq(rsk_tx_propose(&w.tx), 0);
			cr_assert_eq(recv_some(1), -EAGAIN);
			answer();
			cr_assert_eq(recv_some(1), -EAGAIN);
			cr_assert_eq(w.rx.state, RSK_RX_ONRING);
		}
		answer();
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(7), 7);
		harm_answer(false);
		cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
		cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
		answer(); /* puts it again, */
		harm_answer(false);
		cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
		cr_assert(rsk_rx_ask_answer(&w.rx));
		answer(); /* and again */
		harm_answer(false);
		rsk_rx_recheck(&w.rx);
		cr_assert_not(rsk_rx_is_quiesced(&w.rx));
		for (int i = 0; i < 4; i++) {
			rsk_rx_recheck(&w.rx);
			answer();
		}
		cr_assert_eq(recv_some(4096), 7, "%d", later);
	}
}

/* What no correct sender says. */
Test(rx_quiesce, an_answer_by_control_word_is_checked)
{
	static const struct {
		int64_t pos, cells;
		uint32_t gen;
		int rc;
	} bad[] = { { -1, 0, 0, -EPROTO },
		    { CELLS * RSK_CELL_BYTES, 0, 0, -EPROTO },
		    { INT64_MIN, 0, 0, -EPROTO },
		    { 0, -2 * (int64_t)CELLS, 0, -EPROTO },
		    { 0, 2 * (int64_t)CELLS, 0, -EPROTO },
		    { 0, INT64_MAX, 0, -EPROTO },
		    { 0, 0, 1, 0 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct rsk_control_word m = { .what = RSK_TX_RETRANSMIT };

		quiesced(100, 30);
		m.gen = w.rx.gen + bad[i].gen;
		m.pos = w.rx.fallback.pos + (uint64_t)bad[i].pos;
		m.cells = w.rx.ring.next + 3 + (uint64_t)bad[i].cells;
		m.hash = rsk_hash_control_word(&w.rx.key, &m, RSK_CONTROL_WORD_TX);
		memcpy(w.segment[1] + WORD_TX, &m, sizeof(m));
		cr_assert_eq(rsk_rx_recheck(&w.rx), bad[i].rc ? bad[i].rc : 1, "%zu", i);
		cr_assert(rsk_rx_validate(&w.rx));
	}
}
