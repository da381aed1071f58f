// SPDX-License-Identifier: BSD-2-Clause
/*
 * pma_admit.c - see pma.h: what other agents and PMSPs have decided on, and devices that agents
 * report.
 */
#include <errno.h>
#include <string.h>

#include "pma_parts.h"

bool rsk_pma_is_foreign(const struct rsk_pma *a, uint32_t service_account)
{
	return service_account == a->bound.other_services[RSK_PMA_CP] ||
	       service_account == a->bound.other_services[RSK_PMA_AP];
}

static uint32_t service_of(const struct rsk_pma *a, const struct rsk_pma_question *q)
{
	uint32_t service = a->conf->service_at[q->ap_port];

	return service ? a->bound.services[q->side][service - 1] : a->bound.other_services[q->side];
}

static enum rsk_pma_verdict takes_for(const struct rsk_pma *a, uint32_t port_account, uint32_t need,
				      uint8_t ipv, const uint8_t *cp_ip)
{
	const struct rsk_ledger_account *p = &a->ledger.accounts[port_account];

	if (rsk_ledger_state(p) != RSK_PMA_UP)
		return RSK_PMA_NO_DEVICE;
	if (p->soft && !a->conf->use_soft)
		return RSK_PMA_SOFT_RNIC;
	return need != RSK_LEDGER_NONE && rsk_ledger_lacks_for(&a->ledger, port_account, need, ipv,
							       cp_ip) == RSK_LEDGER_FITS ?
		       RSK_PMA_MAP :
		       RSK_PMA_EXHAUSTED;
}

enum rsk_pma_verdict rsk_pma_takes(const struct rsk_pma *a, uint32_t port_account, uint32_t need)
{
	return takes_for(a, port_account, need, 0, NULL);
}

uint64_t rsk_pma_admit(struct rsk_pma *a, const struct rsk_pma_question *q,
		       const struct rsk_ledger_need *need, bool there, enum rsk_pma_verdict *why)
{
	const uint32_t *port = rsk_conf_port_at(a->conf, q->ipv, q->at_ip);
	uint32_t account = rsk_pma_port_account(a, port ? *port : RSK_CONF_NONE);
	uint32_t n = rsk_ledger_need_for(&a->ledger, need);
	struct rsk_ledger_who who;
	uint64_t id;

	*why = there ? RSK_PMA_MAP :
		       takes_for(a, account, n, q->ipv, q->side == RSK_PMA_AP ? q->cp_ip : NULL);
	if (*why != RSK_PMA_MAP)
		return 0;
	*why = RSK_PMA_EXHAUSTED;
	if (n == RSK_LEDGER_NONE)
		return 0;
	rsk_ledger_who(&a->ledger, service_of(a, q), q->ipv, q->cp_ip, q->uid, &who);
	id = rsk_ledger_reserve(&a->ledger, &who, account, n);
	rsk_pma_watch(a, account);
	return id;
}

bool rsk_pma_stands(const struct rsk_pma *a, uint64_t reservation)
{
	struct rsk_ledger_view v;

	return rsk_ledger_find(&a->ledger, reservation, &v) && a->ledger.accounts[v.port].current &&
	       rsk_ledger_state(&a->ledger.accounts[v.port]) == RSK_PMA_UP;
}

/* @port: NULL, a port that is not in the configuration. */
static bool is_over(const struct rsk_conf_aggregate *g, const uint32_t *port)
{
	for (size_t i = 0; port && i < g->n_ports; i++)
		if (g->ports[i] == *port)
			return true;
	return false;
}

bool rsk_pma_holds(const struct rsk_pma *a, uint8_t ipv, const uint8_t service[static 16],
		   const uint8_t rdma[static 16])
{
	const uint32_t *port = rsk_conf_port_at(a->conf, ipv, rdma);
	const struct rsk_ledger_account *p;
	uint32_t number;

	if (rsk_conf_owner_of(a->conf, ipv, service, &number) == RSK_CONF_AGGREGATES &&
	    !is_over(&a->conf->aggregates[number], port))
		return false;
	if (!port)
		return true;
	p = &a->ledger.accounts[a->bound.ports[*port]];
	return rsk_ledger_state(p) == RSK_PMA_UP && (!p->soft || a->conf->use_soft);
}

/* ---- observers and reports ---- */

static struct rsk_ledger_account *port_account(struct rsk_pma *a, uint32_t port)
{
	return &a->ledger.accounts[a->bound.ports[port]];
}

int rsk_pma_port_seen(struct rsk_pma *a, const char *node, uint8_t ipv, const uint8_t ip[static 16],
		      enum rsk_pma_device_state state, uint64_t others_bps,
		      const struct rsk_port_report *report)
{
	const uint32_t *port = rsk_conf_port_at(a->conf, ipv, ip);
	struct rsk_ledger_account *p;

	if (!port ||
	    strcmp(a->conf->nodes[a->conf->rnics[a->conf->ports[*port].rnic].node].name, node) != 0)
		return -ENOENT;
	p = port_account(a, *port);
	p->seen = state;
	p->others_bps = others_bps;
	a->bound.reports[*port] = report ? *report : (struct rsk_port_report){ 0 };
	rsk_pma_bus_set(a, a->conf->ports[*port].rnic, &a->bound.reports[*port].bus);
	rsk_pma_watch(a, a->bound.ports[*port]);
	return 0;
}

void rsk_pma_node_seen(struct rsk_pma *a, const char *node, enum rsk_pma_device_state state)
{
	for (uint32_t i = 0; i < a->conf->n_nodes; i++) {
		const struct rsk_conf_node *n = &a->conf->nodes[i];

		if (node ? strcmp(n->name, node) != 0 : i == a->conf->own_node)
			continue;
		for (size_t k = 0; k < n->n_ports; k++)
			port_account(a, n->ports[k])->seen = state;
	}
}

void rsk_pma_observe(struct rsk_pma *a, const struct rsk_pma_observer *observer)
{
	a->observer = *observer;
}

double rsk_pma_load(const struct rsk_pma *a)
{
	return a->load;
}

void rsk_pma_changed(const struct rsk_pma *a)
{
	if (a->observer.changed)
		a->observer.changed(a->observer.ctx);
}
