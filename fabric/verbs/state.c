// SPDX-License-Identifier: BSD-2-Clause
/*
 * state.c - state of a rail that all its parts use: the streams' state, the remote regions and
 * their keys, and the first error, which ends the rail. Called by most files of librsock-verbs.so.
 */
#include <errno.h>
#include <stdlib.h>

#include "inner.h"

void rsk_rail_fail(struct rsk_verbs_rail *r, int err)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&r->err, &none, err))
		return;
	atomic_store_explicit(&r->rail->broken, err, memory_order_relaxed);
	r->v->host.call(r->v->host.ctx);
}

struct rsk_vgroup *rsk_rail_group(struct rsk_verbs_rail *r, uint32_t group)
{
	struct rsk_vgroup *g;

	if (group >= r->groups)
		return NULL;
	g = atomic_load(&r->group[group]);
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (g)
			atomic_store(&r->group[group], g);
	}
	return g;
}

int rsk_remote_region_find(const struct rsk_seg *seg, uint64_t off, size_t len,
			   struct rsk_remote_region *at)
{
	uint64_t rings = rsk_seg_ring_off(&seg->peer, 0), sid;

	if (off < RSK_SEG_HEAD_BYTES || !len)
		return -EINVAL;
	at->ring = off >= rings;
	if (at->ring) {
		sid = (off - rings) / seg->peer.ring_bytes;
		at->off = (uint32_t)((off - rings) % seg->peer.ring_bytes);
		if (len > seg->peer.ring_bytes - at->off)
			return -EINVAL;
	} else {
		sid = (off - RSK_SEG_HEAD_BYTES) / sizeof(struct rsk_seg_ctl);
		at->off = (uint32_t)((off - RSK_SEG_HEAD_BYTES) % sizeof(struct rsk_seg_ctl));
		if (len > sizeof(struct rsk_seg_ctl) - at->off)
			return -EINVAL;
	}
	if (sid >= seg->peer.streams)
		return -EINVAL;
	at->sid = (uint32_t)sid;
	return 0;
}

int rsk_remote_region_key(struct rsk_verbs_rail *r, const struct rsk_remote_region *at,
			  uint32_t *rkey)
{
	const struct rsk_vgroup *g = rsk_rail_has_group(r, at->sid / RSK_VERBS_GROUP);

	if (atomic_load(&r->err))
		return atomic_load(&r->err);
	if (!r->live || !r->peer_known || !g)
		return -ENOTCONN;
	if (at->ring) {
		const struct rsk_vstream *s = &g->stream[at->sid % RSK_VERBS_GROUP];

		if (atomic_load(&s->way) != RSK_VERBS_DIRECT)
			return -ENOTCONN;
		*rkey = s->rkey;
	} else {
		if (!g->ctl_known)
			return -ENOTCONN;
		*rkey = g->ctl_rkey;
	}
	return 0;
}
