/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote.h - links to processes of other hosts, from the engine's side and the keeper's. Made by the keeper, in the
 * background; what the engine wants and is told lies in a small table under the join lock (join.c).
 */
#ifndef RSK_REMOTE_H
#define RSK_REMOTE_H

#include <rsock/tuple.h>

#include "link.h"
#include "verbs.h"

/* ---- the engine's side: join lock held ---- */

/* What rsockd has said of a stream's mapping. */
struct rsk_remote_target {
	struct rsk_verbs_addr
		to; /* where the peer's process accepts rails, and control connections */
	struct rsk_verbs_addr from; /* our RNIC; family 0: any */
	struct rsk_tuple tuple;	    /* the stream, as we see it */
	uint64_t handle;	    /* AssocHandle */
};

/*
 * The name of the link to that place (rsk_meet_known()), perhaps one that is made from now on. 0: none can be had
 * now.
 */
uint64_t rsk_remote_at(const struct rsk_remote_target *t);

/* 0: it is up; -EINPROGRESS; -errno: it could not be had, and is forgotten. */
int rsk_remote_progress(uint64_t nonce);

/* It would accept rails, if it was asked to: there is a device, and nothing has failed so far. */
bool rsk_remote_able(void);

/* An end that accepted has its peer on another host: be there when that one comes. 0, -EAGAIN: not yet, -errno. */
int rsk_remote_accept(void);

/* Where this process accepts rails; 0: it does not. */
uint16_t rsk_remote_port(void);

/* rsockd says whether somebody who came by the mapping @handle may be let in. False: nobody here has asked. */
bool rsk_remote_answered(uint64_t handle, uint32_t reason);

/* The address of ours that @l came to; NULL: it is none that came. */
const struct rsk_verbs_addr *rsk_remote_here(const struct rsk_link *l);

/* It was for that mapping, and that stream of ours, that @l was let in. */
bool rsk_remote_vouched(const struct rsk_link *l, uint64_t handle, const struct rsk_tuple *ours);

/* May the sender of stream @sid go to the ring? Any thread. */
static inline bool rsk_remote_may_put(const struct rsk_link *l, uint32_t sid);

/* ---- the keeper's side ---- */

int rsk_remote_open(void); /* 0 or -errno: there is no RDMA here */
void rsk_remote_work(uint64_t now_ns);
uint64_t rsk_remote_next_ns(void); /* when there is work again; UINT64_MAX */
/*
 * All that was put has arrived, also of streams that were closed; the other keepers are told how far that is, and
 * what was consumed. @first: asked for the first time.
 */
bool rsk_remote_settled(bool first);
void rsk_remote_forked(void); /* in a child */

/* ---- below ---- */

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
