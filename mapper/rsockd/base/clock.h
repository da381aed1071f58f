/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the daemon's clock, which all of its state machines use. */
#ifndef RSK_CLOCK_H
#define RSK_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC, in nanoseconds. A function of its own, so that unit tests can replace it. */
uint64_t rsk_clock_ns(void);

/* Reads the boot ID, a UUID. All zero, which no boot has, if it cannot be read. */
void rsk_clock_boot_id(uint8_t out[static 16]);

#endif
