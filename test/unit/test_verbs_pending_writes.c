// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_pending_writes.c - tests the pending writes of a stream, put and not posted yet: none
 * is left out, for any order of puts.
 */
#include <string.h>

#include <rsock/slot.h>

#include "dice.h"
#include "pending_writes.h"

#define CELLS 128u
#define RING (CELLS * RSK_CELL_BYTES)

Test(verbs_note, slots_in_a_row_are_one_range)
{
	struct rsk_pending_writes n = { .ranges = 0 };
	uint32_t off, len;

	cr_assert_not(rsk_pending_writes_any(&n));
	cr_assert_not(rsk_pending_writes_first(&n, &off, &len));
	rsk_pending_range(&n, 64, 40); /* the rest of its cell is not used */
	rsk_pending_range(&n, 128, 64);
	rsk_pending_range(&n, 192, 300);
	cr_assert_eq(n.ranges, 1);
	cr_assert(rsk_pending_writes_first(&n, &off, &len));
	cr_assert(off == 64 && len == 192 + 300 - 64);
}

Test(verbs_note, around_the_end_are_two)
{
	struct rsk_pending_writes n = { .ranges = 0 };
	uint32_t off, len;

	rsk_pending_range(&n, RING - 128, 128);
	rsk_pending_range(&n, 0, 64);
	rsk_pending_range(&n, 64, 10);
	cr_assert_eq(n.ranges, 2);
	cr_assert(rsk_pending_writes_first(&n, &off, &len) && off == RING - 128 && len == 128);
	rsk_pending_writes_took(&n, 64);
	cr_assert(rsk_pending_writes_first(&n, &off, &len) && off == RING - 64 && len == 64);
	rsk_pending_writes_took(&n, 64);
	cr_assert(rsk_pending_writes_first(&n, &off, &len) && off == 0 && len == 74);
	rsk_pending_writes_took(&n, 74);
	cr_assert_not(rsk_pending_writes_any(&n));
}

/* What lies between two ranges belongs to another rail: only adjacent ranges are merged. */
Test(verbs_note, ranges_are_exact)
{
	struct rsk_pending_writes n = { .ranges = 0 };

	for (uint32_t i = 0; i < RSK_PENDING_RANGES; i++)
		cr_assert(rsk_pending_range(&n, i * 1024, 64));
	cr_assert_eq(n.ranges, RSK_PENDING_RANGES);
	cr_assert_not(rsk_pending_range(&n, 512, 64), "a range too many");
	cr_assert_eq(n.ranges, RSK_PENDING_RANGES);
	cr_assert(rsk_pending_range(&n, 64, 1024 - 64), "it fills the way to the next one");
	cr_assert_eq(n.ranges, RSK_PENDING_RANGES - 1);
	cr_assert(n.range[0].from == 0 && n.range[0].to == 1024 + 64);
	cr_assert(rsk_pending_range(&n, 1024 + 64, 7 * 1024), "and to all others");
	cr_assert_eq(n.ranges, 1);
	cr_assert(n.range[0].from == 0 && n.range[0].to == 8 * 1024 + 64);
}

/*
 * Compared with a list of cells: each that was put is covered until it was taken, and no other is.
 */
Test(verbs_note, anything_in_any_order)
{
	uint64_t dice = dice_number("RSK_DICE", 11);

	for (int run = 0; run < 2000; run++) {
		struct rsk_pending_writes n = { .ranges = 0 };
		bool put[CELLS] = { false };

		for (int step = 0; step < 40; step++) {
			uint64_t r = dice_roll(&dice);
			uint32_t cell = (uint32_t)(r >> 8) % CELLS, off, len;
			uint32_t most = RING - cell * RSK_CELL_BYTES;

			if (r % 3) {
				len = 1 + (uint32_t)(r >> 32) % (most < 700 ? most : 700);
				if (!rsk_pending_range(&n, cell * RSK_CELL_BYTES, len)) {
					cr_assert_eq(n.ranges, RSK_PENDING_RANGES);
					len = 0;
				}
				for (uint32_t i = cell;
				     i * RSK_CELL_BYTES < cell * RSK_CELL_BYTES + len; i++)
					put[i] = true;
			} else if (rsk_pending_writes_first(&n, &off, &len)) {
				if (r & 16 && len > RSK_CELL_BYTES)
					len = RSK_CELL_BYTES;
				for (uint32_t i = off / RSK_CELL_BYTES;
				     i * RSK_CELL_BYTES < off + len; i++)
					put[i] = false;
				rsk_pending_writes_took(&n, len);
			}
			cr_assert(rsk_pending_writes_validate(&n, RING), "run %d step %d", run,
				  step);
			for (uint32_t i = 0; i < CELLS; i++) {
				bool covered = false;

				for (uint32_t k = 0; k < n.ranges; k++)
					covered |= i * RSK_CELL_BYTES >= n.range[k].from &&
						   i * RSK_CELL_BYTES < n.range[k].to;
				cr_assert(covered == put[i], "cell %u, run %d step %d", i, run,
					  step);
			}
		}
	}
}
