// SPDX-License-Identifier: BSD-2-Clause
/*
 * rail_candidates.c - chooses the devices between which a link has rails. The first rail leads
 * where the mapping says; the others are found here: the accepting end lists its rail candidates
 * (CANDIDATE), and the initiator connects from each of its own devices to each candidate in the
 * same network, first between devices that have no rail yet. Software devices are used only where
 * the mapping uses one: a host that has both kinds does not want them. Only the progress thread
 * runs this.
 */
#include <string.h>
#include <sys/socket.h>

#include "log.h"
#include "remote_parts.h"
#include "stream.h"

static uint32_t own_places(struct rsk_verbs_device_addr out[static RSK_REMOTE_CANDIDATES])
{
	return rsk_rdma_module->addresses(rsk_rdma, out, RSK_REMOTE_CANDIDATES);
}

static bool same_address(const struct rsk_verbs_addr *a, const struct rsk_verbs_addr *b)
{
	return a->family == b->family && !memcmp(a->ip, b->ip, sizeof(a->ip));
}

static bool same_network(const struct rsk_verbs_device_addr *p, const struct rsk_verbs_addr *a)
{
	uint32_t bytes = p->prefix_bits / 8, bits = p->prefix_bits % 8;

	if (p->addr.family != a->family || memcmp(p->addr.ip, a->ip, bytes) != 0)
		return false;
	return !bits || (p->addr.ip[bytes] ^ a->ip[bytes]) >> (8 - bits) == 0;
}

#define NOWHERE UINT32_MAX

static uint32_t device_at(const struct rsk_verbs_device_addr *p, uint32_t n,
			  const struct rsk_verbs_addr *a)
{
	for (uint32_t i = 0; i < n; i++)
		if (same_address(&p[i].addr, a))
			return p[i].device;
	return NOWHERE;
}

/* A link that broke may need a spare device to come up again. */
static bool is_or_was_up(const struct rsk_remote *r)
{
	return r->state == RSK_REMOTE_UP || r->state == RSK_REMOTE_BROKEN;
}

/*
 * Leaves out the devices for which rsockd does not want further rails, but keeps the device to
 * which the first rail was connected: otherwise the other end could not tell of what kind that rail
 * is.
 */
static uint32_t usable_places(const struct rsk_remote *r,
			      struct rsk_verbs_device_addr out[static RSK_REMOTE_CANDIDATES])
{
	struct rsk_verbs_device_addr all[RSK_REMOTE_CANDIDATES];
	uint32_t n = own_places(all), used = 0, come_to = device_at(all, n, &r->here);

	for (uint32_t i = 0; i < n; i++)
		if (all[i].device == come_to ||
		    rsk_remote_ports_may(r, rsk_reservations_port(all, n, all[i].device)))
			out[used++] = all[i];
	return used;
}

void rsk_remote_say_candidates(struct rsk_remote *r)
{
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES];
	struct rsk_remote_msg m = { .type = RSK_REMOTE_CANDIDATE, .rail = rsk_knobs.rdma_rails };

	if (r->initiator || !is_or_was_up(r) || rsk_knobs.rdma_rails < 2)
		return;
	m.generation = usable_places(r, own);
	if (!m.generation)
		rsk_control_conn_send(&r->control, &m);
	for (m.gaps = 0; m.gaps < m.generation; m.gaps++) {
		m.candidate = own[m.gaps];
		if (!rsk_control_conn_send(&r->control, &m))
			return;
	}
}

void rsk_remote_on_candidate(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (!r->initiator || m->gaps != (m->gaps ? r->candidates : 0))
		return;
	r->theirs[m->gaps] = m->candidate;
	r->candidates = m->generation ? m->gaps + 1 : 0;
	r->rails_most = m->rail; /* the peer would reject any beyond that, each time */
	r->match_due |= r->candidates == m->generation;
}

/* ---- the initiator finds pairs of devices ---- */

/* The devices that a rail uses, here and there, by the present lists. */
struct pair {
	uint32_t own, theirs;
};

static struct pair pair_of(const struct rsk_remote *r, uint32_t i,
			   const struct rsk_verbs_device_addr *own, uint32_t n)
{
	const struct rsk_remote_rail *rail = &r->rail[i];

	if (!rail->to.family)
		return (struct pair){ NOWHERE, NOWHERE };
	/* The kernel has chosen the first rail's device where the mapping names none. */
	return (struct pair){ device_at(own, n, rail->from.family ? &rail->from : &rail->is_from),
			      device_at(r->theirs, r->candidates, &rail->to) };
}

