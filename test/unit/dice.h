/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dice.h - reproducible random numbers for the unit tests, and test data whose bytes follow from
 * their position.
 */
#ifndef RSK_DICE_H
#define RSK_DICE_H

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rsock/clock.h>
#include <rsock/splitmix.h>

static inline uint64_t dice_roll(uint64_t *state)
{
	return rsk_splitmix_next(state);
}

/* The byte at position @pos of direction @way. */
static inline uint8_t dice_byte(uint32_t way, uint64_t pos)
{
	uint64_t state = ((pos >> 3) << 8) ^ way;

	return (uint8_t)(dice_roll(&state) >> (8 * (pos & 7)));
}

/* A number from the environment, or the default. */
static inline uint64_t dice_number(const char *name, uint64_t normally)
{
	const char *text = getenv(name);
	char *end;
	uint64_t n;

	if (!text || !*text)
		return normally;
	n = strtoull(text, &end, 0);
	cr_assert(!*end, "%s=%s is no number", name, text);
	return n;
}

/*
 * RSOCK_SEED, or a seed taken from the clock. The seed is printed, so that a failure can be
 * repeated.
 */
static inline uint64_t dice_seed(const char *test)
{
	uint64_t seed = dice_number("RSOCK_SEED", rsk_time_ns(CLOCK_REALTIME));

	printf("%s: RSOCK_SEED=%" PRIu64 "\n", test, seed);
	fflush(stdout);
	return seed;
}

#endif
