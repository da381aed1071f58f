// SPDX-License-Identifier: BSD-2-Clause
/*
 * mr.c - registrations of memory: control blocks by groups, rings one by one, and a rail's own
 * buffers. Called by rail.c and through the module's table, on the progress thread.
 */
#include <errno.h>
#include <stdlib.h>

#include <rsock/splitmix.h>
#include <rsock/sys.h>

#include <sys/mman.h>

#include "dev.h"
#include "rail.h"

#define PEER_MAY (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct ibv_mr *rsk_mr_new(struct rsk_verbs_rail *r, void *at, size_t bytes, int access, int *rc)
{
	struct rsk_verbs *v = r->v;
	struct ibv_mr *mr;

	*rc = -ENOMEM;
	if (v->reg_limit && atomic_load(&v->counters.registered_bytes) + bytes > v->reg_limit) {
		RSK_COUNT(v, register_failed, 1);
		return NULL;
	}
	mr = ibv_reg_mr(r->pd, at, bytes, access);
	if (!mr) {
		/* A locked-memory limit gives EAGAIN or ENOMEM, depending on kernel and driver. */
		*rc = errno == EAGAIN || !errno ? -ENOMEM : -errno;
		RSK_COUNT(v, register_failed, 1);
		return NULL;
	}
	RSK_COUNT(v, registered_bytes, bytes);
	*rc = 0;
	return mr;
}

void rsk_mr_free(struct rsk_verbs *v, struct ibv_mr **mr)
{
	if (!*mr)
		return;
	atomic_fetch_sub(&v->counters.registered_bytes, (*mr)->length);
	ibv_dereg_mr(*mr);
	*mr = NULL;
}

/* Frees everything registered: the rail moves to another device or ends. There is no queue pair. */
void rsk_mr_drop_all(struct rsk_verbs_rail *r)
{
	rsk_mr_free(r->v, &r->in_mr);
	rsk_mr_free(r->v, &r->out_mr);
	for (uint32_t i = 0; i < r->groups; i++) {
		struct rsk_vgroup *g = rsk_rail_has_group(r, i);

		if (!g)
			continue;
		rsk_mr_free(r->v, &g->ctl);
		for (uint32_t s = 0; s < RSK_VERBS_GROUP; s++) {
			rsk_mr_free(r->v, &g->stream[s].ring);
			rsk_mr_free(r->v, &g->stream[s].window);
		}
	}
	rsk_domain_close(r);
}

int rsk_mr_buffers(struct rsk_verbs_rail *r)
{
	int rc = 0;

	if (!r->in_mr)
		r->in_mr = rsk_mr_new(r, r->buf->in, sizeof(r->buf->in),
				      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &rc);
	if (rc == 0 && !r->out_mr)
		r->out_mr = rsk_mr_new(r, r->buf->out, sizeof(*r->buf) - sizeof(r->buf->in),
				       IBV_ACCESS_LOCAL_WRITE, &rc);
	return rc;
}

int rsk_mr_ctl(struct rsk_verbs_rail *r, uint32_t group, uint32_t *rkey)
{
	struct rsk_vgroup *g = rsk_rail_group(r, group);
	uint32_t first = group * RSK_VERBS_GROUP, n = RSK_VERBS_GROUP;
	int rc = 0;

	if (first >= r->seg->own.streams)
		return -EINVAL;
	if (!g)
		return -ENOMEM;
	if (!r->dev)
		return -ENOTCONN;
	if (n > r->seg->own.streams - first)
		n = r->seg->own.streams - first;
	if (!g->ctl)
		g->ctl = rsk_mr_new(r, rsk_seg_own_ctl(r->seg, first),
				    n * sizeof(struct rsk_seg_ctl), PEER_MAY, &rc);
	if (rc == 0)
		*rkey = g->ctl->rkey;
	return rc;
}

/* For tests: makes some registrations of rings fail, as a device at its limit would. */
static bool injected(struct rsk_verbs *v)
{
	return rsk_splitmix_next(&v->fail_dice) % 100 < v->fail_reg;
}

int rsk_mr_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t *rkey)
{
	struct rsk_vstream *s;
	int rc = 0;

	if (sid >= rsk_seg_streams(r->seg))
		return -EINVAL;
	if (!r->dev)
		return -ENOTCONN;
	if (!rsk_rail_group(r, sid / RSK_VERBS_GROUP))
		return -ENOMEM;
	s = rsk_rail_stream(r, sid);
	if (!s->ring && injected(r->v)) {
		RSK_COUNT(r->v, register_failed, 1);
		return -ENOMEM;
	}
	if (!s->ring)
		s->ring = rsk_mr_new(r, r->seg->rail.segment + rsk_seg_ring_off(&r->seg->own, sid),
				     r->seg->own.ring_bytes, PEER_MAY, &rc);
	if (rc == 0)
		*rkey = s->ring->rkey;
	return rc;
}
