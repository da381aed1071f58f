// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_owed.c - tests what is missing before the end of the TCP socket when a rail broke or the
 * sender is gone. The sender reports how far it had put; it may be killed before it has repeated
 * that, or before it can report it.
 */
#include "way_kit.h"

/* Damages the next slot in the receiver's memory. */
static void harm_next(size_t byte)
{
	w.segment[1][RING + (w.rx.ring.next & (CELLS - 1)) * RSK_CELL_BYTES + byte] ^= 1;
}

/*
 * 100 bytes came by the ring, 100 more were put and did not arrive, and the rail broke. Returns
 * what the sender reports.
 */
static uint64_t broken_with_bytes_missing(uint64_t *pos, uint64_t *cell)
{
	on_ring(&at_once, 10);
	cr_assert_eq(send_some(100), 100);
	w.dark = true;
	cr_assert_eq(send_some(100), 100);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, pos, cell);
	cr_assert_eq(recv_some(4096), 100);
	return rsk_tx_owed_to(&w.tx);
}

Test(rx_owed, killed_before_it_repeats)
{
	uint64_t pos, cell, owed = broken_with_bytes_missing(&pos, &cell);

	cr_assert_eq(owed, w.tx.pos);
	rsk_rx_owe(&w.rx, owed, rsk_tx_ring_end(&w.tx));
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), -ECONNRESET);
	cr_assert_eq(recv_some(4096), 0);
}

Test(rx_owed, killed_while_it_repeats)
{
	uint64_t pos, cell, owed = broken_with_bytes_missing(&pos, &cell);

	rsk_rx_owe(&w.rx, owed, rsk_tx_ring_end(&w.tx));
	w.wire.in += 99; /* of 100 */
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 99);
	cr_assert_eq(recv_some(4096), -ECONNRESET);
}

Test(rx_owed, all_is_repeated)
{
	uint64_t pos, cell, owed = broken_with_bytes_missing(&pos, &cell);

	rsk_rx_owe(&w.rx, owed, rsk_tx_ring_end(&w.tx));
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 100);
	cr_assert_eq(recv_some(4096), 0);
}

/*
 * The end has come, and the report of the missing bytes has not. A sender that owes nothing has
 * said so in the ring: without that command bytes are lost.
 */
Test(rx_owed, the_end_waits_for_what_is_owed)
{
	for (int missing = 0; missing < 2; missing++) {
		uint64_t pos, cell, owed = broken_with_bytes_missing(&pos, &cell);

		w.wire.end = true;
		cr_assert_eq(recv_some(4096), -EAGAIN);
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
		cr_assert_not(rsk_rx_ready(&w.rx));
		cr_assert_eq(rsk_rx_owe(&w.rx, missing ? owed : 0, rsk_tx_ring_end(&w.tx)),
			     missing ? 0 : -EPROTO);
		cr_assert_eq(rsk_rx_end(&w.rx), missing ? RSK_RX_END_TCP : RSK_RX_END_BEHIND);
		cr_assert_eq(recv_some(4096), missing ? -ECONNRESET : -EAGAIN);
		cr_assert(!missing || recv_some(4096) == 0);
		rsk_rx_fini(&w.rx);
	}
}

Test(rx_owed, nobody_said_what_is_owed)
{
	uint64_t pos, cell;

	broken_with_bytes_missing(&pos, &cell);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), -EAGAIN);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_TCP);
	cr_assert(rsk_rx_ready(&w.rx));
	cr_assert_eq(recv_some(4096), -ECONNRESET);
}

/*
 * Both were on TCP when the rail broke: the end is a clean one, even if the sender is dead, and
 * whatever is reported.
 */
Test(rx_owed, nothing_is_owed_to_who_was_not_on_the_ring)
{
	uint64_t pos, cell;

	on_ring(&at_once, 3);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx));
	w.wire.end = true;
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), 0);
}

