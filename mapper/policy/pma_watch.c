// SPDX-License-Identifier: BSD-2-Clause
/*
 * pma_watch.c - see pma.h: what is measured of devices and the node, or set by an operator, and the
 * events that follow.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "pma_parts.h"

/* ---- events ---- */

void rsk_pma_listen(struct rsk_pma *a,
		    void (*happened)(void *ctx, enum rsk_pma_event event, const char *name),
		    void *ctx)
{
	a->happened = happened;
	a->happened_ctx = ctx;
}

void rsk_pma_tell(struct rsk_pma *a, enum rsk_pma_event event, const char *name)
{
	a->events[event]++;
	if (a->happened)
		a->happened(a->happened_ctx, event, name);
}

uint64_t rsk_pma_event_count(const struct rsk_pma *a, enum rsk_pma_event event)
{
	return a->events[event];
}

/* ---- devices ---- */

static struct rsk_ledger_account *port_account(struct rsk_pma *a, uint32_t port)
{
	return &a->ledger.accounts[a->bound.ports[port]];
}

/* Sets the operator's state and the host's report, and reports the change of the combined state. */
static void set(struct rsk_pma *a, uint32_t port, enum rsk_pma_device_state state,
		enum rsk_pma_absence gone)
{
	static const enum rsk_pma_event events[] = { [RSK_PMA_UP] = RSK_PMA_DEVICE_UP,
						     [RSK_PMA_DOWN] = RSK_PMA_DEVICE_DOWN,
						     [RSK_PMA_DRAINING] = RSK_PMA_DEVICE_DRAINING };
	struct rsk_ledger_account *p = port_account(a, port);
	enum rsk_pma_device_state before = rsk_ledger_state(p);

	p->state = state;
	p->gone = gone;
	if (rsk_ledger_state(p) != before)
		rsk_pma_tell(a, events[rsk_ledger_state(p)], a->conf->ports[port].name);
	rsk_pma_changed(a);
}

int rsk_pma_device_set(struct rsk_pma *a, const char *device, enum rsk_pma_device_state state)
{
	uint32_t rnic = rsk_conf_find(a->conf, RSK_CONF_RNICS, device), port;

	if (rnic != RSK_CONF_NONE) {
		const struct rsk_conf_rnic *r = &a->conf->rnics[rnic];

		for (uint32_t i = r->first_port; i < r->first_port + r->n_ports; i++)
			set(a, i, state, port_account(a, i)->gone);
		return 0;
	}
	port = rsk_conf_find(a->conf, RSK_CONF_PORTS, device);
	if (port == RSK_CONF_NONE)
		return -ENOENT;
	set(a, port, state, port_account(a, port)->gone);
	return 0;
}

enum rsk_pma_absence rsk_pma_absent(const struct rsk_pma *a, const char *port)
{
	uint32_t i = rsk_conf_find(a->conf, RSK_CONF_PORTS, port);

	return i == RSK_CONF_NONE ? RSK_PMA_THERE : a->ledger.accounts[a->bound.ports[i]].gone;
}

void rsk_pma_hotplug(struct rsk_pma *a,
		     enum rsk_pma_absence (*absence)(void *ctx, const struct rsk_pm_addr *ip),
		     void *ctx)
{
	const struct rsk_conf *c = a->conf;

	for (uint32_t i = 0; i < c->n_ports; i++) {
		const struct rsk_conf_port *p = &c->ports[i];
		bool asked = absence && c->rnics[p->rnic].node == c->own_node;
		enum rsk_pma_absence least = asked ? RSK_PMA_NO_LINK : RSK_PMA_THERE;

		for (size_t k = 0; asked && k < p->n_ips; k++) {
			enum rsk_pma_absence one = absence(ctx, &p->ips[k]);

			least = one < least ? one : least;
		}
		set(a, i, port_account(a, i)->state, least);
	}
}

void rsk_pma_soft(struct rsk_pma *a, bool (*is_soft)(void *ctx, const struct rsk_pm_addr *ip),
		  void *ctx)
{
	const struct rsk_conf *c = a->conf;

	for (uint32_t i = 0; i < c->n_ports; i++) {
		const struct rsk_conf_port *p = &c->ports[i];
		bool soft = false;

		if (is_soft && c->rnics[p->rnic].node == c->own_node)
			for (size_t k = 0; !soft && k < p->n_ips; k++)
				soft = is_soft(ctx, &p->ips[k]);
		port_account(a, i)->soft = soft;
	}
}

void rsk_pma_attach(struct rsk_pma *a,
		    struct rsk_bus (*bus_of)(void *ctx, const struct rsk_pm_addr *ip), void *ctx)
{
	const struct rsk_conf *c = a->conf;

	for (uint32_t i = 0; i < c->n_rnics; i++) {
		const struct rsk_conf_rnic *r = &c->rnics[i];
		struct rsk_bus bus = { 0 };

		if (r->node != c->own_node)
			continue;
		for (uint32_t k = r->first_port; bus_of && k < r->first_port + r->n_ports; k++)
			for (size_t n = 0; !bus.bps && !bus.numa && n < c->ports[k].n_ips; n++)
				bus = bus_of(ctx, &c->ports[k].ips[n]);
		rsk_pma_bus_set(a, i, &bus);
	}
}

