// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tx_pace.c - tests pacing: how much a sender puts over time, at what rate it is set to, what
 * a pause earns, and that a ring without room for that reason alone is not full.
 */
#include "way_kit.h"

#define MS 1000000ull
#define SECOND (1000 * MS)
#define BPS 1000000u
#define CELLS_PER_S (BPS / 8 / RSK_CELL_BYTES)
#define BUCKET (CELLS - RSK_RING_RESERVE_CELLS) /* a tenth of a second's would be more */

/* Sends @len bytes at a time, as much as is taken, and reads all. Returns the cells put. */
static uint64_t send_all_that_goes(size_t len)
{
	uint64_t before = w.tx.ring.next;

	while (send_some(len) > 0)
		while (recv_some(4096) > 0)
			;
	cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	cr_assert(rsk_tx_validate(&w.tx));
	return w.tx.ring.next - before;
}

static uint64_t send_for(uint64_t *now, uint64_t ns, uint64_t step_ns, size_t len)
{
	uint64_t end = *now + ns, cells = 0;

	for (; *now < end; *now += step_ns) {
		rsk_tx_pace(&w.tx, *now);
		cells += send_all_that_goes(len);
	}
	return cells;
}

static void start(uint64_t now, uint64_t bps)
{
	on_ring(&at_once, 10);
	rsk_tx_set_rate(&w.tx, bps, now);
}

Test(tx_pace, keeps_its_rate)
{
	static const size_t sizes[] = { 1, 40, 700, 4000 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint64_t now = 5 * SECOND, cells;

		start(now, BPS);
		cells = send_for(&now, 10 * SECOND, 3 * MS, sizes[i]);
		cr_assert(cells >= CELLS_PER_S * 99 / 10 && cells <= CELLS_PER_S * 10 + BUCKET,
			  "%zu bytes: %lu cells in ten seconds, of %u", sizes[i], cells,
			  CELLS_PER_S * 10);
	}
}

Test(tx_pace, a_pause_earns_one_bucket)
{
	uint64_t now = SECOND;

	start(now, BPS);
	send_for(&now, SECOND, MS, 700);
	now += 3600 * SECOND;
	rsk_tx_pace(&w.tx, now);
	cr_assert_leq(send_all_that_goes(40), BUCKET);
	/* The time goes on from there. */
	cr_assert_leq(send_for(&now, SECOND, MS, 700), CELLS_PER_S + 1);
}

Test(tx_pace, without_room_it_is_paced_and_not_full)
{
	uint64_t now = SECOND;

	start(now, BPS);
	send_all_that_goes(700);
	cr_assert_lt(send_some(1), 0);
	cr_assert(rsk_tx_paced(&w.tx) && !rsk_tx_writable(&w.tx));
	cr_assert_not(rsk_tx_pace(&w.tx, now), "the clock stands still");
	cr_assert_not(rsk_tx_pace(&w.tx, now - MS), "the clock goes back");
	cr_assert(rsk_tx_pace(&w.tx, now + SECOND));
	cr_assert(rsk_tx_writable(&w.tx));
	/* A reader that does not read fills it. */
	while (send_some(700) > 0)
		;
	rsk_tx_pace(&w.tx, now + 2 * SECOND);
	cr_assert_not(rsk_tx_paced(&w.tx));
	cr_assert_lt(send_some(700), 0);
}

Test(tx_pace, a_rate_is_set_changed_and_taken_back)
{
	uint64_t now = SECOND, cells;

	start(now, 8 * RSK_CELL_BYTES); /* a cell a second */
	send_all_that_goes(40);
	cells = send_for(&now, 20 * SECOND, 100 * MS, 40);
	cr_assert(cells >= 19 && cells <= 20, "%lu cells in 20 seconds", cells);
	rsk_tx_set_rate(&w.tx, BPS, now);
	cells = send_for(&now, SECOND, MS, 700);
	cr_assert_geq(cells, CELLS_PER_S * 98 / 100);
	rsk_tx_set_rate(&w.tx, 0, now);
	cr_assert_not(rsk_tx_paced(&w.tx));
	cr_assert(rsk_tx_writable(&w.tx));
	for (int i = 0; i < 1000; i++) {
		cr_assert_eq(send_some(700), 700);
		cr_assert_eq(recv_some(4096), 700);
	}
}

/* The highest rates that can be configured neither overflow nor limit. */
Test(tx_pace, the_highest_rates)
{
	uint64_t now = 1;

	start(now, UINT64_MAX);
	for (int i = 0; i < 1000; i++) {
		now += 1000 * SECOND;
		rsk_tx_pace(&w.tx, now);
		cr_assert_eq(send_some(700), 700);
		cr_assert_eq(recv_some(4096), 700);
		cr_assert_eq(rsk_tx_serve(&w.tx, &w.wire.c), 0);
	}
}
