/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * family.h - what a fork does to streams: in the parent before it, in its child, and when one
 * process has a stream to itself again. The processes share only what the kernel shares: sockets,
 * epoll sets, the overread file (over.h). fork.c and the calls of streams use this.
 */
#ifndef RSK_FAMILY_H
#define RSK_FAMILY_H

#include "stream.h"

/*
 * Before a fork, with the pairing lock and no other held: both directions go by TCP from now on,
 * and what lay unread in the ring is in the overread file. The peer need not do anything for that,
 * whatever state it is in. The stream stays paired.
 */
void rsk_stream_share(struct rsk_stream *s, int fd);

/*
 * For all @n streams, after rsk_stream_share(): waits, for a limited time, until the bytes that had
 * to be repeated (for a peer that has left its ring) are in the kernel.
 */
void rsk_streams_settle(struct rsk_stream *const *s, const int *fd, uint32_t n);

/*
 * Checks now and then whether the stream, with all epoll sets that it is in, belongs to this
 * process alone again. Then it may be promoted, as far as this end is concerned. No lock held.
 */
void rsk_stream_check_alone(struct rsk_stream *s, int fd);

static inline void rsk_stream_may_be_alone(struct rsk_stream *s, int fd)
{
	if (__builtin_expect(atomic_load_explicit(&s->fork.shared, memory_order_relaxed), 0))
		rsk_stream_check_alone(s, fd);
}

/*
 * In the child, which has one thread and holds no lock of the stream: cuts its copy of the stream
 * off from the parent's link. A paired stream becomes untracked, or PAIRED over a link that leads
 * nowhere, for as long as there is an overread file. @asleep: a call of this thread is in progress,
 * and the fork returns into its signal handler.
 */
void rsk_stream_inherit(struct rsk_stream *s, bool asleep);

#endif
