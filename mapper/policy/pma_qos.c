// SPDX-License-Identifier: BSD-2-Clause
/*
 * pma_qos.c - see pma.h: the differentiated service of sessions: rate, DSCP, priority. A session
 * keeps the priority of the rule that mapped it; rate and DSCP are its service's, as they are now.
 */
#include "pma_parts.h"

/* Slows best effort down if its node is overloaded; higher priorities keep their rate. */
uint64_t rsk_pma_rate(const struct rsk_conf *conf, const struct rsk_conf_service *service,
		      uint32_t port, unsigned int priority, bool overloaded)
{
	uint64_t rate = service->rate_bps, slow = conf->overload.rate_bps;
	bool here = port != RSK_CONF_NONE &&
		    conf->rnics[conf->ports[port].rnic].node == conf->own_node;

	if (!overloaded || !here || !slow || priority >= RSK_CONF_PRIORITY_HIGH)
		return rate;
	return rate && rate < slow ? rate : slow;
}

bool rsk_pma_qos(const struct rsk_pma *a, uint64_t reservation, struct rsk_qos *out)
{
	const struct rsk_conf_service *service;
	struct rsk_ledger_view v;
	uint32_t number, port;

	*out = (struct rsk_qos){ 0 };
	if (!rsk_ledger_find(&a->ledger, reservation, &v) || v.service == RSK_LEDGER_NONE ||
	    rsk_pma_is_foreign(a, v.service))
		return false;
	number = rsk_conf_find(a->conf, RSK_CONF_SERVICES, a->ledger.accounts[v.service].name);
	if (number == RSK_CONF_NONE)
		return false;
	service = &a->conf->services[number];
	port = rsk_conf_find(a->conf, RSK_CONF_PORTS, a->ledger.accounts[v.port].name);
	out->rate_bps = rsk_pma_rate(a->conf, service, port, v.priority, a->overloaded);
	out->dscp = service->dscp;
	out->priority = v.priority;
	return true;
}

uint32_t rsk_pma_qos_changes(const struct rsk_pma *a)
{
	return a->qos_changes;
}
