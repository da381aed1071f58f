/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deadline.h - timers: a hierarchical timing wheel (Varghese and Lauck, SOSP 1987, scheme 7) of
 * four levels with 64 slots each; a deadline is a member of the object that it belongs to. Setting
 * and clearing one costs the same however many there are. The unit is a tick of 2^20 ns: a deadline
 * is due up to 1.05 ms late, never early. The caller passes the time. Used by the PMSP, the PM
 * client and the policy agents.
 */
#ifndef RSK_DEADLINE_H
#define RSK_DEADLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_DEADLINE_TICK_NS (1u << 20)
#define RSK_DEADLINE_LEVELS 4
#define RSK_DEADLINE_SLOTS 64

/* Owned by its object, all zero initially. */
struct rsk_deadline {
	uint64_t due_tick;
	struct rsk_deadline *next, **at; /* links of its slot's list; @at NULL: not set */
};

/* All zero initially. Owns nothing. */
struct rsk_deadlines {
	uint64_t now_tick;		    /* all deadlines before this tick were taken */
	uint64_t busy[RSK_DEADLINE_LEVELS]; /* one bit for each slot that is not empty */
	size_t n;
	struct rsk_deadline *slot[RSK_DEADLINE_LEVELS][RSK_DEADLINE_SLOTS];
};

static inline bool rsk_deadline_is_set(const struct rsk_deadline *d)
{
	return d->at != NULL;
}

/* Sets the deadline, or moves it. */
void rsk_deadline_set(struct rsk_deadlines *q, struct rsk_deadline *d, uint64_t due_ns);
void rsk_deadline_clear(struct rsk_deadlines *q, struct rsk_deadline *d);

/* Nothing is due before the returned time; UINT64_MAX: nothing is set. */
uint64_t rsk_deadlines_next(const struct rsk_deadlines *q);

/*
 * Returns one that is due at @now_ns, in the order of ticks, and clears it; NULL: none. @now_ns
 * must not decrease.
 */
struct rsk_deadline *rsk_deadlines_take(struct rsk_deadlines *q, uint64_t now_ns);

/* Returns any deadline, cleared, for releasing all of them; NULL: none. */
struct rsk_deadline *rsk_deadlines_any(struct rsk_deadlines *q);

bool rsk_deadlines_validate(const struct rsk_deadlines *q);

#endif
