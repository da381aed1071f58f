// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_chaos.c - tests the chaos fabric itself: it injects the faults that it is told to, all of
 * them, and the same ones for the same seed.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "chaos.h"
#include "dice.h"

#define BYTES 512u

struct bed {
	uint8_t mine[BYTES], peer[BYTES];
	struct rsk_chaos chaos;
};

static void bed_open(struct bed *b, const struct rsk_chaos_config *config, uint64_t seed)
{
	memset(b, 0, sizeof(*b));
	cr_assert_eq(rsk_chaos_open(&b->chaos, config, seed, b->mine, b->peer, BYTES), 0);
}

static int put(struct bed *b, uint64_t off, size_t len, uint8_t byte)
{
	memset(b->chaos.rail.window + off, byte, len);
	return b->chaos.rail.ops->put(&b->chaos.rail, off, len);
}

static uint64_t digest(const uint8_t *p)
{
	uint64_t h = 1;

	for (size_t i = 0; i < BYTES; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h;
}

/* A hash over the history of everything that was visible. */
static uint64_t history(const struct rsk_chaos_config *config, uint64_t seed, uint64_t *faults)
{
	uint64_t dice = 5, h = 0;
	struct bed b;

	bed_open(&b, config, seed);
	for (int i = 0; i < 2000; i++) {
		uint64_t off = dice_roll(&dice) % BYTES;

		cr_assert_eq(put(&b, off, 1 + dice_roll(&dice) % (BYTES - off), (uint8_t)i), 0);
		rsk_chaos_step(&b.chaos);
		cr_assert(rsk_chaos_validate(&b.chaos));
		h = h * 31 + digest(b.peer);
	}
	for (int i = 0; faults && i < RSK_CHAOS_FAULTS; i++)
		faults[i] = b.chaos.faults[i];
	rsk_chaos_close(&b.chaos);
	return h;
}

Test(chaos, tame_is_exact_and_at_once)
{
	const struct rsk_chaos_config tame = { .delay_steps = 9, .late_steps = 9 };
	struct bed b;

	bed_open(&b, &tame, 1);
	for (uint32_t i = 0; i < 100; i++) {
		cr_assert_eq(put(&b, i, 7, (uint8_t)i), 0);
		cr_assert_arr_eq(b.peer, b.chaos.rail.window, BYTES);
	}
	cr_assert_eq(rsk_chaos_injected(&b.chaos), 0);
	rsk_chaos_close(&b.chaos);
}

Test(chaos, same_seed_same_history)
{
	cr_assert_eq(history(&rsk_chaos_wild, 1, NULL), history(&rsk_chaos_wild, 1, NULL));
	cr_assert_neq(history(&rsk_chaos_wild, 1, NULL), history(&rsk_chaos_wild, 2, NULL));
	cr_assert_eq(history(&rsk_chaos_reliable, 3, NULL), history(&rsk_chaos_reliable, 3, NULL));
}

Test(chaos, wild_does_it_all)
{
	uint64_t faults[RSK_CHAOS_FAULTS];

	history(&rsk_chaos_wild, 9, faults);
	for (int i = 0; i < RSK_CHAOS_BREAK; i++)
		cr_assert_gt(faults[i], 50, "fault %d happened %llu times", i,
			     (unsigned long long)faults[i]);
}

Test(chaos, reliable_only_tears_delays_and_reorders)
{
	uint64_t faults[RSK_CHAOS_FAULTS];

	history(&rsk_chaos_reliable, 9, faults);
	cr_assert(faults[RSK_CHAOS_TEAR] && faults[RSK_CHAOS_DELAY] && faults[RSK_CHAOS_REORDER]);
	cr_assert_eq(faults[RSK_CHAOS_DUPLICATE] + faults[RSK_CHAOS_LATE] + faults[RSK_CHAOS_DROP] +
			     faults[RSK_CHAOS_CORRUPT],
		     0);
}

/* Everything that a reliable fabric was given is there in the end, the newest on top. */
Test(chaos, reliable_settles_at_the_window)
{
	uint64_t dice = dice_seed("reliable_settles");
	struct bed b;

	for (int round = 0; round < 50; round++) {
		bed_open(&b, &rsk_chaos_reliable, dice_roll(&dice));
		for (int i = 0; i < 60; i++) {
			uint64_t off = dice_roll(&dice) % BYTES;

			put(&b, off, 1 + dice_roll(&dice) % (BYTES - off), (uint8_t)i);
			if (dice_roll(&dice) & 1)
				rsk_chaos_step(&b.chaos);
		}
		rsk_chaos_settle(&b.chaos);
		cr_assert_arr_eq(b.peer, b.chaos.rail.window, BYTES);
		rsk_chaos_close(&b.chaos);
	}
}

Test(chaos, one_fault_at_a_time)
{
	for (int fault = 0; fault < RSK_CHAOS_BREAK; fault++) {
		struct rsk_chaos_config one = { .delay_steps = 5, .late_steps = 50 };
		uint64_t faults[RSK_CHAOS_FAULTS];

		if (fault == RSK_CHAOS_REORDER)
			continue;
		one.ppm[fault] = 500000;
		history(&one, 4, faults);
		for (int i = 0; i < RSK_CHAOS_FAULTS; i++) {
			if (i == fault)
				cr_assert_gt(faults[i], 100, "fault %d", i);
			else if (i != RSK_CHAOS_REORDER)
				cr_assert_eq(faults[i], 0, "fault %d while testing %d", i, fault);
		}
	}
}

Test(chaos, dropped_never_lands_and_corrupt_differs_by_a_bit)
{
	const struct rsk_chaos_config drop = { .ppm = { [RSK_CHAOS_DROP] = 1000000 } };
	const struct rsk_chaos_config corrupt = { .ppm = { [RSK_CHAOS_CORRUPT] = 1000000 } };
	struct bed b;
	int bits = 0;

	bed_open(&b, &drop, 1);
	cr_assert_eq(put(&b, 0, 100, 0xff), 0);
	rsk_chaos_settle(&b.chaos);
	for (uint32_t i = 0; i < BYTES; i++)
		cr_assert_eq(b.peer[i], 0);
	rsk_chaos_close(&b.chaos);
	bed_open(&b, &corrupt, 1);
	cr_assert_eq(put(&b, 0, 100, 0xff), 0);
	for (uint32_t i = 0; i < 100; i++)
		bits += __builtin_popcount(b.peer[i] ^ 0xffu);
	cr_assert_eq(bits, 1);
	rsk_chaos_close(&b.chaos);
}

Test(chaos, break_is_final)
{
	struct rsk_completion done;
	struct bed b;

	bed_open(&b, &rsk_chaos_wild, 1);
	for (int i = 0; i < 20; i++)
		put(&b, 0, 100, 1);
	rsk_chaos_break(&b.chaos);
	rsk_chaos_break(&b.chaos);
	cr_assert_eq(b.chaos.faults[RSK_CHAOS_BREAK], 1);
	cr_assert_eq(b.chaos.flying_pieces, 0);
	memcpy(b.mine, b.peer, BYTES);
	cr_assert_eq(put(&b, 0, 100, 2), -ENETDOWN);
	rsk_chaos_settle(&b.chaos);
	cr_assert_arr_eq(b.mine, b.peer, BYTES, "something landed after the break");
	cr_assert_eq(b.chaos.rail.ops->get(&b.chaos.rail, 0, b.mine, 8, 1), -ENETDOWN);
	cr_assert_eq(b.chaos.rail.ops->poll(&b.chaos.rail, &done, 1), -ENETDOWN);
	rsk_chaos_close(&b.chaos);
}

Test(chaos, breaks_by_chance_too)
{
	struct rsk_chaos_config config = rsk_chaos_reliable;
	struct bed b;
	int n = 0;

	config.ppm[RSK_CHAOS_BREAK] = 20000;
	bed_open(&b, &config, 3);
	while (put(&b, 0, 8, 1) == 0)
		cr_assert_lt(n++, 10000);
	cr_assert_eq(b.chaos.faults[RSK_CHAOS_BREAK], 1);
	rsk_chaos_close(&b.chaos);
}

Test(chaos, get_fetches_what_is_there_when_it_lands)
{
	const struct rsk_chaos_config late = { .ppm = { [RSK_CHAOS_DELAY] = 1000000 },
					       .delay_steps = 10 };
	struct rsk_completion done[4];
	uint8_t dst[16] = { 0 };
	struct bed b;

	bed_open(&b, &late, 1);
	memset(b.peer, 3, BYTES);
	cr_assert_eq(b.chaos.rail.ops->get(&b.chaos.rail, 10, dst, sizeof(dst), 99), 0);
	cr_assert_eq(b.chaos.rail.ops->poll(&b.chaos.rail, done, 4), 0);
	rsk_chaos_settle(&b.chaos);
	cr_assert_eq(b.chaos.rail.ops->poll(&b.chaos.rail, done, 4), 1);
	cr_assert_eq(done[0].token, 99);
	cr_assert_eq(done[0].status, 0);
	cr_assert_arr_eq(dst, b.peer, sizeof(dst));
	cr_assert_eq(b.chaos.rail.ops->poll(&b.chaos.rail, done, 4), 0);
	rsk_chaos_close(&b.chaos);
}

/*
 * A torn get returns pieces from before and after what was written meanwhile; its one completion
 * comes after all of them.
 */
Test(chaos, a_torn_get_is_of_several_times)
{
	const struct rsk_chaos_config torn = { .ppm = { [RSK_CHAOS_TEAR] = 1000000 },
					       .delay_steps = 10 };
	struct rsk_completion done[2];
	uint32_t mixed = 0;
	uint8_t dst[64];
	struct bed b;

	bed_open(&b, &torn, 1);
	for (uint32_t i = 0; i < 200; i++) {
		int n;

		memset(dst, 0xff, sizeof(dst));
		cr_assert_eq(b.chaos.rail.ops->get(&b.chaos.rail, 10, dst, sizeof(dst), i), 0);
		for (uint8_t t = 0; (n = b.chaos.rail.ops->poll(&b.chaos.rail, done, 2)) == 0;
		     t++) {
			memset(b.peer, t, BYTES);
			rsk_chaos_step(&b.chaos);
			cr_assert(rsk_chaos_validate(&b.chaos));
		}
		cr_assert_eq(n, 1);
		cr_assert_eq(done[0].token, i);
		cr_assert_eq(b.chaos.flying_pieces, 0);
		cr_assert_eq(memchr(dst, 0xff, sizeof(dst)), NULL, "a byte was never fetched");
		mixed += memcmp(dst, dst + 1, sizeof(dst) - 1) != 0;
	}
	cr_assert_gt(mixed, 100);
	cr_assert_eq(b.chaos.faults[RSK_CHAOS_TEAR], 200);
	rsk_chaos_break(&b.chaos);
	cr_assert_eq(b.chaos.rail.ops->get(&b.chaos.rail, 10, dst, sizeof(dst), 1), -ENETDOWN);
	rsk_chaos_close(&b.chaos);
}
