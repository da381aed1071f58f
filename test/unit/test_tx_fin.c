// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tx_fin.c - tests a sender that is shut down while it has bytes to repeat by TCP: its FIN
 * comes behind the last of them.
 */
#include "way_kit.h"

#define BYTES_SENT 3000

/* As shutdown() does when the TCP socket cannot be shut down at once. */
static void shut(void)
{
	cr_assert(rsk_tx_owes(&w.tx), "nothing is owed, in state %d", w.tx.state);
	rsk_tx_fin_later(&w.tx);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_tx_validate(&w.tx));
	cr_assert_eq(w.wire.shuts, 0);
}

/* Reads to the end of stream. Returns the number of bytes. */
static size_t read_all(void)
{
	size_t total = 0;
	ssize_t n = 1;

	for (int calls = 0; n; calls++) {
		cr_assert_lt(calls, 100, "no end, after %zu bytes", total);
		n = recv_some(500);
		cr_assert(n >= 0 || n == -EAGAIN, "recv: %zd", n);
		total += n > 0 ? (size_t)n : 0;
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert(rsk_tx_validate(&w.tx));
	}
	cr_assert_eq(w.wire.shuts, 1);
	return total;
}

/* The receiver has fallen back with everything unread, and the TCP socket accepts nothing. */
static void owe(void)
{
	bool again = false;

	on_ring(&at_once, 10);
	cr_assert_eq(send_some(BYTES_SENT), BYTES_SENT);
	w.wire.narrow = true;
	cr_assert_eq(rsk_rx_fall_back(&w.rx, false, &again), 0);
	cr_assert(again);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_RESEND);
}

Test(tx_fin, waits_until_all_is_repeated)
{
	owe();
	shut();
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 0, "shut with all still to be repeated");
	w.wire.room = 700;
	cr_assert_eq(read_all(), BYTES_SENT);
}

Test(tx_fin, comes_with_the_call_that_repeats_the_last_byte)
{
	owe();
	shut();
	w.wire.narrow = false;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 1);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 1, "shut twice");
	cr_assert_eq(w.wire.in, 10 + BYTES_SENT);
}

Test(tx_fin, stays_due_where_nobody_can_send_it_now)
{
	owe();
	shut();
	w.wire.narrow = false;
	w.wire.not_mine = true;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 0);
	w.wire.not_mine = false;
	cr_assert_eq(read_all(), BYTES_SENT);
}

/*
 * The receiver has ended the promotion, and its control word with the position to go on from is
 * still to come.
 */
Test(tx_fin, waits_for_the_word_that_says_from_where)
{
	static _Atomic(uint64_t) ended;
	bool again = false;

	on_ring(&at_once, 10);
	atomic_store(&ended, 0);
	w.tx.ended = w.rx.ended = &ended;
	cr_assert_eq(send_some(BYTES_SENT), BYTES_SENT);
	cr_assert(rsk_rx_end_it(&w.rx));
	cr_assert(rsk_tx_owes(&w.tx));
	rsk_tx_fin_later(&w.tx);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 0, "shut, and nobody can repeat any more");
	cr_assert_eq(rsk_rx_fall_back(&w.rx, false, &again), 0);
	cr_assert(again);
	cr_assert_eq(read_all(), BYTES_SENT);
}

/*
 * A put has not landed when it returns: what the rail may still lose is repeated by a socket that
 * is not shut down yet.
 */
Test(tx_fin, waits_for_what_is_on_its_way)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	w.unheard = w.dark = true;
	cr_assert_eq(send_some(BYTES_SENT), BYTES_SENT);
	cr_assert(!rsk_tx_owes(&w.tx) && rsk_tx_fin_waits(&w.tx));
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	rsk_tx_fin_later(&w.tx);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 0, "shut with all on its way");
	rsk_tx_break(&w.tx);
	cr_assert_eq(w.tx.state, RSK_TX_BROKEN);
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx));
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(read_all(), BYTES_SENT);
}

Test(tx_fin, comes_when_all_has_arrived)
{
	on_ring(&far, 10);
	w.unheard = true;
	cr_assert_eq(send_some(BYTES_SENT), BYTES_SENT);
	cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	rsk_tx_fin_later(&w.tx);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 0);
	w.unheard = false;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.wire.shuts, 1);
	cr_assert_eq(read_all(), BYTES_SENT);
}

Test(tx_fin, of_a_broken_rail_waits_for_its_repeats)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	w.dark = true;
	cr_assert_eq(send_some(BYTES_SENT), BYTES_SENT);
	rsk_tx_break(&w.tx);
	cr_assert_eq(w.tx.state, RSK_TX_BROKEN);
	shut();
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx));
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(w.wire.shuts, 0);
	cr_assert_eq(read_all(), BYTES_SENT);
}

Test(tx_fin, of_a_broken_rail_with_nothing_to_repeat_comes_at_once)
{
	uint64_t pos, cell;

	on_ring(&far, 10);
	w.unheard = true;
	cr_assert_eq(send_some(100), 100);
	cr_assert_eq(recv_some(4096), 100);
	rsk_tx_break(&w.tx);
	shut();
	rsk_rx_break(&w.rx, &pos, &cell);
	rsk_rx_owe(&w.rx, rsk_tx_owed_to(&w.tx), rsk_tx_ring_end(&w.tx));
	cr_assert_eq(rsk_tx_resume(&w.tx, &w.wire.c, pos, cell), 0);
	cr_assert_eq(w.tx.state, RSK_TX_TCP);
	cr_assert_eq(w.wire.shuts, 1);
}
