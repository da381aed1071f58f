/* SPDX-License-Identifier: BSD-2-Clause */
/* random.h - unpredictable numbers, for seeds and for names of links. */
#ifndef RSK_RANDOM_H
#define RSK_RANDOM_H

#include <stdint.h>

/* From getrandom(2); never 0. */
uint64_t rsk_random_u64(void);

#endif
