// SPDX-License-Identifier: BSD-2-Clause
/* pma_rails.c - see pma.h: books what further rails of links take of this node's ports. */
#include <string.h>

#include "pma_parts.h"

size_t rsk_pma_rail_ports(const struct rsk_pma *a, struct rsk_pma_rail_port *out, size_t max)
{
	const struct rsk_conf_node *node = &a->conf->nodes[a->conf->own_node];

	for (size_t i = 0; i < node->n_ports && i < max; i++) {
		const struct rsk_conf_port *port = &a->conf->ports[node->ports[i]];
		const struct rsk_conf_rnic *rnic = &a->conf->rnics[port->rnic];
		const struct rsk_ledger_account *p =
			&a->ledger.accounts[a->bound.ports[node->ports[i]]];

		out[i] = (struct rsk_pma_rail_port){ .name = port->name,
						     .ips = port->ips,
						     .n_ips = port->n_ips,
						     .state = rsk_ledger_state(p),
						     .overloaded = p->overloaded || a->overloaded,
						     .spare = rnic->spare,
						     .sessions_max = rnic->sessions,
						     .bps_max = port->bps };
	}
	return node->n_ports;
}

struct rsk_pma_rail_terms rsk_pma_rail_terms(const struct rsk_pma *a)
{
	const struct rsk_conf_rails *r = &a->conf->rails;

	return (struct rsk_pma_rail_terms){
		.need = { .bps = r->bps, .memory_maps = r->memory_maps, .connections = 1 },
		.per_user = r->per_user
	};
}

static void count(struct rsk_pma *a, uint64_t reservation, bool more)
{
	struct rsk_ledger_view v;
	struct rsk_ledger_account *p;
	uint64_t by = more ? 1 : UINT64_MAX; /* -1, modulo 2^64 */

	if (!rsk_ledger_find(&a->ledger, reservation, &v))
		return;
	p = &a->ledger.accounts[v.port];
	p->rails += by;
	a->ledger.accounts[p->rnic].rails += by;
}

/* Booked on the port and its RNIC only: a rail is no session of a service, a CP or a user. */
uint64_t rsk_pma_rail_booking(struct rsk_pma *a, const char *port)
{
	const struct rsk_pma_rail_terms terms = rsk_pma_rail_terms(a);
	uint32_t number = rsk_conf_find(a->conf, RSK_CONF_PORTS, port), account, need;
	uint64_t id;

	if (number == RSK_CONF_NONE)
		return 0;
	account = a->bound.ports[number];
	need = rsk_ledger_need_for(&a->ledger, &terms.need);
	if (rsk_pma_takes(a, account, need) != RSK_PMA_MAP)
		return 0;
	id = rsk_ledger_reserve(&a->ledger, NULL, account, need);
	rsk_pma_watch(a, account);
	if (!id)
		return 0;
	count(a, id, true);
	rsk_pma_confirm(a, id);
	return id;
}

void rsk_pma_rail_unbook(struct rsk_pma *a, uint64_t reservation)
{
	count(a, reservation, false);
	rsk_pma_release(a, reservation);
}
