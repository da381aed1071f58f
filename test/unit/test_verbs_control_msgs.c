// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_control_msgs.c - tests the control messages between progress threads: whole, in order,
 * once, through an indirect buffer that streams use as well.
 */
#include <errno.h>
#include <string.h>

#include <rsock/slot.h>

#include "dice.h"
#include "control_msgs.h"

#define RING (4u << 10)

static void compose(uint8_t word[static RSK_INDIRECT_WORD_BYTES], uint32_t number, size_t bytes)
{
	for (size_t i = 0; i < RSK_INDIRECT_WORD_BYTES; i++)
		word[i] = i < bytes ? (uint8_t)(number * 31 + i) : 0;
}

Test(verbs_control_msgs, there_and_back_between_slots)
{
	static uint8_t buf[RSK_INDIRECT_BYTES], ring[RING], window[RING];
	static struct rsk_control_msgs_in in;
	struct rsk_control_msgs_out out = { .at = NULL };
	uint64_t dice = dice_number("RSK_DICE", 5), put = 0, taken = 0;
	uint8_t word[RSK_INDIRECT_WORD_BYTES], want[RSK_INDIRECT_WORD_BYTES];
	uint32_t said = 0, heard = 0, held_up = 0;

	while (heard < 3000) {
		uint64_t r = dice_roll(&dice);
		uint32_t room = RSK_INDIRECT_UNITS - (uint32_t)(put - taken), off, bytes;
		struct rsk_indirect_entry e;
		const uint8_t *cells;
		int units;

		switch (r & 3) {
		case 0:
			compose(word, said, 1 + said % RSK_INDIRECT_WORD_BYTES);
			if (said - heard < 100)
				cr_assert_eq(
					rsk_control_msgs_say(&out, word,
							     1 + said % RSK_INDIRECT_WORD_BYTES),
					0);
			said += said - heard < 100;
			break;
		case 1:
			cells = rsk_control_msgs_next(&out, &off, &bytes);
			if (cells) {
				put += rsk_indirect_put(buf, put, room, RSK_INDIRECT_WORDS, off,
							cells, &bytes);
				if (room >= 2)
					rsk_control_msgs_sent(&out, bytes);
			} else if (room >= 2) {
				bytes = (1 + (uint32_t)(r >> 8) % 8) * RSK_CELL_BYTES;
				put += rsk_indirect_put(buf, put, room, 0, 0, window, &bytes);
			}
			break;
		case 2:
			if (put == taken)
				break;
			units = rsk_indirect_take(buf, taken, (uint32_t)(put - taken), 1, RING, &e);
			cr_assert_gt(units, 0);
			cells = buf + rsk_indirect_place(taken + 1);
			if (e.sid == RSK_INDIRECT_WORDS) {
				int rc = rsk_control_msgs_put(&in, e.off, cells, e.bytes);

				if (rc == -ENOBUFS) {
					cr_assert_eq(in.n, RSK_CONTROL_MSGS_IN);
					held_up++;
					break;
				}
				cr_assert_eq(rc, 0);
			} else {
				memcpy(ring + e.off, cells, e.bytes);
			}
			taken += (uint32_t)units;
			break;
		default:
			if ((r >> 8) % 4 || !rsk_control_msgs_take(&in, word))
				break;
			compose(want, heard, 1 + heard % RSK_INDIRECT_WORD_BYTES);
			cr_assert_arr_eq(word, want, sizeof(want), "word %u", heard);
			heard++;
		}
	}
	cr_assert_gt(held_up, 0, "it never was full: this tries nothing");
	rsk_control_msgs_free(&out);
}

Test(verbs_control_msgs, what_no_peer_says)
{
	static struct rsk_control_msgs_in in;
	uint8_t cells[RSK_INDIRECT_WORD_BYTES] = { 1 };

	cr_assert_eq(rsk_control_msgs_put(&in, RSK_CELL_BYTES, cells, RSK_CELL_BYTES),
		     -EPROTO); /* not its first part */
	cr_assert_eq(rsk_control_msgs_put(&in, 0, cells, RSK_CELL_BYTES), 0);
	cr_assert_eq(rsk_control_msgs_put(&in, 0, cells, RSK_CELL_BYTES), -EPROTO); /* repeated */
	cr_assert_eq(rsk_control_msgs_put(&in, 2 * RSK_CELL_BYTES, cells, RSK_CELL_BYTES), -EPROTO);
	cr_assert_eq(rsk_control_msgs_put(&in, RSK_CELL_BYTES, cells, RSK_INDIRECT_WORD_BYTES),
		     -EPROTO);
	cr_assert_not(rsk_control_msgs_take(&in, cells));
	cr_assert_eq(rsk_control_msgs_put(&in, RSK_CELL_BYTES, cells,
					  RSK_INDIRECT_WORD_BYTES - RSK_CELL_BYTES),
		     0);
	cr_assert(rsk_control_msgs_take(&in, cells));
	cr_assert_not(rsk_control_msgs_take(&in, cells));
}

Test(verbs_control_msgs, what_cannot_be_said)
{
	struct rsk_control_msgs_out out = { .at = NULL };
	uint8_t word[RSK_INDIRECT_WORD_BYTES + 1] = { 0 };
	size_t n = 0;

	cr_assert_eq(rsk_control_msgs_say(&out, word, 0), -EINVAL);
	cr_assert_eq(rsk_control_msgs_say(&out, word, sizeof(word)), -EINVAL);
	while (rsk_control_msgs_say(&out, word, sizeof(word) - 1) == 0)
		n++;
	cr_assert(n * RSK_INDIRECT_WORD_BYTES <= RSK_CONTROL_MSGS_OUT && n > 1000, "%zu", n);
	rsk_control_msgs_free(&out);
}
