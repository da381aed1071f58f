// SPDX-License-Identifier: BSD-2-Clause
/* Slots in a ring: what passes, what does not, how it wraps; raw memory, no machine above. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "dice.h"
#include "ring.h"

#define CELLS 64u
#define BYTES (CELLS * RSK_CELL_BYTES)

static const struct rsk_fabric_ops shm_ops = {
	.name = "shm-like",
	.caps = RSK_FABRIC_RELIABLE | RSK_FABRIC_DURABLE | RSK_FABRIC_SYNC,
};

/* Both ends over one piece of memory, exactly as long as the ring. */
struct pair {
	struct rsk_rail rail;
	struct rsk_key key;
	struct rsk_ring_tx tx;
	struct rsk_ring_rx rx;
	uint8_t *memory;
};

static void pair_init(struct pair *p)
{
	memset(p, 0, sizeof(*p));
	p->memory = calloc(1, BYTES);
	p->rail = (struct rsk_rail){ .ops = &shm_ops, .window = p->memory, .window_bytes = BYTES };
	rsk_key_init(&p->key, 42);
	rsk_ring_tx_init(&p->tx, &p->rail, 0, CELLS, 1);
	rsk_ring_rx_init(&p->rx, p->memory, CELLS, 1, false);
}

static void pair_check(const struct pair *p)
{
	cr_assert(rsk_ring_tx_validate(&p->tx));
	cr_assert(rsk_ring_rx_validate(&p->rx));
}

static ssize_t put(struct pair *p, const void *data, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };
	struct rsk_iovcur cur;

	rsk_iovcur_init(&cur, &iov, 1);
	return rsk_ring_put_data(&p->tx, &p->key, &cur, len);
}

/* The next slot's payload to @dst; its length, or -EAGAIN when none is whole. */
static ssize_t take(struct pair *p, uint8_t *dst)
{
	struct rsk_slot_view v;

	if (!rsk_ring_peek(&p->rx, &v) || !rsk_ring_copy(&p->rx, &p->key, &v, dst))
		return -EAGAIN;
	rsk_ring_consume(&p->rx, &v);
	return v.head.len;
}

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

