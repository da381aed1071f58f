// SPDX-License-Identifier: BSD-2-Clause
/*
 * mr.c - registrations of memory: control blocks by groups, rings one by one, and a rail's own
 * buffers. Called by rail.c and through the module's table, on the progress thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include <rsock/splitmix.h>
#include <rsock/sys.h>

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "dev.h"
#include "rail.h"

#define PEER_MAY (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct ibv_mr *rsk_mr_new(struct rsk_verbs_rail *r, void *at, size_t bytes, int access, int *rc)
{
	struct rsk_verbs *v = r->v;
	struct ibv_mr *mr;

	*rc = -ENOMEM;
	if (v->reg_limit && v->registered + bytes > v->reg_limit) {
		RSK_COUNT(v, REGISTER_FAILED, 1);
		return NULL;
	}
	mr = ibv_reg_mr(r->pd, at, bytes, access);
	if (!mr) {
		/* A locked-memory limit gives EAGAIN or ENOMEM, depending on kernel and driver. */
		*rc = errno == EAGAIN || !errno ? -ENOMEM : -errno;
		RSK_COUNT(v, REGISTER_FAILED, 1);
		return NULL;
	}
	v->registered += bytes;
	RSK_COUNT(v, REGISTERED_BYTES, bytes);
	*rc = 0;
	return mr;
}

void rsk_mr_free(struct rsk_verbs *v, struct ibv_mr **mr)
{
	if (!*mr)
		return;
	v->registered -= (*mr)->length;
	RSK_COUNT(v, DEREGISTERED_BYTES, (*mr)->length);
	ibv_dereg_mr(*mr);
	*mr = NULL;
}

void rsk_mr_narrow(struct rsk_verbs *v, struct rsk_vwidths *w, size_t bytes)
{
	for (uint32_t i = 0; i < RSK_SEG_WIDTHS; i++)
		if (w->mr[i] && w->mr[i]->length > bytes)
			rsk_mr_free(v, &w->mr[i]);
}

void rsk_mr_narrow_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes)
{
	struct rsk_vstream *s = rsk_rail_stream(r, sid);

	if (s)
		rsk_mr_narrow(r->v, &s->ring, bytes);
}

static struct ibv_mr *has_width(const struct rsk_vwidths *w, size_t bytes)
{
	for (uint32_t i = 0; i < RSK_SEG_WIDTHS && w->mr[i]; i++)
		if (w->mr[i]->length >= bytes)
			return w->mr[i];
	return NULL;
}

/*
 * What may be registered in all when a ring becomes wider: half of what the process may lock, so
 * that the other half is there for streams to come. Where nothing limits that, the peers of a
 * process, which get a wide ring by asking, have a sixteenth of the host's memory at the most. (The
 * kernel's TCP gives all buffers of the host about an eighth: net.ipv4.tcp_mem.)
 */
static uint64_t wide_limit(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };
	uint64_t of_host = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 16;
	struct rlimit lim;

	if (rsk_sys_capget(&head, data) == 0 &&
	    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK))
		return of_host;
	if (getrlimit(RLIMIT_MEMLOCK, &lim) < 0)
		return of_host;
	return lim.rlim_cur / 2 < of_host ? lim.rlim_cur / 2 : of_host;
}

struct ibv_mr *rsk_mr_width(struct rsk_verbs_rail *r, struct rsk_vwidths *w, void *at, size_t bytes,
			    int access, int *rc)
{
	struct ibv_mr *mr = has_width(w, bytes);
	uint32_t i = 0;

	*rc = 0;
	if (mr)
		return mr;
	while (i < RSK_SEG_WIDTHS && w->mr[i])
		i++;
	/* The first width comes first: it stays when wider ones are given back. */
	if (!i && bytes > RSK_SEG_FIRST_RING) {
		w->mr[i] = rsk_mr_new(r, at, RSK_SEG_FIRST_RING, access, rc);
		if (!w->mr[i++])
			return NULL;
	}
	*rc = -ENOMEM;
	if (i && r->v->registered + bytes > wide_limit())
		return NULL;
	if (i < RSK_SEG_WIDTHS)
		w->mr[i] = mr = rsk_mr_new(r, at, bytes, access, rc);
	return mr;
}

void rsk_mr_narrow_all(struct rsk_verbs_rail *r)
{
	for (uint32_t i = 0; i < r->groups; i++) {
		struct rsk_vgroup *g = rsk_rail_has_group(r, i);

		for (uint32_t s = 0; g && s < RSK_VERBS_GROUP; s++) {
			rsk_mr_narrow(r->v, &g->stream[s].ring, RSK_SEG_FIRST_RING);
			rsk_mr_narrow(r->v, &g->stream[s].window, RSK_SEG_FIRST_RING);
		}
	}
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
			rsk_mr_narrow(r->v, &g->stream[s].ring, 0);
			rsk_mr_narrow(r->v, &g->stream[s].window, 0);
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

int rsk_mr_ring(struct rsk_verbs_rail *r, uint32_t sid, uint32_t bytes, uint32_t *rkey)
{
	struct rsk_vstream *s;
	struct ibv_mr *mr;
	int rc = 0;

	if (sid >= rsk_seg_streams(r->seg) || !bytes || bytes > r->seg->own.ring_bytes)
		return -EINVAL;
	if (!r->dev)
		return -ENOTCONN;
	if (!rsk_rail_group(r, sid / RSK_VERBS_GROUP))
		return -ENOMEM;
	s = rsk_rail_stream(r, sid);
	if (!has_width(&s->ring, bytes) && injected(r->v)) {
		RSK_COUNT(r->v, REGISTER_FAILED, 1);
		return -ENOMEM;
	}
	mr = rsk_mr_width(r, &s->ring, r->seg->rail.segment + rsk_seg_ring_off(&r->seg->own, sid),
			  bytes, PEER_MAY, &rc);
	if (mr)
		*rkey = mr->rkey;
	return rc;
}
