/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * policy.h - decides when a stream has earned promotion, and when to look for its peer again.
 * Called by the stream's own calls.
 *
 * Pure functions over counters; the caller passes the settings.
 */
#ifndef RSK_MAPPER_POLICY_H
#define RSK_MAPPER_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct rsk_policy {
	/* Calls that moved bytes, both directions; 0: calls do not count */
	uint32_t earn_calls;
	/* Bytes moved, both directions; 0: bytes do not count */
	uint64_t earn_bytes;
	uint32_t look_ns; /* minimum time between two lookups */
	/* Lookups before the stream gives up, unless its search is lasting */
	uint32_t looks_max;
};

/*
 * The gap between two lookups grows with the time spent searching: a peer that takes some time to
 * appear is found late by at most this share of that time.
 */
#define RSK_POLICY_LATE_SHARE 8

/*
 * Defaults: a short connection is never promoted, a ping-pong within a millisecond. 96 lookups of
 * some microseconds are spread over 12 s or more, in calls that the program makes anyway.
 */
#define RSK_POLICY_DEFAULT                                                                         \
	{                                                                                          \
		.earn_calls = 16, .earn_bytes = 65536, .look_ns = 50000, .looks_max = 96,          \
	}

/* One stream's search for its peer; private to the stream, all zero at its start. */
struct rsk_policy_search {
	uint32_t looks;	   /* lookups made so far */
	uint64_t began_ns; /* time of the first lookup */
	uint64_t next_ns;  /* time when the next one is due */
	/* A peer answers, and the answer may change: the search is never given up */
	bool lasting;
};

/* True if a stream that made so many calls and moved so many bytes has earned promotion. */
static inline bool rsk_policy_earned(const struct rsk_policy *p, uint64_t calls, uint64_t bytes)
{
	return (p->earn_calls && calls >= p->earn_calls) ||
	       (p->earn_bytes && bytes >= p->earn_bytes);
}

/* True if a lookup is due now. Cheap: meant for each call of a stream that has earned promotion. */
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

/* Records a lookup at this time (monotonic, ns) and sets when the next one is due. */
void rsk_policy_looked(const struct rsk_policy *p, struct rsk_policy_search *s, uint64_t now_ns);

#endif /* RSK_MAPPER_POLICY_H */
