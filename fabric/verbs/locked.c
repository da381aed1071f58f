// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked.c - locked access (locked.h) with operations that every RNIC has. Called by streams
 * through the table in put.c, and by fetch.c and rail.c.
 *
 * One chain of work requests, executed in order: a WRITE of the new content into a slot that
 * belongs to the holder, a compare-and-swap of the lock word that makes this slot current, and a
 * READ of the whole record. The compare-and-swap is lock, access and unlock in one. If it fails,
 * nothing has changed, and the READ shows why and what the next try has to start from; so each try
 * takes one round trip. If the lock is held, the try expects the word as it will be when the lock
 * is released without a change.
 *
 * A response may be missing although the request has completed: seen with rxe and lost packets (rxe
 * seems to take the plain acknowledgement of a duplicate WRITE for the acknowledgement of a request
 * behind that WRITE). Therefore the response buffers are cleared to a content that cannot be a
 * response (zeros are no lock word and no slot); if it is unknown what the compare-and-swap found,
 * the record is read until the outcome is known.
 *
 * No WRITE goes into a current slot: a holder has two slots and writes into the one that it did not
 * commit last, which it knows (by->known) or reads first. Everything runs under the rail's lock and
 * never waits.
 */
#include <errno.h>

#include "ops.h"
#include "post.h"

/* Further reads when the outcome is unknown; after them the record is taken for damaged */
#define LOOKS 1000u

/* The buffers of that access: values read and swapped stay here until they are evaluated. */
static struct rsk_vlocked_buffer *buffer_of(struct rsk_verbs_rail *r, uint32_t slot)
{
	return &r->locked_buf[slot];
}

