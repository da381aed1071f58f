/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * operator_request.h - an operator's wish about one stream (rsock demote, rsock promote), as its record in the statistics carries
 * it (struct rsk_stats_stream): on TCP both ways until the next wish, or by the ring as soon as that can be. Anybody
 * who may write to the segment can wish; what is there is believed only as far as it is one of the two.
 */
#ifndef RSK_REQUEST_H
#define RSK_REQUEST_H

#include "stream.h"

/* How often a call that does nothing else slow looks: every so many slots sent; a receiver, with each credit. */
#define RSK_REQUEST_SLOTS 256u

/* Has something been wished since this stream last looked? No lock, relaxed: the next look will do. */
static inline bool rsk_stream_requested(const struct rsk_stream *s)
{
	return __builtin_expect(rsk_stats_request(s->rec) !=
					atomic_load_explicit(&s->request_seen,
							     memory_order_relaxed),
				0);
}

/*
 * Takes it in. In whatever phase the stream is: one that is joined goes to the companion both ways, or is free to
 * propose again; another is kept from seeking its peer, or has earned it. No lock of the stream is held; pinned.
 */
void rsk_stream_apply(struct rsk_stream *s, int fd);

static inline void rsk_stream_check_request(struct rsk_stream *s, int fd)
{
	if (rsk_stream_requested(s))
		rsk_stream_apply(s, fd);
}

/* It has just been joined: if it was taken off before that, it stays off. */
void rsk_stream_request_paired(struct rsk_stream *s);

#endif
