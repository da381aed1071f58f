// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_rail.c - the lifetime of a rail: made, established at both ends, broken, made again; and
 * the callbacks of the verbs module. A link has as many rails as there are pairs of devices
 * (rail_candidates.c). The first rail that is up brings the link up, under its next epoch; later
 * ones are added to it. So each rail says which epoch it is for: the two ends may disagree on
 * whether the link is up. Only the progress thread runs this.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "pairing.h"
#include "progress.h"
#include "log.h"
#include "recovery.h"
#include "remote_parts.h"
#include "stream.h"

#define DIAL_NS 5000000000ull /* the time-out of rdma_cm itself is a minute and more */
#define FIRST_TRIES 3

int rsk_remote_rail_make(struct rsk_remote *r, uint32_t index)
{
	struct rsk_remote_rail *rail = &r->rail[index];

	if (!rail->rail)
		rail->rail = rsk_rdma_module->rail_new(rsk_rdma, &r->l->seg, &rail->puts, rail);
	if (!rail->rail)
		return -ENOMEM;
	r->rails.rail[index] = &rail->puts;
	return 0;
}

void rsk_remote_rail_begin(struct rsk_remote_rail *rail)
{
	struct rsk_remote *r = rail->r;
	struct rsk_remote_private p = { .magic = RSK_REMOTE_MAGIC,
					.nonce = r->nonce,
					.secret = r->secret,
					.rail = rail->index };
	int rc;

	/* Not established in time; or the other end has not sent its RAIL in time. */
	if (rail->state == RSK_REMOTE_RAIL_COMING) {
		rsk_rdma_module->rail_break(rail->rail);
		rsk_remote_rail_down(rail, -ETIMEDOUT);
		return;
	}
	rc = rsk_remote_rail_make(r, rail->index);
	rail->epoch = r->epoch + (r->state != RSK_REMOTE_UP);
	p.epoch = rail->epoch;
	p.generation = ++rail->generation;
	rail->established = rail->heard = false;
	rail->state = RSK_REMOTE_RAIL_COMING;
	rail->due_ns = rsk_now_ns() + DIAL_NS;
	if (rc == 0)
		rsk_rdma_module->rail_dscp(rail->rail, r->target.dscp);
	if (rc == 0)
		rc = rsk_rdma_module->rail_connect(rail->rail, &rail->from, &rail->to, &p,
						   sizeof(p));
	if (rc < 0)
		rsk_remote_rail_down(rail, rc);
}

void rsk_remote_rail_down(struct rsk_remote_rail *rail, int err)
{
	struct rsk_remote *r = rail->r;

	rsk_log(RSK_LOG_DEBUG, "link %u: rail %u is down: %d", r->l->number, rail->index, err);
	if (rail->state == RSK_REMOTE_RAIL_IDLE || rail->state == RSK_REMOTE_RAIL_LOST)
		return;
	/* If it was established, the other end may have put by it. */
	if (r->state == RSK_REMOTE_UP && (rail->state == RSK_REMOTE_RAIL_UP || rail->established)) {
		rsk_remote_rail_lost(rail, err);
		return;
	}
	rsk_remote_rail_idle(rail);
	if (r->state != RSK_REMOTE_RAILING || !r->initiator)
		return;
	if (rail->tries < FIRST_TRIES)
		rsk_remote_rail_begin(rail);
	else
		rsk_remote_dead(r, err);
}

/* ---- up ---- */

static void rings_anew(void *arg, uint32_t sid)
{
	rsk_remote_want_ring(arg, sid);
}

/*
 * The link was down: other rails that are being connected are for the former epoch, or for another
 * attempt.
 */
static void link_up(struct rsk_remote_rail *rail)
{
	struct rsk_remote *r = rail->r;

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_COMING && r->rail[i].epoch != rail->epoch) {
			rsk_remote_rail_end(&r->rail[i]);
			rsk_remote_rail_idle(&r->rail[i]);
		}
	r->epoch = rail->epoch;
	rsk_pairing_take();
	atomic_store(&r->l->epoch, r->epoch);
	rsk_pairing_give();
	atomic_store(&r->l->seg.rail.broken, 0);
}

