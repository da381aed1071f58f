// SPDX-License-Identifier: BSD-2-Clause
/*
 * streams_transactions.c - follows the records of a segment from one reading to the next, and
 * reports the transactions in between. A record is used again by other streams: what of a stream is
 * known is bound to the time at which it was opened. See streams.h; streams_read.c calls this.
 */
#include <stdlib.h>

#include "pma.h"
#include "streams_parts.h"

#define LEAST_FOLLOWED 64u
#define TRANSACTION_NS 100u

/* The entry of the record; NULL: the user has too many records, or there is no memory. */
static struct rsk_streams_followed *entry(struct rsk_streams_segment *s, size_t number)
{
	struct rsk_streams_followed *more;
	size_t n = s->n_followed ? s->n_followed : LEAST_FOLLOWED;

	while (n <= number)
		n *= 2;
	if (n == s->n_followed)
		return &s->followed[number];
	if (s->user->followed + n - s->n_followed > RSK_STREAMS_FOLLOWED_OF_USER)
		return NULL;
	more = realloc(s->followed, n * sizeof(*more));
	if (!more)
		return NULL;
	for (size_t i = s->n_followed; i < n; i++)
		more[i] = (struct rsk_streams_followed){ 0 };
	s->user->followed += n - s->n_followed;
	s->followed = more;
	s->n_followed = n;
	return &more[number];
}

void rsk_streams_follow(struct rsk_streams *all, struct rsk_streams_segment *s, size_t number,
			const struct rsk_stats_stream *r, uint64_t at_ns)
{
	struct rsk_streams_followed *was = entry(s, number);
	uint16_t port = rsk_stats_service_port(r);
	uint64_t now = rsk_stats_transactions(r), from_ns = s->read_ns, before = 0;

	if (!was)
		return;
	if (was->opened_ns == r->opened_ns)
		before = was->transactions;
	else if (r->opened_ns < s->read_ns)
		before = now; /* it had begun when the segment was taken */
	else
		from_ns = r->opened_ns;
	/* An accepted stream gets its ports after some calls; what it did before counts then. */
	*was = (struct rsk_streams_followed){ r->opened_ns, port ? now : before };
	if (!port || now <= before)
		return;
	if (at_ns < from_ns || now - before > (at_ns - from_ns) / TRANSACTION_NS)
		all->implausible++;
	else
		all->carried(all->ctx, s->of_many ? RSK_PMA_NOBODY : s->user->uid, r->connecting,
			     port, now - before, at_ns);
}

void rsk_streams_unfollow(struct rsk_streams_segment *s)
{
	s->user->followed -= s->n_followed;
	free(s->followed);
	s->followed = NULL;
	s->n_followed = 0;
}
