// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked_rail.c - locked access (locked_kinds.h) with operations that every RNIC has, over a rail
 * of librsock-verbs.so: see locked_rail.h. Tests call it through the table in mech_verbs.c.
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
 *
 * The rail's own code knows nothing of this. A chain occupies one of the rail's reads, which
 * completes or fails with the rail; its token is the address of the access. The linker puts the two
 * functions __wrap_... below in the place of fetch.c's and mr.c's (cmake/Rsock.cmake).
 */
#include "locked_rail.h"

#include <errno.h>
#include <stdlib.h>

#include <sys/mman.h>

#include "ops.h"
#include "post.h"
#include "rail.h"

/* Further reads when the outcome is unknown; after them the record is taken for damaged */
#define LOOKS 1000u
#define ACCESSES 2u /* under way on one rail */

int __real_rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);
int __wrap_rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);
void __real_rsk_mr_drop_all(struct rsk_verbs_rail *r);
void __wrap_rsk_mr_drop_all(struct rsk_verbs_rail *r);

/*
 * The buffers of an access: the image of the record that was read, the staged slot, and the value
 * that the compare-and-swap found.
 */
struct buffer {
	_Alignas(64) uint8_t image[RSK_LOCKED_BYTES(RSK_LOCKED_HOLDERS)];
	struct rsk_locked_slot stage;
	uint64_t old;
};

/* Guarded by the rail's lock. */
struct access {
	enum {
		FREE,
		POSTED,
		DONE
	} state;
	int status;
	uint64_t token;
	struct rsk_locked *op; /* borrowed */
	uint32_t rkey;
	bool swaps;  /* the chain contains a compare-and-swap to @next */
	bool unsure; /* it is unknown whether a compare-and-swap was executed */
	struct rsk_locked_next next;
	uint64_t nothing; /* where the rail stores what its read has fetched */
	struct buffer *buffer;
};

/* What a rail has for locked access, from reg_locked() on until its registrations are dropped. */
struct side {
	struct side *next;
	struct rsk_verbs_rail *r;
	struct ibv_mr *mr;
	struct buffer *buffers; /* ACCESSES of them, mapped */
	struct access access[ACCESSES];
};

static pthread_mutex_t sides_lock = PTHREAD_MUTEX_INITIALIZER;
static struct side *sides; /* changed by the progress thread, under the lock */
static _Atomic(uint64_t) atomics;

static struct side *side_of(const struct rsk_verbs_rail *r)
{
	struct side *s;

	pthread_mutex_lock(&sides_lock);
	for (s = sides; s && s->r != r; s = s->next)
		;
	pthread_mutex_unlock(&sides_lock);
	return s;
}

bool rsk_locked_rail_can(struct ibv_context *ctx)
{
	struct ibv_device_attr can;

	return ibv_query_device(ctx, &can) == 0 && can.atomic_cap != IBV_ATOMIC_NONE;
}

uint64_t rsk_locked_rail_atomics(void)
{
	return atomic_load(&atomics);
}

static void side_free(struct side *s)
{
	rsk_mr_free(s->r->v, &s->mr);
	if (s->buffers)
		munmap(s->buffers, ACCESSES * sizeof(*s->buffers));
	free(s);
}

int rsk_locked_rail_reg(struct rsk_verbs_rail *r)
{
	struct side *s;
	int rc;

	if (!r->dev)
		return -ENOTCONN;
	if (!rsk_locked_rail_can(r->dev->ctx))
		return -EOPNOTSUPP;
	if (side_of(r))
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->r = r;
	s->buffers = mmap(NULL, ACCESSES * sizeof(*s->buffers), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->buffers == MAP_FAILED) {
		free(s);
		return -ENOMEM;
	}
	s->mr = rsk_mr_new(r, s->buffers, ACCESSES * sizeof(*s->buffers), IBV_ACCESS_LOCAL_WRITE,
			   &rc);
	if (!s->mr) {
		side_free(s);
		return rc;
	}
	for (uint32_t i = 0; i < ACCESSES; i++)
		s->access[i].buffer = &s->buffers[i];
	pthread_mutex_lock(&sides_lock);
	s->next = sides;
	sides = s;
	pthread_mutex_unlock(&sides_lock);
	return 0;
}

/* The rail's registrations end: there is no queue pair. */
void __wrap_rsk_mr_drop_all(struct rsk_verbs_rail *r)
{
	struct side **at, *s;

	pthread_mutex_lock(&sides_lock);
	for (at = &sides; *at && (*at)->r != r; at = &(*at)->next)
		;
	s = *at;
	if (s)
		*at = s->next;
	pthread_mutex_unlock(&sides_lock);
	if (s)
		side_free(s);
	__real_rsk_mr_drop_all(r);
}