/* The receiver watches: the start of the ring, and what was put there, may be what did not come. */
Test(rx_owed, killed_in_the_middle_of_a_promotion)
{
	for (int in_order = 0; in_order < 2; in_order++) {
		world_init(&at_once, 1);
		cr_assert_eq(rsk_tx_propose(&w.tx), 0);
		cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
		cr_assert_eq(w.rx.state, RSK_RX_WATCH);
		if (in_order)
			rsk_rx_ending(&w.rx, 0);
		w.wire.end = true;
		cr_assert_eq(recv_some(4096), in_order ? 0 : -EAGAIN);
		rsk_rx_lose(&w.rx);
		cr_assert_eq(recv_some(4096), in_order ? 0 : -ECONNRESET);
		cr_assert_eq(recv_some(4096), 0);
		cr_assert(rsk_rx_validate(&w.rx));
	}
}

/*
 * The reader, asked for its position, does not have the stream any more: nothing is repeated, and
 * the sender does not wait.
 */
Test(rx_owed, forgotten_by_its_reader)
{
	uint64_t pos, cell;

	broken_with_bytes_missing(&pos, &cell);
	cr_assert_eq(w.tx.state, RSK_TX_BROKEN);
	cr_assert(rsk_tx_held_back(&w.tx));
	rsk_tx_forgotten(&w.tx);
	cr_assert_not(rsk_tx_held_back(&w.tx));
	cr_assert_eq(send_some(20), 20, "the TCP socket says what TCP says");
	cr_assert(rsk_tx_validate(&w.tx));
}

/*
 * What the TCP socket has after a break may be newer than what is missing: the sender may have left
 * the ring when all had landed, and a slot, or the command, was damaged since. Nothing is read
 * until it has reported. Its report says whether bytes are missing: the command alone does not
 * matter then.
 */
Test(rx_owed, nothing_newer_before_the_report)
{
	enum {
		NOTHING,
		SLOT,
		COMMAND,
		CASES
	};

	for (int how = 0; how < 2 * CASES; how++) {
		int harm = how / 2;
		uint64_t before = how % 2 ? 10 : 0, pos, cell;
		ssize_t first = harm == SLOT ? 0 : 100;

		on_ring(&far, before);
		cr_assert_eq(send_some(100), 100);
		if (harm == SLOT)
			harm_next(RSK_SLOT_FRAME_BYTES);
		else if (harm == COMMAND)
			cr_assert_eq(recv_some(60), 60);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(7), 7);
		if (harm == COMMAND) {
			harm_next(RSK_SLOT_FRAME_BYTES);
			first -= 60;
		}
		rsk_tx_break(&w.tx);
		cr_assert_eq(rsk_tx_owed_to(&w.tx), 0);
		rsk_rx_break(&w.rx, &pos, &cell);
		cr_assert_eq(recv_some(4096), harm ? (first ? first : -EAGAIN) : 107, "%d", how);
		cr_assert_eq(recv_some(4096), -EAGAIN);
		cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx)),
			     harm == SLOT ? -EPROTO : 0, "%d", how);
		cr_assert_eq(recv_some(4096), harm == COMMAND ? 7 : -EAGAIN, "%d", how);
	}
}

/*
 * The receiver watches, since the control word that says where the ring begins is damaged. The
 * sender has put bytes there, and has shut the stream down. Without bytes nothing is missing.
 */
Test(rx_owed, a_ring_that_was_not_seen)
{
	for (int how = 0; how < 4; how++) {
		uint64_t before = how & 1 ? 10 : 0, pos, cell;
		bool some = how & 2;

		world_init(&far, 5);
		if (before) {
			cr_assert_eq(send_some(before), (ssize_t)before);
			cr_assert_eq(recv_some(4096), (ssize_t)before);
		}
		cr_assert_eq(rsk_tx_propose(&w.tx), 0);
		cr_assert_eq(recv_some(1), -EAGAIN);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(w.tx.state, RSK_TX_ONRING);
		w.segment[1][WORD_TX + 8] ^= 1;
		if (some)
			cr_assert_eq(send_some(20), 20);
		cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
		w.wire.end = true;
		cr_assert_eq(w.rx.state, RSK_RX_WATCH);
		rsk_tx_break(&w.tx);
		rsk_rx_break(&w.rx, &pos, &cell);
		cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx)),
			     some ? -EPROTO : 0, "%d", how);
		if (!some)
			cr_assert_eq(recv_some(4096), 0);
	}
}

