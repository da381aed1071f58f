/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * anew.h - a stream that was paired looks for its peer once more, since the two ends are not those
 * of the pairing any more: a child goes on with its parent's stream, or the peer is that child.
 * family.c and fallback.c call it.
 */
#ifndef RSK_ANEW_H
#define RSK_ANEW_H

#include "stream.h"

/* Cuts the stream off from its link; nobody else uses it. */
void rsk_stream_detach(struct rsk_stream *s);

/* Makes a detached stream a candidate. What was found out about its peer is forgotten. */
void rsk_stream_search_anew(struct rsk_stream *s);

/*
 * Another process has the peer's end by now (rsk_stream_peer_left()). The calling thread has pinned
 * the stream, by @fd, and does nothing with it yet. Leaves the ring for good, and begins anew, as
 * if the stream had just been accepted or connected; the caller looks at its phase once more. Does
 * nothing as long as bytes of the pairing are under way, or another call uses the stream: then a
 * later call does. If another one comes in that very moment the stream stays on TCP. No lock is
 * held.
 */
void rsk_stream_anew(struct rsk_stream *s, int fd);

#endif
