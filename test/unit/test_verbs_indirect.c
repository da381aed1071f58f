// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_indirect.c - tests the indirect buffer: what one end puts the other one takes, and the
 * entries of a hostile peer cause no access out of bounds.
 */
#include <errno.h>
#include <string.h>

#include "dice.h"
#include "indirect.h"

#define RING (64u << 10)
#define STREAMS 64u

struct ends {
	uint8_t buf[RSK_INDIRECT_BYTES];
	uint64_t put, taken;
};

static uint32_t room(const struct ends *e)
{
	return RSK_INDIRECT_UNITS - (uint32_t)(e->put - e->taken);
}

Test(verbs_indirect, an_entry_there_and_back)
{
	static struct ends e;
	struct rsk_indirect_entry got;
	uint8_t cells[3 * RSK_CELL_BYTES];
	uint32_t bytes = sizeof(cells);

	memset(cells, 7, sizeof(cells));
	cr_assert_eq(rsk_indirect_put(e.buf, 0, RSK_INDIRECT_UNITS, 5, 128, cells, &bytes), 4);
	cr_assert_eq(bytes, sizeof(cells));
	cr_assert_eq(rsk_indirect_take(e.buf, 0, 4, STREAMS, RING, &got), 4);
	cr_assert(got.sid == 5 && got.off == 128 && got.bytes == sizeof(cells));
	cr_assert_arr_eq(e.buf + rsk_indirect_place(1), cells, sizeof(cells));
}

Test(verbs_indirect, no_room_nothing_written)
{
	static struct ends e;
	uint8_t cells[RSK_CELL_BYTES] = { 0 };
	uint32_t bytes = sizeof(cells);

	for (uint32_t n = 0; n < 2; n++)
		cr_assert_eq(rsk_indirect_put(e.buf, 0, n, 5, 0, cells, &bytes), 0);
}

/* Runs of all lengths, through many laps, piece by piece as room allows. */
Test(verbs_indirect, laps)
{
	static struct ends e;
	static uint8_t window[RING], ring[STREAMS][RING], want[STREAMS][RING];
	uint64_t dice = dice_number("RSK_DICE", 5), cells = 0;

	while (cells < 100000) {
		uint64_t r = dice_roll(&dice);

		if (r & 1) {
			uint32_t sid = (uint32_t)(r >> 8) % STREAMS;
			uint32_t off =
				(uint32_t)(r >> 16) % (RING / RSK_CELL_BYTES) * RSK_CELL_BYTES;
			uint32_t left = (1 + (uint32_t)(r >> 40) % 300) * RSK_CELL_BYTES;

			if (left > RING - off)
				left = RING - off;
			memset(window + off, (int)(r >> 56), left);
			while (left) {
				uint32_t bytes = left;
				uint32_t units = rsk_indirect_put(e.buf, e.put, room(&e), sid, off,
								  window + off, &bytes);

				if (!units)
					break;
				memcpy(want[sid] + off, window + off, bytes);
				e.put += units;
				off += bytes;
				left -= bytes;
				cells += bytes / RSK_CELL_BYTES;
			}
		} else if (e.put > e.taken) {
			struct rsk_indirect_entry got;
			int units = rsk_indirect_take(e.buf, e.taken, (uint32_t)(e.put - e.taken),
						      STREAMS, RING, &got);

			cr_assert_gt(units, 0);
			memcpy(ring[got.sid] + got.off, e.buf + rsk_indirect_place(e.taken + 1),
			       got.bytes);
			e.taken += (uint32_t)units;
		}
		if (e.put == e.taken)
			cr_assert(memcmp(ring, want, sizeof(ring)) == 0);
	}
}

static int check(struct rsk_indirect_entry e, uint64_t at, uint32_t avail)
{
	static uint8_t buf[RSK_INDIRECT_BYTES];
	struct rsk_indirect_entry got;

	memcpy(buf + rsk_indirect_place(at), &e, sizeof(e));
	return rsk_indirect_take(buf, at, avail, STREAMS, RING, &got);
}

Test(verbs_indirect, lies)
{
	const struct rsk_indirect_entry good = { .at = 300, .sid = 3, .off = 64, .bytes = 128 };
	struct rsk_indirect_entry e = good;

	cr_assert_eq(check(e, 300, 3), 3);
	cr_assert_eq(check(e, 300, 0), -EPROTO);
	cr_assert_eq(check(e, 300, 2), -EPROTO); /* not all of it has come */
	cr_assert_eq(check(e, 301, 3), -EPROTO); /* an old entry */
	e.sid = STREAMS;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.sid = RSK_INDIRECT_WORDS;
	cr_assert_eq(check(e, 300, 3), 3);
	e.off = RSK_INDIRECT_WORD_BYTES - 64;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.off = RSK_INDIRECT_WORD_BYTES - 128;
	cr_assert_eq(check(e, 300, 3), 3);
	e = good;
	e.off = 65;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.off = RING;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.off = RING - 64;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.off = 0u - 64;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e = good;
	e.bytes = 100;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.bytes = 0u - 64;
	cr_assert_eq(check(e, 300, 256), -EPROTO);
	e.bytes = 0; /* valid only at the end of a lap */
	cr_assert_eq(check(e, 300, 3), -EPROTO);
	e.at = 511;
	cr_assert_eq(check(e, 511, 3), 1);
	e.bytes = 64; /* wraps around the end */
	cr_assert_eq(check(e, 511, 3), -EPROTO);
	e = good;
	e.zero = 1;
	cr_assert_eq(check(e, 300, 3), -EPROTO);
}
