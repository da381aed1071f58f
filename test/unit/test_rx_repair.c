// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rx_repair.c - tests a slot that has landed and is damaged in the receiver's memory: it comes
 * again, once, or as often as it is damaged; then by TCP; and the stream ends only where neither is
 * possible. No byte is wrong, whatever the damage.
 */
#include "rx_parts.h"
#include "tx_parts.h"
#include "way_kit.h"

#define ROUNDS 100 /* more than any repair takes */

static uint8_t *slot_at(uint64_t index)
{
	return w.segment[1] + RING + (index & (CELLS - 1)) * RSK_CELL_BYTES;
}

/* Damages the slot at @index: a byte of its payload, hash, head; 0 to 7: of its index. */
static void harm(uint64_t index, size_t byte)
{
	slot_at(index)[byte] ^= 0x10;
}

#define IN_PAYLOAD RSK_SLOT_FRAME_BYTES
#define IN_HASH RSK_SLOT_HEAD_BYTES
#define IN_LEN 8u
#define IN_KIND 12u
#define BEYOND 10u /* the length is more than a slot's */

/* What the two progress threads do: the receiver's checks, the sender's serves. */
static int round_of_both(void)
{
	int rc = rsk_rx_recheck(&w.rx);

	cr_assert(rsk_rx_validate(&w.rx));
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_tx_validate(&w.tx));
	return rc;
}

/* Receives up to @len bytes, which must be @byte; 0: all of one path. */
static ssize_t get(size_t len, uint8_t byte)
{
	static uint8_t in[4096];
	struct iovec iov = { in, len };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = rsk_rx_recv(&w.rx, &w.wire.c, &cur, false, true);
	cr_assert(rsk_rx_validate(&w.rx));
	if (!byte)
		byte = in[0] == 'r' ? 'r' : 'c';
	for (ssize_t i = 0; i < n; i++)
		cr_assert_eq(in[i], byte, "byte %zd of %zd: %c", i, n, in[i]);
	return n;
}

/* Rounds until the reader has something; the slot at @index is damaged at each, so often. */
static ssize_t rounds(uint64_t index, size_t byte, uint32_t times)
{
	uint32_t answered = w.tx.repair.answered;
	ssize_t n = -EAGAIN;

	for (int i = 0; i < ROUNDS && n == -EAGAIN; i++) {
		round_of_both();
		if (w.tx.repair.answered != answered && times) {
			times--;
			answered = w.tx.repair.answered;
			harm(index, byte);
		}
		n = get(4096, 0);
	}
	return n;
}

Test(rx_repair, comes_again_for_a_reader_that_sleeps)
{
	static const size_t where[] = { IN_PAYLOAD, IN_HASH, IN_LEN, IN_KIND, BEYOND, 0, 1, 7 };

	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		on_ring(&far, 7);
		cr_assert_eq(send_some(5), 5);
		harm(w.rx.ring.next, where[i]);
		cr_assert_eq(get(4096, 'r'), -EAGAIN);
		cr_assert(rsk_rx_torn(&w.rx));
		cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
		cr_assert_eq(w.rx.own.word.repair, 0, "asked at the first check");
		cr_assert_eq(rounds(0, 0, 0), 5, "%zu", i);
		cr_assert_eq(w.rx.own.word.repair, 1);
		cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
		cr_assert_eq(w.rx.state, RSK_RX_ONRING);
		cr_assert_eq(w.tx.counts.demotions, 0);
	}
}

/* What an earlier lap has left at the place of the next slot is no slot that hides. */
Test(rx_repair, nothing_hides_in_what_is_left)
{
	uint32_t lens[] = { 5, 100, 230, 1000 };

	on_ring(&far, 7);
	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t len = lens[i * 7 / 3 % 4];

		cr_assert_eq(send_some(len), (ssize_t)len);
		cr_assert_eq(get(4096, 'r'), (ssize_t)len);
		cr_assert_not(rsk_rx_torn(&w.rx), "%u", i);
		cr_assert_eq(rsk_rx_recheck(&w.rx), 0);
		rsk_rx_give_credit(&w.rx, true);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	}
	cr_assert_eq(w.rx.own.word.repair, 0);
}

