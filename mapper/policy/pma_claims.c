// SPDX-License-Identifier: BSD-2-Clause
/* pma_claims.c - see pma.h: quotas of other hosts, and this node's RNICs that have a limit. */
#include "pma_parts.h"

int rsk_pma_claims_set(struct rsk_pma *a, const struct rsk_claims_set *set)
{
	return rsk_ledger_claims_set(&a->ledger, set);
}

const struct rsk_claims *rsk_pma_claims(const struct rsk_pma *a)
{
	return &a->ledger.claims;
}

static bool is_better(enum rsk_pma_device_state a, enum rsk_pma_device_state b)
{
	return a == RSK_PMA_UP || (a == RSK_PMA_DRAINING && b == RSK_PMA_DOWN);
}

/* The sessions of software devices count alike, but they may not be for use here. */
static enum rsk_pma_device_state state_of(const struct rsk_pma *a, uint32_t port)
{
	const struct rsk_ledger_account *p = &a->ledger.accounts[a->bound.ports[port]];

	return p->soft && !a->conf->use_soft ? RSK_PMA_DOWN : rsk_ledger_state(p);
}

static struct rsk_pma_rnic_view view_of(const struct rsk_pma *a, uint32_t rnic)
{
	const struct rsk_conf_node *node = &a->conf->nodes[a->conf->own_node];
	struct rsk_pma_rnic_view v = { .name = a->conf->rnics[rnic].name, .state = RSK_PMA_DOWN };

	for (size_t i = 0; i < node->n_ports; i++) {
		const struct rsk_conf_port *port = &a->conf->ports[node->ports[i]];
		const struct rsk_ledger_account *p =
			&a->ledger.accounts[a->bound.ports[node->ports[i]]];

		if (port->rnic != rnic)
			continue;
		v.sessions = a->ledger.accounts[p->rnic].sessions;
		v.sessions_max = a->ledger.accounts[p->rnic].sessions_max;
		if (is_better(state_of(a, node->ports[i]), v.state))
			v.state = state_of(a, node->ports[i]);
		for (size_t k = 0; k < port->n_ips; k++)
			if (v.n_ips < sizeof(v.ips) / sizeof(v.ips[0]))
				v.ips[v.n_ips++] = &port->ips[k];
	}
	return v;
}

size_t rsk_pma_rnics(const struct rsk_pma *a, struct rsk_pma_rnic_view *out, size_t max)
{
	size_t n = 0;

	for (uint32_t i = 0; i < a->conf->n_rnics; i++) {
		if (a->conf->rnics[i].node != a->conf->own_node || !a->conf->rnics[i].sessions)
			continue;
		if (n < max)
			out[n] = view_of(a, i);
		n++;
	}
	return n;
}
