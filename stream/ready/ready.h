/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.h - readiness of a paired stream as poll(2) reports it, from its ring and its TCP socket.
 * poll.c and the epoll code call it.
 */
#ifndef RSK_READY_H
#define RSK_READY_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_stream;

/*
 * rsk_stream_poll - readiness as poll(2) reports it for @events, from the ring and the TCP socket.
 * @kernel >= 0: what the kernel has just reported for the TCP socket; -1: the function asks it if
 * needed.
 */
short rsk_stream_poll(struct rsk_stream *s, int fd, short events, int kernel);

/*
 * The same for a stream that is not paired: what the kernel has reported, less a POLLERR that comes
 * from a segment which it has shown to the library once more (syn.h).
 */
short rsk_stream_poll_unpaired(struct rsk_stream *s, int fd, short events, short kernel);
/*
 * The same from the rings alone. False: the kernel has to be asked, as poll(2) also reports an end
 * that is behind unread bytes. True only if the kernel had nothing many times in a row, was last
 * asked a moment before @now_ns, and this thread has made no kernel call since that could show
 * there.
 */
bool rsk_stream_poll_rings(struct rsk_stream *s, short events, uint64_t now_ns, short *revents);
/*
 * Which of @events the kernel is to watch on the TCP socket while the caller sleeps; -1: none, and
 * the kernel is asked afterwards.
 */
int rsk_stream_kernel_events(struct rsk_stream *s, short events);

#endif