/* A slot may hide behind another one, which is taken, and a command may. */
Test(rx_repair, what_hides_is_asked_for)
{
	for (int fin = 0; fin < 2; fin++) {
		uint64_t second;

		on_ring(&far, 7);
		cr_assert_eq(send_some(5), 5);
		second = w.tx.ring.next;
		if (fin)
			cr_assert_eq(rsk_tx_fin(&w.tx, &w.wire.c), 0);
		else
			cr_assert_eq(send_some(300), 300);
		harm(second, 0);
		cr_assert_eq(get(4096, 'r'), 5);
		cr_assert(rsk_rx_torn(&w.rx));
		for (int i = 0; i < 4; i++)
			round_of_both();
		cr_assert_eq(get(4096, 'r'), fin ? 0 : 300);
		cr_assert_eq(w.rx.fin, fin);
	}
}

/* A reader that checks all the time needs no progress thread; nor does one that peeks, or polls. */
Test(rx_repair, comes_again_for_a_reader_that_calls)
{
	for (int how = 0; how < 3; how++) {
		ssize_t n = -EAGAIN;

		on_ring(&far, 7);
		cr_assert_eq(send_some(5), 5);
		harm(w.rx.ring.next, IN_PAYLOAD);
		for (int i = 0; i < 3 * RSK_RX_BAD_CHECKS && n == -EAGAIN; i++) {
			static uint8_t in[8];
			struct iovec iov = { in, sizeof(in) };
			struct rsk_iovcur cur;

			rsk_iovcur_init(&cur, &iov, 1);
			if (how < 2 || rsk_rx_ready(&w.rx))
				n = rsk_rx_recv(&w.rx, &w.wire.c, &cur, how == 1, true);
			cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		}
		cr_assert_eq(n, 5, "%d", how);
	}
}

Test(rx_repair, as_often_as_it_is_damaged)
{
	for (uint32_t times = 1; times < RSK_RX_REPAIRS; times++) {
		uint64_t first;

		on_ring(&far, 7);
		first = w.rx.ring.next;
		cr_assert_eq(send_some(5), 5);
		cr_assert_eq(send_some(6), 6);
		harm(first, IN_PAYLOAD);
		cr_assert_eq(rounds(first, IN_PAYLOAD, times), 11, "%u", times);
		cr_assert_eq(w.rx.own.word.repair, times + 1);
		cr_assert_eq(w.rx.state, RSK_RX_ONRING);
	}
}

/*
 * For ever: the sender repeats by TCP, from its own copy, in order, and before anything newer. The
 * stream may be promoted again, and a new slot be repaired there.
 */
Test(rx_repair, damaged_for_ever_goes_by_tcp)
{
	static const size_t where[] = { IN_PAYLOAD, IN_HASH, IN_LEN, IN_KIND, BEYOND, 0, 1, 7 };

	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		uint64_t first;

		on_ring(&far, 7);
		cr_assert_eq(send_some(4), 4);
		cr_assert_eq(get(4096, 'r'), 4);
		first = w.rx.ring.next;
		cr_assert_eq(send_some(5), 5);
		cr_assert_eq(send_some(300), 300);
		harm(first, where[i]);
		cr_assert_eq(rounds(first, where[i], UINT32_MAX), 305, "%zu", i);
		cr_assert_eq(w.rx.state, RSK_RX_TCP);
		cr_assert_eq(w.rx.pos, 7 + 4 + 305);
		cr_assert_eq(w.tx.pos, w.rx.pos);
		cr_assert_eq(w.tx.ring_bytes, 4);
		cr_assert_eq(send_some(2), 2);
		cr_assert_eq(get(4096, 'c'), 2);
		cr_assert_eq(rsk_tx_propose(&w.tx), 0);
		cr_assert_eq(get(1, 'c'), -EAGAIN);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(get(1, 'c'), -EAGAIN);
		cr_assert_eq(w.rx.state, RSK_RX_ONRING);
		first = w.rx.ring.next;
		cr_assert_eq(send_some(9), 9);
		harm(first, where[i]);
		cr_assert_eq(rounds(0, 0, 0), 9, "%zu", i);
	}
}

