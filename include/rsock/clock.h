/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h - reads a clock in nanoseconds.
 *
 * clock_gettime() and not rsk_sys_*(): the library does not hook it, and libc reads most clocks
 * through the vDSO, without a system call. It does not fail for a clock that exists, and is
 * async-signal-safe.
 */
#ifndef RSOCK_CLOCK_H
#define RSOCK_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t rsk_time_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t rsk_monotonic_ns(void)
{
	return rsk_time_ns(CLOCK_MONOTONIC);
}

#endif
