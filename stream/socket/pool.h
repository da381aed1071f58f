/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h - freed streams, for reuse as streams (stream.h: type-stable). No lock, no system call, signal-safe; shared by
 * the family. Who is killed in the middle of a call costs at most one stream.
 */
#ifndef RSK_POOL_H
#define RSK_POOL_H

struct rsk_stream;

struct rsk_stream *rsk_pool_take(void); /* NULL: there is none */
void rsk_pool_give(struct rsk_stream *s);

#endif