/* Nothing is put twice while the first copy may be under way, and one request is enough. */
Test(rx_repair, waits_until_everything_has_arrived)
{
	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	harm(w.rx.ring.next, IN_PAYLOAD);
	w.unheard = true;
	for (int i = 0; i < ROUNDS; i++)
		cr_assert_eq(round_of_both(), 1);
	cr_assert(rsk_tx_repair_due(&w.tx));
	cr_assert_eq(w.rx.own.word.repair, 1);
	cr_assert_eq(get(4096, 'r'), -EAGAIN);
	w.unheard = false;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_not(rsk_tx_repair_due(&w.tx));
	cr_assert_eq(get(4096, 'r'), 5);
}

/* A slot that was only late: the request is withdrawn with the credit, and nothing is put again. */
Test(rx_repair, a_slot_that_was_late_is_not_put_again)
{
	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	harm(w.rx.ring.next, IN_PAYLOAD);
	w.unheard = true;
	for (int i = 0; i < 4; i++)
		round_of_both();
	cr_assert(rsk_tx_repair_due(&w.tx));
	harm(w.rx.ring.next, IN_PAYLOAD); /* right again */
	cr_assert_eq(get(4096, 'r'), 5);
	w.unheard = false;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_not(rsk_tx_repair_due(&w.tx));
	cr_assert_eq(w.tx.repair.times, 0);
	cr_assert_eq(w.tx.ring.twice_from, UINT64_MAX);
}

/* The cells of a slot that was put twice are free only when both copies have landed. */
Test(rx_repair, nothing_newer_overtakes_the_second_copy)
{
	uint64_t first;

	on_ring(&far, 7);
	first = w.rx.ring.next;
	cr_assert_eq(send_some(5), 5);
	harm(first, IN_PAYLOAD);
	round_of_both();
	round_of_both();
	w.unheard = true;
	cr_assert_eq(w.tx.ring.twice_from, first);
	cr_assert_eq(get(4096, 'r'), 5);
	rsk_rx_give_credit(&w.rx, true);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_gt(w.tx.ring.told, first);
	cr_assert_eq(w.tx.ring.credit, first);
	w.unheard = false;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.ring.credit, w.rx.ring.next);
}

/* The damaged slot is behind one that was taken in part, and the reader peeks at both. */
Test(rx_repair, behind_a_partial_slot)
{
	static uint8_t in[16];
	struct iovec iov = { in, sizeof(in) };
	struct rsk_iovcur cur;
	ssize_t n = 0;

	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	cr_assert_eq(send_some(6), 6);
	cr_assert_eq(get(2, 'r'), 2);
	cr_assert_gt(w.rx.partial.len, 0);
	harm(w.rx.ring.next, IN_PAYLOAD);
	for (int i = 0; i < ROUNDS && n != 9; i++) {
		rsk_iovcur_init(&cur, &iov, 1);
		n = rsk_rx_recv(&w.rx, &w.wire.c, &cur, true, true);
		cr_assert_geq(n, 3);
		cr_assert_leq(round_of_both(), 1);
	}
	cr_assert_eq(n, 9);
	cr_assert_eq(get(4096, 'r'), 9);
}

/* ---- the sender has left the ring, or has ended ---- */

Test(rx_repair, before_a_command)
{
	for (int fin = 0; fin < 2; fin++) {
		uint64_t first;

		on_ring(&far, 7);
		first = w.rx.ring.next;
		cr_assert_eq(send_some(5), 5);
		cr_assert_eq(fin ? rsk_tx_fin(&w.tx, &w.wire.c) :
				   rsk_tx_fall_back(&w.tx, &w.wire.c),
			     0);
		harm(first, IN_PAYLOAD);
		cr_assert_eq(rounds(first, IN_PAYLOAD, 2), 5);
		if (fin)
			cr_assert_eq(get(4096, 'r'), 0);
		cr_assert(fin ? w.rx.fin : w.rx.state == RSK_RX_TCP);
	}
}

