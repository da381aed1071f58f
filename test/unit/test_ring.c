// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring.c - tests slots in a ring: order, room, commands, laps, restarts; on plain memory,
 * without a state machine above.
 */
#include "chaos.h"
#include "dice.h"
#include "rails.h"
#include "ring_kit.h"

Test(ring, fresh_memory_holds_nothing)
{
	struct rsk_slot_view v;
	struct pair p;

	pair_init(&p);
	pair_check(&p);
	cr_assert_not(rsk_ring_peek(&p.rx, &v));
	memset(p.memory, 0xff, BYTES);
	cr_assert_not(rsk_ring_peek(&p.rx, &v));
	free(p.memory);
}

Test(ring, every_length_through_many_laps)
{
	uint8_t in[BYTES], out[RSK_SLOT_MAX_PAYLOAD];
	uint64_t wrapped = 0, at_end = 0;
	struct pair p;

	pair_init(&p);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = dice_byte(1, i);
	for (size_t len = 1; len < 3000; len++) {
		size_t sent = 0, got = 0;

		while (got < len) {
			ssize_t n = put(&p, in + sent, len - sent);
			uint32_t cell = (uint32_t)(p.rx.next & (CELLS - 1));

			cr_assert(sent == len || n > 0);
			sent += n > 0 ? (size_t)n : 0;
			n = take(&p, out);
			cr_assert_gt(n, 0);
			cr_assert_arr_eq(out, in + got, (size_t)n);
			cr_assert_leq(cell + rsk_slot_cells((uint32_t)n), CELLS,
				      "a slot around the end");
			at_end += cell + rsk_slot_cells((uint32_t)n) == CELLS;
			got += (size_t)n;
			cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
			pair_check(&p);
		}
	}
	wrapped = p.tx.next / CELLS;
	cr_assert_gt(wrapped, 500);
	cr_assert_gt(at_end, 100);
	cr_assert_eq(p.tx.slots, p.rx.slots);
	free(p.memory);
}

/* Each slot has its time, and no length of the payload overlaps with it. */
Test(ring, every_length_with_a_stamp)
{
	uint8_t in[BYTES], out[RSK_SLOT_MAX_PAYLOAD];
	struct pair p;

	pair_init(&p);
	p.tx.stamped = true;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = dice_byte(1, i);
	for (size_t len = 1; len < 3000; len++) {
		size_t got = 0;

		p.tx.stamp_ns = UINT64_C(0x0101010101010101) * (len % 255 + 1);
		for (size_t sent = 0; got < len;) {
			struct rsk_slot_view v = { 0 };
			uint64_t ns = 0;
			ssize_t n = put(&p, in + sent, len - sent);

			cr_assert(sent == len || n > 0);
			sent += n > 0 ? (size_t)n : 0;
			cr_assert(rsk_ring_peek(&p.rx, &v));
			cr_assert_eq(v.head.kind, RSK_SLOT_DATA | RSK_SLOT_STAMPED);
			cr_assert(rsk_slot_is_data(v.head.kind));
			cr_assert_neq(rsk_slot_stamp_off(v.head.len), 0);
			memcpy(&ns, v.at + rsk_slot_stamp_off(v.head.len), sizeof(ns));
			cr_assert_eq(ns, p.tx.stamp_ns, "of %u bytes", v.head.len);
			n = take(&p, out);
			cr_assert_gt(n, 0);
			cr_assert_arr_eq(out, in + got, (size_t)n);
			got += (size_t)n;
			cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
			pair_check(&p);
		}
	}
	free(p.memory);
}

