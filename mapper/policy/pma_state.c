// SPDX-License-Identifier: BSD-2-Clause
/* pma_state.c - see pma.h: applies configurations, and shows devices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pma_parts.h"

static void bound_fini(struct rsk_pma_bound *b)
{
	free(b->ports);
	free(b->services[0]);
	free(b->services[1]);
	free(b->needs);
	free(b->measures);
	free(b->reports);
}

static uint64_t limit(uint64_t most)
{
	return most ? most : UINT64_MAX;
}

/* The accounts for other agents have the empty name, which no configuration can contain. */
static int bind_others(struct rsk_ledger *l, struct rsk_pma_bound *b)
{
	uint32_t rnic = rsk_ledger_account(l, RSK_LEDGER_RNIC, RSK_PMA_CP, "");

	b->other_port = rsk_ledger_account(l, RSK_LEDGER_PORT, RSK_PMA_CP, "");
	b->other_services[RSK_PMA_CP] = rsk_ledger_account(l, RSK_LEDGER_SERVICE, RSK_PMA_CP, "");
	b->other_services[RSK_PMA_AP] = rsk_ledger_account(l, RSK_LEDGER_SERVICE, RSK_PMA_AP, "");
	if (rnic == RSK_LEDGER_NONE || b->other_port == RSK_LEDGER_NONE ||
	    b->other_services[RSK_PMA_CP] == RSK_LEDGER_NONE ||
	    b->other_services[RSK_PMA_AP] == RSK_LEDGER_NONE)
		return -ENOMEM;
	l->accounts[b->other_port].rnic = rnic;
	return 0;
}

static int bind_ports(struct rsk_ledger *l, const struct rsk_conf *c, struct rsk_pma_bound *b)
{
	for (uint32_t i = 0; i < c->n_ports; i++) {
		uint32_t rnic = rsk_ledger_account(l, RSK_LEDGER_RNIC, RSK_PMA_CP,
						   c->rnics[c->ports[i].rnic].name);

		b->ports[i] = rsk_ledger_account(l, RSK_LEDGER_PORT, RSK_PMA_CP, c->ports[i].name);
		if (rnic == RSK_LEDGER_NONE || b->ports[i] == RSK_LEDGER_NONE)
			return -ENOMEM;
		l->accounts[b->ports[i]].rnic = rnic;
	}
	return 0;
}

static int bind_services(struct rsk_ledger *l, const struct rsk_conf *c, struct rsk_pma_bound *b)
{
	for (uint32_t i = 0; i < c->n_services; i++) {
		const struct rsk_conf_service *s = &c->services[i];
		const struct rsk_ledger_need need = { .bps = s->bps,
						      .memory_maps = s->memory_maps,
						      .connections = s->connections };

		b->needs[i] = rsk_ledger_need(l, &need);
		for (int side = RSK_PMA_CP; side <= RSK_PMA_AP; side++) {
			b->services[side][i] = rsk_ledger_account(l, RSK_LEDGER_SERVICE,
								  (enum rsk_pma_side)side, s->name);
			if (b->services[side][i] == RSK_LEDGER_NONE)
				return -ENOMEM;
		}
		if (b->needs[i] == RSK_LEDGER_NONE)
			return -ENOMEM;
	}
	return 0;
}

/* Measurements of a service are kept by its name. */
static void keep_measures(const struct rsk_pma *a, const struct rsk_conf *c,
			  struct rsk_pma_bound *b)
{
	for (uint32_t i = 0; a->conf && i < c->n_services; i++) {
		uint32_t was = rsk_conf_find(a->conf, RSK_CONF_SERVICES, c->services[i].name);

		if (was != RSK_CONF_NONE)
			b->measures[i] = a->bound.measures[was];
	}
}

static int bound_init(struct rsk_pma_bound *b, struct rsk_ledger *l, const struct rsk_conf *c)
{
	int rc = -ENOMEM;

	*b = (struct rsk_pma_bound){
		.ports = calloc(c->n_ports + 1u, sizeof(uint32_t)),
		.services = { calloc(c->n_services + 1u, sizeof(uint32_t)),
			      calloc(c->n_services + 1u, sizeof(uint32_t)) },
		.needs = calloc(c->n_services + 1u, sizeof(uint32_t)),
		.measures = calloc(c->n_services + 1u, sizeof(struct rsk_measures)),
		.reports = calloc(c->n_ports + 1u, sizeof(struct rsk_port_report)),
	};
	if (b->ports && b->services[0] && b->services[1] && b->needs && b->measures && b->reports)
		rc = bind_ports(l, c, b);
	if (rc == 0)
		rc = bind_services(l, c, b);
	if (rc == 0)
		rc = bind_others(l, b);
	if (rc < 0)
		bound_fini(b);
	return rc;
}

/* Nothing can fail from here on. */
static void put_others_in_force(struct rsk_ledger *l, const struct rsk_pma_bound *b)
{
	struct rsk_ledger_account *p = &l->accounts[b->other_port], *r = &l->accounts[p->rnic];

	p->current = r->current = true;
	p->bps_max = r->bps_max = p->sessions_max = r->sessions_max = UINT64_MAX;
	p->memory_maps_max = r->memory_maps_max = UINT64_MAX;
	p->connections_max = r->connections_max = UINT64_MAX;
	for (int side = 0; side < 2; side++)
		l->accounts[b->other_services[side]].current = true;
}

void rsk_pma_bus_limits(struct rsk_ledger_account *port, struct rsk_ledger_account *rnic,
			uint64_t bps)
{
	rnic->bps_max = limit(rnic->bus.bps);
	port->bps_max = limit(bps);
	/* A port without a limit has none for what others use of it, either: see ledger.c. */
	if (bps && rnic->bps_max < port->bps_max)
		port->bps_max = rnic->bps_max;
}