/* Checks whether the rail is up at both ends. */
static void see_up(struct rsk_remote_rail *rail)
{
	struct rsk_remote *r = rail->r;
	bool first = r->state == RSK_REMOTE_RAILING, was_up = r->state == RSK_REMOTE_UP;
	int rc;

	if (!rail->established || !rail->heard || rail->state != RSK_REMOTE_RAIL_COMING)
		return;
	/* It is for an epoch that is over. */
	if (was_up ? rail->epoch != r->epoch : rail->epoch <= r->epoch) {
		rsk_rdma_module->rail_break(rail->rail);
		rsk_remote_rail_down(rail, -ESTALE);
		return;
	}
	rc = rsk_rdma_module->rail_set_peer(rail->rail, &rail->peer);
	if (rc < 0) {
		rsk_remote_dead(r, rc);
		return;
	}
	for (uint32_t i = 0; i < rail->ways.n; i++)
		rail->ways.at[i] = (struct rsk_ring_reg){ .state = RSK_RING_REG_NONE };
	rail->state = RSK_REMOTE_RAIL_UP;
	rail->due_ns = UINT64_MAX;
	rail->tries = rail->unfit ? rail->tries : 0;
	rail->unfit = false;
	rail->probe_ns = 0;
	if (!was_up)
		link_up(rail);
	rsk_rails_up(&r->rails, rail->index);
	rsk_control_conn_keep(&r->control, false);
	rsk_remote_name_fabric(r);
	if (!was_up)
		rsk_remote_up(r);
	if (r->state != RSK_REMOTE_UP)
		return;
	rsk_log(RSK_LOG_INFO, "link %u: rail %u, life %u of epoch %u, over %s", r->l->number,
		rail->index, rail->generation, r->epoch, r->l->fabric);
	if (was_up) {
		rsk_recovery_several(r->l);
		rsk_remote_rings_begin(rail);
		return;
	}
	if (!first)
		rsk_recovery_renew(r->l, rings_anew, r);
	rsk_remote_say_early(r);
	rsk_remote_say_candidates(r);
	rsk_remote_match_candidates(r);
}

void rsk_remote_on_rail(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	struct rsk_remote_rail *rail = &r->rail[m->rail];

	if (rail->state != RSK_REMOTE_RAIL_COMING || m->generation != rail->generation ||
	    m->epoch != rail->epoch || rail->heard)
		return;
	rail->peer = m->end;
	rail->heard = true;
	see_up(rail);
}

/* ---- callbacks of the module ---- */

/* True if a rail with that number, for that epoch, may be accepted. */
static bool welcome(const struct rsk_remote *r, const struct rsk_remote_private *p)
{
	const struct rsk_remote_rail *rail;

	if (r->secret != p->secret || p->rail >= rsk_knobs.rdma_rails)
		return false;
	/* Only the first rail's source is compared, so no other one may bring the link up. */
	if (r->state == RSK_REMOTE_RAILING && p->rail)
		return false;
	rail = &r->rail[p->rail];
	/*
	 * Some attempts of the initiator may not have arrived here, and it may have given up one
	 * that has.
	 */
	if (p->generation <= rail->generation || rail->state > RSK_REMOTE_RAIL_COMING)
		return false;
	if (r->state == RSK_REMOTE_UP)
		return p->epoch == r->epoch;
	return (r->state == RSK_REMOTE_RAILING || r->state == RSK_REMOTE_BROKEN) &&
	       p->epoch > r->epoch;
}

/*
 * The first rail comes from where the mapping says, each time that it is made. Further ones come
 * from other devices of the peer, which no mapping names, and show the link's secret.
 */
static bool is_announced(const struct rsk_remote *r, const struct rsk_verbs_addr *from)
{
	static const uint8_t any[16];

	return !memcmp(r->announced_ip, any, sizeof(any)) ||
	       !memcmp(r->announced_ip, from->ip, sizeof(any));
}

static void refuse_source(struct rsk_remote *r)
{
	struct rsk_remote_msg no = { .type = RSK_REMOTE_REFUSED,
				     .reason = RSK_REASON_OTHER_SOURCE };

	rsk_log(RSK_LOG_INFO, "link %u: its rail comes from another address than was announced",
		r->l->number);
	if (r->state != RSK_REMOTE_RAILING)
		return; /* its streams stay: this rail is refused, no more */
	rsk_pairing_take();
	rsk_pairing_came_from_elsewhere(&r->target.tuple);
	rsk_pairing_give();
	rsk_control_conn_send(&r->control, &no);
	rsk_remote_dead(r, -EACCES);
}

static struct rsk_verbs_rail *incoming(void *ctx, const struct rsk_verbs_addr *from,
				       const struct rsk_verbs_addr *here, const void *data,
				       size_t bytes)
{
	struct rsk_remote_private p;
	struct rsk_remote_rail *rail;
	struct rsk_remote *r;

	if (bytes < sizeof(p))
		return NULL;
	memcpy(&p, data, sizeof(p));
	if (p.magic != RSK_REMOTE_MAGIC || p.zero || p.rail >= RSK_RAILS_MOST)
		return NULL;
	DL_FOREACH(rsk_remotes.all, r)
		if (!r->initiator && r->nonce == p.nonce)
			break;
	if (!r || !welcome(r, &p))
		return NULL;
	if (!p.rail && !is_announced(r, from)) {
		refuse_source(r);
		return NULL;
	}
	if (rsk_remote_rail_make(r, p.rail) < 0)
		return NULL;
	rail = &r->rail[p.rail];
	if (!p.rail)
		r->came_from = *from;
	/*
	 * A rail that was established here and not there: nothing was put by it, from here either.
	 */
	rsk_remote_rail_end(rail);
	/*
	 * Before it is established there: after that both ends would have to report what is
	 * missing.
	 */
	if (!rsk_remote_ports_accepts(rail, here)) {
		rsk_remote_rail_idle(rail);
		return NULL;
	}
	rail->state = RSK_REMOTE_RAIL_COMING;
	rail->generation = p.generation;
	rail->epoch = p.epoch;
	rail->due_ns = UINT64_MAX;
	return rail->rail;
}