Test(rx_repair, the_command_itself)
{
	for (int fin = 0; fin < 2; fin++) {
		on_ring(&far, 7);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		cr_assert_eq(fin ? rsk_tx_fin(&w.tx, &w.wire.c) :
				   rsk_tx_fall_back(&w.tx, &w.wire.c),
			     0);
		harm(w.rx.ring.next, IN_PAYLOAD);
		cr_assert_eq(get(4096, 'r'), -EAGAIN);
		for (int i = 0; i < 4; i++)
			round_of_both();
		cr_assert_eq(get(4096, 'r'), fin ? 0 : -EAGAIN);
		cr_assert(fin ? w.rx.fin : w.rx.state == RSK_RX_TCP);
	}
}

/*
 * For ever: what follows may be on the TCP socket, so it is the end, reported to a call, and to the
 * progress thread.
 */
Test(rx_repair, for_ever_before_a_command_is_the_end)
{
	for (int how = 0; how < 6; how++) {
		bool fin = how & 1, all = how & 2, calls = how >= 4;
		int rc = 1;
		uint64_t first;

		on_ring(&far, 7);
		first = w.rx.ring.next;
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		if (!all)
			cr_assert_eq(send_some(5), 5);
		cr_assert_eq(fin ? rsk_tx_fin(&w.tx, &w.wire.c) :
				   rsk_tx_fall_back(&w.tx, &w.wire.c),
			     0);
		for (int i = 0; i < 100 * ROUNDS && rc >= 0; i++) {
			slot_at(first)[IN_PAYLOAD] = (uint8_t)(i | 0x80);
			rc = calls ? (int)get(4096, 'r') : rsk_rx_recheck(&w.rx);
			if (rc == -EAGAIN)
				rc = 0;
			cr_assert_leq(rc, 1);
			cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
		}
		cr_assert_eq(rc, -EPROTO, "%d", how);
		cr_assert_eq(w.rx.pos, 7);
		cr_assert_not(w.rx.fin);
		cr_assert(rsk_rx_validate(&w.rx));
	}
}

/* The rail broke after the slot was found whole: nothing is put there any more. */
Test(rx_repair, behind_a_break_it_is_the_end)
{
	uint64_t pos, cell;

	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	rsk_rx_break(&w.rx, &pos, &cell);
	cr_assert_eq(pos, 12);
	harm(w.rx.ring.next, IN_PAYLOAD);
	cr_assert_eq(rsk_rx_recheck(&w.rx), 1);
	cr_assert_eq(rsk_rx_recheck(&w.rx), -EPROTO);
}

/* Before the sender has heard of the break, or in RESEND, it puts nothing into that ring. */
Test(rx_repair, a_request_before_a_break_is_void)
{
	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	harm(w.rx.ring.next, IN_PAYLOAD);
	rsk_rx_recheck(&w.rx);
	rsk_rx_recheck(&w.rx);
	rsk_tx_break(&w.tx);
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_not(rsk_tx_repair_due(&w.tx));
	cr_assert_eq(w.tx.repair.times, 0);
}

/* In a child, which cannot put, a request changes nothing. */
Test(rx_repair, mute)
{
	on_ring(&far, 7);
	cr_assert_eq(send_some(5), 5);
	harm(w.rx.ring.next, IN_PAYLOAD);
	rsk_rx_recheck(&w.rx);
	w.mute = true;
	rsk_rx_recheck(&w.rx);
	cr_assert_eq(w.rx.own.word.repair, 0);
	w.mute = false;
	rsk_rx_recheck(&w.rx);
	w.mute = true;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert_eq(w.tx.state, RSK_TX_ONRING);
}
