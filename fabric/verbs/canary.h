/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * canary.h - where the answer of a READ or an atomic operation will lie there is a pattern beforehand, another one for
 * each: a request that is said to be done and has left some of it was not answered (seen with rxe and lost packets).
 * Pure. Content that happens to be the pattern, 1 in 2^64 for a word, is taken for a missing answer.
 */
#ifndef RSK_CANARY_H
#define RSK_CANARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RSK_CANARY_ASKS                                                                            \
	8u /* of a READ, before it is given up: short ones may be like the pattern by chance */

/* The next pattern; *state: of the rail, any to begin with. Source: splitmix64. */
static inline uint64_t rsk_canary_pattern(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline void rsk_canary_prepare(uint8_t *at, size_t len, uint64_t pattern)
{
	for (size_t i = 0; i < len; i += sizeof(pattern))
		memcpy(at + i, &pattern, len - i < sizeof(pattern) ? len - i : sizeof(pattern));
}

/* Is some of it still as it was prepared: a whole word, or, of less than a word, all? */
static inline bool rsk_canary_missing(const uint8_t *at, size_t len, uint64_t pattern)
{
	if (len < sizeof(pattern))
		return memcmp(at, &pattern, len) == 0;
	for (size_t i = 0; i + sizeof(pattern) <= len; i += sizeof(pattern))
		if (memcmp(at + i, &pattern, sizeof(pattern)) == 0)
			return true;
	return false;
}

#endif
