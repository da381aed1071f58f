/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h - freed streams, for reuse as streams (stream.h: type-stable). stream.c calls it. No lock,
 * no system call, signal-safe; it survives a fork as a copy. A thread that is killed in the middle
 * of a call costs at most one stream.
 */
#ifndef RSK_POOL_H
#define RSK_POOL_H

struct rsk_stream;

struct rsk_stream *rsk_pool_take(void); /* NULL: the pool is empty */
void rsk_pool_give(struct rsk_stream *s);

#endif
