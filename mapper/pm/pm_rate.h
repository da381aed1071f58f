/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_rate.h - limits the requests per second of each source with token buckets. Used by pmsp.c.
 *
 * Sources share a fixed number of buckets by a keyed hash: memory does not grow with their number,
 * and no source can choose with which others it shares a bucket. IPv6 sources count by their /64.
 */
#ifndef RSK_PM_RATE_H
#define RSK_PM_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_PM_RATE_BUCKETS 8192

struct rsk_pm_bucket {
	uint64_t at_ns;	 /* time of the last refill */
	uint64_t tokens; /* in 1/1000 request */
};

/* Owned by its PMSP. */
struct rsk_pm_rate {
	struct rsk_pm_bucket *buckets;
	uint64_t seed;
	uint32_t per_s; /* 0: no limit */
	uint32_t burst;
};

/* Returns 0 or -ENOMEM. */
int rsk_pm_rate_init(struct rsk_pm_rate *r, uint32_t per_s, uint32_t burst, uint64_t seed);
void rsk_pm_rate_fini(struct rsk_pm_rate *r);

/* Counts one more request of this source. Returns false if it exceeds the rate. */
bool rsk_pm_rate_take(struct rsk_pm_rate *r, const struct rsk_pm_addr *source, uint64_t now_ns);

#endif
