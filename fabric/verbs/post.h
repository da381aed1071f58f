/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * post.h - sending by a rail: the immediates of its messages, the send queue, and the lists of
 * streams that wait for it.
 */
#ifndef RSK_VERBS_POST_H
#define RSK_VERBS_POST_H

#include "inner.h"

/*
 * The immediate of a message: bits 0-14 stream, 15-23 units that the message brought into (or freed
 * in) the indirect buffer, 24-25 kind, 28-29 RSK_WAKE_*.
 */
enum rsk_imm_kind {
	/* Something was put for the stream; the units have arrived */
	RSK_IMM_DATA = 0,
	RSK_IMM_ROOM = 1,  /* the units are free again */
	RSK_IMM_FLUSH = 2, /* request to report free units at once */
};
#define RSK_IMM_SID(imm) ((imm)&0x7fffu)
#define RSK_IMM_UNITS(imm) ((imm) >> 15 & 0x1ffu)
#define RSK_IMM_KIND(imm) ((imm) >> 24 & 3u)
#define RSK_IMM_WHAT(imm) ((imm) >> 28 & 3u)
#define RSK_IMM_REST(imm) ((imm)&0xcc000000u) /* must be 0 */
_Static_assert(RSK_SEG_STREAMS == 0x8000 && RSK_INDIRECT_UNITS < 0x200, "they fit the immediate");

/* ---- rate_estimator.c: rate estimator; with r->lock held ---- */
void rsk_rate_estimator_reset(struct rsk_verbs_rail *r);
void rsk_rate_estimator_posted(struct rsk_verbs_rail *r, uint64_t index, uint64_t bytes);
/* True if the next work request is to be signalled */
bool rsk_rate_estimator_due(const struct rsk_verbs_rail *r);
void rsk_rate_estimator_done(struct rsk_verbs_rail *r);
/* Sets two fields of *flow: bytes in flight, and the rate. */
void rsk_rate_estimator_flow(struct rsk_verbs_rail *r, struct rsk_flow *flow);

/* ---- post.c: the send queue; with r->lock held ---- */
#define RSK_VERBS_BATCH 8u
struct rsk_batch {
	uint32_t n;
	struct ibv_send_wr wr[RSK_VERBS_BATCH];
	struct ibv_sge sge[RSK_VERBS_BATCH];
};
/*
 * Returns the number of free places in the send queue; polls completions first if there are fewer
 * than @wanted. One place is kept for probes.
 */
uint32_t rsk_post_room(struct rsk_verbs_rail *r, uint32_t wanted);
/*
 * Adds a write to the batch; posts the batch first if it is full. @lkey is used only if the write
 * is not inlined.
 */
void rsk_post_add(struct rsk_verbs_rail *r, struct rsk_batch *b, const void *from, uint32_t bytes,
		  uint32_t lkey, uint64_t to, uint32_t rkey);
/*
 * Posts the batch; its last write carries @imm. An empty batch is sent as one write of 0 bytes.
 * Returns 0 or -errno: the rail has failed.
 */
int rsk_post_last(struct rsk_verbs_rail *r, struct rsk_batch *b, uint32_t imm);
/*
 * Posts a signalled write of 0 bytes, whose completion says that everything before it has arrived.
 */
int rsk_post_fence(struct rsk_verbs_rail *r);
int rsk_post_read(struct rsk_verbs_rail *r, uint32_t slot, uint64_t from, uint32_t rkey);
/* Posts work requests of which the last one, signalled, completes the read @slot. */
int rsk_post_chain(struct rsk_verbs_rail *r, struct ibv_send_wr *first, uint32_t slot);
void rsk_post_reap(struct rsk_verbs_rail *r);
/* Requests an event for the next completion of any kind, then polls once more. */
void rsk_post_arm(struct rsk_verbs_rail *r);

/* ---- flush.c: posts pending writes; with r->lock held ---- */
void rsk_flush_stream(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s);
/* Posts everything that need not wait any longer. */
void rsk_flush_lists(struct rsk_verbs_rail *r);
#define RSK_VERBS_TOLD 64u
/*
 * Returns the streams whose data has arrived: their number, at most RSK_VERBS_TOLD, and their ids.
 * The caller passes them to news() without the lock.
 */
uint32_t rsk_flush_arrivals(struct rsk_verbs_rail *r, uint32_t sid[RSK_VERBS_TOLD]);
/* Has everything of the stream arrived, as far as completions have been taken? */
bool rsk_flush_is_there(const struct rsk_verbs_rail *r, const struct rsk_vstream *s);
/* Returns true if everything of the stream has arrived. Otherwise it arranges for an event. */
bool rsk_flush_arrived(struct rsk_verbs_rail *r, struct rsk_vstream *s);

#endif
