// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_rings.c - the rings that the two ends of a rail register with it, one by one, as streams
 * are paired (ring_registration.h). Each rail has registrations of its own: one device does not
 * know those of another. Only the progress thread runs this.
 */
#include <errno.h>

#include "pairing.h"
#include "log.h"
#include "recovery.h"
#include "remote_parts.h"
#include "ring_width.h"
#include "stream.h"

#define REGISTER_AGAIN_NS 500000000ull
#define WIDER_AGAIN_NS 1000000000ull

_Static_assert(RSK_STATS_RAILS == RSK_RAILS_MOST, "a counter for each rail");

/* Registers as much of our ring as is asked for, or less. Returns 0 or -errno; *bytes: how much. */
static int register_ring(struct rsk_remote_rail *rail, uint32_t sid, uint32_t *bytes,
			 uint32_t *rkey)
{
	const struct rsk_seg_geometry *g = &rail->r->l->seg.own;
	int rc;

	if (*bytes > g->ring_bytes)
		*bytes = g->ring_bytes;
	/* A peer that asks and gives back in turn costs no more than that. */
	if (rsk_now_ns() < rail->ways.at[sid].narrowed_ns + WIDER_AGAIN_NS)
		*bytes = RSK_SEG_FIRST_RING;
	while ((rc = rsk_rdma_module->reg_ring(rail->rail, sid, *bytes, rkey)) < 0 &&
	       *bytes > RSK_SEG_FIRST_RING)
		*bytes = rsk_seg_ring_narrower(g, *bytes);
	return rc;
}

/* Registers our ring for the peer and tells it; tries again later if that is not possible now. */
static void offer_ring(struct rsk_remote_rail *rail, uint32_t sid, uint32_t bytes)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING,
				    .rail = rail->index,
				    .sid = sid,
				    .way = RSK_VERBS_CLOSED,
				    .ring_bytes = bytes };
	struct rsk_ring_reg *w = rsk_ring_regs_at(&rail->ways, sid);
	struct rsk_remote *r = rail->r;
	int rc;

	rsk_pairing_take();
	rc = w ? rsk_link_reach(r->l, sid) : -ENOMEM;
	rsk_pairing_give();
	if (rc == 0)
		rc = rsk_rdma_module->reg_ctl(rail->rail, sid / RSK_SEG_REACH, &m.ctl_rkey);
	if (rc == 0) {
		m.way = RSK_VERBS_INDIRECT;
		rc = register_ring(rail, sid, &m.ring_bytes, &m.ring_rkey);
	}
	if (rc == 0) {
		m.way = RSK_VERBS_DIRECT;
		m.narrowed = w->narrowed_in;
		if (m.ring_bytes > w->given_bytes)
			w->given_bytes = m.ring_bytes;
		rsk_ring_width_given(r, sid, m.ring_bytes);
	}
	if (w && w->owed && rc < 0)
		return; /* the peer has been told that already */
	if (rc < 0)
		rsk_log(RSK_LOG_INFO, "link %u: ring of stream %u is not registered: %d",
			r->l->number, sid, rc);
	if (w) {
		w->owed = rc < 0;
		if (rc < 0)
			rail->register_ns = rsk_now_ns() + REGISTER_AGAIN_NS;
	}
	rsk_control_conn_send(&r->control, &m);
}

void rsk_remote_ask_ring(struct rsk_remote_rail *rail, uint32_t sid)
{
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RING_REQ,
				    .rail = rail->index,
				    .sid = sid,
				    .ring_bytes = rail->ways.at[sid].asked_bytes };

	rsk_control_conn_send(&rail->r->control, &m);
}

void rsk_remote_say_narrow(struct rsk_remote_rail *rail, uint32_t sid, uint32_t bytes)
{
	struct rsk_remote_msg m = {
		.type = RSK_REMOTE_NARROW, .rail = rail->index, .sid = sid, .ring_bytes = bytes
	};

	rail->ways.at[sid].narrowed_out++;
	rsk_control_conn_send(&rail->r->control, &m);
}

static void reach_directly(struct rsk_remote_rail *rail, uint32_t sid, struct rsk_ring_reg *w)
{
	int way = rsk_rdma_module->set_ring(rail->rail, sid, RSK_VERBS_DIRECT, w->ring_rkey,
					    w->kept_bytes);

	if (way == RSK_VERBS_DIRECT)
		w->direct_bytes = w->kept_bytes;
	if (way >= 0 || !w->direct_bytes)
		return;
	/* The window's ring could not be registered so wide. */
	w->asked_bytes = w->direct_bytes;
	rsk_remote_say_narrow(rail, sid, w->direct_bytes);
}

