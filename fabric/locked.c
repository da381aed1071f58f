// SPDX-License-Identifier: BSD-2-Clause
/*
 * locked.c - what an operation does to a record that was read: see locked.h. It only reads shared
 * memory; the fabrics write.
 */
#include "locked.h"

#include <errno.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HOLDER 0xffull
#define SLOT_WORDS (sizeof(struct rsk_locked_slot) / sizeof(uint64_t))
_Static_assert(2 * RSK_LOCKED_HOLDERS <= 256, "a slot's number fits");

static uint64_t bit(uint32_t holder)
{
	return 1ull << (holder - 1);
}

/* The slot that @holder committed last. */
static uint32_t last_slot(uint64_t turn, uint32_t holder)
{
	return 2 * (holder - 1) + ((turn & bit(holder)) != 0);
}

static uint64_t hash_of(const struct rsk_locked_slot *s)
{
	return XXH3_64bits(&s->word, sizeof(*s) - sizeof(s->hash));
}

static void copy_slot(const void *record, uint32_t slot, struct rsk_locked_slot *to)
{
	const uint64_t *from =
		(const uint64_t *)record + (RSK_LOCKED_HEAD_BYTES + slot * sizeof(*to)) / 8;
	uint64_t words[SLOT_WORDS];

	for (size_t i = 0; i < SLOT_WORDS; i++)
		words[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
	memcpy(to, words, sizeof(words));
}

void rsk_locked_init(void *record, uint32_t holders, const uint64_t limit[static RSK_LOCKED_SHARES])
{
	struct rsk_locked_slot s = { .word = 1ull << 16 };

	memset(record, 0, RSK_LOCKED_BYTES(holders));
	memcpy(&s.shared[RSK_LOCKED_LIMIT], limit, RSK_LOCKED_SHARES * sizeof(*limit));
	s.hash = hash_of(&s);
	memcpy((uint8_t *)record + RSK_LOCKED_HEAD_BYTES, &s, sizeof(s));
	__atomic_store_n((uint64_t *)record, s.word, __ATOMIC_RELEASE);
}

void rsk_locker_init(struct rsk_locker *l, uint64_t off, uint32_t holders, uint32_t me,
		     uint64_t number)
{
	*l = (struct rsk_locker){ .off = off, .holders = holders, .me = me, .number = number };
}

int rsk_locked_begin(struct rsk_locked *op, uint64_t bytes)
{
	struct rsk_locker *l = op->by;

	if (!l || l->off % RSK_LOCKED_HEAD_BYTES || !l->holders ||
	    l->holders > RSK_LOCKED_HOLDERS || !l->me || l->me > l->holders || l->off > bytes ||
	    RSK_LOCKED_BYTES(l->holders) > bytes - l->off || op->kind >= RSK_LOCKED_KINDS)
		return -EINVAL;
	if (op->kind == RSK_LOCKED_LEAVE && (!op->who || op->who > l->holders))
		return -EINVAL;
	/* Sums are changed by RSK_LOCKED_SHARE only. */
	if (op->kind == RSK_LOCKED_WRITE &&
	    (op->at < RSK_LOCKED_LIMIT || op->at >= RSK_LOCKED_WORDS || !op->n ||
	     op->n > RSK_LOCKED_WORDS - op->at))
		return -EINVAL;
	if (!op->number)
		op->number = ++l->number;
	op->tries = 0;
	return 0;
}

/* ---- read and check ---- */

/* Copies the slot that @holder committed at @turn. Returns 0, or -EBADMSG if it is not that. */
static int take_slot(const void *record, uint64_t turn, uint32_t holder, struct rsk_locked_slot *to)
{
	uint32_t slot = last_slot(turn, holder);

	copy_slot(record, slot, to);
	return to->hash == hash_of(to) && rsk_locked_slot_of(to->word) == slot &&
			       !((to->turn ^ turn) & bit(holder)) ?
		       0 :
		       -EBADMSG;
}

static int look(const void *record, uint32_t holders, uint32_t me, uint32_t who,
		struct rsk_locked_view *v)
{
	uint32_t slot;

	v->word = __atomic_load_n((const uint64_t *)record, __ATOMIC_ACQUIRE);
	slot = rsk_locked_slot_of(v->word);
	if (!rsk_locked_version(v->word) || slot >= 2 * holders ||
	    rsk_locked_holder(v->word) > holders)
		return -EBADMSG;
	copy_slot(record, slot, &v->now);
	if (v->now.word != (v->word & ~HOLDER) || v->now.hash != hash_of(&v->now) ||
	    last_slot(v->now.turn, slot / 2 + 1) != slot)
		return -EBADMSG;
	v->mine = v->whose = (struct rsk_locked_slot){ 0 };
	if (me && (v->now.joined & bit(me))) {
		if (last_slot(v->now.turn, me) == slot)
			v->mine = v->now;
		else if (take_slot(record, v->now.turn, me, &v->mine) < 0)
			return -EBADMSG;
	}
	if (who && (v->now.joined & bit(who)) && take_slot(record, v->now.turn, who, &v->whose) < 0)
		return -EBADMSG;
	return 0;
}

static int load(const void *record, uint32_t holders, uint32_t me, uint32_t who,
		struct rsk_locked_view *v)
{
	int rc = look(record, holders, me, who, v);

	/*
	 * The owner of a slot has gone on to its next one, which shows in the word. The fence keeps
	 * this load behind the relaxed loads of the slot (stage() in shm_locked.c has the other
	 * half): otherwise the word might be the old one, and the record would seem corrupt.
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (rc < 0 && __atomic_load_n((const uint64_t *)record, __ATOMIC_ACQUIRE) != v->word)
		return -EAGAIN;
	return rc;
}

int rsk_locked_load(const void *record, const struct rsk_locked *op, struct rsk_locked_view *view)
{
	return load(record, op->by->holders, op->by->me, op->kind == RSK_LOCKED_LEAVE ? op->who : 0,
		    view);
}

int rsk_locked_validate(const void *record, uint32_t holders, struct rsk_locked_view *view)
{
	uint64_t sum[RSK_LOCKED_SHARES] = { 0 };
	struct rsk_locked_view v, other;
	int rc = load(record, holders, 0, 0, &v);

	if (rc < 0)
		return rc;
	for (uint32_t h = 1; h <= holders; h++) {
		rc = load(record, holders, h, 0, &other);
		if (rc < 0)
			return rc;
		if (other.word != v.word)
			return -EAGAIN;
		for (uint32_t i = 0; i < RSK_LOCKED_SHARES; i++)
			if (__builtin_add_overflow(sum[i], other.mine.own[i], &sum[i]))
				return -EBADMSG;
	}
	if (view)
		*view = v;
	return memcmp(sum, v.now.shared, sizeof(sum)) ? -EBADMSG : 0;
}

/* ---- compute the next content ---- */

/* Subtracts amounts that are not held any more. */
static int give_back(struct rsk_locked_slot *s, const uint64_t own[static RSK_LOCKED_SHARES])
{
	for (uint32_t i = 0; i < RSK_LOCKED_SHARES; i++)
		if (__builtin_sub_overflow(s->shared[i], own[i], &s->shared[i]))
			return -EBADMSG;
	return 0;
}

static int share(struct rsk_locked_slot *s, const int64_t delta[static RSK_LOCKED_SHARES])
{
	for (uint32_t i = 0; i < RSK_LOCKED_SHARES; i++) {
		uint64_t by = delta[i] < 0 ? -(uint64_t)delta[i] : (uint64_t)delta[i];
		uint64_t sum = s->shared[i], limit = s->shared[RSK_LOCKED_LIMIT + i];

		if (delta[i] < 0) {
			if (by > s->own[i])
				return -ERANGE;
			if (by > sum)
				return -EBADMSG;
			s->own[i] -= by;
			s->shared[i] -= by;
		} else {
			/*
			 * What was reserved before the limit was lowered stays, but nothing is
			 * added.
			 */
			if (by && (sum > limit || by > limit - sum))
				return -ENOSPC;
			if (__builtin_add_overflow(s->own[i], by, &s->own[i]))
				return -ENOSPC;
			s->shared[i] += by;
		}
	}
	return 0;
}

static int leave(const struct rsk_locked *op, const struct rsk_locked_view *v,
		 struct rsk_locked_slot *s)
{
	const struct rsk_locked_slot *whose = op->who == op->by->me ? &v->mine : &v->whose;

	if (!(s->joined & bit(op->who)))
		return 0;
	s->joined &= ~bit(op->who);
	if (op->who == op->by->me)
		memset(s->own, 0, sizeof(s->own));
	return give_back(s, whose->own);
}

/* Computes the content after the operation. Returns 0 or -errno. */
static int access_content(const struct rsk_locked *op, const struct rsk_locked_view *v,
			  struct rsk_locked_slot *s)
{
	uint32_t me = op->by->me;
	int rc = 0;

	switch (op->kind) {
	case RSK_LOCKED_WRITE:
		memcpy(&s->shared[op->at], op->words, op->n * sizeof(uint64_t));
		break;
	case RSK_LOCKED_SHARE:
		rc = share(s, op->delta);
		break;
	case RSK_LOCKED_JOIN:
		rc = give_back(s, v->mine.own);
		memset(s->own, 0, sizeof(s->own));
		s->joined |= bit(me);
		break;
	default: /* LEAVE */
		rc = leave(op, v, s);
	}
	return rc;
}

static int plan_content(const struct rsk_locked *op, const struct rsk_locked_view *v,
			struct rsk_locked_next *next)
{
	struct rsk_locked_slot *s = &next->content;
	uint32_t me = op->by->me;
	int rc;

	*s = v->now;
	memcpy(s->own, v->mine.own, sizeof(s->own));
	rc = access_content(op, v, s);
	if (rc < 0)
		return rc;
	s->turn ^= bit(me);
	next->staged = true;
	next->slot = last_slot(s->turn, me);
	next->to = (rsk_locked_version(v->word) + 1) << 16 | (uint64_t)next->slot << 8 |
		   rsk_locked_holder(v->word);
	s->word = next->to & ~HOLDER;
	s->number = op->number;
	s->zero = 0;
	s->hash = hash_of(s);
	return 1;
}

int rsk_locked_plan(const struct rsk_locked *op, const struct rsk_locked_view *v,
		    struct rsk_locked_next *next)
{
	uint32_t me = op->by->me, holder = rsk_locked_holder(v->word);
	bool joined = (v->now.joined & bit(me)) != 0;

	next->from = v->word;
	next->to = v->word & ~HOLDER;
	next->staged = false;
	if (op->kind == RSK_LOCKED_BREAK)
		return holder && v->word == op->expected ? 1 : -ESTALE;
	/* It was executed before, and its result was lost. */
	if (joined && v->mine.number == op->number)
		return 0;
	if (holder && holder != me)
		return -EBUSY;
	if (op->kind == RSK_LOCKED_READ)
		return 0;
	if (!joined && op->kind != RSK_LOCKED_JOIN)
		return op->kind == RSK_LOCKED_LEAVE && op->who == me ? 0 : -ESTALE;
	return plan_content(op, v, next);
}

void rsk_locked_took(struct rsk_locked *op, const struct rsk_locked_next *next)
{
	struct rsk_locked_view *v = &op->by->view;

	v->word = next->to;
	if (next->staged)
		v->now = v->mine = next->content;
	if (!(v->now.joined & bit(op->by->me)))
		v->mine = (struct rsk_locked_slot){ 0 };
	op->by->known = true;
}

bool rsk_locked_overdue(struct rsk_locked_watch *w, uint64_t word, uint64_t now_ns,
			uint64_t limit_ns)
{
	if (!rsk_locked_holder(word) || word != w->word) {
		*w = (struct rsk_locked_watch){ .word = word, .since_ns = now_ns };
		return false;
	}
	return now_ns - w->since_ns >= limit_ns;
}
