// SPDX-License-Identifier: BSD-2-Clause
/* clock.c - see clock.h. */
#include "clock.h"

#include <time.h>

uint64_t rsk_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