static void act(struct rsk_remote_rail *rail, uint32_t sid, struct rsk_ring_reg *w,
		enum rsk_ring_reg_action what)
{
	struct rsk_remote *r = rail->r;

	switch (what) {
	case RSK_RING_REG_DO_REQUEST:
		rsk_remote_ask_ring(rail, sid);
		break;
	case RSK_RING_REG_DO_INDIRECT:
		rsk_rdma_module->set_ring(rail->rail, sid, RSK_VERBS_INDIRECT, 0,
					  r->l->seg.peer.ring_bytes);
		break;
	case RSK_RING_REG_DO_DIRECT:
		reach_directly(rail, sid, w);
		break;
	default:
		return;
	}
	/* Slots for which there was no rail have one now. */
	if (what != RSK_RING_REG_DO_REQUEST) {
		rsk_rails_changed(&r->rails);
		rsk_recovery_retransmit(r->l, sid, RSK_RAILS_NOBODY, 0, UINT64_MAX);
	}
}

static struct rsk_ring_reg *begun(struct rsk_remote_rail *rail, uint32_t sid)
{
	struct rsk_ring_reg *w = rsk_ring_regs_at(&rail->ways, sid);

	if (w && w->state == RSK_RING_REG_NONE) {
		rsk_ring_reg_begin(w, rsk_now_ns(), rsk_stats_self()->registrations);
		w->asked_bytes = rsk_ring_width_used(rail->r, sid);
		if (rsk_ring_reg_next(w) < rail->rings_ns)
			rail->rings_ns = rsk_ring_reg_next(w);
		if (w->asked_bytes > RSK_SEG_FIRST_RING)
			rsk_remote_ask_ring(rail, sid);
	}
	return w;
}

/* Keys of wider rings that the peer has given back since are of no use. */
static bool is_stale(const struct rsk_ring_reg *w)
{
	return w->kept_valid && w->kept_bytes > RSK_SEG_FIRST_RING &&
	       w->kept_narrowed != w->narrowed_out;
}

/*
 * Applies what the peer has said of its ring, once a stream of ours uses it. A ring of which more
 * is used than that, as other rails reach it, is reached indirectly.
 */
static void apply(struct rsk_remote_rail *rail, uint32_t sid, struct rsk_ring_reg *w)
{
	struct rsk_remote *r = rail->r;
	uint32_t used = rsk_ring_width_used(r, sid);
	bool valid = w->kept_valid && w->kept_bytes >= used;
	int rc;

	if (!w->kept)
		return;
	w->kept = false;
	if (is_stale(w))
		return;
	rsk_pairing_take();
	rc = rsk_link_reach(r->l, sid);
	rsk_pairing_give();
	if (rc == 0)
		rc = rsk_rdma_module->set_ctl(rail->rail, sid / RSK_SEG_REACH, w->ctl_rkey);
	if (rc < 0)
		return;
	if (w->kept_valid && w->kept_bytes == RSK_SEG_FIRST_RING)
		w->first_rkey = w->ring_rkey;
	/* It is not asked at once for more than the peer could register. */
	w->asked_bytes = w->kept_bytes > used ? w->kept_bytes : used;
	if (w->asked_bytes < w->direct_bytes)
		w->asked_bytes = w->direct_bytes;
	if (w->state == RSK_RING_REG_DIRECT && valid && w->kept_bytes > w->direct_bytes)
		reach_directly(rail, sid, w);
	else
		act(rail, sid, w, rsk_ring_reg_answer(w, valid, rsk_stats_self()->registrations));
	rsk_ring_width_reached(r, sid);
}

static void see_group(struct rsk_remote_rail *rail, uint32_t sid)
{
	uint32_t rkey;

	if (rsk_rdma_module->reg_ctl(rail->rail, sid / RSK_SEG_REACH, &rkey) < 0)
		rail->unfit = true;
}

static void want_ring(struct rsk_remote_rail *rail, uint32_t sid)
{
	/* the message that was just relayed is the request */
	struct rsk_ring_reg *w = begun(rail, sid);

	offer_ring(rail, sid, RSK_SEG_FIRST_RING);
	if (!w)
		return;
	w->ours = true;
	apply(rail, sid, w);
}

