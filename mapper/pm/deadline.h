/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline.h - what is due when: a hierarchical timing wheel (Varghese and Lauck, SOSP 1987, scheme 7) of four levels
 * with 64 slots each, the deadlines kept inside the objects that they belong to. To set and to clear one costs the same
 * however many there are. In ticks of 2^20 ns: due up to 1.05 ms late, never early. The clock is handed in.
 */
#ifndef RSK_DEADLINE_H
#define RSK_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_DEADLINE_TICK_NS (1u << 20)
#define RSK_DEADLINE_LEVELS 4
#define RSK_DEADLINE_SLOTS 64

/* Owned by its object, all zero at first. */
struct rsk_deadline {
	uint64_t due_tick;
	struct rsk_deadline *next, **at; /* of its slot; at NULL: not set */
};

/* All zero at first. Owns nothing. */
struct rsk_deadlines {
	uint64_t now_tick;		    /* all before it was taken */
	uint64_t busy[RSK_DEADLINE_LEVELS]; /* a bit for each slot that is not empty */
	size_t n;
	struct rsk_deadline *slot[RSK_DEADLINE_LEVELS][RSK_DEADLINE_SLOTS];
};

static inline bool rsk_deadline_is_set(const struct rsk_deadline *d)
{
	return d->at != NULL;
}

/* Sets it, or to another time. */
void rsk_deadline_set(struct rsk_deadlines *q, struct rsk_deadline *d, uint64_t due_ns);
void rsk_deadline_clear(struct rsk_deadlines *q, struct rsk_deadline *d);

/* Nothing is due before; UINT64_MAX: nothing is set. */
uint64_t rsk_deadlines_next(const struct rsk_deadlines *q);

/* One that is due at @now_ns, in the order of ticks, cleared; NULL: none. @now_ns never goes back. */
struct rsk_deadline *rsk_deadlines_take(struct rsk_deadlines *q, uint64_t now_ns);

/* Any of them, cleared: for who ends. */
struct rsk_deadline *rsk_deadlines_any(struct rsk_deadlines *q);

bool rsk_deadlines_validate(const struct rsk_deadlines *q);

#endif