/*
 * The answer to QUIESCED is damaged, the sender has retransmitted, and the rail breaks: all that
 * this end has not read is on the TCP socket.
 */
Test(rx_owed, retransmitted_unseen)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(recv_some(30), 30);
	cr_assert_eq(rsk_rx_quiesce(&w.rx), -EAGAIN);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(7), 7);
	w.segment[1][WORD_TX + 8] ^= 1;
	harm_next(RSK_SLOT_FRAME_BYTES);
	rsk_tx_break(&w.tx);
	cr_assert_eq(rsk_tx_owed_to(&w.tx), 0);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	cr_assert_eq(rsk_rx_owe(&w.rx, 0, rsk_tx_ring_end(&w.tx)), 0);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(recv_some(4096), 77);
}

/* Another rail: what the first one's ring had was retransmitted, and may be unread still. */
Test(rx_owed, a_second_break_before_the_ring_begins)
{
	uint64_t pos, cell, owed = broken_with_bytes_missing(&pos, &cell);

	cr_assert_eq(rsk_rx_owe(&w.rx, owed, rsk_tx_ring_end(&w.tx)), 0);
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	w.dark = false;
	rsk_rx_renew(&w.rx, 6);
	rsk_tx_renew(&w.tx, 6);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(rsk_tx_propose(&w.tx), 0);
	cr_assert_eq(rsk_rx_serve(&w.rx, &w.wire.c), 0);
	cr_assert_eq(w.rx.state, RSK_RX_WATCH);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx)), 0);
	cr_assert_eq(recv_some(4096), 100);
}

/* A connection that is aborted meanwhile has an error, which no report changes. */
Test(rx_owed, an_error_before_the_report)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(send_some(20), 20);
	cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
	harm_next(RSK_SLOT_FRAME_BYTES);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert(rsk_rx_awaits_report(&w.rx));
	cr_assert_eq(recv_some(4096), -EAGAIN);
	w.wire.err = -ECONNRESET;
	cr_assert_eq(recv_some(4096), -ECONNRESET);
	w.wire.err = 0;
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), 0);
}

/*
 * The sender has left the ring, sent by TCP, and ended; all had landed. If a slot, the command, or
 * the index of a slot, was damaged before it was read, what the TCP socket has is newer than what
 * is missing.
 */
Test(rx_owed, left_and_gone)
{
	enum {
		NOTHING,
		PAYLOAD,
		INDEX,
		HEAD, /* its index and more: it does not show, and is no slot with the right one */
		COMMAND,
		CASES
	};

	for (int how = 0; how < 2 * CASES; how++) {
		int harm = how / 2;

		on_ring(&far, 10);
		cr_assert_eq(send_some(100), 100);
		if (harm == COMMAND)
			cr_assert_eq(recv_some(4096), 100);
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(7), 7);
		if (harm)
			harm_next(harm == INDEX || harm == HEAD ? 0 : RSK_SLOT_FRAME_BYTES);
		if (harm == HEAD)
			harm_next(offsetof(struct rsk_slot_head, kind));
		w.wire.end = true;
		rsk_rx_lose(&w.rx);
		if (how % 2) /* the progress thread is the first that asks the TCP socket */
			rsk_rx_check_tcp(&w.rx, &w.wire.c);
		if (harm == NOTHING) {
			cr_assert_eq(recv_some(4096), 107);
			cr_assert_eq(recv_some(4096), 0);
			continue;
		}
		cr_assert_eq(recv_some(4096), how % 2 ? -ECONNRESET : -EPROTO, "%d", how);
		cr_assert_eq(recv_some(4096), how % 2 ? 0 : -EPROTO, "%d", how);
		cr_assert_eq(w.wire.out, 10, "%d: newer bytes were read", how);
		cr_assert(w.rx.fell_back);
	}
}

