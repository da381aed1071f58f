/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote.h - links to processes of other hosts, from the engine's side and the keeper's. Made by the keeper, in the
 * background; what the engine wants and is told lies in a small table under the join lock (pairing.c).
 */
#ifndef RSK_REMOTE_H
#define RSK_REMOTE_H

#include <rsock/tuple.h>

#include "link.h"
#include "verbs.h"

/* May the sender of stream @sid go to the ring? Any thread. */
static inline bool rsk_remote_may_put(const struct rsk_link *l, uint32_t sid);

/* The keeper's job. */
extern const struct rsk_progress_job rsk_remote_job;
extern const struct rsk_remote_ops rsk_link_handshake_ops; /* what the pairing asks */

#include "rails.h"
#include "rdma.h"

static inline bool rsk_remote_may_put(const struct rsk_link *l, uint32_t sid)
{
	const struct rsk_rails *rs = l->seg.rail.priv;

	if (!l->remote)
		return true;
	if (atomic_load_explicit(&l->seg.rail.broken, memory_order_relaxed))
		return false;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (rsk_rails_state(rs, i) == RSK_RAILS_UP &&
		    rsk_rdma_module->ring_way(rs->rail[i]->priv, sid) != RSK_VERBS_CLOSED)
			return true;
	return false;
}

#endif
