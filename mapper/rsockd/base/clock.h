/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.h - the daemon's time. */
#ifndef RSK_CLOCK_H
#define RSK_CLOCK_H

#include <stdint.h>

/* Monotonic. */
uint64_t rsk_clock_ns(void);

#endif
