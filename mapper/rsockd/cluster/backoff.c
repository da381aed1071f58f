// SPDX-License-Identifier: BSD-2-Clause
/* backoff.c - see backoff.h. */
#include "backoff.h"

uint64_t rsk_backoff_ns(unsigned int failures, uint64_t random)
{
	unsigned int doublings = failures ? failures - 1 : 0;
	uint64_t all = RSK_BACKOFF_MOST_NS;

	if (doublings < 20 && RSK_BACKOFF_FIRST_NS << doublings < all)
		all = RSK_BACKOFF_FIRST_NS << doublings;
	return all / 2 + random % (all / 2 + 1);
}
