// SPDX-License-Identifier: BSD-2-Clause
/*
 * errqueue.c - what recvmsg(MSG_ERRQUEUE) has of a stream whose MSG_ZEROCOPY sends were the
 * library's (zerocopy.h). The hooks call it by way of engine.h, after the kernel.
 */
#include "engine.h"
#include "fallback.h"
#include "stream.h"

bool rsk_fd_completion(int fd, uint32_t range[static 2])
{
	struct rsk_stream *s = rsk_stream_of(fd);
	bool some;

	if (!s)
		return false;
	some = rsk_zerocopy_take(&s->zerocopy, range);
	/* It may have been the last that kept the stream with the library. */
	if (some && atomic_load_explicit(&s->fallback_due, memory_order_relaxed))
		rsk_stream_fall_back_late(s, fd);
	rsk_stream_unpin(s);
	return some;
}

void rsk_fd_renumber(int fd, uint32_t range[static 2])
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	rsk_zerocopy_renumber(&s->zerocopy, range);
	rsk_stream_unpin(s);
}

void rsk_fd_zerocopy_by_tcp(int fd)
{
	struct rsk_stream *s = rsk_stream_of(fd);

	if (!s)
		return;
	atomic_store_explicit(&s->zerocopy.by_tcp, true, memory_order_relaxed);
	rsk_stream_unpin(s);
}