Test(ring, full_keeps_room_for_a_command)
{
	struct rsk_slot_command cmd = { .pos = 5, .what = RSK_COMMAND_FALLBACK_TX, .gen = 1 };
	uint8_t in[100] = { 1 }, out[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_slot_view v;
	struct pair p;
	int slots = 0;

	pair_init(&p);
	while (put(&p, in, sizeof(in)) > 0)
		slots++;
	cr_assert_eq(slots, (CELLS - RSK_RING_RESERVE_CELLS) / 2);
	cr_assert_eq(rsk_ring_tx_room(&p.tx), 0);
	cr_assert_eq(rsk_ring_put_command(&p.tx, &p.key, &cmd), 0);
	pair_check(&p);
	for (int i = 0; i < slots; i++)
		cr_assert_eq(take(&p, out), (ssize_t)sizeof(in));
	cr_assert(rsk_ring_peek(&p.rx, &v));
	cr_assert_eq(v.head.kind, RSK_SLOT_CONTROL);
	cr_assert_eq(take(&p, out), (ssize_t)sizeof(cmd));
	cr_assert_arr_eq(out, &cmd, sizeof(cmd));
	cr_assert_eq(take(&p, out), -EAGAIN);
	free(p.memory);
}

/* A ring of 256 cells, of which laps use the first 64. */
static void narrow_init(struct pair *p)
{
	pair_init(p);
	free(p->memory);
	p->memory = calloc(4, BYTES);
	p->rail.window = p->memory;
	p->rail.window_bytes = (size_t)4 * BYTES;
	rsk_ring_tx_init(&p->tx, &p->rail, 0, 4 * CELLS, 1);
	rsk_ring_rx_init(&p->rx, p->memory, 4 * CELLS, 1, false);
	p->tx.lap_cells = CELLS;
}

/*
 * A number of slots were taken before the sender goes on until there is no room: a command always
 * finds some, behind the last slot or at the beginning of the next lap.
 */
Test(ring, narrow_laps_keep_room_for_a_command)
{
	struct rsk_slot_command cmd = { .what = RSK_COMMAND_FIN };
	enum {
		ALL = CELLS - RSK_RING_RESERVE_CELLS
	};
	uint8_t in[8] = { 0 }, out[RSK_SLOT_MAX_PAYLOAD];

	for (uint32_t taken = 0; taken <= ALL; taken++) {
		struct pair p;
		uint32_t n = 0, more = 0;

		narrow_init(&p);
		while (n < CELLS && put(&p, in, sizeof(in)) > 0)
			n++;
		cr_assert_eq(n, ALL, "all but the room for a command");
		for (uint32_t i = 0; i < taken; i++)
			cr_assert_eq(take(&p, out), sizeof(in));
		cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
		while (more < CELLS && put(&p, in, sizeof(in)) > 0)
			more++;
		cr_assert(more <= taken, "%u more when %u were taken", more, taken);
		cr_assert_eq(rsk_ring_put_command(&p.tx, &p.key, &cmd), 0, "%u taken", taken);
		for (n = ALL + more - taken; n; n--)
			cr_assert_eq(take(&p, out), sizeof(in), "%u taken", taken);
		cr_assert_eq(take(&p, out), sizeof(cmd), "%u taken", taken);
		pair_check(&p);
		free(p.memory);
	}
}

Test(ring, commands_without_end_meet_the_reader)
{
	struct rsk_slot_command cmd = { .what = RSK_COMMAND_FIN };
	struct pair p;

	pair_init(&p);
	for (uint32_t i = 0; i < CELLS; i++)
		cr_assert_eq(rsk_ring_put_command(&p.tx, &p.key, &cmd), 0);
	cr_assert_eq(rsk_ring_put_command(&p.tx, &p.key, &cmd), -ENOBUFS);
	pair_check(&p);
	free(p.memory);
}

Test(ring, credit_is_not_believed_blindly)
{
	struct pair p;

	pair_init(&p);
	cr_assert_gt(put(&p, "abc", 3), 0);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.tx.next + 1), -EPROTO);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, UINT64_MAX), -EPROTO);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.tx.next), 0);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, 0), 0);
	cr_assert_eq(p.tx.credit, p.tx.next, "old credit took back newer credit");
	pair_check(&p);
	free(p.memory);
}

static bool landed;

static int twice_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	return 0;
}

static int twice_again(struct rsk_rail *rail, uint64_t off, size_t len, uint32_t lost)
{
	return 0;
}

static bool twice_arrived(struct rsk_rail *rail, uint64_t off)
{
	return landed;
}

/*
 * The receiver has consumed a slot of which a failed rail delivered one half, and the rail that
 * repeats it has delivered the other half so far. Later slots may not use its cells before the rest
 * of the repetition has landed, since that would overwrite them.
 */
