// SPDX-License-Identifier: BSD-2-Clause
/* port_report.c - see port_report.h. */
#include "port_report.h"

void rsk_port_report_of(const struct rsk_conf *conf, uint32_t port, const struct rsk_bus *bus,
			struct rsk_port_report *out)
{
	const struct rsk_conf_port *p = &conf->ports[port];
	const struct rsk_conf_rnic *r = &conf->rnics[p->rnic];

	*out = (struct rsk_port_report){ .bus = *bus, .qos = r->qos, .spare = r->spare };
	if (p->n_reach > RSK_PORT_REACH_MOST)
		return;
	out->n_reach = p->n_reach;
	for (size_t i = 0; i < p->n_reach; i++)
		out->reach[i] = p->reach[i];
}

bool rsk_port_report_reaches(const struct rsk_port_report *r, uint8_t ipv,
			     const uint8_t ip[static 16])
{
	for (size_t i = 0; i < r->n_reach; i++)
		if (rsk_conf_within(&r->reach[i], ipv, ip))
			return true;
	return !r->n_reach;
}

bool rsk_port_report_validate(const struct rsk_port_report *r)
{
	for (size_t i = 0; i < r->n_reach && i < RSK_PORT_REACH_MOST; i++)
		if ((r->reach[i].ipv != RSK_PM_IPV4 && r->reach[i].ipv != RSK_PM_IPV6) ||
		    r->reach[i].bits > (r->reach[i].ipv == RSK_PM_IPV4 ? 32 : 128))
			return false;
	return r->n_reach <= RSK_PORT_REACH_MOST && r->bus.numa <= RSK_NUMA_NODES_MOST &&
	       r->qos <= RSK_CONF_QOS_BEST_EFFORT;
}
