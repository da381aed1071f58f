/* SPDX-License-Identifier: BSD-2-Clause */
/* backoff.h - how long to wait before etcd is asked again. Called by document.c, member.c. Pure. */
#ifndef RSK_BACKOFF_H
#define RSK_BACKOFF_H

#include <stdint.h>

#define RSK_BACKOFF_FIRST_NS 100000000ull
#define RSK_BACKOFF_MOST_NS 10000000000ull

/*
 * After @failures in a row: 100 ms, doubled with each, up to 10 s, of which the second half is
 * random (@random: any number), so that many hosts do not ask at once.
 */
uint64_t rsk_backoff_ns(unsigned int failures, uint64_t random);

#endif
