// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked_kinds.c - further kinds of locked access: see locked_kinds.h. An ADD or a SWAP is a WRITE
 * of a word that follows from the content that was read; if the record changes in between, the
 * WRITE is refused, and the next try computes another word.
 */
#include "locked_kinds.h"

#include <errno.h>

static bool is_access(const struct rsk_locked *op)
{
	return op->kind == RSK_LOCKED_ADD || op->kind == RSK_LOCKED_SWAP;
}

int rsk_locked_kinds_begin(struct rsk_locked *op, uint64_t bytes)
{
	struct rsk_locked as = *op;
	int rc;

	if (op->kind >= RSK_LOCKED_ALL_KINDS)
		return -EINVAL;
	if (is_access(op)) {
		as.kind = RSK_LOCKED_WRITE;
		as.n = 1;
	} else if (op->kind >= RSK_LOCKED_KINDS) {
		as.kind = RSK_LOCKED_READ;
	}
	rc = rsk_locked_begin(&as, bytes);
	if (rc == 0) {
		op->number = as.number;
		op->tries = 0;
	}
	return rc;
}

/* The lock and its release: only the word changes. */
static int plan_lock(const struct rsk_locked *op, const struct rsk_locked_view *v,
		     struct rsk_locked_next *next)
{
	uint32_t me = op->by->me, holder = rsk_locked_holder(v->word);

	next->from = v->word;
	next->to = v->word & ~0xffull;
	next->staged = false;
	if (op->kind == RSK_LOCKED_UNLOCK)
		return holder == me ? 1 : -ESTALE;
	if (holder && holder != me)
		return -EBUSY;
	if (!(v->now.joined & 1ull << (me - 1)))
		return -ESTALE;
	next->to |= me;
	return holder ? 0 : 1;
}

int rsk_locked_kinds_plan(const struct rsk_locked *op, const struct rsk_locked_view *view,
			  struct rsk_locked_next *next)
{
	struct rsk_locked as = *op;
	int rc;

	if (op->kind == RSK_LOCKED_LOCK || op->kind == RSK_LOCKED_UNLOCK)
		return plan_lock(op, view, next);
	if (!is_access(op))
		return rsk_locked_plan(op, view, next);
	as.kind = RSK_LOCKED_WRITE;
	as.n = 1;
	if (op->kind == RSK_LOCKED_ADD)
		as.words[0] += view->now.shared[op->at];
	rc = rsk_locked_plan(&as, view, next);
	return rc == 1 && op->kind == RSK_LOCKED_SWAP && view->now.shared[op->at] != op->expected ?
		       0 :
		       rc;
}

/* One try. Returns 0: done; -EAGAIN: the record was changed meanwhile; other -errno. */
static int once(void *record, struct rsk_locked *op)
{
	struct rsk_locked_next next;
	int rc = rsk_locked_load(record, op, &op->by->view);

	op->by->known = rc == 0;
	if (rc == 0)
		rc = rsk_locked_kinds_plan(op, &op->by->view, &next);
	return rc <= 0 ? rc : rsk_locked_commit(record, op, &next);
}

int rsk_locked_kinds_run(void *record, struct rsk_locked *op)
{
	for (;;) {
		int rc = once(record, op);

		op->tries++;
		if (rc != -EAGAIN && rc != -EBUSY)
			return rc;
		if (op->tries > op->retries)
			return -EBUSY;
	}
}

int rsk_locked_kinds_shm(struct rsk_rail *rail, struct rsk_locked *op)
{
	int rc = rsk_locked_kinds_begin(op, rail->window_bytes);

	if (rc == 0)
		rc = rsk_locked_kinds_run(rail->window + op->by->off, op);
	return rc < 0 ? rc : 1;
}

uint64_t rsk_locked_kinds_old(const struct rsk_locked *op)
{
	const struct rsk_locked_view *v = &op->by->view;

	/* Not committed: a SWAP that found another value. */
	if (v->mine.number != op->number)
		return v->now.shared[op->at];
	return op->kind == RSK_LOCKED_ADD ? v->mine.shared[op->at] - op->words[0] : op->expected;
}
