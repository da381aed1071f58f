// SPDX-License-Identifier: BSD-2-Clause
/* pma_offer.c - see pma_offer.h. */
#include "pma_offer.h"

#include <string.h>

#include "pm_msg.h"
#include "pma_parts.h"

/* A socket, and who wants to know about it. */
struct asking {
	struct rsk_pma *a;
	const struct rsk_pma_socket *socket;
	uint64_t now_ns;
	void (*each)(void *ctx, const struct rsk_pma_offer *offer);
	void *ctx;
	size_t n;
};

static bool hears(const struct rsk_pm_addr *socket, const struct rsk_pm_addr *at)
{
	static const uint8_t any[16];

	if (memcmp(socket->ip, any, 16) == 0)
		return socket->ipv == at->ipv || socket->ipv == RSK_PM_IPV6;
	return socket->ipv == at->ipv && memcmp(socket->ip, at->ip, 16) == 0;
}

static bool is_own_port(const struct rsk_conf *c, uint32_t port)
{
	return c->rnics[c->ports[port].rnic].node == c->own_node;
}

/* Another node's device: that node says it itself. */
static bool is_own_device(const struct rsk_conf *c, const char *device)
{
	uint32_t port = device ? rsk_conf_find(c, RSK_CONF_PORTS, device) : RSK_CONF_NONE;

	return port != RSK_CONF_NONE && is_own_port(c, port);
}

static bool is_short(enum rsk_pma_verdict v)
{
	return v == RSK_PMA_EXHAUSTED || v == RSK_PMA_LIMIT || v == RSK_PMA_OVERLOAD;
}

static void consider(struct asking *by, const struct rsk_pm_addr *at)
{
	const struct rsk_pma_socket *s = by->socket;
	const struct rsk_conf *c = by->a->conf;
	struct rsk_pma_question q = { .side = RSK_PMA_AP,
				      .ipv = at->ipv,
				      .ap_port = s->at.port,
				      .uid = s->uid,
				      .listens = true,
				      .now_ns = by->now_ns };
	struct rsk_pma_offer offer = { .at = *at };
	struct rsk_pma_answer answer;

	if (!hears(&s->at, at))
		return;
	by->n++;
	memcpy(q.ap_ip, at->ip, 16);
	memcpy(q.cp_ip, at->ip, 16);
	rsk_pma_explain(by->a, &q, &answer, NULL, NULL);
	offer.at.port = s->at.port;
	offer.service = c->services[c->service_at[s->at.port] - 1].name;
	offer.is_short = is_short(answer.verdict);
	if (answer.verdict == RSK_PMA_MAP && is_own_device(c, answer.device)) {
		offer.device = answer.device;
		offer.rdma = (struct rsk_pm_addr){ .ipv = at->ipv, .port = answer.port };
		memcpy(offer.rdma.ip, answer.ip, 16);
	} else if (!offer.is_short) {
		return;
	}
	by->each(by->ctx, &offer);
}

static bool is_over_own(const struct rsk_conf *c, const struct rsk_conf_aggregate *g)
{
	for (size_t i = 0; i < g->n_ports; i++)
		if (is_own_port(c, g->ports[i]))
			return true;
	return false;
}

size_t rsk_pma_offers(struct rsk_pma *a, const struct rsk_pma_socket *socket, uint64_t now_ns,
		      void (*each)(void *ctx, const struct rsk_pma_offer *offer), void *ctx)
{
	struct asking by = { .a = a, .socket = socket, .now_ns = now_ns, .each = each, .ctx = ctx };
	const struct rsk_conf *c = a->conf;
	const struct rsk_conf_node *node = &c->nodes[c->own_node];

	if (!c->service_at[socket->at.port])
		return 0;
	for (size_t i = 0; i < node->n_ports; i++) {
		const struct rsk_conf_port *p = &c->ports[node->ports[i]];

		for (size_t k = 0; k < p->n_ips; k++)
			consider(&by, &p->ips[k]);
	}
	for (uint32_t i = 0; i < c->n_aggregates; i++)
		if (is_over_own(c, &c->aggregates[i]))
			consider(&by, &c->aggregates[i].address);
	return by.n;
}
