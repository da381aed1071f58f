// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_canary.c - tests the completion canary of READs and atomic operations: a response that
 * has not come, or not completely, is detected; one that has come passes.
 */
#include "canary.h"

#include "dice.h"

#define MOST 256u

Test(answer, none_at_all)
{
	uint64_t state = dice_seed("answer"), seed = state;
	uint8_t at[MOST + 2];

	for (size_t len = 1; len <= MOST; len++) {
		uint64_t pattern = dice_roll(&state);

		memset(at, 0x5a, sizeof(at));
		rsk_canary_prepare(at + 1, len, pattern);
		cr_assert(at[0] == 0x5a && at[len + 1] == 0x5a, "%zu bytes, and more", len);
		cr_assert(rsk_canary_missing(at + 1, len, pattern), "RSOCK_SEED=%" PRIu64 ": %zu",
			  seed, len);
	}
}

/* Each word alone, and what was there for another request. */
Test(answer, some_of_it)
{
	uint64_t state = dice_seed("answer"), seed = state, before, pattern;
	uint8_t at[MOST], content[MOST];

	for (size_t i = 0; i < MOST; i++)
		content[i] = (uint8_t)dice_roll(&state);
	for (size_t len = 8; len <= MOST; len++) {
		before = dice_roll(&state);
		pattern = dice_roll(&state);
		cr_assert_neq(before, pattern);
		for (size_t word = 0; word + 8 <= len; word += 8) {
			memcpy(at, content, len);
			memcpy(at + word, &pattern, 8);
			cr_assert(rsk_canary_missing(at, len, pattern),
				  "RSOCK_SEED=%" PRIu64 ": %zu of %zu", seed, word, len);
		}
		memcpy(at, content, len);
		cr_assert(!rsk_canary_missing(at, len, pattern),
			  "RSOCK_SEED=%" PRIu64 ": all of %zu", seed, len);
		rsk_canary_prepare(at, len, before);
		cr_assert(!rsk_canary_missing(at, len, pattern),
			  "RSOCK_SEED=%" PRIu64 ": an older one's, %zu", seed, len);
	}
}

/* Zeros, which memory often has, and what a compare-and-swap finds. */
Test(answer, plain_content)
{
	uint64_t state = dice_seed("answer");
	static const uint8_t zeros[MOST];
	uint8_t ones[MOST];

	memset(ones, 0xff, sizeof(ones));
	for (uint32_t i = 0; i < 100000; i++) {
		uint64_t pattern = dice_roll(&state);

		cr_assert(!rsk_canary_missing(zeros, MOST, pattern));
		cr_assert(!rsk_canary_missing(ones, 8, pattern));
	}
}
