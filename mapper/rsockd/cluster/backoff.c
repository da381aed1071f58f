// SPDX-License-Identifier: BSD-2-Clause
/* backoff.c - see backoff.h. */
#include "backoff.h"

uint64_t rsk_backoff_ns(unsigned int failures, uint64_t random)
{
	unsigned int doublings = failures ? failures - 1 : 0;
	uint64_t all = RSK_BACKOFF_MOST_NS;

	if (doublings < 20 && RSK_BACKOFF_FIRST_NS << doublings < all)
		all = RSK_BACKOFF_FIRST_NS << doublings;
	return rsk_backoff_first_ns(all, random);
}

uint64_t rsk_backoff_first_ns(uint64_t each_ns, uint64_t random)
{
	return each_ns / 2 + random % (each_ns / 2 + 1);
}

uint64_t rsk_backoff_look_ns(uint64_t entries)
{
	uint64_t times = 1 + entries / 1024;

	return times < RSK_BACKOFF_LOOK_MOST_NS / RSK_BACKOFF_LOOK_NS ?
		       times * RSK_BACKOFF_LOOK_NS :
		       RSK_BACKOFF_LOOK_MOST_NS;
}