/* What the rails carry of the stream is counted in its record. */
static int reach(struct rsk_remote *r, uint32_t sid)
{
	struct rsk_stream *s = rsk_recovery_paired(r->l, sid);
	struct rsk_rails_record record = { 0 };
	int rc;

	if (s)
		record = (struct rsk_rails_record){ s->rec->tx_rail_bytes, &s->rec->tx_repairs };
	rc = rsk_rails_reach(&r->rails, sid, &record);
	if (s)
		rsk_stream_unpin(s);
	return rc;
}

void rsk_remote_want_ring(struct rsk_remote *r, uint32_t sid)
{
	if (sid >= rsk_seg_streams(&r->l->seg))
		return;
	/* Without memory the stream never gets a way to the ring, and stays on its TCP socket. */
	if (reach(r, sid) < 0)
		return;
	/* Control words may go by any of the rails from the moment that slots may go by one. */
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_UP)
			see_group(&r->rail[i], sid);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_UP)
			want_ring(&r->rail[i], sid);
}

void rsk_remote_rings_begin(struct rsk_remote_rail *rail)
{
	const struct rsk_remote_rail *other = rail->r->rail;

	while (other->state != RSK_REMOTE_RAIL_UP || other == rail)
		if (++other == rail->r->rail + RSK_RAILS_MOST)
			return;
	for (uint32_t sid = 0; sid < other->ways.n; sid++)
		if (other->ways.at[sid].ours)
			see_group(rail, sid);
	for (uint32_t sid = 0; sid < other->ways.n; sid++)
		if (other->ways.at[sid].ours)
			want_ring(rail, sid);
}

void rsk_remote_on_ring_req(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];

	if (rail->state != RSK_REMOTE_RAIL_UP || m->sid >= rail->ways.n ||
	    !rail->ways.at[m->sid].ours)
		return;
	offer_ring(rail, m->sid, m->ring_bytes);
}

void rsk_remote_on_narrow(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];

	if (rail->state != RSK_REMOTE_RAIL_UP || m->sid >= rail->ways.n ||
	    !rail->ways.at[m->sid].ours)
		return;
	rail->ways.at[m->sid].narrowed_in++;
	rsk_ring_width_give_back(rail, m->sid, m->ring_bytes);
}

void rsk_remote_on_ring(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];
	struct rsk_ring_reg *w;

	if (rail->state != RSK_REMOTE_RAIL_UP || m->sid >= rsk_seg_streams(&r->l->seg) ||
	    m->way == RSK_VERBS_CLOSED)
		return;
	w = rsk_ring_regs_at(&rail->ways, m->sid);
	if (!w)
		return;
	w->kept = true;
	w->kept_valid = m->way == RSK_VERBS_DIRECT;
	w->ctl_rkey = m->ctl_rkey;
	w->ring_rkey = m->ring_rkey;
	w->kept_bytes = m->ring_bytes;
	w->kept_narrowed = m->narrowed;
	if (w->ours)
		apply(rail, m->sid, w);
}

void rsk_remote_rings_work(struct rsk_remote_rail *rail, uint64_t now_ns)
{
	if (now_ns >= rail->rings_ns) {
		rail->rings_ns = UINT64_MAX;
		for (uint32_t i = 0; i < rail->ways.n; i++) {
			struct rsk_ring_reg *w = &rail->ways.at[i];

			act(rail, i, w,
			    rsk_ring_reg_tick(w, now_ns, rsk_stats_self()->registrations));
			if (rsk_ring_reg_next(w) < rail->rings_ns)
				rail->rings_ns = rsk_ring_reg_next(w);
		}
	}
	if (now_ns >= rail->register_ns) {
		rail->register_ns = UINT64_MAX;
		for (uint32_t i = 0; i < rail->ways.n; i++)
			if (rail->ways.at[i].owed) {
				offer_ring(rail, i, RSK_SEG_FIRST_RING);
				if (rail->ways.at[i].owed)
					rail->register_ns = now_ns + REGISTER_AGAIN_NS;
			}
	}
	if (now_ns >= rail->probe_ns && !rail->r->idle_ns) {
		rail->probe_ns = now_ns + RSK_REMOTE_PROBE_NS;
		rsk_remote_ask(rail);
	}
}

/* A new stream needs no time here: the message that pairs it wakes the progress thread. */
uint64_t rsk_remote_rings_next(const struct rsk_remote_rail *rail)
{
	uint64_t next = rail->rings_ns < rail->register_ns ? rail->rings_ns : rail->register_ns;
	uint64_t probe = rail->r->idle_ns ? UINT64_MAX : rail->probe_ns;

	return next < probe ? next : probe;
}
