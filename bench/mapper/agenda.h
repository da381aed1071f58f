/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agenda.h - the event queue of a simulation: a binary heap of times in nanoseconds. Each entry is
 * embedded in the object that it belongs to. Used by hosts.c.
 */
#ifndef PM_AGENDA_H
#define PM_AGENDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Embedded in its object; all zero at first, which means not set. */
struct appointment {
	uint64_t due_ns;
	size_t at; /* its index in the heap plus 1; 0: not set */
};

/* All zero at first. Owns the array, not the appointments. */
struct agenda {
	struct appointment **heap;
	size_t n, room;
};

void agenda_fini(struct agenda *q);

/*
 * Sets the time, or changes it. 0, or -ENOMEM (nothing has changed), which cannot happen if it was
 * set already.
 */
int agenda_set(struct agenda *q, struct appointment *d, uint64_t due_ns);
void agenda_clear(struct agenda *q, struct appointment *d);

/* Time of the earliest entry; UINT64_MAX: the agenda is empty. */
static inline uint64_t agenda_next(const struct agenda *q)
{
	return q->n ? q->heap[0]->due_ns : UINT64_MAX;
}

/* Removes and returns the earliest entry that is due at @now_ns; NULL: none. */
struct appointment *agenda_take(struct agenda *q, uint64_t now_ns);

bool agenda_validate(const struct agenda *q);

#endif
