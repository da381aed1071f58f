// SPDX-License-Identifier: BSD-2-Clause
/*
 * cmsg.c - what recvmsg() tells of a stream besides its bytes: with MSG_ERRQUEUE, completions of
 * MSG_ZEROCOPY sends that were the library's (zerocopy.h); when the bytes arrived (stamps.h). The
 * hooks call it by way of engine.h, after the kernel.
 */
#include "engine.h"
#include "fallback.h"
#include "stamps.h"
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

void rsk_fd_stamps_set(int fd)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	enum rsk_stamps what = s ? rsk_stamps_asked(fd) : RSK_STAMPS_NONE;
	bool paired;

	if (!s)
		return;
	/* Store, fence, read the phase; a thread that pairs it sets the phase, then reads this. */
	atomic_store(&s->stamps, rsk_stamps_type(fd, what));
	atomic_thread_fence(memory_order_seq_cst);
	paired = rsk_stream_phase(s) == RSK_PHASE_PAIRED;
	if (what == RSK_STAMPS_KERNEL || (what && paired && s->link->remote))
		rsk_fd_fall_back(fd, RSK_REASON_MESSAGES);
	else if (what && paired)
		rsk_stream_want_stamps(s);
	rsk_stream_unpin(s);
}

int rsk_fd_stamp(int fd, bool peeked, uint64_t *ns)
{
	struct rsk_stream *s = rsk_stream_of(fd);
	int type;

	if (!s)
		return 0;
	type = atomic_load_explicit(&s->stamps, memory_order_relaxed);
	if (type) {
		rsk_lock(&s->rx_lock);
		*ns = peeked ? s->rx.stamp.peeked_ns : s->rx.stamp.taken_ns;
		rsk_unlock(&s->rx_lock);
	}
	rsk_stream_unpin(s);
	return type && *ns ? type : 0;
}
