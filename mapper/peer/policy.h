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
	uint32_t look_ns;    /* least time from one look to the next */
	uint32_t looks_max; /* looks in all before a stream is given up, unless its search is lasting */
};

/*
 * The gap between two looks grows with the time spent: what is there to be found is found late by no more than this
 * share of the time it took to come.
 */
#define RSK_POLICY_LATE_SHARE 8

/*
 * Defaults: short connections never pay, a ping-pong is promoted within a millisecond. 96 looks of some microseconds
 * are spread over 12 s or more, by calls that the program makes anyway.
 */
#define RSK_POLICY_DEFAULT                                                                         \
	{                                                                                          \
		.earn_calls = 16, .earn_bytes = 65536, .look_ns = 50000, .looks_max = 96,          \
	}

/* One stream's search for its peer; private to the stream, all zero at its start. */
struct rsk_policy_search {
	uint32_t looks;	   /* done so far */
	uint64_t began_ns; /* the first */
	uint64_t next_ns;  /* the next one is due then */
	bool lasting;	   /* somebody answers, and the answer may change: it is never given up */
};

/* Has a stream that made so many calls and moved so many bytes earned promotion? */
static inline bool rsk_policy_earned(const struct rsk_policy *p, uint64_t calls, uint64_t bytes)
{
	return (p->earn_calls && calls >= p->earn_calls) ||
	       (p->earn_bytes && bytes >= p->earn_bytes);
}

/* Is a look due now? Cheap: meant for each call of a stream that has earned it. */
static inline bool rsk_policy_check_due(const struct rsk_policy *p,
					const struct rsk_policy_search *s, uint64_t now_ns)
{
	return (s->lasting || s->looks < p->looks_max) && now_ns >= s->next_ns;
}

static inline bool rsk_policy_given_up(const struct rsk_policy *p,
				       const struct rsk_policy_search *s, uint64_t now_ns)
{
	return !s->lasting && s->looks >= p->looks_max && now_ns >= s->next_ns;
}

/* A look was made at this time (monotonic, ns): sets when the next one is due. */
void rsk_policy_looked(const struct rsk_policy *p, struct rsk_policy_search *s, uint64_t now_ns);

#endif /* RSK_MAPPER_POLICY_H */