static void put_in_force(struct rsk_ledger *l, const struct rsk_conf *c,
			 const struct rsk_pma_bound *b)
{
	rsk_ledger_retire(l);
	put_others_in_force(l, b);
	for (uint32_t i = 0; i < c->n_ports; i++) {
		const struct rsk_conf_rnic *conf = &c->rnics[c->ports[i].rnic];
		struct rsk_ledger_account *p = &l->accounts[b->ports[i]];
		struct rsk_ledger_account *r = &l->accounts[p->rnic];

		p->current = r->current = true;
		rsk_pma_bus_limits(p, r, c->ports[i].bps);
		p->sessions_max = p->memory_maps_max = p->connections_max = UINT64_MAX;
		r->sessions_max = limit(conf->sessions);
		r->memory_maps_max = limit(conf->memory_maps);
		r->connections_max = limit(conf->connections);
	}
	for (uint32_t i = 0; i < c->n_services; i++) {
		for (int side = 0; side < 2; side++)
			l->accounts[b->services[side][i]].current = true;
		rsk_ledger_keep_need(l, b->needs[i]);
	}
	rsk_ledger_sweep(l);
}

int rsk_pma_reload(struct rsk_pma *a, struct rsk_conf *conf)
{
	struct rsk_pma_bound b;
	int rc = bound_init(&b, &a->ledger, conf);

	if (rc < 0)
		return rc;
	put_in_force(&a->ledger, conf, &b);
	rsk_ledger_claims_bind(&a->ledger);
	keep_measures(a, conf, &b);
	bound_fini(&a->bound);
	rsk_conf_free(a->conf);
	a->bound = b;
	a->conf = conf;
	a->qos_changes++;
	rsk_pma_watch_all(a);
	rsk_pma_changed(a);
	return 0;
}

struct rsk_pma *rsk_pma_new(struct rsk_conf *conf)
{
	struct rsk_pma *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->week_minute = -1;
	if (rsk_ledger_init(&a->ledger, conf->daemon.pmsp.seed) < 0 ||
	    rsk_pma_reload(a, conf) < 0) {
		rsk_ledger_fini(&a->ledger);
		free(a);
		return NULL;
	}
	return a;
}

void rsk_pma_free(struct rsk_pma *a)
{
	if (!a)
		return;
	bound_fini(&a->bound);
	rsk_ledger_fini(&a->ledger);
	rsk_conf_free(a->conf);
	free(a);
}

/* ---- views ---- */

static uint64_t shown(uint64_t most)
{
	return most == UINT64_MAX ? 0 : most;
}

static struct rsk_pma_device_view view_of(const struct rsk_pma *a, uint32_t port)
{
	const struct rsk_ledger_account *p = &a->ledger.accounts[a->bound.ports[port]];
	const struct rsk_ledger_account *r = &a->ledger.accounts[p->rnic];
	const struct rsk_conf_rnic *conf = &a->conf->rnics[a->conf->ports[port].rnic];
	bool spare = conf->spare || a->bound.reports[port].spare;

	struct rsk_pma_device_view v = {
		.name = a->conf->ports[port].name,
		.node = a->conf->nodes[conf->node].name,
		.state = rsk_ledger_state(p),
		.absent = p->gone,
		.overloaded = p->overloaded,
		.soft = p->soft,
		.spare = spare,
		.in_use_as_spare = spare && p->sessions > p->rails,
		.sessions = p->sessions - p->rails,
		.sessions_max = shown(r->sessions_max),
		.promised = p->promised,
		.rails_booked = p->rails,
		.bps = p->bps,
		.bps_max = shown(p->bps_max),
		.bus = r->bus,
		.carried_bps = p->carried_bps,
		.others_bps = p->others_bps,
		.memory_maps = p->memory_maps,
		.memory_maps_max = shown(r->memory_maps_max),
		.ipv = a->conf->ports[port].ips[0].ipv,
		.ips = a->conf->ports[port].ips,
		.n_ips = a->conf->ports[port].n_ips,
	};

	memcpy(v.ip, a->conf->ports[port].ips[0].ip, 16);
	return v;
}

size_t rsk_pma_devices(const struct rsk_pma *a, struct rsk_pma_device_view *out, size_t max)
{
	for (uint32_t i = 0; i < a->conf->n_ports && i < max; i++)
		out[i] = view_of(a, i);
	return a->conf->n_ports;
}

void rsk_pma_port_report(const struct rsk_pma *a, size_t number, struct rsk_port_report *out)
{
	const struct rsk_ledger_account *p = &a->ledger.accounts[a->bound.ports[number]];

	rsk_port_report_of(a->conf, (uint32_t)number, &a->ledger.accounts[p->rnic].bus, out);
}

bool rsk_pma_validate(const struct rsk_pma *a)
{
	const struct rsk_conf *c = a->conf;

	if (!rsk_conf_validate(c) || !rsk_ledger_validate(&a->ledger) || !rsk_pma_watch_validate(a))
		return false;
	for (uint32_t i = 0; i < c->n_ports; i++) {
		const struct rsk_ledger_account *p = &a->ledger.accounts[a->bound.ports[i]];

		if (!p->current || !rsk_port_report_validate(&a->bound.reports[i]) ||
		    strcmp(p->name, c->ports[i].name) != 0 ||
		    strcmp(a->ledger.accounts[p->rnic].name, c->rnics[c->ports[i].rnic].name) != 0)
			return false;
	}
	for (uint32_t i = 0; i < c->n_services; i++)
		for (int side = 0; side < 2; side++)
			if (strcmp(a->ledger.accounts[a->bound.services[side][i]].name,
				   c->services[i].name) != 0)
				return false;
	return true;
}