Test(ring, what_was_put_twice_is_free_when_all_has_landed)
{
	static const struct rsk_fabric_ops ops = { .name = "two rails",
						   .caps = RSK_FABRIC_RELIABLE,
						   .put = twice_put,
						   .again = twice_again,
						   .arrived = twice_arrived };
	uint64_t at[4];
	struct pair p;

	pair_init(&p);
	p.rail.ops = &ops;
	for (int i = 0; i < 4; i++) {
		at[i] = p.tx.next;
		cr_assert_eq(put(&p, "abc", 3), 3);
	}
	/* Put by a rail for the first time: only once. */
	cr_assert_eq(rsk_ring_tx_retransmit(&p.tx, 0, UINT64_MAX, RSK_RAILS_NOBODY), 0);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, at[1]), 0);
	cr_assert_eq(p.tx.credit, at[1]);
	cr_assert_eq(rsk_ring_tx_retransmit(&p.tx, at[2], at[3], 1), 0);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.tx.next), 0);
	cr_assert_eq(p.tx.credit, at[2], "cells are used again over which a put may go");
	cr_assert_eq(p.tx.told, p.tx.next);
	pair_check(&p);
	landed = true;
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.tx.told), 0);
	cr_assert_eq(p.tx.credit, p.tx.next);
	landed = false;
	cr_assert_eq(put(&p, "abc", 3), 3);
	cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.tx.next), 0);
	cr_assert_eq(p.tx.credit, p.tx.next, "held for what has landed");
	pair_check(&p);
	free(p.memory);
}

Test(ring, sender_reads_its_own_slots_back)
{
	struct rsk_slot_command cmd = { .pos = 3, .what = RSK_COMMAND_FALLBACK_TX };
	uint8_t buf[RSK_SLOT_MAX_PAYLOAD];
	uint64_t index = CELLS;
	uint16_t kind;
	struct pair p;

	pair_init(&p);
	cr_assert_eq(put(&p, "abc", 3), 3);
	cr_assert_eq(rsk_ring_put_command(&p.tx, &p.key, &cmd), 0);
	cr_assert_eq(rsk_ring_tx_read(&p.tx, &p.key, &index, &kind, buf), 3);
	cr_assert_eq(kind, RSK_SLOT_DATA);
	cr_assert_arr_eq(buf, "abc", 3);
	cr_assert_eq(rsk_ring_tx_read(&p.tx, &p.key, &index, &kind, buf), (ssize_t)sizeof(cmd));
	cr_assert_eq(kind, RSK_SLOT_CONTROL);
	cr_assert_eq(index, p.tx.next);
	cr_assert_eq(rsk_ring_tx_read(&p.tx, &p.key, &index, &kind, buf), -EPROTO);
	index = CELLS;
	p.memory[RSK_SLOT_FRAME_BYTES] ^= 1; /* the peer overwrote it */
	cr_assert_eq(rsk_ring_tx_read(&p.tx, &p.key, &index, &kind, buf), -EPROTO);
	free(p.memory);
}

