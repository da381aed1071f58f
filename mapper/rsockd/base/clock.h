/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the daemon's clock, which all of its state machines use. */
#ifndef RSK_CLOCK_H
#define RSK_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. A function of its own, so that unit tests can replace it. */
uint64_t rsk_clock_ns(void);

#endif
