// SPDX-License-Identifier: BSD-2-Clause
#include "ringway.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u

void rsk_ringway_begin(struct rsk_ringway *w, uint64_t now_ns, uint64_t counts[RSK_RINGWAY_CAUSES])
{
	w->state = RSK_RINGWAY_ASKED;
	w->timeouts = 0;
	w->due_ns = now_ns + RSK_RINGWAY_TIMEOUT_NS;
	counts[RSK_RINGWAY_REQUESTED]++;
}

enum rsk_ringway_action rsk_ringway_answer(struct rsk_ringway *w, bool valid,
					   uint64_t counts[RSK_RINGWAY_CAUSES])
{
	uint8_t was = w->state;

	if (was == RSK_RINGWAY_NONE || was == RSK_RINGWAY_DIRECT)
		return RSK_RINGWAY_DO_NOTHING; /* nobody asked; or once more the same */
	if (valid) {
		w->state = RSK_RINGWAY_DIRECT;
		counts[was == RSK_RINGWAY_INDIRECT ? RSK_RINGWAY_LATE_VALID : RSK_RINGWAY_VALID]++;
		return RSK_RINGWAY_DO_DIRECT;
	}
	if (was == RSK_RINGWAY_INDIRECT)
		return RSK_RINGWAY_DO_NOTHING;
	w->state = RSK_RINGWAY_INDIRECT;
	counts[RSK_RINGWAY_INVALID]++;
	return RSK_RINGWAY_DO_INDIRECT;
}

enum rsk_ringway_action rsk_ringway_tick(struct rsk_ringway *w, uint64_t now_ns,
					 uint64_t counts[RSK_RINGWAY_CAUSES])
{
	if (w->state != RSK_RINGWAY_ASKED || now_ns < w->due_ns)
		return RSK_RINGWAY_DO_NOTHING;
	if (++w->timeouts == 1) {
		w->due_ns = now_ns + RSK_RINGWAY_TIMEOUT_NS;
		counts[RSK_RINGWAY_FIRST_TIMEOUT]++;
		return RSK_RINGWAY_DO_REQUEST;
	}
	w->state = RSK_RINGWAY_INDIRECT;
	counts[RSK_RINGWAY_SECOND_TIMEOUT]++;
	return RSK_RINGWAY_DO_INDIRECT;
}

struct rsk_ringway *rsk_ringways_at(struct rsk_ringways *all, uint32_t sid)
{
	uint32_t n = all->n ? all->n : FIRST_ROOM;
	struct rsk_ringway *more;

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

void rsk_ringways_free(struct rsk_ringways *all)
{
	free(all->at);
	*all = (struct rsk_ringways){ 0 };
}