static int post_chain(struct rsk_verbs_rail *r, uint32_t slot)
{
	struct rsk_vlocked *lk = &r->locked[slot];
	struct rsk_vlocked_buffer *b = buffer_of(r, slot);
	uint64_t record = r->peer.segment + lk->op->by->off;
	uint32_t lkey = r->locked_mr->lkey, n = 0;
	struct ibv_send_wr wr[3] = { 0 };
	struct ibv_sge sge[3];

	if (!r->live || rsk_post_room(r, 3) < 3)
		return r->live ? -EAGAIN : -EPIPE;
	b->old = 0;
	memset(b->image, 0, RSK_LOCKED_BYTES(lk->op->by->holders));
	if (lk->swaps && lk->next.staged) {
		b->stage = lk->next.content;
		wr[n].opcode = IBV_WR_RDMA_WRITE;
		wr[n].send_flags = sizeof(b->stage) <= r->max_inline ? IBV_SEND_INLINE : 0;
		wr[n].wr.rdma.remote_addr =
			record + RSK_LOCKED_HEAD_BYTES + lk->next.slot * sizeof(b->stage);
		wr[n].wr.rdma.rkey = lk->rkey;
		sge[n++] = (struct ibv_sge){ (uintptr_t)&b->stage, sizeof(b->stage), lkey };
	}
	if (lk->swaps) {
		wr[n].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr[n].wr.atomic.remote_addr = record;
		wr[n].wr.atomic.rkey = lk->rkey;
		wr[n].wr.atomic.compare_add = lk->next.from;
		wr[n].wr.atomic.swap = lk->next.to;
		sge[n++] = (struct ibv_sge){ (uintptr_t)&b->old, sizeof(b->old), lkey };
	}
	wr[n].opcode = IBV_WR_RDMA_READ;
	wr[n].wr.rdma.remote_addr = record;
	wr[n].wr.rdma.rkey = lk->rkey;
	sge[n++] = (struct ibv_sge){ (uintptr_t)b->image,
				     (uint32_t)RSK_LOCKED_BYTES(lk->op->by->holders), lkey };
	for (uint32_t i = 0; i < n; i++) {
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	lk->state = RSK_READ_POSTED;
	return rsk_post_locked(r, slot, wr);
}

/*
 * Posts the next try, based on what is known of the record: with a compare-and-swap if it would
 * succeed once the lock is free, else only a READ.
 */
static int post_try(struct rsk_verbs_rail *r, uint32_t slot, bool known)
{
	struct rsk_vlocked *lk = &r->locked[slot];
	struct rsk_locked_view v;

	lk->swaps = false;
	/* To leave in the name of another holder, that holder's share must have been read. */
	if (known && lk->op->kind != RSK_LOCKED_READ) {
		v = lk->op->by->view;
		if (lk->op->kind != RSK_LOCKED_UNLOCK && lk->op->kind != RSK_LOCKED_BREAK &&
		    rsk_locked_holder(v.word) != lk->op->by->me)
			v.word &= ~0xffull;
		lk->swaps = rsk_locked_plan(lk->op, &v, &lk->next) == 1;
	}
	return post_chain(r, slot);
}

/*
 * Decides the result of an operation of which it is not known whether it was executed. An operation
 * that has a number was already checked by it. Unlock and break have none: -ESTALE means that the
 * record is as they wanted it.
 */
static int unsure(const struct rsk_vlocked *lk, int rc)
{
	bool frees = lk->op->kind == RSK_LOCKED_UNLOCK || lk->op->kind == RSK_LOCKED_BREAK;

	return lk->unsure && frees && rc == -ESTALE ? 0 : rc;
}

/*
 * Evaluates a chain that has completed. Returns 1 if the operation has ended, with lk->status; 0 if
 * it goes on.
 */
static int went(struct rsk_verbs_rail *r, uint32_t slot)
{
	struct rsk_vlocked *lk = &r->locked[slot];
	struct rsk_vlocked_buffer *b = buffer_of(r, slot);
	struct rsk_locked *op = lk->op;
	struct rsk_locked_next next;
	int rc = lk->status;

	if (rc < 0)
		return 1;
	op->tries += lk->swaps;
	lk->unsure |= lk->swaps && !b->old;
	if (lk->swaps && b->old == lk->next.from) {
		rsk_locked_took(op, &lk->next);
		return 1;
	}
	rc = rsk_locked_load(b->image, op, &op->by->view);
	op->by->known = rc == 0;
	if (rc == 0)
		rc = rsk_locked_plan(op, &op->by->view, &next);
	if (rc == 1 || rc == -ESTALE)
		rc = unsure(lk, rc);
	if (rc != -EAGAIN && rc != -EBADMSG)
		lk->unsure = false;
	/*
	 * A read that found something to do does not count as a try. -EBADMSG: the record may have
	 * changed while it was read.
	 */
	op->tries += !lk->swaps && rc != 1;
	lk->status = rc == -EAGAIN || rc == 1 ? -EBUSY : rc;
	if (rc != 1 && rc != -EAGAIN && rc != -EBUSY && rc != -EBADMSG)
		return 1;
	if (op->tries > op->retries && !(lk->unsure && op->tries <= op->retries + LOOKS))
		return 1;
	rc = post_try(r, slot, op->by->known);
	/* No place in the send queue: the image is evaluated again at the next poll. */
	if (rc == -EAGAIN) {
		lk->swaps = false;
		lk->status = 0;
		return 0;
	}
	lk->status = rc;
	return rc < 0;
}

int rsk_verbs_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token)
{
	struct rsk_verbs_rail *r = rail->priv;
	uint32_t rkey = 0, slot = 0;
	struct rsk_quiet q;
	struct rsk_remote_region at;
	bool known;
	int rc = rsk_locked_begin(op, rail->window_bytes);

	if (rc < 0 ||
	    rsk_remote_region_find(r->seg, op->by->off, RSK_LOCKED_BYTES(op->by->holders), &at) ||
	    !at.ring)
		return -EINVAL;
	q = rsk_quiet_begin();
	pthread_mutex_lock(&r->lock);
	rc = rsk_remote_region_key(r, &at, &rkey);
	if (rc == 0 && !r->dev->atomics)
		rc = -EOPNOTSUPP;
	if (rc == 0 && !r->locked_mr)
		rc = -ENOTCONN; /* reg_locked() was not called */
	while (slot < RSK_VERBS_LOCKED && r->locked[slot].state != RSK_READ_FREE)
		slot++;
	if (rc == 0 && slot == RSK_VERBS_LOCKED)
		rc = -EAGAIN;
	if (rc == 0) {
		r->locked[slot] = (struct rsk_vlocked){ .op = op, .token = token, .rkey = rkey };
		known = op->by->known && !(op->kind == RSK_LOCKED_LEAVE && op->who != op->by->me);
		/* The view is not valid until the outcome of this operation is known. */
		op->by->known = false;
		rc = post_try(r, slot, known);
		if (rc < 0)
			r->locked[slot].state = RSK_READ_FREE;
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return rc;
}

int rsk_locked_fetched(struct rsk_verbs_rail *r, struct rsk_completion *done, int max)
{
	int n = 0;

	for (uint32_t i = 0; i < RSK_VERBS_LOCKED && n < max; i++) {
		struct rsk_vlocked *lk = &r->locked[i];

		if (lk->state != RSK_READ_DONE || !went(r, i))
			continue;
		done[n++] = (struct rsk_completion){ .token = lk->token, .status = lk->status };
		lk->state = RSK_READ_FREE;
	}
	return n;
}

void rsk_locked_forget(struct rsk_verbs_rail *r)
{
	for (uint32_t i = 0; i < RSK_VERBS_LOCKED; i++)
		if (r->locked[i].state == RSK_READ_POSTED) {
			r->locked[i].state = RSK_READ_DONE;
			r->locked[i].status = -EPIPE;
		}
}