/*
 * True if no rail goes from p.own to p.theirs. @fresh: only between devices that have no rail at
 * all.
 */
static bool is_free(const struct pair *has, struct pair p, bool fresh)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		bool own = has[i].own == p.own, theirs = has[i].theirs == p.theirs;

		if (fresh ? own || theirs : own && theirs)
			return false;
	}
	return true;
}

static bool is_soft(const struct rsk_verbs_device_addr *p, uint32_t n, uint32_t device)
{
	for (uint32_t i = 0; i < n; i++)
		if (p[i].device == device)
			return p[i].soft;
	return false;
}

static bool find(const struct rsk_remote *r, struct rsk_remote_rail *rail, const struct pair *has,
		 const struct rsk_verbs_device_addr *own, uint32_t n, bool fresh)
{
	for (uint32_t o = 0; o < n; o++)
		for (uint32_t t = 0; t < r->candidates; t++) {
			struct pair p = { own[o].device, r->theirs[t].device };

			if (!same_network(&own[o], &r->theirs[t].addr) || !is_free(has, p, fresh) ||
			    same_address(&own[o].addr, &r->theirs[t].addr) ||
			    !rsk_remote_ports_may(r, rsk_reservations_port(own, n, p.own)))
				continue;
			if ((own[o].soft && !r->soft[0]) || (r->theirs[t].soft && !r->soft[1]))
				continue;
			rail->from = own[o].addr;
			rail->to = r->theirs[t].addr;
			rail->to.port = r->target.to.port;
			return true;
		}
	return false;
}

void rsk_remote_match_candidates(struct rsk_remote *r)
{
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES];
	struct pair has[RSK_RAILS_MOST];
	uint32_t n;

	if (!r->initiator || !is_or_was_up(r) || rsk_knobs.rdma_rails < 2)
		return;
	n = own_places(own);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		has[i] = pair_of(r, i, own, n);
		/*
		 * A rail whose device has another address by now is tried again from that address.
		 */
		if (i && r->rail[i].state == RSK_REMOTE_RAIL_IDLE &&
		    (has[i].own == NOWHERE || has[i].theirs == NOWHERE)) {
			r->rail[i].to.family = 0;
			r->rail[i].due_ns = UINT64_MAX;
			has[i] = (struct pair){ NOWHERE, NOWHERE };
		}
	}
	/* A device that is gone keeps the kind that it had. */
	if (has[0].own != NOWHERE)
		r->soft[0] = is_soft(own, n, has[0].own);
	if (has[0].theirs != NOWHERE)
		r->soft[1] = is_soft(r->theirs, r->candidates, has[0].theirs);
	for (uint32_t i = 1; i < rsk_knobs.rdma_rails && i < r->rails_most; i++) {
		struct rsk_remote_rail *rail = &r->rail[i];

		if (rail->to.family || rail->state != RSK_REMOTE_RAIL_IDLE)
			continue;
		if (!find(r, rail, has, own, n, true) && !find(r, rail, has, own, n, false))
			return;
		has[i] = pair_of(r, i, own, n);
		rail->tries = 0;
		rail->due_ns = 0;
		rsk_log(RSK_LOG_DEBUG, "link %u: rail %u may go between devices %u and %u",
			r->l->number, i, has[i].own, has[i].theirs);
	}
}

/* Once in each round of the progress thread, however often the other end lists its candidates. */
void rsk_remote_candidates_work(struct rsk_remote *r)
{
	if (r->candidates_due) {
		r->candidates_due = false;
		rsk_remote_say_candidates(r);
		r->match_due = true;
	}
	if (r->match_due) {
		r->match_due = false;
		rsk_remote_match_candidates(r);
	}
}

bool rsk_remote_candidate_stands(struct rsk_remote_rail *rail)
{
	const struct rsk_remote *r = rail->r;

	if (!rail->index || rail->state != RSK_REMOTE_RAIL_IDLE ||
	    device_at(r->theirs, r->candidates, &rail->to) != NOWHERE)
		return true;
	rail->to.family = 0;
	rail->due_ns = UINT64_MAX;
	return false;
}
