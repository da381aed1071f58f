// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_tx_rx.c - tests both halves of a direction against each other: random operations, exact
 * bytes (model: duplex.c).
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#include "dice.h"
#include "duplex.h"
#include "order.h"
#include "ring.h"

/* A failed check prints the seed of its run; RSOCK_SEED repeats the whole series. */
static void series(struct duplex_config config, uint32_t runs, uint64_t faults,
		   struct duplex_sums *sums, const char *name)
{
	uint64_t seed = dice_seed(name);

	for (uint32_t i = 0; i < runs || sums->faults < faults; i++) {
		uint64_t dice = seed * UINT64_C(0x2545f4914f6cdd1d) + i;

		config.seed = i ? dice_roll(&dice) : seed;
		dice = config.seed ^ 1;
		config.cells = 64u << (dice_roll(&dice) % 3 * 2);
		/* Some of the rings are used in part at the beginning, as between hosts. */
		config.lap_cells = config.fabric != DUPLEX_SHM && dice_roll(&dice) % 2 ?
					   RSK_RING_MIN_CELLS :
					   0;
		config.fifo_bytes = 1u << (6 + dice_roll(&dice) % 12);
		duplex_run(&config, sums);
	}
	printf("%s: %" PRIu64 " bytes, %" PRIu64 " by ring in %" PRIu64 " slots, %" PRIu64 " laps, "
	       "%" PRIu64 " promotions, %" PRIu64 " demotions, %" PRIu64 " leaves (%" PRIu64
	       " busy, %" PRIu64 " in doubt, %" PRIu64 " bytes twice), %" PRIu64 " resent, %" PRIu64
	       " held reads, %" PRIu64 " breaks, %" PRIu64 " repairs, %" PRIu64 " retries, %" PRIu64
	       " faults, %" PRIu64 " requests (%" PRIu64
	       " fallbacks at the receiver's word), %" PRIu64 " renewals, %" PRIu64
	       " pauses (%" PRIu64 " met a MOVE)\n",
	       name, sums->bytes, sums->ring_bytes, sums->slots, sums->laps, sums->promotions,
	       sums->demotions, sums->leaves, sums->busy_falls_back, sums->doubts,
	       sums->twice_bytes, sums->resent_bytes, sums->held_reads, sums->breaks, sums->repairs,
	       sums->retries, sums->faults, sums->requests, sums->sent_off, sums->renewals,
	       sums->pauses, sums->paused_again);
	fflush(stdout);
	cr_assert_gt(sums->ring_bytes, 100000);
	cr_assert_gt(sums->bytes, sums->ring_bytes);
	cr_assert(config.renews || config.rails || sums->laps > 20);
	cr_assert_gt(sums->promotions, runs / 2);
	cr_assert_gt(sums->demotions, runs / 4);
	cr_assert_gt(sums->peeks, runs);
	cr_assert(config.fabric == DUPLEX_SHM ||
		  (sums->last_slots > runs / 4 && sums->wider > runs / 8 &&
		   sums->narrower > runs / 16));
	cr_assert_gt(sums->file_bytes, 100000);
	if (config.fabric == DUPLEX_SHM)
		cr_assert_gt(sums->counts, runs);
	if (config.fabric == DUPLEX_SHM)
		cr_assert_gt(sums->restarts, runs / 2);
	cr_assert(sums->fins_on_ring && sums->fins_on_tcp);
	if (config.fabric == DUPLEX_SHM)
		return;
	printf("%s: %" PRIu64 " laps ended early, %" PRIu64 " became wider, %" PRIu64 " narrower\n",
	       name, sums->last_slots, sums->wider, sums->narrower);
	printf("%s: %" PRIu64 " mailboxes believed, %" PRIu64 " with news, %" PRIu64 " cells\n",
	       name, sums->looked, sums->looked_new, sums->freed_cells);
	cr_assert(sums->looked_new > runs && sums->freed_cells > 10 * runs);
}

Test(tx_rx, shm)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_SHM, .steps = 4000 }, 40, 0, &sums, "shm");
}

Test(tx_rx, shm_early_fin)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_SHM,
				       .steps = 2000,
				       .interleave = true,
				       .early_fin = true },
	       40, 0, &sums, "shm_early_fin");
}

Test(tx_rx, shm_interleaved)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_SHM, .steps = 4000, .interleave = true },
	       50, 0, &sums, "shm_interleaved");
	cr_assert_gt(sums.held_reads, 5, "the overshoot of a read past N was never met");
}

Test(tx_rx, shm_leave)
{
	struct duplex_sums sums = { 0 };

	/* Most series repeat some bytes; a rare one has none. */
	for (int i = 0; i < 4 && !(sums.doubts && sums.twice_bytes); i++)
		series((struct duplex_config){ .fabric = DUPLEX_SHM,
					       .steps = 2000,
					       .interleave = true,
					       .leave = true },
		       360, 0, &sums, "shm_leave");
	cr_assert_gt(sums.leaves, 50);
	cr_assert_gt(sums.resent_bytes, 10000);
	cr_assert(sums.doubts && sums.twice_bytes, "no LEAVE met a MOVE");
}

