// SPDX-License-Identifier: BSD-2-Clause
/*
 * rail_candidates.c - chooses the devices between which a link has rails. The first rail leads
 * where the mapping says; the others are found here: the accepting end lists its rail candidates
 * (CANDIDATE), and the initiator connects from each of its own devices to each candidate in the
 * same network, first between devices that have no rail yet. Software devices are used only where
 * the mapping uses one: a host that has both kinds does not want them. Where all rails of one end
 * are over spare ports, a rail that is over an active port there goes before all others, also if no
 * number is free for it (docs/adr/port-table.md). Only the progress thread runs this.
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
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES] = { 0 };
	struct rsk_remote_msg m = { .type = RSK_REMOTE_CANDIDATE, .rail = rsk_knobs.rdma_rails };

	if (r->initiator || !is_or_was_up(r) || rsk_knobs.rdma_rails < 2)
		return;
	m.generation = usable_places(r, own);
	if (!m.generation)
		rsk_control_conn_send(&r->control, &m);
	for (m.gaps = 0; m.gaps < m.generation; m.gaps++) {
		m.candidate = own[m.gaps];
		m.use = rsk_remote_ports_use(
			rsk_reservations_port(own, m.generation, own[m.gaps].device));
		if (!rsk_control_conn_send(&r->control, &m))
			return;
	}
}

void rsk_remote_on_candidate(struct rsk_remote *r, const struct rsk_remote_msg *m)
{
	if (!r->initiator || m->gaps != (m->gaps ? r->candidates : 0))
		return;
	r->theirs[m->gaps] = m->candidate;
	r->theirs_use[m->gaps] = (uint8_t)m->use;
	r->candidates = m->generation ? m->gaps + 1 : 0;
	r->rails_most = m->rail; /* the peer would reject any beyond that, each time */
	r->match_due |= r->candidates == m->generation;
}

/* ---- the initiator finds pairs of devices ---- */

/* The devices that a rail uses, here and there, by the present lists. */
struct pair {
	uint32_t own, theirs;
};

struct match {
	struct rsk_remote *r;
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES];
	uint32_t n;
	struct pair has[RSK_RAILS_MOST];
	/* No rail is over an active port of ours, of theirs, or is being made over one. */
	bool lacks_own, lacks_theirs;
	bool takes_spares; /* the other end lets rails in by its spares: none up is over another */
};

/* A new rail: indexes of its addresses in @own and in @theirs. */
struct way {
	uint32_t own, theirs;
};

static struct pair pair_of(const struct match *m, uint32_t i)
{
	const struct rsk_remote_rail *rail = &m->r->rail[i];

	if (!rail->to.family)
		return (struct pair){ NOWHERE, NOWHERE };
	/* The kernel has chosen the first rail's device where the mapping names none. */
	return (struct pair){ device_at(m->own, m->n,
					rail->from.family ? &rail->from : &rail->is_from),
			      device_at(m->r->theirs, m->r->candidates, &rail->to) };
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

static enum rsk_remote_use use_of_own(const struct match *m, uint32_t device)
{
	if (device == NOWHERE)
		return RSK_REMOTE_USE_NONE;
	return rsk_remote_ports_use(rsk_reservations_port(m->own, m->n, device));
}

static enum rsk_remote_use use_of_theirs(const struct match *m, uint32_t device)
{
	for (uint32_t i = 0; i < m->r->candidates; i++)
		if (m->r->theirs[i].device == device)
			return m->r->theirs_use[i];
	return RSK_REMOTE_USE_NONE;
}

/* A rail that is up does not need a port that takes more. */
static bool is_active(const struct rsk_remote_rail *rail, enum rsk_remote_use use)
{
	return rail->state == RSK_REMOTE_RAIL_UP ? use != RSK_REMOTE_USE_SPARE :
						   use == RSK_REMOTE_USE_ACTIVE;
}

static void find_lacks(struct match *m)
{
	m->lacks_own = m->lacks_theirs = m->takes_spares = true;
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		const struct rsk_remote_rail *rail = &m->r->rail[i];
		enum rsk_remote_use theirs = use_of_theirs(m, m->has[i].theirs);

		m->lacks_own &= !is_active(rail, use_of_own(m, m->has[i].own));
		m->lacks_theirs &= !is_active(rail, theirs);
		m->takes_spares &= rail->state != RSK_REMOTE_RAIL_UP || !is_active(rail, theirs);
	}
}

/* What a new rail is to be over. */
typedef bool fits(const struct match *m, struct pair p);

static bool is_any(const struct match *m, struct pair p)
{
	return true;
}

/* An active port at an end where no other rail is over one. */
static bool is_wanted(const struct match *m, struct pair p)
{
	return (m->lacks_own && use_of_own(m, p.own) == RSK_REMOTE_USE_ACTIVE) ||
	       (m->lacks_theirs && use_of_theirs(m, p.theirs) == RSK_REMOTE_USE_ACTIVE);
}

/*
 * Active ports at each such end. It comes first, so that what replaces a rail is no worse than that
 * at either end: otherwise that rail would be wanted next.
 */