/*
 * A slot is damaged, the last rail breaks, and the sender, which had left the ring, ends before it
 * has reported. A sender that had not left it, and had put nothing more, ends as a reset, too: it
 * was not said.
 */
Test(rx_owed, broken_then_gone)
{
	for (int how = 0; how < 8; how++) {
		bool end = how & 1, harm = how & 2, peek = how & 4;
		static uint8_t in[64];
		struct iovec iov = { in, sizeof(in) };
		struct rsk_iovcur cur;
		uint64_t pos, cell;

		on_ring(&far, 10);
		cr_assert_eq(send_some(100), 100);
		cr_assert_eq(recv_some(60), 60);
		cr_assert_eq(send_some(30), 30);
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(57), 57);
		if (harm)
			harm_next(RSK_SLOT_FRAME_BYTES);
		rsk_tx_break(&w.tx);
		rsk_rx_break(&w.rx, &pos, &cell);
		w.wire.end = end;
		rsk_rx_lose(&w.rx);
		cr_assert_eq(recv_some(4096), harm ? 40 : 127);
		rsk_iovcur_init(&cur, &iov, 1);
		if (harm)
			cr_assert_eq(rsk_rx_recv(&w.rx, &w.wire.c, &cur, peek, true), -EPROTO);
		else
			cr_assert_eq(recv_some(4096), end ? -ECONNRESET : -EAGAIN);
		cr_assert_eq(w.wire.out, harm ? 10 : 67);
	}
}

/* The same, but the sender's end comes without newer bytes, or has not come yet. */
Test(rx_owed, broken_then_gone_without_newer_bytes)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(recv_some(100), 100);
	cr_assert_eq(send_some(30), 30);
	harm_next(RSK_SLOT_FRAME_BYTES);
	rsk_tx_break(&w.tx);
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_lose(&w.rx);
	cr_assert_eq(recv_some(4096), -EAGAIN);
	w.wire.end = true;
	cr_assert_eq(recv_some(4096), -ECONNRESET);
	cr_assert_eq(recv_some(4096), 0);
}

/*
 * Whoever reads the TCP socket next, without this machine, would not see that bytes are missing: a
 * program that uses only the kernel's calls, or a relay. Nobody does until the report, nor behind
 * it, if some are missing.
 */
Test(rx_owed, only_the_kernel_before_the_report)
{
	for (int how = 0; how < 6; how++) {
		bool stay = how & 1, again;
		int end =
			how / 2; /* nothing is missing, the report does not say that, none comes */
		uint64_t pos, cell;

		on_ring(&far, 10);
		cr_assert_eq(send_some(100), 100);
		cr_assert_eq(recv_some(4096), 100);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(20), 20);
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
		cr_assert_eq(send_some(7), 7);
		if (!end)
			cr_assert_eq(recv_some(20), 20);
		harm_next(RSK_SLOT_FRAME_BYTES);
		rsk_tx_break(&w.tx);
		rsk_rx_break(&w.rx, &pos, &cell);
		cr_assert_eq(w.rx.state, RSK_RX_TCP);
		cr_assert_not(rsk_rx_drained(&w.rx));
		cr_assert_eq(rsk_rx_fall_back(&w.rx, stay, &again), -EAGAIN);
		cr_assert_not(rsk_rx_ready(&w.rx));
		cr_assert_eq(rsk_rx_end(&w.rx), RSK_RX_END_BEHIND);
		if (end == 2) {
			rsk_rx_lose(&w.rx);
			cr_assert(rsk_rx_drained(&w.rx), "a report is waited for that none sends");
			cr_assert_eq(rsk_rx_fall_back(&w.rx, stay, &again), -EPROTO);
			cr_assert_eq(recv_some(4096), -EPROTO);
			continue;
		}
		cr_assert_eq(rsk_rx_owe(&w.rx, 0, rsk_tx_ring_end(&w.tx)), end ? -EPROTO : 0);
		cr_assert_eq(rsk_rx_drained(&w.rx), !end);
		cr_assert_eq(rsk_rx_fall_back(&w.rx, stay, &again), end ? -EAGAIN : 0);
	}
}