/* The sender is killed between a put and its counting: the state is recovered from the ring. */
Test(ring, recovers_what_was_put)
{
	uint8_t buf[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_ring_tx before;
	uint32_t len = 0;
	struct pair p;

	pair_init(&p);
	before = p.tx;
	cr_assert_not(rsk_ring_tx_recover(&p.tx, &p.key, buf, &len));
	cr_assert_eq(put(&p, "abcd", 4), 4);
	p.tx = before;
	cr_assert(rsk_ring_tx_recover(&p.tx, &p.key, buf, &len));
	cr_assert_eq(len, 4);
	cr_assert_eq(p.tx.next, CELLS + 1);
	cr_assert_eq(p.tx.data_end, p.tx.next);
	cr_assert_not(rsk_ring_tx_recover(&p.tx, &p.key, buf, &len));
	pair_check(&p);
	free(p.memory);
}

/* A failed put consumes nothing: its bytes have to go by another path. */
Test(ring, failed_put_leaves_the_source_where_it_was)
{
	uint8_t mine[BYTES], peer[BYTES];
	struct iovec iov = { (void *)(uintptr_t) "abcdef", 6 };
	struct rsk_ring_tx tx;
	struct rsk_iovcur cur;
	struct rsk_chaos chaos;
	struct rsk_key key;

	memset(peer, 0, sizeof(peer));
	cr_assert_eq(rsk_chaos_open(&chaos, &rsk_chaos_reliable, 1, mine, peer, BYTES), 0);
	rsk_key_init(&key, 1);
	rsk_ring_tx_init(&tx, &chaos.rail, 0, CELLS, 1);
	rsk_chaos_break(&chaos);
	rsk_iovcur_init(&cur, &iov, 1);
	cr_assert_eq(rsk_ring_put_data(&tx, &key, &cur, 6), -ENETDOWN);
	cr_assert_eq(cur.left, 6);
	cr_assert_eq(tx.next, CELLS);
	rsk_chaos_close(&chaos);
}

/* ---- a drained ring restarts at its beginning ---- */

#define LONG_CELLS 1024u

static void restarting_init(struct pair *p, _Atomic(uint64_t) *taken)
{
	memset(p, 0, sizeof(*p));
	p->memory = calloc(LONG_CELLS, RSK_CELL_BYTES);
	p->rail = (struct rsk_rail){ .ops = &shm_ops,
				     .window = p->memory,
				     .window_bytes = LONG_CELLS * RSK_CELL_BYTES };
	rsk_key_init(&p->key, 43);
	rsk_ring_tx_init(&p->tx, &p->rail, 0, LONG_CELLS, 1);
	rsk_ring_rx_init(&p->rx, p->memory, LONG_CELLS, 1, true);
	atomic_store(taken, p->rx.next);
	p->tx.taken = taken;
}

static ssize_t take_and_tell(struct pair *p, uint8_t *dst, _Atomic(uint64_t) *taken)
{
	ssize_t n = take(p, dst);

	atomic_store(taken, p->rx.next);
	return n;
}

Test(ring, drained_it_stays_in_its_first_page)
{
	uint64_t rng = dice_seed("drained_it_stays");
	uint8_t in[200], out[RSK_SLOT_MAX_PAYLOAD];
	_Atomic(uint64_t) taken;
	struct pair p;

	restarting_init(&p, &taken);
	for (uint32_t i = 0; i < 20000; i++) {
		size_t len = 1 + dice_roll(&rng) % sizeof(in);

		memset(in, (int)i, len);
		rsk_ring_tx_restart(&p.tx, len);
		cr_assert_eq(put(&p, in, len), (ssize_t)len);
		cr_assert_lt(rsk_ring_cell(LONG_CELLS, p.tx.next), RSK_RING_PAGE_CELLS);
		cr_assert_eq(take_and_tell(&p, out, &taken), (ssize_t)len);
		cr_assert_eq(memcmp(in, out, len), 0);
		if (i % 1000 == 0)
			pair_check(&p);
	}
	cr_assert_gt(p.tx.next / LONG_CELLS, 500, "it seldom began anew");
	free(p.memory);
}

Test(ring, restarts_keep_order_and_room)
{
	uint64_t rng = dice_seed("restarts_keep_order"), sent = 0, got = 0, restarts = 0,
		 filled = 0;
	uint8_t in[RSK_SLOT_MAX_PAYLOAD], out[RSK_SLOT_MAX_PAYLOAD];
	_Atomic(uint64_t) taken;
	struct pair p;

	restarting_init(&p, &taken);
	for (uint32_t i = 0; i < 200000; i++) {
		uint64_t d = dice_roll(&rng), before = p.tx.next;
		/* alternates between phases with much and with little under way */
		bool drain = (i / 500) % 2;

		if (d % 100 < (drain ? 30 : 60)) {
			size_t len = (d >> 8) % 5 ? 1 + (d >> 16) % 300 :
						    1 + (d >> 16) % sizeof(in);
			ssize_t n;

			for (size_t b = 0; b < len; b++)
				in[b] = dice_byte(9, sent + b);
			rsk_ring_tx_restart(&p.tx, len);
			restarts += p.tx.next != before;
			cr_assert(p.tx.next == before || sent == got, "restarted, and not drained");
			n = put(&p, in, len);
			filled += n == 0;
			sent += (uint64_t)n;
		} else {
			ssize_t n = take(&p, out);

			for (ssize_t b = 0; b < n; b++)
				cr_assert_eq(out[b], dice_byte(9, got + (uint64_t)b));
			got += n > 0 ? (uint64_t)n : 0;
			cr_assert(n > 0 || sent == got, "bytes are missing");
			if (d >> 60)
				atomic_store(&taken, p.rx.next);
			else
				cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
		}
		pair_check(&p);
	}
	cr_assert_gt(restarts, 100);
	cr_assert_gt(filled, 100);
	free(p.memory);
}

Test(ring, a_hostile_word_of_what_was_taken_is_bounded)
{
	uint8_t in[100] = { 0 };
	_Atomic(uint64_t) taken;
	struct pair p;

	restarting_init(&p, &taken);
	for (int i = 0; i < 40; i++)
		cr_assert_eq(put(&p, in, sizeof(in)), sizeof(in));
	atomic_store(&taken, UINT64_MAX);
	rsk_ring_tx_restart(&p.tx, sizeof(in));
	pair_check(&p);
	cr_assert_eq(p.tx.credit, LONG_CELLS);
	cr_assert_eq(p.tx.next, LONG_CELLS + 80);
	free(p.memory);
}