static bool is_all_wanted(const struct match *m, struct pair p)
{
	return is_wanted(m, p) &&
	       (!m->lacks_own || use_of_own(m, p.own) == RSK_REMOTE_USE_ACTIVE) &&
	       (!m->lacks_theirs || use_of_theirs(m, p.theirs) == RSK_REMOTE_USE_ACTIVE);
}

/* The other end refuses what its rsk_remote_ports_may() does; UNKNOWN: it does not say. */
static bool is_let_in(const struct match *m, enum rsk_remote_use use)
{
	return use != RSK_REMOTE_USE_NONE && (use != RSK_REMOTE_USE_SPARE || m->takes_spares);
}

static bool find(const struct match *m, fits *fit, bool fresh, struct way *way)
{
	const struct rsk_remote *r = m->r;
	const struct rsk_verbs_device_addr *own = m->own;

	for (uint32_t o = 0; o < m->n; o++)
		for (uint32_t t = 0; t < r->candidates; t++) {
			struct pair p = { own[o].device, r->theirs[t].device };

			if (!same_network(&own[o], &r->theirs[t].addr) ||
			    !is_free(m->has, p, fresh) ||
			    same_address(&own[o].addr, &r->theirs[t].addr) ||
			    !rsk_remote_ports_may(r, rsk_reservations_port(own, m->n, p.own)))
				continue;
			if ((own[o].soft && !r->soft[0]) || (r->theirs[t].soft && !r->soft[1]))
				continue;
			if (!is_let_in(m, r->theirs_use[t]) || !fit(m, p))
				continue;
			*way = (struct way){ o, t };
			return true;
		}
	return false;
}

static bool find_wanted(const struct match *m, struct way *way)
{
	return find(m, is_all_wanted, true, way) || find(m, is_all_wanted, false, way) ||
	       find(m, is_wanted, true, way) || find(m, is_wanted, false, way);
}

static bool find_any(const struct match *m, struct way *way)
{
	return find(m, is_any, true, way) || find(m, is_any, false, way);
}

static void set(struct match *m, uint32_t i, struct way way)
{
	struct rsk_remote_rail *rail = &m->r->rail[i];

	rail->from = m->own[way.own].addr;
	rail->to = m->r->theirs[way.theirs].addr;
	rail->to.port = m->r->target.to.port;
	rail->tries = 0;
	rail->due_ns = 0;
	m->has[i] = pair_of(m, i);
	find_lacks(m);
	rsk_log(RSK_LOG_DEBUG, "link %u: rail %u may go between devices %u and %u", m->r->l->number,
		i, m->has[i].own, m->has[i].theirs);
}

static void begin(struct match *m)
{
	struct rsk_remote *r = m->r;

	m->n = own_places(m->own);
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++) {
		m->has[i] = pair_of(m, i);
		/*
		 * A rail whose device has another address by now is tried again from that address.
		 */
		if (i && r->rail[i].state == RSK_REMOTE_RAIL_IDLE &&
		    (m->has[i].own == NOWHERE || m->has[i].theirs == NOWHERE)) {
			r->rail[i].to.family = 0;
			r->rail[i].due_ns = UINT64_MAX;
			m->has[i] = (struct pair){ NOWHERE, NOWHERE };
		}
	}
	/* A device that is gone keeps the kind that it had. */
	if (m->has[0].own != NOWHERE)
		r->soft[0] = is_soft(m->own, m->n, m->has[0].own);
	if (m->has[0].theirs != NOWHERE)
		r->soft[1] = is_soft(r->theirs, r->candidates, m->has[0].theirs);
	find_lacks(m);
}

/*
 * All numbers are taken. One that is not in use gives way to what is wanted; of those that are up
 * remote_ports.c ends one.
 */
static void replace(struct match *m, uint32_t most)
{
	struct way way;

	m->r->number_wanted = find_wanted(m, &way);
	for (uint32_t i = most - 1; i > 0 && m->r->number_wanted; i--)
		if (m->r->rail[i].state == RSK_REMOTE_RAIL_IDLE) {
			set(m, i, way);
			m->r->number_wanted = find_wanted(m, &way);
		}
	if (m->r->number_wanted)
		m->r->wanted_port = rsk_reservations_port(m->own, m->n, m->own[way.own].device);
}

void rsk_remote_match_candidates(struct rsk_remote *r)
{
	uint32_t most = r->rails_most < rsk_knobs.rdma_rails ? r->rails_most : rsk_knobs.rdma_rails;
	struct match m = { .r = r };
	struct way way;

	r->number_wanted = false;
	if (!r->initiator || !is_or_was_up(r) || most < 2)
		return;
	begin(&m);
	for (uint32_t i = 1; i < most; i++) {
		if (r->rail[i].to.family || r->rail[i].state != RSK_REMOTE_RAIL_IDLE)
			continue;
		if (!find_wanted(&m, &way) && !find_any(&m, &way))
			return;
		set(&m, i, way);
	}
	replace(&m, most);
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
	rail->r->match_due = true;
	return false;
}
