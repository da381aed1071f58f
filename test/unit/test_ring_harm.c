// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ring_harm.c - tests slots that are incomplete, old, of another stream, changed or forged:
 * none is accepted, and no read leaves the ring.
 */
#include "chaos.h"
#include "dice.h"
#include "ring_kit.h"

Test(ring_harm, every_bit_counts)
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

/*
 * The same for a slot whose payload begins at the second cell; what lies between frame and payload
 * does not belong to it.
 */
Test(ring_harm, every_bit_of_a_long_one_counts)
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

/*
 * The number of cells of a slot and the longest payload for a number of cells agree, at every
 * length.
 */
Test(ring_harm, slots_are_as_long_as_they_say)
{
	for (uint32_t len = 1; len <= RSK_SLOT_MAX_PAYLOAD; len++) {
		uint32_t cells = rsk_slot_cells(len);

		cr_assert_leq(rsk_slot_bytes(len), cells * RSK_CELL_BYTES);
		cr_assert_leq(cells, RSK_SLOT_MAX_CELLS);
		cr_assert_geq(rsk_slot_payload_in(cells), len, "length %u", len);
		cr_assert_leq(rsk_slot_cells(rsk_slot_payload_in(cells)), cells, "length %u", len);
	}
}

Test(ring_harm, half_a_slot_does_not_pass)
{
	uint8_t in[1000], whole[BYTES], out[RSK_SLOT_MAX_PAYLOAD];
	size_t bytes = rsk_slot_bytes(sizeof(in));
	struct pair p;

	pair_init(&p);
	memset(in, 0x5a, sizeof(in));
	cr_assert_gt(put(&p, in, sizeof(in)), 0);
	memcpy(whole, p.memory, sizeof(whole));
	/* Any prefix and any suffix of it may land first. */
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

/*
 * The hash does not cover what follows the payload in a cell's first word: landing late, that word
 * would overwrite the next slot.
 */
Test(ring_harm, a_slot_is_whole_with_its_last_word)
{
	uint8_t in[64 + 7] = { 0 }, whole[BYTES], first[64], out[RSK_SLOT_MAX_PAYLOAD];
	struct pair p;

	pair_init(&p);
	for (uint32_t len = 1; len <= sizeof(in); len++) {
		size_t end = rsk_slot_bytes(len), pad = end % RSK_CELL_BYTES;
		struct rsk_slot_view v;

		pad = pad && pad < sizeof(uint64_t) ? sizeof(uint64_t) - pad : 0;
		memset(p.memory, 0, BYTES);
		p.tx.next = p.tx.credit = p.tx.told = p.rx.next = 2 * CELLS;
		cr_assert_eq(put(&p, in, len), (ssize_t)len);
		memcpy(whole, p.memory, sizeof(whole));
		for (size_t late = 0; late < pad; late++) {
			p.memory[end + late] = 0;
			cr_assert_eq(take(&p, out), -EAGAIN, "length %u, byte %zu", len, late);
			cr_assert(rsk_ring_peek(&p.rx, &v) && !rsk_ring_whole(&p.key, &v));
			cr_assert(!rsk_ring_copy_split(&p.rx, &p.key, &v, first, 1, out));
			memcpy(p.memory, whole, sizeof(whole));
		}
		cr_assert(rsk_ring_peek(&p.rx, &v) && rsk_ring_whole(&p.key, &v));
		cr_assert_eq(take(&p, out), (ssize_t)len);
	}
	free(p.memory);
}

Test(ring_harm, old_laps_other_streams_and_forgeries_fail)
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
	/*
	 * The same place one lap later: the old slot as it was, then with the right index written
	 * in.
	 */
	memcpy(p.memory, first, sizeof(first));
	cr_assert_eq(take(&p, out), -EAGAIN);
	memcpy(p.memory, &p.rx.next, sizeof(p.rx.next));
	cr_assert_eq(take(&p, out), -EAGAIN);
	/* Another stream's slot with the same index. */
	rsk_key_init(&other.key, 43);
	cr_assert_gt(put(&other, in, sizeof(in)), 0);
	memcpy(p.memory, other.memory, RSK_CELL_BYTES);
	p.rx.next = CELLS;
	cr_assert_eq(take(&p, out), -EAGAIN);
	cr_assert_gt(p.rx.retries, 1);
	free(p.memory);
	free(other.memory);
}

/*
 * A slot that is looked at lies within the ring, as does what is read of it: the ring's memory ends
 * where the ring ends, so ASan reports a read beyond it.
 */
Test(ring_harm, wild_headers_stay_inside)
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
					       .order = (uint16_t)(r >> 50 & 1) };
		if (i % 64 == 0) /* so long that its bytes are few again */
			head.len = UINT32_MAX - (uint32_t)(r >> 16) % 200;
		memcpy(p.memory + (p.rx.next & (CELLS - 1)) * RSK_CELL_BYTES, &head, sizeof(head));
		if (!rsk_ring_peek(&p.rx, &v))
			continue;
		claimed++;
		cr_assert_leq(v.head.len, RSK_SLOT_MAX_PAYLOAD);
		cr_assert_leq((size_t)(v.at - p.memory) + rsk_slot_bytes(v.head.len), BYTES);
		if (rsk_ring_copy(&p.rx, &p.key, &v, out))
			cr_assert_fail("random memory was believed");
	}
	cr_assert_gt(claimed, 10000);
	free(out);
	free(p.memory);
}

Test(ring_harm, what_another_stream_left_is_not_looked_at)
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

/*
 * The last bytes of a payload over a part of an older slot's index never form a valid index
 * together with it.
 */
Test(ring_harm, a_payload_makes_no_index_of_what_was_there)
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

/*
 * A file that returned fewer bytes than requested: what was read has moved, and may have ended in
 * another cell.
 */
static ssize_t some_of_it(struct rsk_fill *f, uint8_t *to, size_t len, size_t left)
{
	size_t n = 2 * RSK_CELL_BYTES + 1;

	memset(to, 2 * CELLS + 3, n);
	return (ssize_t)n;
}

Test(ring_harm, nor_does_what_was_read_and_moved)
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
