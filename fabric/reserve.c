// SPDX-License-Identifier: BSD-2-Clause
/* reserve.c - reservations by locked access: see reserve.h. */
#include "reserve.h"

#include <errno.h>
#include <string.h>

static void begin(struct rsk_reserve *r, struct rsk_locker *by, enum rsk_locked_kind kind,
		  uint32_t retries, uint64_t break_ns)
{
	*r = (struct rsk_reserve){ .op = { .by = by, .kind = kind, .retries = retries },
				   .break_ns = break_ns };
}

void rsk_reserve_join(struct rsk_reserve *r, struct rsk_locker *by, uint32_t retries,
		      uint64_t break_ns)
{
	begin(r, by, RSK_LOCKED_JOIN, retries, break_ns);
}

void rsk_reserve_leave(struct rsk_reserve *r, struct rsk_locker *by, uint32_t who, uint32_t retries,
		       uint64_t break_ns)
{
	begin(r, by, RSK_LOCKED_LEAVE, retries, break_ns);
	r->op.who = who;
}

/* An amount that is too large for a delta is recorded as an error in op.n. */
static void amounts(struct rsk_reserve *r, const uint64_t need[static RSK_RESERVE_MEASURES],
		    bool take)
{
	for (uint32_t i = 0; i < RSK_RESERVE_MEASURES; i++) {
		if (need[i] > RSK_RESERVE_MOST)
			r->op.n = (uint32_t)(take ? ENOSPC : ERANGE);
		else
			r->op.delta[i] = take ? (int64_t)need[i] : -(int64_t)need[i];
	}
}

void rsk_reserve_take(struct rsk_reserve *r, struct rsk_locker *by,
		      const uint64_t need[static RSK_RESERVE_MEASURES], uint32_t retries,
		      uint64_t break_ns)
{
	begin(r, by, RSK_LOCKED_SHARE, retries, break_ns);
	amounts(r, need, true);
}

void rsk_reserve_give(struct rsk_reserve *r, struct rsk_locker *by,
		      const uint64_t need[static RSK_RESERVE_MEASURES], uint32_t retries,
		      uint64_t break_ns)
{
	begin(r, by, RSK_LOCKED_SHARE, retries, break_ns);
	amounts(r, need, false);
}

void rsk_reserve_limit(struct rsk_reserve *r, struct rsk_locker *by,
		       const uint64_t limit[static RSK_RESERVE_MEASURES], uint32_t retries,
		       uint64_t break_ns)
{
	begin(r, by, RSK_LOCKED_WRITE, retries, break_ns);
	r->op.at = RSK_LOCKED_LIMIT;
	r->op.n = RSK_RESERVE_MEASURES;
	memcpy(r->op.words, limit, RSK_RESERVE_MEASURES * sizeof(*limit));
}

int rsk_reserve_next(struct rsk_reserve *r, int rc, uint64_t now_ns, struct rsk_locked **issue)
{
	struct rsk_locker *by = r->op.by;

	/* An amount was too large for a delta. */
	if (r->op.kind == RSK_LOCKED_SHARE && r->op.n)
		return -(int)r->op.n;
	if (r->breaks) {
		r->breaks = false;
		if (rc == 0)
			r->broken++;
		/* -ESTALE: it was released, or broken by another holder. */
		if (rc < 0 && rc != -ESTALE && rc != -EAGAIN && rc != -EBUSY)
			return rc;
	} else if (rc != -EBUSY && rc != -EAGAIN) {
		return rc;
	} else if (rc == -EBUSY &&
		   rsk_locked_overdue(&r->watch, by->view.word, now_ns, r->break_ns)) {
		r->breaking = (struct rsk_locked){ .by = by,
						   .kind = RSK_LOCKED_BREAK,
						   .expected = by->view.word };
		r->watch = (struct rsk_locked_watch){ 0 };
		r->breaks = true;
		*issue = &r->breaking;
		return 1;
	}
	*issue = &r->op;
	return 1;
}

int rsk_reserve_run(struct rsk_reserve *r, struct rsk_rail *rail, uint64_t (*now_ns)(void),
		    uint32_t turns)
{
	struct rsk_locked *issue = NULL;
	int rc = -EAGAIN;

	while (turns--) {
		rc = rsk_reserve_next(r, rc, now_ns(), &issue);
		if (rc <= 0)
			return rc;
		rc = rsk_shm_locked(rail, issue);
		if (rc > 0)
			rc = 0;
	}
	rc = rsk_reserve_next(r, rc, now_ns(), &issue);
	return rc <= 0 ? rc : -EBUSY;
}

void rsk_reserve_figures(const struct rsk_locker *by, struct rsk_reserve_figures *out)
{
	const struct rsk_locked_view *v = &by->view;

	memcpy(out->reserved, v->now.shared, sizeof(out->reserved));
	memcpy(out->limit, v->now.shared + RSK_LOCKED_LIMIT, sizeof(out->limit));
	memcpy(out->own, v->mine.own, sizeof(out->own));
}
