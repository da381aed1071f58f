/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operator_request.h - an operator's request about one stream (rsock demote, rsock promote), which
 * its record in the statistics carries (struct rsk_stats_stream): on TCP both ways until the next
 * request, or on the ring as soon as possible. Any process that may write to the segment can make a
 * request; it is applied only if it is one of these two. The stream's own calls check for it.
 */
#ifndef RSK_REQUEST_H
#define RSK_REQUEST_H

#include "stream.h"

/*
 * How often a call that does nothing else slow checks: a sender once in so many slots; a receiver
 * with each credit.
 */
#define RSK_REQUEST_SLOTS 256u

/*
 * True if there is a request that this stream has not checked yet. No lock, relaxed: a later check
 * is early enough.
 */
static inline bool rsk_stream_requested(const struct rsk_stream *s)
{
	return __builtin_expect(rsk_stats_request(s->rec) !=
					atomic_load_explicit(&s->request.seen,
							     memory_order_relaxed),
				0);
}

/*
 * Applies the request, in any phase of the stream: a paired one goes to the TCP socket both ways,
 * or may propose again; another one is kept from looking up its peer, or counts as having earned
 * promotion. No lock of the stream is held; pinned.
 */
void rsk_stream_apply(struct rsk_stream *s, int fd);

static inline void rsk_stream_check_request(struct rsk_stream *s, int fd)
{
	if (rsk_stream_requested(s))
		rsk_stream_apply(s, fd);
}

/* The stream has just been paired: if it was demoted before, it stays off the ring. */
void rsk_stream_request_paired(struct rsk_stream *s);

#endif