void rsk_pma_bus_set(struct rsk_pma *a, uint32_t rnic, const struct rsk_bus *bus)
{
	const struct rsk_conf_rnic *conf = &a->conf->rnics[rnic];

	for (uint32_t i = conf->first_port; i < conf->first_port + conf->n_ports; i++) {
		struct rsk_ledger_account *p = port_account(a, i),
					  *r = &a->ledger.accounts[p->rnic];

		r->bus = *bus;
		rsk_pma_bus_limits(p, r, a->conf->ports[i].bps);
		rsk_pma_watch(a, a->bound.ports[i]);
	}
}

void rsk_pma_routes(struct rsk_pma *a,
		    int (*lead)(void *ctx, const struct rsk_pm_addr *from,
				const struct rsk_pm_addr *to),
		    void *ctx)
{
	a->routes_lead = lead;
	a->routes_ctx = ctx;
}

/* ---- overload ---- */

static bool is_over(double load, double limit, bool is)
{
	return limit > 0 && load >= (is ? limit * RSK_DECISION_RELIEF : limit);
}

static void watch_port(struct rsk_pma *a, uint32_t port)
{
	struct rsk_ledger_account *p = port_account(a, port);
	bool over = is_over(rsk_ledger_load(&a->ledger, a->bound.ports[port], RSK_LEDGER_NONE),
			    a->conf->overload.device_load, p->overloaded);

	if (over == p->overloaded)
		return;
	p->overloaded = over;
	rsk_pma_tell(a, over ? RSK_PMA_DEVICE_OVERLOAD : RSK_PMA_DEVICE_RELIEF,
		     a->conf->ports[port].name);
}

void rsk_pma_watch(struct rsk_pma *a, uint32_t port_account)
{
	const struct rsk_ledger_account *p = &a->ledger.accounts[port_account];
	const struct rsk_conf_rnic *r;
	uint32_t port;

	/* Ports that are not in the configuration any more have no limits. */
	if (a->conf->overload.device_load <= 0 || !p->name || !p->current)
		return;
	port = rsk_conf_find(a->conf, RSK_CONF_PORTS, p->name);
	if (port == RSK_CONF_NONE)
		return;
	/* Ports of an RNIC share most of its resources. */
	r = &a->conf->rnics[a->conf->ports[port].rnic];
	for (uint32_t i = r->first_port; i < r->first_port + r->n_ports; i++)
		watch_port(a, i);
}

void rsk_pma_watch_node(struct rsk_pma *a)
{
	bool over;

	a->load_over = is_over(a->load, a->conf->overload.load, a->load_over);
	over = a->load_over || a->service_below;

	if (over == a->overloaded)
		return;
	a->overloaded = over;
	a->qos_changes++;
	rsk_pma_tell(a, over ? RSK_PMA_NODE_OVERLOAD : RSK_PMA_NODE_RELIEF, NULL);
}

void rsk_pma_watch_all(struct rsk_pma *a)
{
	rsk_pma_watch_node(a);
	for (uint32_t i = 0; i < a->conf->n_ports; i++)
		watch_port(a, i);
}

void rsk_pma_load_set(struct rsk_pma *a, double load)
{
	a->load = load;
	rsk_pma_watch_node(a);
}

bool rsk_pma_overloaded(const struct rsk_pma *a)
{
	return a->overloaded;
}

/* ---- bandwidth ---- */

static void move(uint64_t *average, uint64_t value, double weight)
{
	*average = (uint64_t)((double)*average + ((double)value - (double)*average) * weight);
}

/*
 * A session that ended within the period has carried, and its booking is gone: so the larger of the
 * bookings at both ends of the period is ours.
 */
static uint64_t booked(struct rsk_ledger_account *p)
{
	uint64_t before = p->booked_before_bps;

	p->booked_before_bps = p->bps;
	return before > p->bps ? before : p->bps;
}

int rsk_pma_carried_set(struct rsk_pma *a, const char *device, int64_t carried_bps,
			uint64_t period_ns)
{
	uint32_t port = rsk_conf_find(a->conf, RSK_CONF_PORTS, device);
	uint64_t ours, carried = carried_bps > 0 ? (uint64_t)carried_bps : 0;
	struct rsk_ledger_account *p;
	double weight;

	if (port == RSK_CONF_NONE)
		return -ENOENT;
	p = port_account(a, port);
	ours = booked(p);
	weight = p->measured && carried_bps >= 0 ?
			 -expm1(-(double)period_ns / (double)RSK_PMA_CARRIED_TIME_NS) :
			 1;
	move(&p->carried_bps, carried, weight);
	move(&p->others_bps, carried > ours ? carried - ours : 0, weight);
	p->measured = carried_bps >= 0;
	watch_port(a, port);
	return 0;
}

bool rsk_pma_watch_validate(const struct rsk_pma *a)
{
	const struct rsk_conf_overload *o = &a->conf->overload;

	for (uint32_t i = 0; i < a->conf->n_ports; i++) {
		const struct rsk_ledger_account *p = &a->ledger.accounts[a->bound.ports[i]];
		double load = rsk_ledger_load(&a->ledger, a->bound.ports[i], RSK_LEDGER_NONE);

		if (p->overloaded != is_over(load, o->device_load, p->overloaded))
			return false;
	}
	return a->load_over == is_over(a->load, o->load, a->load_over) &&
	       a->overloaded == (a->load_over || a->service_below);
}

/* ---- measurements ---- */

void rsk_pma_time_set(struct rsk_pma *a, unsigned int week_minute)
{
	a->week_minute = week_minute < RSK_CONF_WEEK_MINUTES ? (int)week_minute : -1;
}