/* ---- chains ---- */

/*
 * Takes one of the rail's reads for a chain. The READ of the chain goes to our own buffer; the 8
 * bytes that the rail believes to have fetched are none of its canary, so it never asks again.
 */
static int take_read(struct rsk_verbs_rail *r, struct access *a)
{
	uint32_t slot = 0;

	while (slot < RSK_VERBS_READS && r->read[slot].state != RSK_READ_FREE)
		slot++;
	if (slot == RSK_VERBS_READS || rsk_post_room(r, 3) < 3)
		return -EAGAIN;
	r->read[slot] = (struct rsk_vread){ .state = RSK_READ_POSTED,
					    .token = (uint64_t)(uintptr_t)a,
					    .dst = &a->nothing,
					    .len = sizeof(a->nothing),
					    .pattern = 1 };
	memset(r->buf->read[slot], 0, sizeof(a->nothing));
	return (int)slot;
}

static int post_chain(struct side *s, struct access *a)
{
	struct rsk_verbs_rail *r = s->r;
	struct buffer *b = a->buffer;
	uint64_t record = r->peer.segment + a->op->by->off;
	uint32_t lkey = s->mr->lkey, n = 0;
	struct ibv_send_wr wr[3] = { 0 };
	struct ibv_sge sge[3];
	int slot = r->live ? take_read(r, a) : -EPIPE;

	if (slot < 0)
		return slot;
	b->old = 0;
	memset(b->image, 0, RSK_LOCKED_BYTES(a->op->by->holders));
	if (a->swaps && a->next.staged) {
		b->stage = a->next.content;
		wr[n].opcode = IBV_WR_RDMA_WRITE;
		wr[n].send_flags = sizeof(b->stage) <= r->max_inline ? IBV_SEND_INLINE : 0;
		wr[n].wr.rdma.remote_addr =
			record + RSK_LOCKED_HEAD_BYTES + a->next.slot * sizeof(b->stage);
		wr[n].wr.rdma.rkey = a->rkey;
		sge[n++] = (struct ibv_sge){ (uintptr_t)&b->stage, sizeof(b->stage), lkey };
	}
	if (a->swaps) {
		wr[n].opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
		wr[n].wr.atomic.remote_addr = record;
		wr[n].wr.atomic.rkey = a->rkey;
		wr[n].wr.atomic.compare_add = a->next.from;
		wr[n].wr.atomic.swap = a->next.to;
		sge[n++] = (struct ibv_sge){ (uintptr_t)&b->old, sizeof(b->old), lkey };
		atomic_fetch_add(&atomics, 1);
	}
	wr[n].opcode = IBV_WR_RDMA_READ;
	wr[n].wr.rdma.remote_addr = record;
	wr[n].wr.rdma.rkey = a->rkey;
	sge[n++] = (struct ibv_sge){ (uintptr_t)b->image,
				     (uint32_t)RSK_LOCKED_BYTES(a->op->by->holders), lkey };
	for (uint32_t i = 0; i < n; i++) {
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	a->state = POSTED;
	return rsk_post_chain(r, wr, (uint32_t)slot);
}

/*
 * Posts the next try, based on what is known of the record: with a compare-and-swap if it would
 * succeed once the lock is free, else only a READ.
 */
static int post_try(struct side *s, struct access *a, bool known)
{
	struct rsk_locked_view v;

	a->swaps = false;
	/* To leave in the name of another holder, that holder's share must have been read. */
	if (known && a->op->kind != RSK_LOCKED_READ) {
		v = a->op->by->view;
		if (a->op->kind != RSK_LOCKED_UNLOCK && a->op->kind != RSK_LOCKED_BREAK &&
		    rsk_locked_holder(v.word) != a->op->by->me)
			v.word &= ~0xffull;
		a->swaps = rsk_locked_kinds_plan(a->op, &v, &a->next) == 1;
	}
	return post_chain(s, a);
}

/*
 * Decides the result of an operation of which it is not known whether it was executed. An operation
 * that has a number was already checked by it. Unlock and break have none: -ESTALE means that the
 * record is as they wanted it.
 */
static int unsure(const struct access *a, int rc)
{
	bool frees = a->op->kind == RSK_LOCKED_UNLOCK || a->op->kind == RSK_LOCKED_BREAK;

	return a->unsure && frees && rc == -ESTALE ? 0 : rc;
}

/*
 * Evaluates a chain that has completed. Returns 1 if the operation has ended, with a->status; 0 if
 * it goes on.
 */
static int went(struct side *s, struct access *a)
{
	struct buffer *b = a->buffer;
	struct rsk_locked *op = a->op;
	struct rsk_locked_next next;
	int rc = a->status;

	if (rc < 0)
		return 1;
	op->tries += a->swaps;
	a->unsure |= a->swaps && !b->old;
	if (a->swaps && b->old == a->next.from) {
		rsk_locked_took(op, &a->next);
		return 1;
	}
	rc = rsk_locked_load(b->image, op, &op->by->view);
	op->by->known = rc == 0;
	if (rc == 0)
		rc = rsk_locked_kinds_plan(op, &op->by->view, &next);
	if (rc == 1 || rc == -ESTALE)
		rc = unsure(a, rc);
	if (rc != -EAGAIN && rc != -EBADMSG)
		a->unsure = false;
	/*
	 * A read that found something to do does not count as a try. -EBADMSG: the record may have
	 * changed while it was read.
	 */
	op->tries += !a->swaps && rc != 1;
	a->status = rc == -EAGAIN || rc == 1 ? -EBUSY : rc;
	if (rc != 1 && rc != -EAGAIN && rc != -EBUSY && rc != -EBADMSG)
		return 1;
	if (op->tries > op->retries && !(a->unsure && op->tries <= op->retries + LOOKS))
		return 1;
	rc = post_try(s, a, op->by->known);
	/* No place in the send queue: the image is evaluated again at the next poll. */
	if (rc == -EAGAIN) {
		a->swaps = false;
		a->status = 0;
		return 0;
	}
	a->status = rc;
	return rc < 0;
}

int rsk_locked_rail_start(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct side *s = side_of(r);
	struct rsk_remote_region at;
	struct access *a = NULL;
	uint32_t rkey = 0;
	struct rsk_quiet q;
	bool known;
	int rc = rsk_locked_kinds_begin(op, rail->window_bytes);

	if (rc < 0 ||
	    rsk_remote_region_find(r->seg, op->by->off, RSK_LOCKED_BYTES(op->by->holders), &at) ||
	    !at.ring)
		return -EINVAL;
	if (!s)
		return -ENOTCONN; /* reg_locked() was not called */
	q = rsk_quiet_begin();
	pthread_mutex_lock(&r->lock);
	rc = rsk_remote_region_key(r, &at, &rkey);
	for (uint32_t i = 0; i < ACCESSES && !a; i++)
		a = s->access[i].state == FREE ? &s->access[i] : NULL;
	if (rc == 0 && !a)
		rc = -EAGAIN;
	if (rc == 0) {
		*a = (struct access){ .op = op, .token = token, .rkey = rkey, .buffer = a->buffer };
		known = op->by->known && !(op->kind == RSK_LOCKED_LEAVE && op->who != op->by->me);
		/* The view is not valid until the outcome of this operation is known. */
		op->by->known = false;
		rc = post_try(s, a, known);
		if (rc < 0)
			a->state = FREE;
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return rc;
}

/* Takes out the completions that are an access's. Returns how many are left. */
static int sort_out(struct side *s, struct rsk_completion *done, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		struct access *a = NULL;

		for (uint32_t k = 0; k < ACCESSES && !a; k++)
			if (s->access[k].state == POSTED &&
			    done[i].token == (uint64_t)(uintptr_t)&s->access[k])
				a = &s->access[k];
		if (a) {
			a->state = DONE;
			a->status = done[i].status;
		} else {
			done[kept++] = done[i];
		}
	}
	return kept;
}

/* Stores the completions of finished operations as well; advances the others. */
int __wrap_rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max)
{
	struct rsk_verbs_rail *r = rail->priv;
	int n = __real_rsk_verbs_fetched(rail, done, max), all;
	struct side *s = side_of(r);
	struct rsk_quiet q;

	if (!s)
		return n;
	q = rsk_quiet_begin();
	pthread_mutex_lock(&r->lock);
	all = sort_out(s, done, n);
	for (uint32_t i = 0; i < ACCESSES && all < max; i++) {
		struct access *a = &s->access[i];

		if (a->state != DONE || !went(s, a))
			continue;
		done[all++] = (struct rsk_completion){ .token = a->token, .status = a->status };
		a->state = FREE;
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return all || n >= 0 ? all : n;
}
