/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote.h - links to processes on other hosts, as the engine and the progress thread see them. The
 * progress thread makes them in the background; the engine's requests and their outcome are in a
 * small table under the pairing lock (link_requests.c, pairing.c).
 */
#ifndef RSK_REMOTE_H
#define RSK_REMOTE_H

#include <rsock/tuple.h>

#include "link.h"
#include "verbs.h"

/* True if the sender of stream @sid may go to the ring. Any thread. */
static inline bool rsk_remote_may_put(const struct rsk_link *l, uint32_t sid);

/* The progress thread's job. */
extern const struct rsk_progress_job rsk_remote_job;
/* what the pairing asks of the links */
extern const struct rsk_remote_ops rsk_link_handshake_ops;

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
