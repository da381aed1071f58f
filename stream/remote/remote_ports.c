// SPDX-License-Identifier: BSD-2-Clause
/*
 * remote_ports.c - further rails of a link and rsockd's port table (port_reservations.h): which of
 * our ports a rail may use, what it reserves for as long as it lasts, and when it must end because
 * its port is drained or down, or is a spare one that is no longer needed. Each end checks its own
 * ports, except that the initiator ends a rail whose number an active port of either end needs;
 * rsockd has decided on the first rail itself. Only the progress thread calls this. Design:
 * docs/adr/port-table.md.
 */
#include <errno.h>
#include <string.h>
#include <utlist.h>

#include "log.h"
#include "remote_parts.h"
#include "stream.h"

#define AGAIN_NS 1000000000ull /* when there was no room: rsockd books more once a second */

static bool minds(const struct rsk_remote *r)
{
	return rsk_knobs.rdma_rails > 1 && rsk_reservations_next() != UINT64_MAX &&
	       (r->state == RSK_REMOTE_UP || r->state == RSK_REMOTE_BROKEN);
}

static uint32_t port_at(const struct rsk_verbs_device_addr *own, uint32_t n,
			const struct rsk_verbs_addr *a)
{
	for (uint32_t i = 0; i < n; i++)
		if (own[i].addr.family == a->family &&
		    !memcmp(own[i].addr.ip, a->ip, sizeof(a->ip)))
			return rsk_reservations_port(own, n, own[i].device);
	return RSK_PORT_TABLE_NOWHERE;
}

static uint32_t own_port(const struct rsk_verbs_addr *a)
{
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES];

	if (rsk_reservations_next() == UINT64_MAX)
		return RSK_PORT_TABLE_NOWHERE;
	return port_at(own, rsk_rdma_module->addresses(rsk_rdma, own, RSK_REMOTE_CANDIDATES), a);
}

/* True if a rail is up, for at least @looks checks, on a port that is not a spare one. */
static bool has_active(const struct rsk_remote *r, uint32_t looks)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state == RSK_REMOTE_RAIL_UP && r->rail[i].looks >= looks &&
		    !rsk_reservations_spare(r->rail[i].port))
			return true;
	return false;
}

bool rsk_remote_ports_may(const struct rsk_remote *r, uint32_t port)
{
	switch (rsk_reservations_state(port)) {
	case RSK_RESERVATION_FREE:
	case RSK_RESERVATION_UP:
		return true;
	case RSK_RESERVATION_SPARE:
		return !has_active(r, 0);
	default:
		return false;
	}
}

enum rsk_remote_use rsk_remote_ports_use(uint32_t port)
{
	enum rsk_reservation_state state = rsk_reservations_state(port);

	if (rsk_reservations_spare(port))
		return RSK_REMOTE_USE_SPARE;
	return state == RSK_RESERVATION_FREE || state == RSK_RESERVATION_UP ?
		       RSK_REMOTE_USE_ACTIVE :
		       RSK_REMOTE_USE_NONE;
}

bool rsk_remote_ports_admits(struct rsk_remote_rail *rail, uint64_t now_ns)
{
	struct rsk_remote *r = rail->r;
	int rc;

	if (!rail->index || rail->state != RSK_REMOTE_RAIL_IDLE)
		return true;
	rail->port = own_port(&rail->from);
	if (!rsk_remote_ports_may(r, rail->port)) {
		rail->to.family = 0;
		rail->due_ns = UINT64_MAX;
		r->candidates_due = true;
		return false;
	}
	rc = rsk_reservations_take(&rail->reservation, rail->port);
	if (rc == 0)
		return true;
	rail->due_ns = now_ns + AGAIN_NS;
	rsk_log(RSK_LOG_INFO, "link %u: no rail %u by %s: %d", r->l->number, rail->index,
		rsk_reservations_name(rail->port), rc);
	return false;
}

bool rsk_remote_ports_accepts(struct rsk_remote_rail *rail, const struct rsk_verbs_addr *here)
{
	int rc = -EACCES;

	if (!rail->index)
		return true;
	rail->port = own_port(here);
	if (rsk_remote_ports_may(rail->r, rail->port))
		rc = rsk_reservations_take(&rail->reservation, rail->port);
	if (rc < 0)
		rsk_log(RSK_LOG_INFO, "link %u: rail %u is not let in by %s: %d",
			rail->r->l->number, rail->index, rsk_reservations_name(rail->port), rc);
	return rc == 0;
}

void rsk_remote_ports_came(struct rsk_remote_rail *rail)
{
	rsk_rdma_module->rail_from(rail->rail, &rail->is_from);
	rail->looks = 0;
	rail->port = own_port(&rail->is_from);
}

/* ---- rails that are up ---- */

