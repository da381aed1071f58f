/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agenda.h - what a simulation does next: a binary heap of times to the nanosecond, each kept inside the object that it
 * belongs to.
 */
#ifndef PM_AGENDA_H
#define PM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owned by its object, all zero at first; set or not. */
struct appointment {
	uint64_t due_ns;
	size_t at; /* its place in the heap and 1; 0: not set */
};

/* All zero at first. Owns the array, not the appointments. */
struct agenda {
	struct appointment **heap;
	size_t n, room;
};

void agenda_fini(struct agenda *q);

/* Sets it, or to another time. 0, or -ENOMEM (it is as it was), never if it was set already. */
int agenda_set(struct agenda *q, struct appointment *d, uint64_t due_ns);
void agenda_clear(struct agenda *q, struct appointment *d);

/* When the first one is due; UINT64_MAX: none is set. */
static inline uint64_t agenda_next(const struct agenda *q)
{
	return q->n ? q->heap[0]->due_ns : UINT64_MAX;
}

/* The first that is due at @now_ns, cleared; NULL: none. */
struct appointment *agenda_take(struct agenda *q, uint64_t now_ns);

bool agenda_validate(const struct agenda *q);

#endif
