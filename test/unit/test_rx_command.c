// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_command.c - tests when a receiver runs the command in a slot: when its position is
 * reached, and not before, however early the slot has landed. test_rx_harm.c has commands that no
 * honest sender puts.
 */
#include "way_kit.h"

#include "rx_parts.h"

static const uint32_t each[] = { RSK_COMMAND_FIN, RSK_COMMAND_FALLBACK_TX };

static void put_command(uint32_t what)
{
	if (what == RSK_COMMAND_FIN)
		cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
	else
		cr_assert_eq(rsk_tx_fall_back(&w.tx, &w.wire.c), 0);
}

/* Also where something other than a read lets the receiver check for commands. */
static bool has_run(uint32_t what)
{
	cr_assert_eq(rsk_rx_run_commands(&w.rx), 0);
	cr_assert(rsk_rx_validate(&w.rx));
	return what == RSK_COMMAND_FIN ? w.rx.fin : w.rx.state == RSK_RX_TCP;
}

Test(rx_command, waits_for_what_is_not_read_yet)
{
	for (int i = 0; i < 2; i++) {
		uint64_t at;

		on_ring(&far, 7);
		cr_assert_eq(send_some(20), 20);
		cr_assert_eq(send_some(5), 5);
		at = w.tx.pos;
		put_command(each[i]);
		cr_assert_not(has_run(each[i]), "before the first slot");
		cr_assert_eq(recv_some(10), 10);
		cr_assert_not(has_run(each[i]), "within a slot");
		cr_assert_eq(recv_some(10), 10);
		cr_assert_not(has_run(each[i]), "between two slots");
		cr_assert_eq(recv_some(4), 4);
		cr_assert(w.rx.pos == at - 1 && !has_run(each[i]), "one byte before its position");
		cr_assert_eq(recv_some(1), 1);
		cr_assert(w.rx.pos == at && has_run(each[i]));
	}
}

/* Over several rails it may land before the bytes in front of it: its place is behind theirs. */
Test(rx_command, waits_for_what_has_not_landed_yet)
{
	for (int i = 0; i < 2; i++) {
		on_ring(&far, 7);
		cr_assert_eq(send_some(3), 3);
		w.dark = true;
		cr_assert_eq(send_some(5), 5);
		w.dark = false;
		put_command(each[i]);
		cr_assert(rsk_rx_has_command(&w.rx), "it has landed");
		cr_assert_eq(recv_some(3), 3);
		cr_assert_eq(recv_some(10), -EAGAIN);
		cr_assert_not(has_run(each[i]));
		cr_assert_eq(rsk_ring_tx_reput(&w.tx.ring, w.rx.ring.next), 0);
		cr_assert_not(has_run(each[i]), "landed, and not read");
		cr_assert_eq(recv_some(10), 5);
		cr_assert(has_run(each[i]));
	}
}
