// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_rail.c - the rail of a link to another host: made, broken, made anew under the next epoch; and the rings that
 * its two ends register, one by one, as streams are joined (ringway.h). And its end, when no stream has it for long.
 * Keeper only.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "join.h"
#include "log.h"
#include "meet.h"
#include "mend.h"
#include "remote_parts.h"
#include "stream.h"

#define AGAIN_NS 100000000ull /* after a break; doubles */
#define AGAIN_MOST 6	      /* times */
#define DIAL_NS 5000000000ull /* rdma_cm's own patience is a minute and more */
#define FIRST_TRIES 3
#define REGISTER_AGAIN_NS 500000000ull
#define IDLE_NS 30000000000ull /* a link that no stream has had for so long is let go */

static uint64_t causes[RSK_RINGWAY_CAUSES];

static void again_later(struct rsk_remote *r)
{
	uint32_t shift = r->tries < AGAIN_MOST ? r->tries : AGAIN_MOST;

	r->tries++;
	r->due_ns = rsk_now_ns() + (AGAIN_NS << shift);
}

void rsk_remote_rail_begin(struct rsk_remote *r)
{
	struct rsk_remote_private p = { .magic = RSK_REMOTE_MAGIC,
					.nonce = r->nonce,
					.secret = r->secret };
	int rc;

	/* Not established in time; or the other end has not said in time what it has there. */
	if (r->dialing || r->established) {
		rsk_rdma_module->rail_break(r->rail);
		rsk_remote_rail_down(r, -ETIMEDOUT);
		return;
	}
	p.epoch = ++r->epoch;
	r->established = r->heard = false;
	r->dialing = true;
	if (r->state == RSK_REMOTE_BROKEN)
		r->due_ns = rsk_now_ns() + DIAL_NS;
	rc = rsk_rdma_module->rail_connect(r->rail, &r->target.from, &r->target.to, &p, sizeof(p));
	if (rc < 0)
		rsk_remote_rail_down(r, rc);
}

static void say_resume(void *arg, uint32_t sid, uint64_t pos, uint64_t cell)
{
	struct rsk_remote *r = arg;
	struct rsk_remote_msg m = {
		.type = RSK_REMOTE_RESUME, .epoch = r->epoch, .sid = sid, .pos = pos, .cell = cell
	};

	rsk_control_send(&r->control, &m);
}

/* Nothing comes in any more: what every stream has consumed is what it will have. */
static void broken(struct rsk_remote *r, int err)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_BREAK, .epoch = r->epoch };

	rsk_log(RSK_LOG_INFO, "link %u: its rail broke: %d", r->l->number, err);
	r->state = RSK_REMOTE_BROKEN;
	atomic_store(&r->l->seg.rail.broken, err < 0 ? err : -EPIPE);
	if (!rsk_control_send(&r->control, &m))
		return;
	rsk_mend_break(r->l, say_resume, r);
	again_later(r);
	if (!r->initiator)
		r->due_ns = UINT64_MAX;
}

void rsk_remote_rail_down(struct rsk_remote *r, int err)
{
	rsk_log(RSK_LOG_DEBUG, "link %u: rail %u is down: %d", r->l->number, r->epoch, err);
	r->established = r->dialing = false;
	switch (r->state) {
	case RSK_REMOTE_UP:
		broken(r, err);
		break;
	case RSK_REMOTE_BROKEN:
		again_later(r);
		if (!r->initiator)
			r->due_ns = UINT64_MAX;
		break;
	case RSK_REMOTE_RAILING:
		if (r->initiator && ++r->tries < FIRST_TRIES)
			rsk_remote_rail_begin(r);
		else if (r->initiator)
			rsk_remote_dead(r, err);
		break;
	default:
		break;
	}
}

void rsk_remote_on_break(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (m->epoch != r->epoch || r->state != RSK_REMOTE_UP)
		return;
	rsk_rdma_module->rail_break(r->rail);
	r->established = false;
	broken(r, -EPIPE);
}

