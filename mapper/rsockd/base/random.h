/* SPDX-License-Identifier: BSD-2-Clause */
/* random.h - numbers that nobody can guess: seeds, names of links. */
#ifndef RSK_RANDOM_H
#define RSK_RANDOM_H

#include <stdint.h>

/* From the kernel; never 0. */
uint64_t rsk_random_u64(void);

#endif
