/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline.h - what is due when: a binary heap of times, each kept inside the object that it belongs
 * to. The clock is handed in by whoever asks. Setting one that is later than all others, as timeouts
 * of one length are, touches one place.
 */
#ifndef RSK_DEADLINE_H
#define RSK_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned by its object, all zero at first; set or not. */
struct rsk_deadline {
	uint64_t due_ns;
	size_t at; /* its place in the heap and 1; 0: not set */
};

/* All zero at first. Owns the array, not the deadlines. */
struct rsk_deadlines {
	struct rsk_deadline **heap;
	size_t n, room;
};

void rsk_deadlines_fini(struct rsk_deadlines *q);

/* So many can be set from now on without fail. 0 or -ENOMEM. */
int rsk_deadlines_reserve(struct rsk_deadlines *q, size_t n);

/* Sets it, or to another time. 0, or -ENOMEM (it is as it was), never if it was set already. */
int rsk_deadline_set(struct rsk_deadlines *q, struct rsk_deadline *d, uint64_t due_ns);
void rsk_deadline_clear(struct rsk_deadlines *q, struct rsk_deadline *d);

/* When the first one is due; UINT64_MAX: none is set. */
static inline uint64_t rsk_deadlines_next(const struct rsk_deadlines *q)
{
	return q->n ? q->heap[0]->due_ns : UINT64_MAX;
}

/* The first that is due at @now_ns, cleared; NULL: none. */
struct rsk_deadline *rsk_deadlines_take(struct rsk_deadlines *q, uint64_t now_ns);

bool rsk_deadlines_validate(const struct rsk_deadlines *q);

#endif