void rsk_remote_on_resume(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	/* Its BREAK came before; or ours had gone out, and a new epoch cannot have begun without its RAIL. */
	if (r->state == RSK_REMOTE_BROKEN)
		rsk_mend_resume(r->l, m->sid, m->pos, m->cell);
}

/* ---- up ---- */

static void rings_anew(void *arg, uint32_t sid)
{
	rsk_remote_want_ring(arg, sid);
}

/* @m NULL: it was heard before, and now the rail is established here as well. */
void rsk_remote_on_rail(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	bool first = r->state == RSK_REMOTE_RAILING;
	const char *device;
	uint32_t mtu = 0;
	int rc;

	if (m && (m->epoch != r->epoch || r->heard))
		return;
	if (m) {
		r->peer = m->end;
		r->heard = true;
	}
	if (!r->established || !r->heard || r->state == RSK_REMOTE_UP)
		return;
	rc = rsk_rdma_module->rail_set_peer(r->rail, &r->peer);
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	for (uint32_t i = 0; i < r->ways.n; i++)
		r->ways.at[i] = (struct rsk_ringway){ .state = RSK_RINGWAY_NONE };
	device = rsk_rdma_module->rail_device(r->rail, &mtu);
	rsk_join_take();
	atomic_store(&r->l->epoch, r->epoch);
	snprintf(r->l->fabric, sizeof(r->l->fabric), "verbs %s", device);
	rsk_join_give();
	atomic_store(&r->l->seg.rail.broken, 0);
	rsk_remote_rail_up(r);
	if (r->state != RSK_REMOTE_UP)
		return;
	rsk_log(RSK_LOG_INFO, "link %u: rail %u over %s", r->l->number, r->epoch, device);
	if (!first)
		rsk_mend_renew(r->l, rings_anew, r);
}

/* ---- rings ---- */

/* Ours, for the peer; again by and by where it cannot be done now. */
static void offer_ring(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING, .sid = sid, .way = RSK_VERBS_CLOSED };
	struct rsk_ringway *w = rsk_ringways_at(&r->ways, sid);
	int rc;

	rsk_join_take();
	rc = w ? rsk_link_reach(r->l, sid) : -ENOMEM;
	rsk_join_give();
	if (rc == 0)
		rc = rsk_rdma_module->reg_ctl(r->rail, sid / RSK_SEG_REACH, &m.ctl_rkey);
	if (rc == 0) {
		m.way = RSK_VERBS_INDIRECT;
		rc = rsk_rdma_module->reg_ring(r->rail, sid, &m.ring_rkey);
	}
	if (rc == 0)
		m.way = RSK_VERBS_DIRECT;
	else
		rsk_log(RSK_LOG_INFO, "link %u: ring of stream %u is not registered: %d",
			r->l->number, sid, rc);
	if (w && w->owed && rc < 0)
		return; /* it was told so */
	if (w) {
		w->owed = rc < 0;
		if (rc < 0)
			r->register_ns = rsk_now_ns() + REGISTER_AGAIN_NS;
	}
	rsk_control_send(&r->control, &m);
}

static void act(struct rsk_remote *r, uint32_t sid, enum rsk_ringway_action what, uint32_t rkey)
{
	struct rsk_remote_msg again = { .type = RSK_REMOTE_RING_REQ, .sid = sid };

	switch (what) {
	case RSK_RINGWAY_DO_REQUEST:
		rsk_control_send(&r->control, &again);
		break;
	case RSK_RINGWAY_DO_INDIRECT:
		rsk_rdma_module->set_ring(r->rail, sid, RSK_VERBS_INDIRECT, 0);
		break;
	case RSK_RINGWAY_DO_DIRECT:
		rsk_rdma_module->set_ring(r->rail, sid, RSK_VERBS_DIRECT, rkey);
		break;
	default:
		break;
	}
}

static struct rsk_ringway *begun(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_ringway *w = rsk_ringways_at(&r->ways, sid);

	if (w && w->state == RSK_RINGWAY_NONE) {
		rsk_ringway_begin(w, rsk_now_ns(), causes);
		if (w->due_ns < r->rings_ns)
			r->rings_ns = w->due_ns;
	}
	return w;
}

