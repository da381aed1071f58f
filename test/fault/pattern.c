/* pattern.c - the bytes that peer.c and hostile.c send and check, and random sizes; see ctl.h. */
#include <string.h>

#include "ctl.h"

/* The finaliser of splitmix64: any lost, duplicated or moved byte shows as a wrong one. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15u + index;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

void pattern_fill(uint64_t seed, uint64_t pos, uint8_t *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		uint64_t word = word_at(seed, (pos + done) / 8);
		size_t skip = (pos + done) % 8;
		size_t take = len - done < 8 - skip ? len - done : 8 - skip;

		memcpy(buf + done, (const uint8_t *)&word + skip, take);
		done += take;
	}
}

uint64_t pattern_check(uint64_t seed, uint64_t pos, const uint8_t *buf, size_t len)
{
	uint8_t want[4096];

	for (size_t done = 0; done < len;) {
		size_t part = len - done < sizeof(want) ? len - done : sizeof(want);

		pattern_fill(seed, pos + done, want, part);
		if (memcmp(want, buf + done, part)) {
			for (size_t i = 0; i < part; i++)
				if (want[i] != buf[done + i])
					return pos + done + i;
		}
		done += part;
	}
	return UINT64_MAX;
}

uint64_t random_size(uint64_t *state, uint64_t max)
{
	uint64_t bits = 64 - (uint64_t)__builtin_clzll(max);
	uint64_t size;

	*state = *state * 6364136223846793005u + 1442695040888963407u;
	size = (*state >> 11) & ((UINT64_C(1) << ((*state >> 56) % bits + 1)) - 1);
	return size % max + 1;
}
