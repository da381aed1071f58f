// SPDX-License-Identifier: BSD-2-Clause
/* clock.c - see clock.h. */
#include "clock.h"

#include <rsock/clock.h>

uint64_t rsk_clock_ns(void)
{
	return rsk_monotonic_ns();
}