/* What the peer has said of its ring, once a stream of ours has to do with it. */
static void heed(struct rsk_remote *r, uint32_t sid, struct rsk_ringway *w)
{
	int rc;

	if (!w->kept)
		return;
	w->kept = false;
	rsk_join_take();
	rc = rsk_link_reach(r->l, sid);
	rsk_join_give();
	if (rc == 0)
		rc = rsk_rdma_module->set_ctl(r->rail, sid / RSK_SEG_REACH, w->ctl_rkey);
	if (rc == 0)
		act(r, sid, rsk_ringway_answer(w, w->kept_valid, causes), w->ring_rkey);
}

void rsk_remote_want_ring(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_ringway *w;

	if (sid >= rsk_seg_streams(&r->l->seg))
		return;
	w = begun(r, sid); /* the message that was just relayed is the request */
	offer_ring(r, sid);
	if (!w)
		return;
	w->ours = true;
	heed(r, sid, w);
}

void rsk_remote_on_ring_req(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (r->state == RSK_REMOTE_UP && m->sid < r->ways.n && r->ways.at[m->sid].ours)
		offer_ring(r, m->sid);
}

void rsk_remote_on_ring(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_ringway *w;

	if (r->state != RSK_REMOTE_UP || m->sid >= rsk_seg_streams(&r->l->seg) ||
	    m->way == RSK_VERBS_CLOSED)
		return;
	w = rsk_ringways_at(&r->ways, m->sid);
	if (!w)
		return;
	w->kept = true;
	w->kept_valid = m->way == RSK_VERBS_DIRECT;
	w->ctl_rkey = m->ctl_rkey;
	w->ring_rkey = m->ring_rkey;
	if (w->ours)
		heed(r, m->sid, w);
}

void rsk_remote_rings_work(struct rsk_remote *r, uint64_t now_ns)
{
	if (now_ns >= r->rings_ns) {
		r->rings_ns = UINT64_MAX;
		for (uint32_t i = 0; i < r->ways.n; i++) {
			struct rsk_ringway *w = &r->ways.at[i];

			act(r, i, rsk_ringway_tick(w, now_ns, causes), 0);
			if (w->state == RSK_RINGWAY_ASKED && w->due_ns < r->rings_ns)
				r->rings_ns = w->due_ns;
		}
	}
	if (now_ns >= r->register_ns) {
		r->register_ns = UINT64_MAX;
		for (uint32_t i = 0; i < r->ways.n; i++)
			if (r->ways.at[i].owed) {
				offer_ring(r, i);
				if (r->ways.at[i].owed)
					r->register_ns = now_ns + REGISTER_AGAIN_NS;
			}
	}
	if (now_ns >= r->probe_ns && !r->idle_ns) {
		r->probe_ns = now_ns + RSK_REMOTE_PROBE_NS;
		rsk_rdma_module->rail_probe(r->rail);
	}
}

/* Who joins a stream calls the keeper, by the message of it. */
uint64_t rsk_remote_rings_next(const struct rsk_remote *r)
{
	uint64_t next = r->rings_ns < r->register_ns ? r->rings_ns : r->register_ns;
	uint64_t tick = r->probe_ns;

	if (r->idle_ns)
		tick = r->initiator ? r->idle_ns + IDLE_NS : UINT64_MAX;
	return next < tick ? next : tick;
}

/*
 * The initiator's to say, since it alone joins streams: once the engine has it no more, none can come. A stream that
 * was closed is counted until all it has put has arrived; so what the other end still has of one is complete.
 */
bool rsk_remote_unused(struct rsk_remote *r, uint64_t now_ns)
{
	bool unused = false;

	if (!r->listed || r->state == RSK_REMOTE_DEAD)
		return false;
	if (atomic_load(&r->l->streams))
		r->idle_ns = 0;
	else if (!r->idle_ns)
		r->idle_ns = now_ns;
	if (!r->initiator || !r->idle_ns || now_ns - r->idle_ns < IDLE_NS)
		return false;
	rsk_join_take();
	unused = !atomic_load(&r->l->streams);
	if (unused)
		rsk_link_dead(r->l);
	rsk_join_give();
	return unused;
}
