// SPDX-License-Identifier: BSD-2-Clause
/*
 * rate_estimator.c - rate estimator: how many bytes are in flight on a rail, and how fast they go,
 * for links that have several rails to choose from. Called by post.c, put.c and rail.c, with
 * r->lock held. It measures only when there are several rails, because it needs more signalled
 * completions.
 *
 * The rate covers only times in which the send queue was never empty: the bytes completed between
 * two samples, divided by the time between them, smoothed. A rail that has been idle for a while
 * loses its rate: the reason why it was slow may be gone, and a rail that is never chosen is never
 * measured again.
 */

#include <rsock/clock.h>

#include "post.h"

#define SIGNAL_BYTES (32u << 10) /* at least one completion is requested for so many bytes */
#define SAMPLE_BYTES (64u << 10) /* a sample needs so many bytes */
#define SAMPLE_NS 2000000ull	 /* or so much time */
#define LOOKED_NS 100000000ull
#define FORGET_NS 100000000ull

void rsk_rate_estimator_reset(struct rsk_verbs_rail *r)
{
	r->rate_estimator = (struct rsk_rate_estimator){ .on = r->rate_estimator.on };
}

bool rsk_rate_estimator_due(const struct rsk_verbs_rail *r)
{
	return r->rate_estimator.on &&
	       r->rate_estimator.posted - r->rate_estimator.signalled >= SIGNAL_BYTES;
}

void rsk_rate_estimator_posted(struct rsk_verbs_rail *r, uint64_t index, uint64_t bytes)
{
	struct rsk_rate_estimator *m = &r->rate_estimator;

	if (m->on && !m->mark_ns && bytes) {
		m->mark_ns = rsk_monotonic_ns();
		m->mark = m->done;
	}
	m->posted += bytes;
	m->at[index % RSK_VERBS_DEPTH] = m->posted;
}

static void sample(struct rsk_rate_estimator *m)
{
	uint64_t now = rsk_monotonic_ns(), ns = now - m->mark_ns, bytes = m->done - m->mark, rate;

	if (bytes < SAMPLE_BYTES && (ns < SAMPLE_NS || !bytes))
		return;
	/* The completions were not polled for long; they may be much older than now. */
	if (ns > LOOKED_NS) {
		m->mark_ns = now;
		m->mark = m->done;
		return;
	}
	rate = bytes * 1000000000ull / (ns ? ns : 1);
	m->rate = m->rate ? (3 * m->rate + rate) / 4 : rate;
	m->rate_ns = now;
	m->mark_ns = now;
	m->mark = m->done;
}

void rsk_rate_estimator_done(struct rsk_verbs_rail *r)
{
	struct rsk_rate_estimator *m = &r->rate_estimator;

	m->done = m->at[r->done % RSK_VERBS_DEPTH];
	if (!m->mark_ns)
		return;
	sample(m);
	if (m->done == m->posted)
		m->mark_ns = 0;
}

void rsk_rate_estimator_flow(struct rsk_verbs_rail *r, struct rsk_flow *flow)
{
	flow->under_way_bytes =
		r->rate_estimator.posted - r->rate_estimator.done + r->rate_estimator.noted;
	if (!flow->under_way_bytes && rsk_monotonic_ns() - r->rate_estimator.rate_ns > FORGET_NS)
		r->rate_estimator.rate = 0;
	flow->rate = r->rate_estimator.rate;
}
