/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.h - what the calls on one stream have in common. */
#ifndef RSK_CALLS_H
#define RSK_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine.h"
#include "iovcur.h"

struct rsk_stream;

/* recv.c, send.c: one non-blocking round, with locks, notification and bookkeeping */
ssize_t rsk_stream_recv_now(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, bool peek,
			    bool look);
ssize_t rsk_stream_send_now(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags);

/* op.c: so many bytes were moved by a call. */
void rsk_op_moved(struct rsk_stream *s, int fd, uint64_t n);
void rsk_op_uncount(struct rsk_op *op);
void rsk_pairing_due(struct rsk_stream *s,
		     int fd); /* rsk_pairing_step(), if its work has come so far */
/*
 * chunked_send.c: a piece of a large send before the stream is joined. Bytes or -errno; -ESTALE: joined
 * by now, send it so; -EPIPE, if not the @first piece: there is an error, for the next call to
 * take.
 */
ssize_t rsk_chunked_send(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags,
			 bool first);

#endif
