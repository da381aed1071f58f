/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer_reset.h - a peer that closed, or was killed, with bytes of ours unread in its ring. No
 * kernel sends a reset then, so the library reports one. ready.c and recv.c call it.
 */
#ifndef RSK_PEER_RESET_H
#define RSK_PEER_RESET_H

#include <stdbool.h>

struct rsk_stream;

/*
 * True: the peer's reader never took some of our data slots, so the stream counts as reset (RFC
 * 1122 4.2.2.13).
 */
bool rsk_peer_left_data(struct rsk_stream *s);

/*
 * Our ring has no reader any more: sends go to the TCP socket from here on, which shows what TCP
 * shows.
 */
void rsk_peer_is_dead(struct rsk_stream *s);

/*
 * Called when the kernel shows the end of the peer's direction, and nothing else. If the peer
 * closed, or was killed, with bytes of ours unread in its ring, the stream is reset from here on,
 * and the next call reports it. No lock is held.
 */
bool rsk_stream_see_reset(struct rsk_stream *s, int fd);

#endif
