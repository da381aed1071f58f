/* pattern.c - the bytes that peer.c and hostile.c send and check, and random sizes; see ctl.h. */
#include <string.h>

#include <rsock/splitmix.h>

#include "ctl.h"

/* Any lost, duplicated or moved byte shows as a wrong one. */
static uint64_t word_at(uint64_t seed, uint64_t index)
{
	return rsk_splitmix_mix(seed * RSK_SPLITMIX_STEP + index);
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
	uint64_t drawn = rsk_splitmix_next(state);
	uint64_t size = (drawn >> 11) & ((UINT64_C(1) << ((drawn >> 56) % bits + 1)) - 1);

	return size % max + 1;
}
