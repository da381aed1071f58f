/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * say.h - lines to the log while the daemon serves: whatever others do, so many and no more. What is left out is
 * counted, and said with the next line. One thread.
 */
#ifndef RSK_SAY_H
#define RSK_SAY_H

#include <stdint.h>

#define RSK_SAY_AT_ONCE 50u   /* lines, after a while without any */
#define RSK_SAY_IN_MINUTE 60u /* from then on */

__attribute__((format(printf, 1, 2))) void rsk_say(const char *format, ...);

/* What libevent has to say comes here, too. */
void rsk_say_open(void);

/* Lines that were left out so far. */
uint64_t rsk_say_left_out(void);

#endif
