// SPDX-License-Identifier: BSD-2-Clause
/*
 * mech_verbs.c - the table of librsock-verbs-mech.so (mech_verbs.h), and what is small in it: the
 * release of a ring, and registrations that permit atomic operations.
 */
#include "locked_rail.h"
#include "post.h"
#include "rail.h"

/* The macro of this name calls one of the two functions that are wrapped here. */
#undef ibv_reg_mr

struct ibv_mr *__real_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
struct ibv_mr *__real_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access);

/* Memory that the peer may read and write is where records are. */
static unsigned int with_atomics(struct ibv_pd *pd, unsigned int access)
{
	return (access & IBV_ACCESS_REMOTE_READ) && rsk_locked_rail_can(pd->context) ?
		       access | IBV_ACCESS_REMOTE_ATOMIC :
		       access;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return __real_ibv_reg_mr(pd, addr, length, (int)with_atomics(pd, (unsigned int)access));
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				       unsigned int access)
{
	return __real_ibv_reg_mr_iova2(pd, addr, length, iova, with_atomics(pd, access));
}

static void unreg_ring(struct rsk_verbs_rail *r, uint32_t sid)
{
	struct rsk_vstream *s = rsk_rail_stream(r, sid);
	bool idle;

	if (!s)
		return;
	rsk_mr_narrow(r->v, &s->ring, 0);
	pthread_mutex_lock(&r->lock);
	if (r->live)
		rsk_post_reap(r);
	idle = !r->live || r->posted == r->done;
	if (s->window.mr[0])
		atomic_store(&s->way, RSK_VERBS_CLOSED);
	pthread_mutex_unlock(&r->lock);
	/* Work requests under way may read from the window: then it stays until the rail ends. */
	if (idle)
		rsk_mr_narrow(r->v, &s->window, 0);
}

__attribute__((visibility("default"))) extern const struct rsk_mech_verbs rsk_mech_verbs;

const struct rsk_mech_verbs rsk_mech_verbs = {
	.reg_locked = rsk_locked_rail_reg,
	.locked = rsk_locked_rail_start,
	.atomics = rsk_locked_rail_atomics,
	.unreg_ring = unreg_ring,
};
