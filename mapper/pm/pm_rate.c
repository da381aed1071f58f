// SPDX-License-Identifier: BSD-2-Clause
/* pm_rate.c - see pm_rate.h. */
#include "pm_rate.h"

#include <errno.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "pm_msg.h"

#define ONE 1000u
#define NS_PER_TOKEN 1000000ull /* for a rate of 1 per second */

int rsk_pm_rate_init(struct rsk_pm_rate *r, uint32_t per_s, uint32_t burst, uint64_t seed)
{
	*r = (struct rsk_pm_rate){ .seed = seed, .per_s = per_s, .burst = burst ? burst : 1 };
	if (!per_s)
		return 0;
	r->buckets = calloc(RSK_PM_RATE_BUCKETS, sizeof(*r->buckets));
	return r->buckets ? 0 : -ENOMEM;
}

void rsk_pm_rate_fini(struct rsk_pm_rate *r)
{
	free(r->buckets);
	r->buckets = NULL;
}

bool rsk_pm_rate_take(struct rsk_pm_rate *r, const struct rsk_pm_addr *source, uint64_t now_ns)
{
	size_t len = source->ipv == RSK_PM_IPV4 ? 4 : 8;
	struct rsk_pm_bucket *b;
	uint64_t full, spent;

	if (!r->per_s)
		return true;
	b = &r->buckets[XXH3_64bits_withSeed(source->ip, len, r->seed + source->ipv) %
			RSK_PM_RATE_BUCKETS];
	full = (uint64_t)r->burst * ONE;
	/*
	 * Add the tokens since the last refill. The fraction of a token is kept for the next time.
	 */
	spent = now_ns > b->at_ns ? now_ns - b->at_ns : 0;
	if (!b->at_ns || spent / NS_PER_TOKEN >= full / r->per_s + 1) {
		b->tokens = full;
		b->at_ns = now_ns;
	} else {
		uint64_t got = spent * r->per_s / NS_PER_TOKEN;

		b->tokens += got;
		b->at_ns += got * NS_PER_TOKEN / r->per_s;
		if (b->tokens > full)
			b->tokens = full;
	}
	if (b->tokens < ONE)
		return false;
	b->tokens -= ONE;
	return true;
}
