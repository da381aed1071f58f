/* SPDX-License-Identifier: BSD-2-Clause */
/* backoff.h - how long to wait before etcd is asked again. Called by document.c, member.c. Pure. */
#ifndef RSK_BACKOFF_H
#define RSK_BACKOFF_H

#include <stdint.h>

#define RSK_BACKOFF_FIRST_NS 100000000ull
#define RSK_BACKOFF_MOST_NS 10000000000ull
#define RSK_BACKOFF_LOOK_NS 10000000000ull
#define RSK_BACKOFF_LOOK_MOST_NS (30 * RSK_BACKOFF_LOOK_NS)

/*
 * After @failures in a row: 100 ms, doubled with each, up to 10 s, of which the second half is
 * random (@random: any number), so that many hosts do not ask at once.
 */
uint64_t rsk_backoff_ns(unsigned int failures, uint64_t random);
/*
 * When to do for the first time what is done each @each_ns from then on: after its second half,
 * which is random. What many hosts began together, when etcd came back, does not coincide for ever.
 */
uint64_t rsk_backoff_first_ns(uint64_t each_ns, uint64_t random);
/*
 * How often to look at a range of so many entries that many hosts look at: etcd reads all of them
 * for each look. 10 s, and as much again for each 1,024; at most five minutes.
 */
uint64_t rsk_backoff_look_ns(uint64_t entries);

#endif
