/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * timeouts.h - SO_RCVTIMEO and SO_SNDTIMEO of a stream. The kernel has the values; a stream that no
 * other process shares remembers them. wait.c uses them, and the hook of setsockopt().
 */
#ifndef RSK_TIMEOUTS_H
#define RSK_TIMEOUTS_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_stream;

/* SO_RCVTIMEO (@recv) or SO_SNDTIMEO of @fd, in microseconds; 0: for ever. */
uint64_t rsk_stream_timeout(struct rsk_stream *s, int fd, bool recv);
/* It was set: reads the kernel's value. */
void rsk_stream_timeout_set(struct rsk_stream *s, int fd, bool recv);

#endif