static void pauses(bool leave, bool requests, const char *name)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_SHM,
				       .steps = 3000,
				       .interleave = true,
				       .pauses = true,
				       .requests = requests,
				       .leave = leave },
	       leave ? 180 : 60, 0, &sums, name);
	cr_assert_gt(sums.pauses, 40);
	cr_assert_gt(sums.paused_again, 1, "no receiver met a MOVE");
	cr_assert(!leave || (sums.leaves > 40 && sums.ended_first > 5));
}

Test(tx_rx, shm_pause)
{
	pauses(false, false, "shm_pause");
}

Test(tx_rx, shm_pause_and_requests)
{
	pauses(false, true, "shm_pause_and_requests");
}

Test(tx_rx, shm_pause_and_leave)
{
	pauses(true, true, "shm_pause_and_leave");
}

Test(tx_rx, reliable)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_RELIABLE,
				       .steps = 4000,
				       .interleave = true },
	       25, 0, &sums, "reliable");
}

Test(tx_rx, reliable_breaks)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_RELIABLE,
				       .steps = 1500,
				       .interleave = true,
				       .leave = true,
				       .breaks = true },
	       100, 0, &sums, "reliable_breaks");
	cr_assert_gt(sums.breaks, 35);
	cr_assert_gt(sums.resent_bytes, 10000);
}

/*
 * Rails break and come back, any number of times, at any moment: all bytes arrive, and the stream
 * returns to the ring.
 */
static void renews(enum duplex_fabric fabric, bool requests, const char *name)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = fabric,
				       .steps = 3000,
				       .interleave = true,
				       .requests = requests,
				       .renews = true },
	       60, 0, &sums, name);
	cr_assert_gt(sums.breaks, 100);
	cr_assert_gt(sums.renewals, 100);
	cr_assert_gt(sums.promoted_again, 20);
	cr_assert_gt(sums.resent_bytes, 10000);
}

Test(tx_rx, reliable_renews)
{
	renews(DUPLEX_RELIABLE, false, "reliable_renews");
}

Test(tx_rx, reliable_renews_and_requests)
{
	renews(DUPLEX_RELIABLE, true, "reliable_renews_and_requests");
}

/*
 * Processes that fork, execute, or pass descriptors on: everything unread is requested once more,
 * also while rails break, the sender falls back by itself, and newer bytes come.
 */
static void quiesced(bool renews, bool leave, const char *name)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_RELIABLE,
				       .steps = 4000,
				       .interleave = true,
				       .leave = leave,
				       .quiesced = true,
				       .renews = renews },
	       80, 0, &sums, name);
	printf("%s: %" PRIu64 " rests, %" PRIu64 " repeated unread bytes\n", name, sums.quiesced,
	       sums.repeats);
	cr_assert_gt(sums.quiesced, 80);
	cr_assert_gt(sums.repeats, 40);
	cr_assert_gt(sums.resent_bytes, 10000);
}

Test(tx_rx, reliable_quiesces)
{
	quiesced(false, false, "reliable_quiesces");
}

Test(tx_rx, reliable_quiesces_and_renews)
{
	quiesced(true, false, "reliable_quiesces_and_renews");
}

Test(tx_rx, reliable_quiesces_and_leaves)
{
	quiesced(false, true, "reliable_quiesces_and_leaves");
}

Test(tx_rx, wild_renews)
{
	renews(DUPLEX_WILD, false, "wild_renews");
}

/* The required number: 1e5 faults a run; RSK_CHAOS_FAULTS for longer ones. */
Test(tx_rx, wild)
{
	struct duplex_sums sums = { 0 };
	uint64_t faults = dice_number("RSK_CHAOS_FAULTS", 120000);

	series((struct duplex_config){ .fabric = DUPLEX_WILD, .steps = 4000, .interleave = true },
	       20, faults, &sums, "wild");
	cr_assert_geq(sums.faults, 100000);
	cr_assert_gt(sums.retries, 100);
}

Test(tx_rx, wild_breaks)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_WILD,
				       .steps = 1500,
				       .interleave = true,
				       .leave = true,
				       .breaks = true },
	       80, 0, &sums, "wild_breaks");
	cr_assert_gt(sums.breaks, 25);
	cr_assert_gt(sums.resent_bytes, 10000);
}

/*
 * An operator at both ends who changes the request: what is sent arrives all the same, and the
 * stream returns to the ring.
 */
static void requests(enum duplex_fabric fabric, bool leave, const char *name)
{
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = fabric,
				       .steps = 4000,
				       .interleave = true,
				       .leave = leave,
				       .requests = true },
	       leave ? 120 : 40, 0, &sums, name);
	cr_assert_gt(sums.requests, 500);
	cr_assert_gt(sums.sent_off, 5, "no sender ever went because it was asked to");
}

