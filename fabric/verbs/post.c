// SPDX-License-Identifier: BSD-2-Clause
/*
 * post.c - a rail's send queue. Called by most files of librsock-verbs.so, always with the rail's
 * lock held.
 *
 * Few work requests are signalled: one in each quarter of the queue, fences and READs. A completion
 * implies that all work requests before it are done as well.
 */
#include <arpa/inet.h>
#include <errno.h>

#include <rsock/splitmix.h>

#include "post.h"

#define READ_TAG (1ull << 63)
#define READ_SHIFT 48
#define INDEX_MASK ((1ull << READ_SHIFT) - 1)

static int status_err(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EACCES;
	case IBV_WC_WR_FLUSH_ERR: /* the reason is in another completion or event */
		return -EPIPE;
	default:
		return -EIO;
	}
}

static void read_done(struct rsk_verbs_rail *r, uint32_t slot, int status)
{
	struct rsk_vread *rd = &r->read[slot % RSK_VERBS_READS];

	if (rd->state != RSK_READ_POSTED)
		return;
	rd->missing = status == 0 && rsk_canary_missing(r->buf->read[slot % RSK_VERBS_READS],
							rd->len, rd->pattern);
	if (status == 0 && !rd->missing)
		memcpy(rd->dst, r->buf->read[slot % RSK_VERBS_READS], rd->len);
	rd->status = status;
	rd->state = RSK_READ_DONE;
}

void rsk_post_reap(struct rsk_verbs_rail *r)
{
	struct ibv_wc wc[16];
	int n;

	do {
		n = ibv_poll_cq(r->cq, 16, wc);
		if (n > 0)
			RSK_COUNT(r->v, SEND_COMPLETIONS, (uint64_t)n);
		for (int i = 0; i < n; i++) {
			uint64_t index = wc[i].wr_id & INDEX_MASK;
			int err = wc[i].status == IBV_WC_SUCCESS ? 0 : status_err(wc[i].status);

			if (err)
				rsk_rail_fail(r, err);
			if (index > r->done) {
				r->done = index;
				rsk_rate_estimator_done(r);
			}
			if (wc[i].wr_id & READ_TAG)
				read_done(r, wc[i].wr_id >> READ_SHIFT & (RSK_VERBS_READS - 1),
					  err);
		}
	} while (n == 16);
	if (n < 0)
		rsk_rail_fail(r, -EIO);
}
_Static_assert((RSK_VERBS_READS & (RSK_VERBS_READS - 1)) == 0, "a read's number in the id");

void rsk_post_arm(struct rsk_verbs_rail *r)
{
	if (!r->armed_all) {
		if (ibv_req_notify_cq(r->cq, 0))
			rsk_rail_fail(r, -EIO);
		r->armed_all = true;
	}
	rsk_post_reap(r);
}

static uint32_t room(const struct rsk_verbs_rail *r)
{
	uint64_t used = r->posted - r->done;

	return used + 1 < r->depth ? (uint32_t)(r->depth - 1 - used) : 0;
}

uint32_t rsk_post_room(struct rsk_verbs_rail *r, uint32_t wanted)
{
	if (room(r) < wanted)
		rsk_post_reap(r);
	return room(r);
}

/* Gives it an index. It is signalled if one is due, or if @must. */
static void number(struct rsk_verbs_rail *r, struct ibv_send_wr *wr, bool must)
{
	wr->wr_id = ++r->posted;
	rsk_rate_estimator_posted(r, r->posted, wr->num_sge ? wr->sg_list->length : 0);
	if (must || r->posted - r->signalled >= r->depth / 4 || rsk_rate_estimator_due(r)) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		r->signalled = r->posted;
		r->rate_estimator.signalled = r->rate_estimator.posted;
	}
}

