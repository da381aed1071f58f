/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * policy.h - when a stream has earned promotion, and when to look for its peer again.
 *
 * Pure functions over counters; the knobs are handed in.
 */
#ifndef RSK_MAPPER_POLICY_H
#define RSK_MAPPER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_policy {
	uint32_t earn_calls; /* calls that moved bytes, both directions; 0: this way is closed */
	uint64_t earn_bytes; /* bytes moved, both directions; 0: this way is closed */
	uint32_t look_calls; /* calls from the first look to the second; the gap then doubles */
	uint32_t looks_max;  /* looks in all before a stream is given up */
};

/* Defaults: short connections never pay, a ping-pong is promoted within a millisecond. */
#define RSK_POLICY_DEFAULT                                                                         \
	{                                                                                          \
		.earn_calls = 16, .earn_bytes = 65536, .look_calls = 4, .looks_max = 14,           \
	}

/* One stream's search for its peer; private to the stream, all zero at its start. */
struct rsk_policy_search {
	uint32_t looks;		/* done so far */
	uint64_t next_at_calls; /* the next look is due when the stream's calls reach this */
};

/* Has a stream that made so many calls and moved so many bytes earned promotion? */
static inline bool rsk_policy_earned(const struct rsk_policy *p, uint64_t calls, uint64_t bytes)
{
	return (p->earn_calls && calls >= p->earn_calls) ||
	       (p->earn_bytes && bytes >= p->earn_bytes);
}

/* Is a look due now?  Cheap: meant for each call of a stream that has earned it. */
static inline bool rsk_policy_look_due(const struct rsk_policy *p,
				       const struct rsk_policy_search *s, uint64_t calls)
{
	return s->looks < p->looks_max && calls >= s->next_at_calls;
}

static inline bool rsk_policy_given_up(const struct rsk_policy *p,
				       const struct rsk_policy_search *s)
{
	return s->looks >= p->looks_max;
}

/* A look was made at this count of calls, in vain: sets when the next one is due. */
void rsk_policy_looked(const struct rsk_policy *p, struct rsk_policy_search *s, uint64_t calls);

/* Knobs that make no sense are replaced by what comes nearest; returns false if any was. */
bool rsk_policy_validate(struct rsk_policy *p);

#endif /* RSK_MAPPER_POLICY_H */
