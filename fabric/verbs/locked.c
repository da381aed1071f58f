// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked.c - locked access (locked.h) by what every RNIC has. One chain on the queue pair, executed in order:
 * a WRITE of what is to be the content into a slot of the holder's own, a compare-and-swap of the lock word
 * to it, and a READ of the whole record. The swap is lock, access and unlock; if it does nothing, nothing has
 * happened, and what was read says why and what to base the next try on: so each try is one round trip. A
 * lock that is held is tried as it will be when it is let go unchanged.
 *
 * An answer may be missing although its request is said to be done: seen with rxe and lost packets (it seems
 * to take the plain acknowledgement of a WRITE that came twice for one of what is behind that WRITE). So
 * where answers go there is nothing beforehand that could be taken for one (zeros are no lock word and no
 * slot), and who does not know what the swap found looks until it knows what has become of it.
 *
 * There is no WRITE into a slot that counts: a holder composes in the one of its two that it has not
 * committed last, which it knows (by->known) or reads first. All of it under the rail's lock; nobody waits.
 */
#include <errno.h>

#include "ops.h"
#include "post.h"

#define LOOKS 1000u /* more, rather than not to know; then it is damaged */

/* What was swapped to, or read, lies here until it is looked at. */
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
 * The next try, from what is known: with a swap, if there is something that it would do were the lock free; else a
 * look.
 */
static int post_try(struct rsk_verbs_rail *r, uint32_t slot, bool known)
{
	struct rsk_vlocked *lk = &r->locked[slot];
	struct rsk_locked_view v;

	lk->swaps = false;
	/* One that leaves in another's name has to see that one's share. */
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
 * What the record shows of an operation of which it is not known whether it was done; its number, where it has one, has
 * said no by now. These have none: it is as they wanted it.
 */
static int unsure(const struct rsk_vlocked *lk, int rc)
{
	bool frees = lk->op->kind == RSK_LOCKED_UNLOCK || lk->op->kind == RSK_LOCKED_BREAK;

	return lk->unsure && frees && rc == -ESTALE ? 0 : rc;
}

/* A chain has come back: 1: the operation is at its end, with lk->status; 0: it goes on. */
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
	/* A look that found something to do is no try yet; what is not whole was changed meanwhile, perhaps. */
	op->tries += !lk->swaps && rc != 1;
	lk->status = rc == -EAGAIN || rc == 1 ? -EBUSY : rc;
	if (rc != 1 && rc != -EAGAIN && rc != -EBUSY && rc != -EBADMSG)
		return 1;
	if (op->tries > op->retries && !(lk->unsure && op->tries <= op->retries + LOOKS))
		return 1;
	rc = post_try(r, slot, op->by->known);
	if (rc ==
	    -EAGAIN) { /* no room in the queue: what was read is looked at again at the next poll */
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
		rc = -ENOTCONN; /* reg_locked() */
	while (slot < RSK_VERBS_LOCKED && r->locked[slot].state != RSK_READ_FREE)
		slot++;
	if (rc == 0 && slot == RSK_VERBS_LOCKED)
		rc = -EAGAIN;
	if (rc == 0) {
		r->locked[slot] = (struct rsk_vlocked){ .op = op, .token = token, .rkey = rkey };
		known = op->by->known && !(op->kind == RSK_LOCKED_LEAVE && op->who != op->by->me);
		/* Until it is known what has become of it nothing is. */
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
