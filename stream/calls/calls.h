/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * calls.h - functions that the send, receive and control calls on one stream share. Internal to
 * calls/.
 */
#ifndef RSK_CALLS_H
#define RSK_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine.h"
#include "iovcur.h"

struct rsk_stream;
struct rsk_tuple;

/*
 * fd.c: makes a stream for connection @fd. @w: the table word, 0 or a mark; @peer may be NULL.
 * Returns it, not pinned; NULL: none was made.
 */
struct rsk_stream *rsk_fd_begin(int fd, uintptr_t w, bool connecting_side, bool nonblock,
				const struct rsk_tuple *peer);

/*
 * recv.c, send.c: one non-blocking round, with locks, notification and bookkeeping. Bytes or
 * -errno.
 */
ssize_t rsk_stream_recv_now(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, bool peek,
			    bool look);
/*
 * recv.c: a round of @got bytes, of the fast path, has ended early (@round bytes and more), so that
 * the sender gets credit; goes on as recv() does, waiting for the lock: a short count would tell a
 * reader by edges that nothing is left. Returns the bytes of all rounds.
 */
ssize_t rsk_stream_recv_more(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, ssize_t got,
			     size_t round);
/*
 * fast_path.c: rsk_fast_path_recv() if @fd is a number of @s, which is pinned; RSK_SLOW_PATH
 * otherwise.
 */
ssize_t rsk_stream_recv_fast(struct rsk_stream *s, int fd, const struct iovec *iov, int n,
			     int flags);
ssize_t rsk_stream_send_now(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags);

/* op.c: accounts @n bytes that a call has moved. */
void rsk_op_moved(struct rsk_stream *s, int fd, uint64_t n);
void rsk_op_uncount(struct rsk_op *op);
/* Calls rsk_pairing_step() if enough work has been done since the last step. */
void rsk_pairing_due(struct rsk_stream *s, int fd);
/*
 * chunked_send.c: sends a chunk of a large send before the stream is paired. Bytes or -errno;
 * -ESTALE: the stream is paired by now, send by the engine. @pid: 0 for the first chunk, then the
 * process that sent it, and two more results: -EPIPE, there is an error, which the next call takes;
 * -ECHILD, this is the child of a fork in a signal handler, and the parent sends the rest.
 */
ssize_t rsk_chunked_send(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags, int pid);
/*
 * Whether a send of @bytes blocks, and can be made in chunks; then the operation is not counted any
 * more.
 */
bool rsk_op_in_chunks(struct rsk_op *op, size_t bytes, int flags);
/*
 * shown_send.c: as rsk_op_send(), of a stream that is not paired; the operation is not counted any
 * more: send it in chunks, nothing was done. _chunk: one of these, or a part of it, of a call that
 * @may_wait; -RSK_EKERNEL: send it otherwise.
 */
ssize_t rsk_shown_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags);
ssize_t rsk_shown_chunk(struct rsk_stream *s, int fd, const struct iovec *iov, int flags,
			bool may_wait);

#endif
