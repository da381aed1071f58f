// SPDX-License-Identifier: BSD-2-Clause
/* deadline.c - see deadline.h. */
#include "deadline.h"

#define BITS 6
#define LAST (RSK_DEADLINE_LEVELS - 1)

/* A deadline beyond the reach of the wheel is put into its last slot, and again from there. */
#define REACH (((uint64_t)1 << BITS * RSK_DEADLINE_LEVELS) - 1)

static unsigned int digit(uint64_t tick, int level)
{
	return (unsigned int)(tick >> BITS * level) & (RSK_DEADLINE_SLOTS - 1);
}

static void put(struct rsk_deadlines *q, struct rsk_deadline *d)
{
	uint64_t tick = d->due_tick < q->now_tick ? q->now_tick : d->due_tick;
	struct rsk_deadline **head;
	int level = 0;

	d->due_tick = tick;
	if (tick - q->now_tick > REACH)
		tick = q->now_tick + REACH;
	while (level < LAST && tick - q->now_tick >= (uint64_t)1 << BITS * (level + 1))
		level++;
	head = &q->slot[level][digit(tick, level)];
	q->busy[level] |= (uint64_t)1 << digit(tick, level);
	d->next = *head;
	d->at = head;
	if (d->next)
		d->next->at = &d->next;
	*head = d;
	q->n++;
}

void rsk_deadline_clear(struct rsk_deadlines *q, struct rsk_deadline *d)
{
	struct rsk_deadline **first = &q->slot[0][0];

	if (!d->at)
		return;
	*d->at = d->next;
	if (d->next) {
		d->next->at = d->at;
	} else if (d->at >= first && d->at < first + RSK_DEADLINE_LEVELS * RSK_DEADLINE_SLOTS) {
		size_t i = (size_t)(d->at - first); /* it was the only one in its slot */

		q->busy[i / RSK_DEADLINE_SLOTS] &= ~((uint64_t)1 << i % RSK_DEADLINE_SLOTS);
	}
	d->next = NULL;
	d->at = NULL;
	q->n--;
}

void rsk_deadline_set(struct rsk_deadlines *q, struct rsk_deadline *d, uint64_t due_ns)
{
	rsk_deadline_clear(q, d);
	d->due_tick = due_ns / RSK_DEADLINE_TICK_NS + (due_ns % RSK_DEADLINE_TICK_NS != 0);
	put(q, d);
}

/* Returns how many slots after @from the first busy one of a level is. */
static unsigned int distance(uint64_t busy, unsigned int from)
{
	uint64_t turned = from ? busy >> from | busy << (RSK_DEADLINE_SLOTS - from) : busy;

	return (unsigned int)__builtin_ctzll(turned);
}

/*
 * Returns the tick at which something must be done: a slot of the lowest level is due, or one of a
 * higher level is distributed. A deadline in the slot of a higher level's own digit is a whole turn
 * ahead, because that slot was distributed when its turn began.
 */
static uint64_t next_tick(const struct rsk_deadlines *q)
{
	uint64_t first = UINT64_MAX;

	if (q->busy[0])
		first = q->now_tick + distance(q->busy[0], digit(q->now_tick, 0));
	for (int level = 1; level < RSK_DEADLINE_LEVELS; level++) {
		uint64_t turn = q->now_tick >> BITS * level, at;

		if (!q->busy[level])
			continue;
		at = (turn + 1 +
		      distance(q->busy[level],
			       (digit(q->now_tick, level) + 1) % RSK_DEADLINE_SLOTS))
		     << BITS * level;
		if (at < first)
			first = at;
	}
	return first;
}

uint64_t rsk_deadlines_next(const struct rsk_deadlines *q)
{
	uint64_t tick = next_tick(q);

	return tick == UINT64_MAX ? UINT64_MAX : tick * RSK_DEADLINE_TICK_NS;
}

/*
 * Distributes the slots whose turn begins at this tick to the levels below, from the highest level
 * on.
 */
static void come_apart(struct rsk_deadlines *q)
{
	for (int level = LAST; level > 0; level--) {
		struct rsk_deadline **head = &q->slot[level][digit(q->now_tick, level)];

		if (q->now_tick & (((uint64_t)1 << BITS * level) - 1))
			continue;
		for (struct rsk_deadline *d = *head, *next; d; d = next) {
			next = d->next;
			rsk_deadline_clear(q, d);
			put(q, d);
		}
	}
}

struct rsk_deadline *rsk_deadlines_take(struct rsk_deadlines *q, uint64_t now_ns)
{
	uint64_t now = now_ns / RSK_DEADLINE_TICK_NS, tick;
	struct rsk_deadline *d;

	while ((tick = next_tick(q)) <= now) {
		if (tick > q->now_tick) {
			q->now_tick = tick;
			come_apart(q);
		}
		d = q->slot[0][digit(q->now_tick, 0)];
		if (d) {
			rsk_deadline_clear(q, d);
			return d;
		}
	}
	if (now > q->now_tick)
		q->now_tick = now;
	return NULL;
}

struct rsk_deadline *rsk_deadlines_any(struct rsk_deadlines *q)
{
	for (int level = 0; level < RSK_DEADLINE_LEVELS; level++)
		if (q->busy[level]) {
			struct rsk_deadline *d = q->slot[level][__builtin_ctzll(q->busy[level])];

			rsk_deadline_clear(q, d);
			return d;
		}
	return NULL;
}

bool rsk_deadlines_validate(const struct rsk_deadlines *q)
{
	size_t n = 0;

	for (int level = 0; level < RSK_DEADLINE_LEVELS; level++)
		for (unsigned int s = 0; s < RSK_DEADLINE_SLOTS; s++) {
			struct rsk_deadline *const *at = &q->slot[level][s];

			if (!*at != !(q->busy[level] >> s & 1))
				return false;
			for (const struct rsk_deadline *d = *at; d; d = d->next) {
				if (d->at != at || d->due_tick < q->now_tick ||
				    (!level && digit(d->due_tick, 0) != s))
					return false;
				at = &d->next;
				n++;
			}
		}
	return n == q->n;
}
