/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * peer_reset.h - a peer that closed, or was killed, with bytes of ours unread in its ring: a reset
 * that no kernel sends.
 */
#ifndef RSK_PEER_RESET_H
#define RSK_PEER_RESET_H

#include <stdbool.h>

struct rsk_stream;

/* Our data slots that the peer's reader never took: it reset the stream (RFC 1122 4.2.2.13). */
bool rsk_peer_left_data(struct rsk_stream *s);

/* Nobody reads our ring any more: what is sent from here on goes to the companion, which shows what TCP shows. */
void rsk_peer_is_dead(struct rsk_stream *s);

/*
 * A reset that the kernel has not seen, of this @err: told once, after that it is the end, and EPIPE. The companion is
 * shut both ways, so that the kernel shows it as it shows a socket that was reset and has told so: POLLHUP, and edges
 * of it.
 * @told: by the call under way; else it is kept for the next one that asks.
 */
bool rsk_peer_reset(struct rsk_stream *s, int fd, int err, bool told);

/*
 * The kernel shows the end of the peer's direction, and nothing else: was it closed, or killed, with
 * bytes of ours unread in its ring? Then it is a reset from here on, for the next call to tell. No
 * lock held.
 */
bool rsk_stream_see_reset(struct rsk_stream *s, int fd);

#endif
