/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * splitmix.h - pseudo-random numbers: the same seed gives the same numbers. For patterns,
 * simulations and tests, not for secrets: a number reveals the state, and so all that follow. All
 * functions are async-signal-safe.
 *
 * Source: splitmix64, of Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
 * OOPSLA 2014.
 */
#ifndef RSOCK_SPLITMIX_H
#define RSOCK_SPLITMIX_H

#include <stdint.h>

#define RSK_SPLITMIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* Spreads the bits of @z over 64 bits; different values stay different, and 0 stays 0. */
static inline uint64_t rsk_splitmix_mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* Returns the next number. @state may start with any value. */
static inline uint64_t rsk_splitmix_next(uint64_t *state)
{
	return rsk_splitmix_mix(*state += RSK_SPLITMIX_STEP);
}

#endif