static void rail_up(void *ctx, void *which)
{
	struct rsk_remote_rail *rail = which;
	struct rsk_remote *r = rail->r;
	struct rsk_remote_msg m = { .type = RSK_REMOTE_RAIL,
				    .rail = rail->index,
				    .generation = rail->generation,
				    .epoch = rail->epoch };

	rsk_remote_ports_came(rail);
	rsk_log(RSK_LOG_DEBUG, "link %u: rail %u is established", r->l->number, rail->index);
	rail->established = true;
	/* Its RAIL message comes by TCP, which may be slow after whatever broke the last rail. */
	if (r->initiator)
		rail->due_ns = rsk_now_ns() + RSK_REMOTE_GIVE_UP_NS;
	if (rsk_rdma_module->rail_end(rail->rail, &m.end) < 0 ||
	    !rsk_control_conn_send(&r->control, &m))
		return;
	see_up(rail);
}

static void rail_down(void *ctx, void *rail, int err)
{
	rsk_remote_rail_down(rail, err);
}

static void call(void *ctx)
{
	rsk_progress_call();
}

static int own_fd(void *ctx, int fd)
{
	return rsk_own_fd(fd);
}

static void own_close(void *ctx, int fd)
{
	rsk_own_close(fd);
}

static void devices(void *ctx)
{
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r) {
		if (r->state != RSK_REMOTE_UP && r->state != RSK_REMOTE_BROKEN)
			continue;
		for (uint32_t i = 0; r->initiator && i < RSK_RAILS_MOST; i++)
			if (r->rail[i].state == RSK_REMOTE_RAIL_IDLE && r->rail[i].to.family)
				r->rail[i].due_ns = 0;
		r->candidates_due = true;
	}
}

static void heard(void *ctx, void *rail, const uint8_t *word)
{
	struct rsk_remote_rail *by = rail;

	if (rsk_remote_rail_heard(by, word))
		return;
	rsk_rdma_module->rail_break(by->rail);
	rsk_remote_rail_down(by, -EPROTO);
}

/* The callback's context is the rail, but the data path needs the engine's link object. */
static void news(void *ctx, void *rail, uint32_t sid, uint32_t what)
{
	rsk_rdma_news(ctx, ((struct rsk_remote_rail *)rail)->r->l, sid, what);
}

const struct rsk_verbs_host rsk_remote_host = {
	.own_fd = own_fd,
	.own_close = own_close,
	.incoming = incoming,
	.up = rail_up,
	.down = rail_down,
	.devices = devices,
	.heard = heard,
	.news = news,
	.call = call,
};

/* ---- the rounds of the progress thread ---- */

void rsk_remote_rails_work(struct rsk_remote *r, uint64_t now_ns)
{
	rsk_remote_ports_work(r);
	rsk_remote_candidates_work(r);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		struct rsk_remote_rail *rail = &r->rail[i];

		if (r->state != RSK_REMOTE_UP && r->state != RSK_REMOTE_BROKEN)
			return;
		/* Control words could not arrive by this rail: the link continues on the others. */
		if (rail->state == RSK_REMOTE_RAIL_UP && rail->unfit &&
		    rsk_rails_count(&r->rails) > 1) {
			rsk_remote_rail_end(rail);
			rsk_remote_rail_lost(rail, -ENOMEM);
		}
		if (rail->state == RSK_REMOTE_RAIL_UP)
			rsk_remote_rings_work(rail, now_ns);
		else if (now_ns >= rail->due_ns && r->initiator && !r->idle_ns &&
			 rsk_remote_candidate_stands(rail) && rsk_remote_ports_admits(rail, now_ns))
			rsk_remote_rail_begin(rail);
	}
}

uint64_t rsk_remote_rails_next(const struct rsk_remote *r)
{
	uint64_t next = rsk_remote_ports_next(r);

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		const struct rsk_remote_rail *rail = &r->rail[i];
		uint64_t due = UINT64_MAX;

		if (rail->state == RSK_REMOTE_RAIL_UP)
			due = rsk_remote_rings_next(rail);
		else if (r->initiator && !r->idle_ns)
			due = rail->due_ns;
		next = due < next ? due : next;
	}
	return next;
}
