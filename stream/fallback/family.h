/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * family.h - what a fork does to streams: in the parent before it, in its child, and when one process has a stream to
 * itself again. Nothing is shared but what the kernel shares: sockets, epoll sets, the overread file (over.h).
 */
#ifndef RSK_FAMILY_H
#define RSK_FAMILY_H

#include "stream.h"

/*
 * Before a fork, join lock held, no other: both directions go by TCP from now on, and what lay unread in the ring is in
 * the overread file. The peer need not do anything for that, whatever it is at. The stream stays paired.
 */
void rsk_stream_share(struct rsk_stream *s, int fd);

/*
 * The same of all of @n streams, which were shared: bytes that had to be repeated (for a peer that has left its ring)
 * are in the kernel's hands; not for long.
 */
void rsk_streams_settle(struct rsk_stream *const *s, const int *fd, uint32_t n);

/*
 * Is it this process's alone again, with all epoll sets that it is in? Then it may be promoted, as far as this end is
 * concerned. Looks now and then; no lock held.
 */
void rsk_stream_check_alone(struct rsk_stream *s, int fd);

static inline void rsk_stream_may_be_alone(struct rsk_stream *s, int fd)
{
	if (__builtin_expect(atomic_load_explicit(&s->shared, memory_order_relaxed), 0))
		rsk_stream_check_alone(s, fd);
}

/*
 * In the child, one thread, which has no lock of it: its copy of the stream is cut off from the parent's link. What was
 * paired is COLD, or JOINED over a link that leads nowhere, while there is an overread file. @asleep: a call of this
 * thread is under way, into whose signal handler the fork returns.
 */
void rsk_stream_inherit(struct rsk_stream *s, bool asleep);

#endif
