/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * backoff.h - how long to wait before etcd is asked again. Called by all that ask it repeatedly:
 * document.c, member.c, range_watch.c and others. Pure.
 */
#ifndef RSK_BACKOFF_H
#define RSK_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define RSK_BACKOFF_FIRST_NS 100000000ull
#define RSK_BACKOFF_MOST_NS 10000000000ull
#define RSK_BACKOFF_LOOK_NS 10000000000ull
#define RSK_BACKOFF_LOOK_MOST_NS (30 * RSK_BACKOFF_LOOK_NS)

/*
 * After @failures in a row: 100 ms, doubled with each, up to 10 s, of which the second half is
 * random (@random: any number), so that many hosts do not ask at once.
 */
static inline uint64_t rsk_backoff_ns(unsigned int failures, uint64_t random)
{
	unsigned int doublings = failures ? failures - 1 : 0;
	uint64_t all = RSK_BACKOFF_MOST_NS;

	if (doublings < 20 && RSK_BACKOFF_FIRST_NS << doublings < all)
		all = RSK_BACKOFF_FIRST_NS << doublings;
	return all / 2 + random % (all / 2 + 1);
}

/*
 * When to do for the first time what is done each @each_ns from then on: after its second half,
 * which is random. What many hosts began together, when etcd came back, does not coincide for ever.
 */
static inline uint64_t rsk_backoff_first_ns(uint64_t each_ns, uint64_t random)
{
	return each_ns / 2 + random % (each_ns / 2 + 1);
}

/*
 * How often to look at a range of so many entries that many hosts look at: etcd reads all of them
 * for each look. 10 s, and as much again for each 1,024; at most five minutes.
 */
static inline uint64_t rsk_backoff_look_ns(uint64_t entries)
{
	uint64_t times = 1 + entries / 1024;

	return times < RSK_BACKOFF_LOOK_MOST_NS / RSK_BACKOFF_LOOK_NS ?
		       times * RSK_BACKOFF_LOOK_NS :
		       RSK_BACKOFF_LOOK_MOST_NS;
}

/*
 * A token bucket: @most at once, then one each @each_ns. *paid_ns, 0 at first: when all that were
 * taken so far are paid. False: nothing is taken.
 */
static inline bool rsk_bucket_take(uint64_t *paid_ns, uint64_t now_ns, uint64_t each_ns,
				   unsigned int most)
{
	if (*paid_ns < now_ns)
		*paid_ns = now_ns;
	if (*paid_ns - now_ns > (most - 1) * each_ns)
		return false;
	*paid_ns += each_ns;
	return true;
}

#endif