Test(tx_rx, shm_requests)
{
	requests(DUPLEX_SHM, false, "shm_requests");
}

Test(tx_rx, shm_requests_and_falls_back)
{
	requests(DUPLEX_SHM, true, "shm_requests_and_falls_back");
}

Test(tx_rx, reliable_requests)
{
	requests(DUPLEX_RELIABLE, false, "reliable_requests");
}

Test(tx_rx, wild_requests)
{
	requests(DUPLEX_WILD, false, "wild_requests");
}

/*
 * Several rails of different speed and without order, which swallow everything, fail and come back
 * while both directions send; all at once, too. 1e5 faults a run.
 */
static void rails(uint32_t n, bool quiesced, bool harm, const char *name)
{
	struct duplex_sums sums = { 0 };
	uint64_t faults = dice_number("RSK_CHAOS_FAULTS", 120000);

	series((struct duplex_config){ .fabric = DUPLEX_RELIABLE,
				       .steps = 4000,
				       .interleave = true,
				       .quiesced = quiesced,
				       .harm = harm,
				       .rails = n },
	       30, faults, &sums, name);
	printf("%s: %" PRIu64 " bits flipped\n", name, sums.harmed);
	cr_assert(!harm || sums.harmed > 1000);
	printf("%s: %" PRIu64 " rails lost, %" PRIu64 " back, %" PRIu64 " times all; %" PRIu64
	       " gaps named, %" PRIu64 " slots put again; %" PRIu64
	       " read to be closed; bytes by rail %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
	       "\n",
	       name, sums.rails_lost, sums.rails_back, sums.all_lost, sums.gaps, sums.put_again,
	       sums.read_lost, sums.by_rail[0], sums.by_rail[1], sums.by_rail[2], sums.by_rail[3]);
	printf("%s: %" PRIu64 " transactions at the ends, %" PRIu64 " overtook; missing %" PRIu64
	       " wrapping, %" PRIu64 " absolute, %" PRIu64 " relative, of %" PRIu64
	       " the first packet; %" PRIu64 " sends stalled\n",
	       name, sums.tagged, sums.overtook, sums.missing[RSK_ORDER_WRAPPING],
	       sums.missing[RSK_ORDER_ABSOLUTE], sums.missing[RSK_ORDER_RELATIVE],
	       sums.missing_first, sums.stalls);
	printf("%s: %" PRIu64 " slots seen ahead, %" PRIu64 " transactions overtook, %" PRIu64
	       " steps with a gap that has a name\n",
	       name, sums.ahead, sums.ahead_overtook, sums.gap_steps);
	cr_assert_geq(sums.faults, 100000);
	cr_assert(sums.ahead > 300 && sums.ahead_overtook > 50 && sums.gap_steps > 1000);
	for (int kind = 0; kind < 3; kind++)
		cr_assert_gt(sums.missing[kind], 10, "kind %d", kind);
	cr_assert_gt(sums.missing_first, 10);
	cr_assert_gt(sums.tagged, 100);
	cr_assert_gt(sums.stalls, 10);
	cr_assert_gt(sums.rails_lost, 100);
	cr_assert_gt(sums.rails_back, 100);
	cr_assert_gt(sums.all_lost, 20);
	cr_assert_gt(sums.read_lost, 20);
	cr_assert_gt(sums.put_again, 50);
	cr_assert_gt(sums.promoted_again, 20);
	for (uint32_t k = 0; k < n; k++)
		cr_assert_gt(sums.by_rail[k], 50000, "rail %u carries too little", k);
}

Test(tx_rx, two_rails)
{
	rails(2, false, false, "two_rails");
}

Test(tx_rx, four_rails)
{
	rails(4, false, false, "four_rails");
}

Test(tx_rx, rails_and_quiesces)
{
	rails(3, true, false, "rails_and_quiesces");
}

/*
 * Besides, slots are damaged in the receiver's memory: no byte is wrong, and none is lost, while
 * rails fail, receivers quiesce, and senders fall back.
 */
Test(tx_rx, rails_and_harm)
{
	rails(3, true, true, "rails_and_harm");
}

/* The same over one rail. */
Test(tx_rx, reliable_harm)
{
	uint64_t faults = dice_number("RSK_CHAOS_FAULTS", 120000);
	struct duplex_sums sums = { 0 };

	series((struct duplex_config){ .fabric = DUPLEX_RELIABLE,
				       .steps = 4000,
				       .interleave = true,
				       .quiesced = true,
				       .renews = true,
				       .harm = true },
	       30, faults, &sums, "reliable_harm");
	printf("reliable_harm: %" PRIu64 " bits flipped, %" PRIu64 " streams ended\n", sums.harmed,
	       sums.harm_ends);
	cr_assert_geq(sums.faults, 100000);
	cr_assert_gt(sums.harmed, 1000);
	cr_assert_gt(sums.repairs, 200); /* since the last rail */
	cr_assert_lt(sums.harm_ends, sums.harmed / 5);
}
