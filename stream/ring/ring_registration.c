// SPDX-License-Identifier: BSD-2-Clause
/* ring_registration.c - the ring registration automaton: see ring_registration.h. */
#include "ring_registration.h"

#include <stdlib.h>
#include <string.h>

#include "stats.h"

#define FIRST_ROOM 64u

void rsk_ring_reg_begin(struct rsk_ring_reg *w, uint64_t now_ns,
			uint64_t counts[RSK_STATS_REG_COUNT])
{
	w->state = RSK_RING_REG_ASKED;
	w->timeouts = 0;
	w->due_ns = now_ns + RSK_RING_REG_TIMEOUT_NS;
	rsk_stats_add(&counts[RSK_STATS_REG_REQUESTED], 1);
}

/* The timer of the last request stays. */
static enum rsk_ring_reg_action indirect(struct rsk_ring_reg *w)
{
	w->state = RSK_RING_REG_INDIRECT;
	w->timeouts = 0;
	return RSK_RING_REG_DO_INDIRECT;
}

enum rsk_ring_reg_action rsk_ring_reg_answer(struct rsk_ring_reg *w, bool valid,
					     uint64_t counts[RSK_STATS_REG_COUNT])
{
	uint8_t was = w->state;

	if (was == RSK_RING_REG_NONE || was == RSK_RING_REG_DIRECT)
		return RSK_RING_REG_DO_NOTHING; /* no request, or a repeated answer */
	if (valid) {
		w->state = RSK_RING_REG_DIRECT;
		rsk_stats_add(&counts[was == RSK_RING_REG_INDIRECT ? RSK_STATS_REG_LATE_VALID :
								     RSK_STATS_REG_VALID],
			      1);
		return RSK_RING_REG_DO_DIRECT;
	}
	if (was == RSK_RING_REG_INDIRECT)
		return RSK_RING_REG_DO_NOTHING;
	rsk_stats_add(&counts[RSK_STATS_REG_INVALID], 1);
	return indirect(w);
}

enum rsk_ring_reg_action rsk_ring_reg_tick(struct rsk_ring_reg *w, uint64_t now_ns,
					   uint64_t counts[RSK_STATS_REG_COUNT])
{
	if (rsk_ring_reg_next(w) == UINT64_MAX || now_ns < w->due_ns)
		return RSK_RING_REG_DO_NOTHING;
	w->due_ns = now_ns + RSK_RING_REG_TIMEOUT_NS;
	if (w->state == RSK_RING_REG_INDIRECT) {
		w->timeouts += w->timeouts < RSK_RING_REG_DOUBLINGS;
		w->due_ns = now_ns + (RSK_RING_REG_TIMEOUT_NS << w->timeouts);
		return RSK_RING_REG_DO_REQUEST;
	}
	if (++w->timeouts == 1) {
		rsk_stats_add(&counts[RSK_STATS_REG_FIRST_TIMEOUT], 1);
		return RSK_RING_REG_DO_REQUEST;
	}
	rsk_stats_add(&counts[RSK_STATS_REG_SECOND_TIMEOUT], 1);
	return indirect(w);
}

struct rsk_ring_reg *rsk_ring_regs_at(struct rsk_ring_regs *all, uint32_t sid)
{
	uint32_t n = all->n ? all->n : FIRST_ROOM;
	struct rsk_ring_reg *more;

	while (n <= sid)
		n *= 2;
	if (n > all->n) {
		more = realloc(all->at, n * sizeof(*more));
		if (!more)
			return NULL;
		memset(more + all->n, 0, (n - all->n) * sizeof(*more));
		all->at = more;
		all->n = n;
	}
	return &all->at[sid];
}

void rsk_ring_regs_free(struct rsk_ring_regs *all)
{
	free(all->at);
	*all = (struct rsk_ring_regs){ 0 };
}