static bool has_other(const struct rsk_remote *r, const struct rsk_remote_rail *but)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (&r->rail[i] != but && r->rail[i].state == RSK_REMOTE_RAIL_UP &&
		    r->rail[i].looks)
			return true;
	return false;
}

/*
 * Another rail carries on. That rail must have been up for a while, so that the other end knows of
 * it before it hears that this one ended.
 */
static void end_if_due(struct rsk_remote_rail *rail)
{
	struct rsk_remote *r = rail->r;
	bool out = rsk_reservations_state(rail->port) == RSK_RESERVATION_OUT;
	bool relieved = rsk_reservations_spare(rail->port) && has_active(r, 1);

	if ((!out && !relieved) || !has_other(r, rail))
		return;
	rsk_log(RSK_LOG_INFO, "link %u: rail %u ends: %s is %s", r->l->number, rail->index,
		rsk_reservations_name(rail->port),
		out ? "drained or down" : "spare, and not needed");
	rsk_remote_rail_end(rail);
	rsk_remote_rail_lost(rail, -ENODEV);
}

/* Has @port room for one rail more? The end of @rail makes room on its own port. */
static bool has_room(uint32_t port, const struct rsk_remote_rail *rail)
{
	struct rsk_reservation one = { 0 };

	if (port == rail->port)
		return true;
	if (rsk_reservations_take(&one, port) < 0)
		return false;
	rsk_reservations_give(&one);
	return true;
}

/*
 * Ends one rail, so that its number is free for an active port (rail_candidates.c) that has room.
 * One at a time: a number that will be free is waited for.
 */
static void free_number(struct rsk_remote *r)
{
	struct rsk_remote_rail *rail = NULL;

	for (uint32_t i = 1; i < RSK_RAILS_MOST; i++) {
		if (r->rail[i].state == RSK_REMOTE_RAIL_LOST)
			return;
		if (r->rail[i].state == RSK_REMOTE_RAIL_UP && has_other(r, &r->rail[i]))
			rail = &r->rail[i];
	}
	if (!rail || !has_room(r->wanted_port, rail))
		return;
	rsk_log(RSK_LOG_INFO,
		"link %u: rail %u ends: all are over spare ports, and one is wanted "
		"over an active one",
		r->l->number, rail->index);
	rail->to.family = 0;
	rsk_remote_rail_end(rail);
	rsk_remote_rail_lost(rail, -ENODEV);
}

static void look_after(struct rsk_remote *r)
{
	for (uint32_t i = 0; i < RSK_RAILS_MOST && r->state == RSK_REMOTE_UP; i++) {
		struct rsk_remote_rail *rail = &r->rail[i];

		if (rail->state != RSK_REMOTE_RAIL_UP) {
			rail->looks = 0;
			continue;
		}
		if (i) {
			/*
			 * A reservation on an earlier port table is void; this one may have room
			 * for it later.
			 */
			rsk_reservations_take(&rail->reservation, rail->port);
			end_if_due(rail);
		}
		rail->looks += rail->state == RSK_REMOTE_RAIL_UP;
	}
}

static void find_ports(struct rsk_remote *r)
{
	struct rsk_verbs_device_addr own[RSK_REMOTE_CANDIDATES];
	uint32_t n = rsk_rdma_module->addresses(rsk_rdma, own, RSK_REMOTE_CANDIDATES);

	for (uint32_t i = 0; i < RSK_RAILS_MOST; i++)
		if (r->rail[i].state != RSK_REMOTE_RAIL_IDLE)
			r->rail[i].port = port_at(own, n, &r->rail[i].is_from);
}

void rsk_remote_ports_check(uint64_t now_ns)
{
	uint64_t before = rsk_reservations_next();
	bool changed = rsk_reservations_check(now_ns), looked = rsk_reservations_next() != before;
	struct rsk_remote *r;

	DL_FOREACH(rsk_remotes.all, r) {
		r->ports_changed |= changed;
		r->ports_checked |= looked;
	}
}

void rsk_remote_ports_work(struct rsk_remote *r)
{
	bool active = has_active(r, 0);

	if (r->ports_changed) {
		r->ports_changed = false;
		r->candidates_due = true;
		find_ports(r);
	}
	if (!minds(r))
		return;
	if (r->ports_checked) {
		r->ports_checked = false;
		look_after(r);
		if (r->number_wanted)
			rsk_remote_match_candidates(r);
		if (r->number_wanted && r->state == RSK_REMOTE_UP)
			free_number(r);
	}
	if (active != r->active) {
		/* Spare ports are needed now, or no longer. */
		r->active = active;
		r->candidates_due = true;
	}
}

uint64_t rsk_remote_ports_next(const struct rsk_remote *r)
{
	return minds(r) ? rsk_reservations_next() : UINT64_MAX;
}