static int post(struct rsk_verbs_rail *r, struct ibv_send_wr *first)
{
	struct ibv_send_wr *bad;
	uint64_t n = 0, bytes = 0, inlined = 0, signalled = 0;
	int rc;

	for (const struct ibv_send_wr *wr = first; wr; wr = wr->next) {
		n++;
		for (int i = 0; i < wr->num_sge; i++)
			bytes += wr->sg_list[i].length;
		inlined += (wr->send_flags & IBV_SEND_INLINE) != 0;
		signalled += (wr->send_flags & IBV_SEND_SIGNALED) != 0;
	}
	rc = ibv_post_send(r->qp, first, &bad);
	if (rc) {
		rsk_rail_fail(r, rc > 0 ? -rc : -EIO);
		return -EIO;
	}
	if (signalled)
		RSK_COUNT(r->v, SIGNALLED, signalled);
	if (first->opcode == IBV_WR_RDMA_READ) {
		RSK_COUNT(r->v, READS, 1);
		return 0;
	}
	RSK_COUNT(r->v, WRITES, n);
	RSK_COUNT(r->v, WRITE_BYTES, bytes);
	if (inlined)
		RSK_COUNT(r->v, INLINED, inlined);
	return 0;
}

static int post_batch(struct rsk_verbs_rail *r, struct rsk_batch *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		b->wr[i].sg_list = b->wr[i].num_sge ? &b->sge[i] : NULL;
		number(r, &b->wr[i], false);
		b->wr[i].next = i + 1 < b->n ? &b->wr[i + 1] : NULL;
	}
	b->n = 0;
	return post(r, b->wr);
}

void rsk_post_add(struct rsk_verbs_rail *r, struct rsk_batch *b, const void *from, uint32_t bytes,
		  uint32_t lkey, uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr *wr;

	if (b->n == RSK_VERBS_BATCH)
		post_batch(r, b);
	wr = &b->wr[b->n];
	b->sge[b->n] = (struct ibv_sge){ .addr = (uintptr_t)from, .length = bytes, .lkey = lkey };
	*wr = (struct ibv_send_wr){ .num_sge = bytes != 0, .opcode = IBV_WR_RDMA_WRITE };
	if (bytes <= r->max_inline && bytes)
		wr->send_flags = IBV_SEND_INLINE;
	wr->wr.rdma.remote_addr = to;
	wr->wr.rdma.rkey = rkey;
	b->n++;
}

int rsk_post_last(struct rsk_verbs_rail *r, struct rsk_batch *b, uint32_t imm)
{
	struct ibv_send_wr *wr;

	if (!b->n)
		rsk_post_add(r, b, NULL, 0, 0, 0, 0);
	wr = &b->wr[b->n - 1];
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl(imm);
	RSK_COUNT(r->v, WITH_IMM, 1);
	return post_batch(r, b);
}

int rsk_post_fence(struct rsk_verbs_rail *r)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };

	number(r, &wr, true);
	return post(r, &wr);
}

int rsk_post_chain(struct rsk_verbs_rail *r, struct ibv_send_wr *first, uint32_t slot)
{
	for (struct ibv_send_wr *wr = first; wr; wr = wr->next) {
		number(r, wr, !wr->next);
		if (!wr->next)
			wr->wr_id |= READ_TAG | (uint64_t)slot << READ_SHIFT;
	}
	return post(r, first);
}

int rsk_post_read(struct rsk_verbs_rail *r, uint32_t slot, uint64_t from, uint32_t rkey)
{
	struct rsk_vread *rd = &r->read[slot];
	struct ibv_sge sge = { .addr = (uintptr_t)r->buf->read[slot],
			       .length = rd->len,
			       .lkey = r->out_mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };

	wr.wr.rdma.remote_addr = from;
	wr.wr.rdma.rkey = rkey;
	rd->pattern = rsk_splitmix_next(&r->patterns);
	rsk_canary_prepare(r->buf->read[slot], rd->len, rd->pattern);
	return rsk_post_chain(r, &wr, slot);
}
