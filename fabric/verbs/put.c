// SPDX-License-Identifier: BSD-2-Clause
/*
 * put.c - the fabric operations of librsock-verbs.so, called by streams, and their table.
 * Operations that return data are in fetch.c.
 */
#include <errno.h>

#include "ops.h"
#include "post.h"

/* Pending ranges of one stream from which on it counts as held back */
#define HELD_RANGES (RSK_PENDING_RANGES / 2)

/* Adds the range to the pending writes. Returns 1, -ENOBUFS (too many ranges) or -EINVAL. */
static int pending_writes(struct rsk_verbs_rail *r, struct rsk_pending_writes *n,
			  const struct rsk_remote_region *at, size_t len)
{
	if (at->ring) {
		if (at->off % RSK_CELL_BYTES)
			return -EINVAL;
		if (!rsk_pending_range(n, at->off, (uint32_t)len))
			return -ENOBUFS;
		r->rate_estimator.noted += len;
	} else {
		if (len != sizeof(struct rsk_control_word))
			return -EINVAL;
		if (at->off == offsetof(struct rsk_seg_ctl, tx_word))
			n->words |= RSK_PENDING_TX_WORD;
		else if (at->off == offsetof(struct rsk_seg_ctl, rx_word))
			n->words |= RSK_PENDING_RX_WORD;
		else
			return -EINVAL;
	}
	return 1;
}

/* The pending writes of a stream determine which side of it to wake at the peer. */
static void flush_fresh(struct rsk_verbs_rail *r)
{
	uint32_t n = atomic_load_explicit(&r->fresh_n, memory_order_relaxed);

	atomic_store_explicit(&r->fresh_n, 0, memory_order_relaxed);
	if (r->list[RSK_LIST_QUEUE].count || r->give_back || r->ask_back)
		rsk_flush_lists(r);
	for (uint32_t i = 0; i < n; i++) {
		struct rsk_vstream *s = rsk_rail_stream(r, r->fresh[i]);

		s->fresh = false;
		if (s->pending_writes.ranges || (s->pending_writes.words & RSK_PENDING_TX_WORD))
			s->due |= RSK_WAKE_RX;
		if (s->pending_writes.words & RSK_PENDING_RX_WORD)
			s->due |= RSK_WAKE_TX;
		s->pending = true;
		/* Otherwise it is flushed with the list. */
		if (s->listed != RSK_LIST_QUEUE + 1)
			rsk_flush_stream(r, r->fresh[i], s);
	}
}

/* A put posts rarely, and only then makes calls that would be cancellation points. */
static __attribute__((noinline)) void flush_quietly(struct rsk_verbs_rail *r)
{
	struct rsk_quiet q = rsk_quiet_begin();

	flush_fresh(r);
	rsk_quiet_end(&q);
}

static void freshen(struct rsk_verbs_rail *r, uint32_t sid, struct rsk_vstream *s)
{
	uint32_t n = atomic_load_explicit(&r->fresh_n, memory_order_relaxed);

	if (s->fresh)
		return;
	if (n == RSK_VERBS_FRESH) {
		flush_quietly(r);
		n = 0;
	}
	s->fresh = true;
	r->fresh[n] = sid;
	atomic_store_explicit(&r->fresh_n, n + 1, memory_order_relaxed);
}

static int verbs_put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_vstream *s = NULL;
	struct rsk_remote_region at;
	int rc = rsk_remote_region_find(r->seg, off, len, &at);

	if (rc == 0) {
		s = rsk_rail_stream(r, at.sid);
		rc = s ? 0 : -ENOTCONN;
	}
	if (rc == 0) {
		pthread_mutex_lock(&r->lock);
		rc = atomic_load(&r->err);
		if (rc == 0)
			rc = r->live ? pending_writes(r, &s->pending_writes, &at, len) : -ENOTCONN;
		if (rc == -ENOBUFS) {
			/*
			 * Posting makes room. It fails only on a rail that makes no progress and
			 * was chosen because there is no other.
			 */
			flush_quietly(r);
			rc = pending_writes(r, &s->pending_writes, &at, len);
			if (rc == -ENOBUFS)
				rsk_rail_fail(r, rc);
		}
		if (rc == 1)
			freshen(r, at.sid, s);
		pthread_mutex_unlock(&r->lock);
	}
	return rc;
}

/*
 * Posts all pending writes, of all streams: callers that put without a wakeup need not call due().
 */
static uint64_t verbs_due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_quiet q;

	(void)sid;
	(void)what;
	if (atomic_load_explicit(&r->fresh_n, memory_order_relaxed)) {
		q = rsk_quiet_begin();
		pthread_mutex_lock(&r->lock);
		if (r->live && !atomic_load(&r->err))
			flush_fresh(r);
		pthread_mutex_unlock(&r->lock);
		rsk_quiet_end(&q);
	}
	/* The puts are ordered before what the caller reads next, as on every fabric. */
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}

static bool verbs_arrived(struct rsk_rail *rail, uint64_t off)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_quiet q;
	struct rsk_vstream *s;
	struct rsk_remote_region at;
	bool there = false;

	if (rsk_remote_region_find(r->seg, off, 1, &at) < 0)
		return false;
	s = rsk_rail_stream(r, at.sid);
	if (!s)
		return false;
	q = rsk_quiet_begin();
	pthread_mutex_lock(&r->lock);
	if (r->live && !atomic_load(&r->err)) {
		flush_fresh(r);
		there = rsk_flush_arrived(r, s);
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
	return there;
}

static void verbs_flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *flow)
{
	struct rsk_verbs_rail *r = rail->priv;
	struct rsk_quiet q = rsk_quiet_begin();
	const struct rsk_vstream *s = NULL;
	struct rsk_remote_region at;
	uint32_t way;

	if (rsk_remote_region_find(r->seg, off, 1, &at) == 0)
		s = rsk_rail_stream(r, at.sid);
	flow->shut = true;
	pthread_mutex_lock(&r->lock);
	if (s && r->live && !atomic_load(&r->err)) {
		r->rate_estimator.on |= !flow->alone;
		rsk_post_reap(r);
		way = atomic_load_explicit(&s->way, memory_order_relaxed);
		flow->shut = way == RSK_VERBS_CLOSED;
		flow->indirect = way == RSK_VERBS_INDIRECT;
		flow->held = s->pending_writes.ranges >= HELD_RANGES;
		rsk_rate_estimator_flow(r, flow);
	}
	pthread_mutex_unlock(&r->lock);
	rsk_quiet_end(&q);
}

static void verbs_notify(struct rsk_rail *rail, uint64_t doorbells)
{
	(void)rail;
	(void)doorbells;
}

static void verbs_announce(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	struct rsk_verbs_rail *r = rail->priv;

	rsk_seg_announce(r->seg, sid, what, doorbell);
}

static void verbs_retract(struct rsk_rail *rail, uint32_t sid, uint32_t what, uint32_t doorbell)
{
	struct rsk_verbs_rail *r = rail->priv;

	rsk_seg_retract(r->seg, sid, what, doorbell);
}

const struct rsk_fabric_ops rsk_verbs_ops = {
	.name = "verbs",
	.caps = RSK_FABRIC_RELIABLE,
	.put = verbs_put,
	.get = rsk_verbs_get,
	.poll = rsk_verbs_fetched,
	.due = verbs_due,
	.arrived = verbs_arrived,
	.flow = verbs_flow,
	.notify = verbs_notify,
	.announce = verbs_announce,
	.retract = verbs_retract,
};
