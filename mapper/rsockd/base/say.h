/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * say.h - writes log lines while the daemon serves, at a bounded rate, so that other hosts and
 * processes cannot fill the log. Lines that are left out are counted, and the next line is preceded
 * by their number. All parts of the daemon call it; one thread.
 */
#ifndef RSK_SAY_H
#define RSK_SAY_H

#include <stdint.h>

#define RSK_SAY_AT_ONCE 50u   /* burst of lines, after a while without any */
#define RSK_SAY_IN_MINUTE 60u /* sustained rate */

__attribute__((format(printf, 1, 2))) void rsk_say(const char *format, ...);

/* Sends libevent's messages here, too. */
void rsk_say_open(void);

/* Number of lines that were left out so far. */
uint64_t rsk_say_left_out(void);

#endif
