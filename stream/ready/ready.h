/* SPDX-License-Identifier: BSD-2-Clause */
/* ready.h - what poll(2) would tell of a stream, from its ring and its TCP socket. */
#ifndef RSK_READY_H
#define RSK_READY_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_stream;

/*
 * rsk_stream_poll - readiness as poll(2) tells it for @events, from ring and companion. With
 * @kernel >= 0 that is what the kernel has just said of the companion; -1: ask it if need be.
 */
short rsk_stream_poll(struct rsk_stream *s, int fd, short events, int kernel);
/*
 * The same from the rings alone. False: the kernel has to be asked, as poll(2) does it, which tells of ends behind
 * bytes as well; true only if it had nothing many times in a row, last a moment before @now_ns, and this thread has
 * done nothing since that could show there.
 */
bool rsk_stream_poll_rings(struct rsk_stream *s, short events, uint64_t now_ns, short *revents);
/* What of @events the kernel is to watch on the companion while we sleep; -1: nothing, and it is asked afterwards. */
int rsk_stream_kernel_events(struct rsk_stream *s, short events);

#endif
