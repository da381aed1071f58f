// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_services.c - reads the registry of services: which service ports there are, and what a
 * session of each needs. Called by conf_load.c.
 */
#include <errno.h>
#include <stdio.h>

#include "conf_build.h"
#include "conf_value.h"

#define SERVICES_MOST 65534u /* the number + 1 is stored in 16 bits */

static int take_service_ports(struct rsk_conf_build *b, const char *where, uint32_t number)
{
	const struct rsk_conf_service *s = &b->c->services[number];
	uint16_t *at = b->c->service_at;

	for (size_t i = 0; i < s->n_ports; i++)
		for (unsigned int port = s->ports[i].first; port <= s->ports[i].last; port++) {
			if (at[port])
				return rsk_conf_wrong(b, where, "ports: %u is of \"%s\" already",
						      port, b->c->services[at[port] - 1].name);
			at[port] = (uint16_t)(number + 1);
		}
	return 0;
}

static int take_needs(struct rsk_conf_build *b, const char *where,
		      const struct rsk_raw_service *raw, struct rsk_conf_service *s)
{
	int rc = rsk_conf_take(b, where, "bandwidth", raw->bandwidth, RSK_CONF_RATE, 0,
			       RSK_CONF_RATE_MOST, &s->bps);

	if (rc == 0)
		rc = rsk_conf_take(b, where, "memory-maps", raw->memory_maps, RSK_CONF_U32, 0,
				   1u << 30, &s->memory_maps);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "connections", raw->connections, RSK_CONF_U32, 0,
				   1u << 16, &s->connections);
	return rc;
}

static int take_transactions(struct rsk_conf_build *b, const char *where,
			     const struct rsk_raw_service *raw, struct rsk_conf_service *s)
{
	const struct rsk_raw_list *list = &raw->transactions_of;
	int rc = rsk_conf_take(b, where, "transactions-wanted", raw->transactions_wanted,
			       RSK_CONF_U32, 1, 1u << 30, &s->transactions_wanted);

	if (rc < 0 || !list->n)
		return rc;
	if (!s->transactions_wanted)
		return rsk_conf_wrong(b, where, "transactions-of without transactions-wanted");
	s->transactions_of = rsk_conf_alloc(b->c, list->n, sizeof(uint32_t));
	if (!s->transactions_of)
		return -ENOMEM;
	for (; s->n_transactions_of < list->n; s->n_transactions_of++)
		if (rsk_conf_user(list->v[s->n_transactions_of],
				  &s->transactions_of[s->n_transactions_of]) < 0)
			return rsk_conf_wrong(b, where, "transactions-of: there is no user \"%s\"",
					      list->v[s->n_transactions_of]);
	return 0;
}

static int take_service(struct rsk_conf_build *b, unsigned int i)
{
	const struct rsk_raw_service *raw = &b->raw->services[i];
	struct rsk_conf_service *s = &b->c->services[b->c->n_services];
	char where[RSK_CONF_WHERE];
	int rc;

	snprintf(where, sizeof(where), "services[%u] (%.64s)", i, raw->name);
	s->connections = 1;
	s->high_availability = raw->high_availability == RSK_RAW_YES;
	s->balance = raw->balance == RSK_RAW_YES;
	s->registered = raw->registered == RSK_RAW_YES;
	s->name = rsk_conf_dup(b->c, raw->name);
	if (!s->name)
		return -ENOMEM;
	rc = rsk_conf_name(b, RSK_CONF_SERVICES, where, s->name, b->c->n_services);
	if (rc == 0)
		rc = rsk_conf_take_ranges(b, where, "ports", &raw->ports, &s->ports, &s->n_ports);
	if (rc == 0)
		rc = take_service_ports(b, where, b->c->n_services);
	if (rc == 0)
		rc = take_needs(b, where, raw, s);
	if (rc == 0)
		rc = take_transactions(b, where, raw, s);
	if (rc == 0)
		rc = rsk_conf_take_limits(b, where, raw->limits, &s->limits);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "rate", raw->rate, RSK_CONF_RATE, 1,
				   RSK_CONF_RATE_MOST, &s->rate_bps);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "priority", raw->priority, RSK_CONF_U8, 0,
				   RSK_CONF_PRIORITY_MOST, &s->priority);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "dscp", raw->dscp, RSK_CONF_U8, 0, 63, &s->dscp);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "rdma-port", raw->rdma_port, RSK_CONF_U16, 1, 65535,
				   &s->rdma_port);
	if (rc == 0 && raw->pm_time && rsk_conf_pm_time(raw->pm_time, &s->pm_time_s) < 0)
		rc = rsk_conf_wrong(b, where,
				    "pm-time: \"%s\" is not whole seconds up to 254s, or lasting",
				    raw->pm_time);
	b->c->n_services++;
	return rc;
}

int rsk_conf_build_services(struct rsk_conf_build *b)
{
	struct rsk_conf *c = b->c;
	int rc = 0;

	if (b->raw->n_services > SERVICES_MOST)
		return rsk_conf_wrong(b, "services", "more than %u", SERVICES_MOST);
	c->services = rsk_conf_alloc(c, b->raw->n_services, sizeof(*c->services));
	c->service_at = rsk_conf_alloc(c, 65536, sizeof(*c->service_at));
	if (!c->services || !c->service_at)
		return -ENOMEM;
	for (unsigned int i = 0; rc == 0 && i < b->raw->n_services; i++)
		rc = take_service(b, i);
	return rc;
}
