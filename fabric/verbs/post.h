/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.h - what goes out by a rail: the immediates of its messages, the send queue, what waits for it.
 */
#ifndef RSK_VERBS_POST_H
#define RSK_VERBS_POST_H

#include "inner.h"

/*
 * The immediate of a message: bits 0-14 stream, 15-23 units that it brought into (or freed in) the indirect buffer,
 * 24-25 kind, 28-29 RSK_WAKE_*.
 */
enum rsk_imm_kind {
	RSK_IMM_DATA = 0,  /* something was put for the stream; units have come */
	RSK_IMM_ROOM = 1,  /* units are free again */
	RSK_IMM_FLUSH = 2, /* say at once what is free */
};
#define RSK_IMM_SID(imm) ((imm)&0x7fffu)
#define RSK_IMM_UNITS(imm) ((imm) >> 15 & 0x1ffu)
#define RSK_IMM_KIND(imm) ((imm) >> 24 & 3u)
#define RSK_IMM_WHAT(imm) ((imm) >> 28 & 3u)
#define RSK_IMM_REST(imm) ((imm)&0xcc000000u) /* must be 0 */
_Static_assert(RSK_SEG_STREAMS == 0x8000 && RSK_INDIRECT_UNITS < 0x200, "they fit the immediate");

/* ---- rate_estimator.c; with r->lock held ---- */
void rsk_rate_estimator_reset(struct rsk_verbs_rail *r);
void rsk_rate_estimator_posted(struct rsk_verbs_rail *r, uint64_t index, uint64_t bytes);
bool rsk_rate_estimator_due(
	const struct rsk_verbs_rail *r); /* the next work request is to be signalled */
void rsk_rate_estimator_done(struct rsk_verbs_rail *r);
/* What is under way, and the rate: of *flow, those two. */
void rsk_rate_estimator_flow(struct rsk_verbs_rail *r, struct rsk_flow *flow);

/* ---- post.c: the send queue; with r->lock held ---- */
#define RSK_VERBS_BATCH 8u
struct rsk_batch {
	uint32_t n;
	struct ibv_send_wr wr[RSK_VERBS_BATCH];
	struct ibv_sge sge[RSK_VERBS_BATCH];
};
/* Places in the send queue, after a look at what has been done. One is kept for probes. */
uint32_t rsk_post_room(struct rsk_verbs_rail *r, uint32_t wanted);
/* Add a write; the batch is posted first if it is full. @lkey counts only if it is not sent inline. */
void rsk_post_add(struct rsk_verbs_rail *r, struct rsk_batch *b, const void *from, uint32_t bytes,
		  uint32_t lkey, uint64_t to, uint32_t rkey);
/* Post it, the last one with @imm; if there is none, one of no bytes. 0 or -errno: the rail has failed. */
int rsk_post_last(struct rsk_verbs_rail *r, struct rsk_batch *b, uint32_t imm);
/* A signalled write of no bytes, to know that all before it has arrived. */
int rsk_post_fence(struct rsk_verbs_rail *r);
int rsk_post_read(struct rsk_verbs_rail *r, uint32_t slot, uint64_t from, uint32_t rkey);
int rsk_post_atomic(struct rsk_verbs_rail *r, uint32_t slot, uint64_t at, uint32_t rkey,
		    const struct rsk_atomic *op);
/* A chain of a locked access, whose last one tells that it is done. */
int rsk_post_locked(struct rsk_verbs_rail *r, uint32_t slot, struct ibv_send_wr *first);
void rsk_post_reap(struct rsk_verbs_rail *r);
/* The next completion is an event, whatever it is; then one more look. */
void rsk_post_arm(struct rsk_verbs_rail *r);

/* ---- flush.c: what was noted is posted; with r->lock held ---- */
void rsk_flush_stream(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s);
/* Everything that has to wait no longer. */
void rsk_flush_lists(struct rsk_verbs_rail *r);
#define RSK_VERBS_TOLD 64u
/* Streams whose waiting is over: their ids, at most RSK_VERBS_TOLD of them at once; for news() without the lock. */
uint32_t rsk_flush_arrivals(struct rsk_verbs_rail *r, uint32_t sid[RSK_VERBS_TOLD]);
/* Has all of it arrived? Else it is waited for. */
bool rsk_flush_arrived(struct rsk_verbs_rail *r, struct rsk_vstream *s);

#endif