Test(ring, full_keeps_room_for_a_command)
{
	struct rsk_slot_command cmd = { .pos = 5, .what = RSK_COMMAND_MOVE, .gen = 1 };
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

Test(ring, every_bit_counts)
{
	uint8_t in[70], out[RSK_SLOT_MAX_PAYLOAD];
	struct pair p;

	pair_init(&p);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = dice_byte(2, i);
	cr_assert_eq(put(&p, in, sizeof(in)), (ssize_t)sizeof(in));
	for (size_t bit = 0; bit < (sizeof(in) + RSK_SLOT_FRAME_BYTES) * 8; bit++) {
		p.memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(take(&p, out), -EAGAIN, "bit %zu turned, and accepted", bit);
		p.memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_gt(p.rx.retries, 500);
	cr_assert_eq(take(&p, out), (ssize_t)sizeof(in));
	cr_assert_arr_eq(out, in, sizeof(in));
	cr_assert_eq(p.rx.bad_looks, 0);
	free(p.memory);
}

/* The same of one that begins at the second cell; between frame and payload lies nothing of it. */
Test(ring, every_bit_of_a_long_one_counts)
{
	uint8_t in[300], out[RSK_SLOT_MAX_PAYLOAD];
	struct pair p;

	pair_init(&p);
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = dice_byte(3, i);
	cr_assert_eq(put(&p, in, sizeof(in)), (ssize_t)sizeof(in));
	cr_assert_arr_eq(p.memory + RSK_CELL_BYTES, in, sizeof(in));
	for (size_t bit = 0; bit < (RSK_CELL_BYTES + sizeof(in)) * 8; bit++) {
		if (bit / 8 >= RSK_SLOT_FRAME_BYTES && bit / 8 < RSK_CELL_BYTES)
			continue;
		p.memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(take(&p, out), -EAGAIN, "bit %zu turned, and accepted", bit);
		p.memory[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	cr_assert_eq(take(&p, out), (ssize_t)sizeof(in));
	cr_assert_arr_eq(out, in, sizeof(in));
	free(p.memory);
}

/* Cells of a slot and the longest payload of so many cells agree, at every length. */
Test(ring, slots_are_as_long_as_they_say)
{
	for (uint32_t len = 1; len <= RSK_SLOT_MAX_PAYLOAD; len++) {
		uint32_t cells = rsk_slot_cells(len);

		cr_assert_leq(rsk_slot_bytes(len), cells * RSK_CELL_BYTES);
		cr_assert_leq(cells, RSK_SLOT_MAX_CELLS);
		cr_assert_geq(rsk_slot_payload_in(cells), len, "length %u", len);
		cr_assert_leq(rsk_slot_cells(rsk_slot_payload_in(cells)), cells, "length %u", len);
	}
}

Test(ring, half_a_slot_does_not_pass)
{
	uint8_t in[1000], whole[BYTES], out[RSK_SLOT_MAX_PAYLOAD];
	size_t bytes = rsk_slot_bytes(sizeof(in));
	struct pair p;

	pair_init(&p);
	memset(in, 0x5a, sizeof(in));
	cr_assert_gt(put(&p, in, sizeof(in)), 0);
	memcpy(whole, p.memory, sizeof(whole));
	/* Any beginning and any end of it may be there first. */
	for (size_t cut = 1; cut < bytes; cut++) {
		memset(p.memory, 0, BYTES);
		memcpy(p.memory, whole, cut);
		cr_assert_eq(take(&p, out), -EAGAIN, "%zu bytes of %zu", cut, bytes);
		memset(p.memory, 0, BYTES);
		memcpy(p.memory + cut, whole + cut, bytes - cut);
		cr_assert_eq(take(&p, out), -EAGAIN, "all but %zu of %zu", cut, bytes);
	}
	memcpy(p.memory, whole, sizeof(whole));
	cr_assert_eq(take(&p, out), (ssize_t)sizeof(in));
	free(p.memory);
}

Test(ring, old_laps_other_streams_and_forgeries_fail)
{
	uint8_t in[40] = { 9 }, out[RSK_SLOT_MAX_PAYLOAD], first[RSK_CELL_BYTES];
	struct pair p, other;

	pair_init(&p);
	pair_init(&other);
	cr_assert_eq(put(&p, in, sizeof(in)), (ssize_t)sizeof(in));
	memcpy(first, p.memory, sizeof(first));
	for (uint32_t i = 0; i < CELLS; i++) {
		cr_assert_eq(take(&p, out), (ssize_t)sizeof(in));
		cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
		cr_assert_eq(put(&p, in, sizeof(in)), (ssize_t)sizeof(in));
	}
	/* The same place one lap later: the old slot as it was, then with the right index written in. */
	memcpy(p.memory, first, sizeof(first));
	cr_assert_eq(take(&p, out), -EAGAIN);
	memcpy(p.memory, &p.rx.next, sizeof(p.rx.next));
	cr_assert_eq(take(&p, out), -EAGAIN);
	/* Another stream's slot of the same index. */
	rsk_key_init(&other.key, 43);
	cr_assert_gt(put(&other, in, sizeof(in)), 0);
	memcpy(p.memory, other.memory, RSK_CELL_BYTES);
	p.rx.next = CELLS;
	cr_assert_eq(take(&p, out), -EAGAIN);
	cr_assert_gt(p.rx.retries, 1);
	free(p.memory);
	free(other.memory);
}

/* ASan sees a read beyond the ring: its memory ends where the ring ends. */
Test(ring, wild_headers_stay_inside)
{
	uint64_t dice = dice_seed("wild_headers_stay_inside");
	uint8_t *out = malloc(RSK_SLOT_MAX_PAYLOAD);
	uint64_t claimed = 0;
	struct pair p;

	pair_init(&p);
	for (int i = 0; i < 200000; i++) {
		struct rsk_slot_head head;
		struct rsk_slot_view v;
		uint64_t r = dice_roll(&dice);

		p.rx.next = CELLS + r % (3 * CELLS);
		head = (struct rsk_slot_head){ .index = p.rx.next,
					       .len = (uint32_t)(r >> 16) >> (r >> 8 & 31),
					       .kind = (uint16_t)(r >> 48 & 3),
					       .zero = (uint16_t)(r >> 50 & 1) };
		memcpy(p.memory + (p.rx.next & (CELLS - 1)) * RSK_CELL_BYTES, &head, sizeof(head));
		if (!rsk_ring_peek(&p.rx, &v))
			continue;
		claimed++;
		if (rsk_ring_copy(&p.rx, &p.key, &v, out))
			cr_assert_fail("random memory was believed");
	}
	cr_assert_gt(claimed, 10000);
	free(out);
	free(p.memory);
}

Test(ring, sender_reads_its_own_slots_back)
{
	struct rsk_slot_command cmd = { .pos = 3, .what = RSK_COMMAND_MOVE };
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
	p.memory[RSK_SLOT_FRAME_BYTES] ^= 1; /* the peer wrote over it */
	cr_assert_eq(rsk_ring_tx_read(&p.tx, &p.key, &index, &kind, buf), -EPROTO);
	free(p.memory);
}

/* Killed between a put and its counting: the ring is the truth. */
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

/* A put that fails has taken nothing: its bytes have to go another way. */
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

/* ---- a drained ring goes on at its start ---- */

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
		bool drain = (i / 500) % 2; /* times with much on its way, times with little */

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

Test(ring, what_another_stream_left_is_not_looked_at)
{
	uint8_t in[100] = { 0 }, out[RSK_SLOT_MAX_PAYLOAD];
	struct rsk_slot_view v;
	struct pair p;

	pair_init(&p);
	for (uint64_t seed = UINT64_C(0x1234567800000000); seed >> 60 < 8; seed += seed / 16) {
		uint64_t lap = rsk_ring_first_lap(seed);

		rsk_ring_tx_init(&p.tx, &p.rail, 0, CELLS, lap);
		rsk_ring_rx_init(&p.rx, p.memory, CELLS, lap, false);
		rsk_key_init(&p.key, seed);
		pair_check(&p);
		cr_assert_not(rsk_ring_peek(&p.rx, &v));
		for (uint32_t i = 0; i < CELLS / 2; i++) {
			cr_assert_eq(put(&p, in, sizeof(in)), sizeof(in));
			cr_assert_eq(take(&p, out), sizeof(in));
			cr_assert_not(rsk_ring_peek(&p.rx, &v));
			cr_assert_eq(rsk_ring_tx_credit(&p.tx, p.rx.next), 0);
		}
	}
	free(p.memory);
}

/* A payload's last bytes over a part of an older slot's index, whichever they are, make no index of it. */
Test(ring, a_payload_makes_no_index_of_what_was_there)
{
	for (uint32_t tail = 1; tail < sizeof(uint64_t); tail++) {
		uint64_t next = 2 * CELLS + 1, word;
		uint8_t data[RSK_CELL_BYTES] = { 0 };
		size_t len = RSK_CELL_BYTES - RSK_SLOT_FRAME_BYTES + tail;
		struct rsk_slot_view v;
		struct pair p;

		pair_init(&p);
		word = ~next & ((UINT64_C(1) << 8 * tail) - 1);
		word |= next & ~((UINT64_C(1) << 8 * tail) - 1);
		memcpy(p.memory + RSK_CELL_BYTES, &word, sizeof(word));
		memcpy(data + len - tail, &next, tail);
		cr_assert_eq(put(&p, data, len), (ssize_t)len);
		p.rx.next = next;
		cr_assert_not(rsk_ring_peek(&p.rx, &v), "%u bytes", tail);
		p.rx.next = CELLS;
		cr_assert_eq(take(&p, data), (ssize_t)len);
		free(p.memory);
	}
}

/* A file that gave less than it was asked for: what was read has moved, and may have ended in another cell. */
static ssize_t some_of_it(struct rsk_fill *f, uint8_t *to, size_t len, size_t left)
{
	size_t n = 2 * RSK_CELL_BYTES + 1;

	memset(to, 2 * CELLS + 3, n);
	return (ssize_t)n;
}

Test(ring, nor_does_what_was_read_and_moved)
{
	uint64_t next = 2 * CELLS + 3, word = next - CELLS;
	struct rsk_fill file = { some_of_it, 1 };
	struct rsk_slot_view v;
	struct rsk_iovcur cur;
	struct pair p;

	pair_init(&p);
	memcpy(p.memory + 3 * RSK_CELL_BYTES, &word, sizeof(word));
	rsk_iovcur_init_fill(&cur, &file, 1000);
	cr_assert_eq(rsk_ring_put_data(&p.tx, &p.key, &cur, 1000), 2 * RSK_CELL_BYTES + 1);
	cr_assert_eq(p.tx.next, CELLS + 3);
	p.rx.next = next;
	cr_assert_not(rsk_ring_peek(&p.rx, &v));
	free(p.memory);
}
