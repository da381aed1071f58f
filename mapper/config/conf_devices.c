// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_devices.c - reads nodes, RNICs and their ports, and aggregate addresses. Called by
 * conf_load.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf_build.h"
#include "conf_value.h"

static int node_named(struct rsk_conf_build *b, const char *where, const char *name, uint32_t *out)
{
	int rc;

	*out = rsk_conf_find(b->c, RSK_CONF_NODES, name);
	if (*out != RSK_CONF_NONE)
		return 0;
	*out = b->c->n_nodes;
	rc = rsk_conf_name(b, RSK_CONF_NODES, where, name, *out);
	if (rc < 0)
		return rc;
	b->c->nodes[b->c->n_nodes].name = rsk_conf_dup(b->c, name);
	return b->c->nodes[b->c->n_nodes++].name ? 0 : -ENOMEM;
}

static int group_named(struct rsk_conf_build *b, const char *where, const char *name, uint32_t *out)
{
	*out = RSK_CONF_NONE;
	if (!name)
		return 0;
	*out = rsk_conf_find(b->c, RSK_CONF_GROUPS, name);
	if (*out != RSK_CONF_NONE)
		return 0;
	*out = b->c->n_groups++;
	return rsk_conf_name(b, RSK_CONF_GROUPS, where, name, *out);
}

static int take_port(struct rsk_conf_build *b, const char *where, const struct rsk_raw_port *raw,
		     uint32_t rnic)
{
	uint32_t number = b->c->n_ports++;
	struct rsk_conf_port *p = &b->c->ports[number];
	int rc;

	p->rnic = rnic;
	p->name = rsk_conf_dup(b->c, raw->name);
	p->ips = rsk_conf_alloc(b->c, raw->addresses.n, sizeof(*p->ips));
	if (!p->name || !p->ips)
		return -ENOMEM;
	rc = rsk_conf_name(b, RSK_CONF_PORTS, where, p->name, number);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "bandwidth", raw->bandwidth, RSK_CONF_RATE, 1,
				   RSK_CONF_RATE_MOST, &p->bps);
	if (rc == 0)
		rc = rsk_conf_take_prefixes(b, where, "reach", &raw->reach, &p->reach, &p->n_reach);
	if (rc == 0 && !raw->addresses.n)
		rc = rsk_conf_wrong(b, where, "addresses: a port needs one of its own");
	for (; rc == 0 && p->n_ips < raw->addresses.n; p->n_ips++) {
		const char *text = raw->addresses.v[p->n_ips];

		if (rsk_conf_ip(text, &p->ips[p->n_ips]) < 0)
			return rsk_conf_wrong(b, where, "addresses: \"%s\" is not an IP address",
					      text);
		*(p->ips[p->n_ips].ipv == RSK_PM_IPV4 ? &p->has_ipv4 : &p->has_ipv6) = true;
		rc = rsk_conf_claim(b, where, &p->ips[p->n_ips], RSK_CONF_PORTS_OWN, number);
	}
	return rc;
}

static int take_ports(struct rsk_conf_build *b, const char *where, const struct rsk_raw_rnic *raw,
		      uint32_t rnic)
{
	struct rsk_raw_port one = { .name = raw->name,
				    .bandwidth = raw->bandwidth,
				    .addresses = raw->addresses,
				    .reach = raw->reach };
	char at[RSK_CONF_WHERE], name[RSK_CONF_WHERE * 2 + 2];
	int rc = 0;

	if (!raw->n_ports)
		return take_port(b, where, &one, rnic);
	if (raw->addresses.n || raw->reach.n || raw->bandwidth)
		return rsk_conf_wrong(
			b, where,
			"addresses, reach and bandwidth: each port's, where it has ports");
	for (unsigned int i = 0; rc == 0 && i < raw->n_ports; i++) {
		snprintf(at, sizeof(at), "%s.ports[%u]", where, i);
		if (strchr(raw->ports[i].name, '/'))
			return rsk_conf_wrong(b, at, "name \"%s\": with a '/'", raw->ports[i].name);
		one = raw->ports[i];
		snprintf(name, sizeof(name), "%s/%s", raw->name, raw->ports[i].name);
		one.name = name;
		rc = take_port(b, at, &one, rnic);
	}
	return rc;
}

static int take_rnic(struct rsk_conf_build *b, const struct rsk_raw_rnic *raw, unsigned int i)
{
	struct rsk_conf_rnic *r = &b->c->rnics[b->c->n_rnics];
	char where[RSK_CONF_WHERE / 2];
	int rc;

	snprintf(where, sizeof(where), "rnics[%u] (%.64s)", i, raw->name);
	r->qos = raw->qos;
	r->spare = raw->spare;
	r->first_port = b->c->n_ports;
	r->n_ports = raw->n_ports ? raw->n_ports : 1;
	r->name = rsk_conf_dup(b->c, raw->name);
	if (!r->name)
		return -ENOMEM;
	rc = rsk_conf_name(b, RSK_CONF_RNICS, where, r->name, b->c->n_rnics);
	if (rc == 0)
		rc = node_named(b, where, raw->node ? raw->node : b->c->daemon.node, &r->node);
	if (rc == 0)
		rc = group_named(b, where, raw->group, &r->group);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "sessions", raw->sessions, RSK_CONF_U32, 1,
				   UINT32_MAX - 1, &r->sessions);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "connections", raw->connections, RSK_CONF_U32, 1,
				   UINT32_MAX - 1, &r->connections);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "memory-maps", raw->memory_maps, RSK_CONF_U32, 1,
				   UINT32_MAX - 1, &r->memory_maps);
	if (rc == 0)
		rc = rsk_conf_take(b, where, "order", raw->order, RSK_CONF_U32, 0, 65535,
				   &r->order);
	return rc < 0 ? rc : take_ports(b, where, raw, b->c->n_rnics++);
}

/* Makes each node's list of ports; ports are numbered by RNIC, not by node. */
static int take_nodes(struct rsk_conf_build *b)
{
	struct rsk_conf *c = b->c;

	for (uint32_t i = 0; i < c->n_ports; i++)
		c->nodes[c->rnics[c->ports[i].rnic].node].n_ports++;
	for (uint32_t i = 0; i < c->n_nodes; i++) {
		c->nodes[i].ports = rsk_conf_alloc(c, c->nodes[i].n_ports, sizeof(uint32_t));
		if (!c->nodes[i].ports)
			return -ENOMEM;
		c->nodes[i].n_ports = 0;
	}
	for (uint32_t i = 0; i < c->n_ports; i++) {
		struct rsk_conf_node *n = &c->nodes[c->rnics[c->ports[i].rnic].node];

		n->ports[n->n_ports++] = i;
	}
	return 0;
}

static int add_member(struct rsk_conf_build *b, const char *where, struct rsk_conf_aggregate *a,
		      uint32_t port)
{
	if (b->member_of[port] == b->c->n_aggregates)
		return rsk_conf_wrong(b, where, "over: \"%s\" is there twice",
				      b->c->ports[port].name);
	/* n_aggregates already includes this one, so the value is its number + 1 */
	b->member_of[port] = b->c->n_aggregates;
	a->ports[a->n_ports++] = port;
	return 0;
}

static int add_members(struct rsk_conf_build *b, const char *where, struct rsk_conf_aggregate *a,
		       const char *name)
{
	uint32_t rnic = rsk_conf_find(b->c, RSK_CONF_RNICS, name), port;
	const struct rsk_conf_rnic *r;
	int rc = 0;

	if (rnic == RSK_CONF_NONE) {
		port = rsk_conf_find(b->c, RSK_CONF_PORTS, name);
		if (port == RSK_CONF_NONE)
			return rsk_conf_wrong(b, where, "over: there is no RNIC \"%s\"", name);
		return add_member(b, where, a, port);
	}
	r = &b->c->rnics[rnic];
	for (uint32_t i = 0; rc == 0 && i < r->n_ports; i++)
		rc = add_member(b, where, a, r->first_port + i);
	return rc;
}

static bool knows_any(const struct rsk_conf_build *b, const struct rsk_raw_list *over)
{
	for (unsigned int i = 0; i < over->n; i++)
		if (rsk_conf_find(b->c, RSK_CONF_RNICS, over->v[i]) != RSK_CONF_NONE ||
		    rsk_conf_find(b->c, RSK_CONF_PORTS, over->v[i]) != RSK_CONF_NONE)
			return true;
	return false;
}

static int take_aggregate(struct rsk_conf_build *b, unsigned int i)
{
	const struct rsk_raw_aggregate *raw = &b->raw->aggregates[i];
	struct rsk_conf_aggregate *a = &b->c->aggregates[b->c->n_aggregates];
	char where[RSK_CONF_WHERE];
	size_t most = 0;
	int rc;

	if (i >= b->own_aggregates && !knows_any(b, &raw->over))
		return 0; /* it is of other hosts */
	snprintf(where, sizeof(where), "aggregates[%u] (%.64s)",
		 i < b->own_aggregates ? i : i - b->own_aggregates, raw->address);
	if (rsk_conf_ip(raw->address, &a->address) < 0)
		return rsk_conf_wrong(b, where, "address: not an IP address");
	for (unsigned int k = 0; k < raw->over.n; k++) {
		uint32_t rnic = rsk_conf_find(b->c, RSK_CONF_RNICS, raw->over.v[k]);

		most += rnic == RSK_CONF_NONE ? 1 : b->c->rnics[rnic].n_ports;
	}
	a->in_order = raw->in_order;
	a->ports = rsk_conf_alloc(b->c, most, sizeof(uint32_t));
	if (!a->ports)
		return -ENOMEM;
	rc = rsk_conf_claim(b, where, &a->address, RSK_CONF_AGGREGATES, b->c->n_aggregates++);
	for (unsigned int k = 0; rc == 0 && k < raw->over.n; k++)
		rc = add_members(b, where, a, raw->over.v[k]);
	return rc;
}

/* ---- discovered devices ---- */

static int write_port(struct rsk_conf_build *b, const struct rsk_discovered_port *from,
		      struct rsk_raw_port *to)
{
	char text[RSK_PM_IP_TEXT];

	snprintf(text, sizeof(text), "%u", from->number);
	to->name = rsk_conf_dup(b->c, text);
	to->addresses.v = rsk_conf_alloc(b->c, from->n_ips, sizeof(char *));
	if (!to->name || !to->addresses.v)
		return -ENOMEM;
	for (; to->addresses.n < from->n_ips; to->addresses.n++) {
		const struct rsk_pm_addr *ip = &from->ips[to->addresses.n];

		to->addresses.v[to->addresses.n] =
			rsk_conf_dup(b->c, rsk_pm_ip_text(ip->ipv, ip->ip, text));
		if (!to->addresses.v[to->addresses.n])
			return -ENOMEM;
	}
	if (!from->bps)
		return 0;
	snprintf(text, sizeof(text), "%llubit", (unsigned long long)from->bps);
	to->bandwidth = rsk_conf_dup(b->c, text);
	return to->bandwidth ? 0 : -ENOMEM;
}

/* Writes the discovered RNICs as they would be in the file. */
static int write_found(struct rsk_conf_build *b, struct rsk_raw_rnic **out, unsigned int *n)
{
	const struct rsk_discovered *found = b->found;
	struct rsk_raw_port *ports = rsk_conf_alloc(b->c, found->n, sizeof(*ports));
	struct rsk_raw_rnic *r = rsk_conf_alloc(b->c, found->n, sizeof(*r));
	int rc = 0;

	*out = r;
	*n = 0;
	if (!ports || !r)
		return -ENOMEM;
	for (size_t i = 0; rc == 0 && i < found->n; i++) {
		const struct rsk_discovered_port *p = &found->ports[i];

		rc = write_port(b, p, &ports[i]);
		if (i && strcmp(p->device, p[-1].device) == 0) {
			r[*n - 1].n_ports++;
			continue;
		}
		r[*n].name = rsk_conf_dup(b->c, p->device);
		r[*n].ports = &ports[i];
		r[*n].n_ports = 1;
		if (!p->number) {
			r[*n].addresses = ports[i].addresses;
			r[*n].bandwidth = ports[i].bandwidth;
			r[*n].n_ports = 0;
		}
		rc = r[*n].name ? rc : -ENOMEM;
		++*n;
	}
	return rc;
}

int rsk_conf_build_devices(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf *c = b->c;
	struct rsk_raw_rnic *rnics = raw->rnics;
	unsigned int n_rnics = raw->n_rnics;
	size_t ports = 0;
	int rc = 0;

	if (c->daemon.discover && b->found)
		rc = write_found(b, &rnics, &n_rnics);
	if (rc < 0)
		return rc;
	for (unsigned int i = 0; i < n_rnics; i++)
		ports += rnics[i].n_ports ? rnics[i].n_ports : 1;
	c->nodes = rsk_conf_alloc(c, n_rnics + 1, sizeof(*c->nodes));
	c->rnics = rsk_conf_alloc(c, n_rnics, sizeof(*c->rnics));
	c->ports = rsk_conf_alloc(c, ports, sizeof(*c->ports));
	c->aggregates = rsk_conf_alloc(c, raw->n_aggregates, sizeof(*c->aggregates));
	b->member_of = rsk_conf_alloc(c, ports, sizeof(*b->member_of));
	if (!c->nodes || !c->rnics || !c->ports || !c->aggregates || !b->member_of)
		return -ENOMEM;
	rc = node_named(b, "node", c->daemon.node, &c->own_node);
	for (unsigned int i = 0; rc == 0 && i < n_rnics; i++)
		rc = take_rnic(b, &rnics[i], i);
	if (rc == 0)
		rc = take_nodes(b);
	for (unsigned int i = 0; rc == 0 && i < raw->n_aggregates; i++)
		rc = take_aggregate(b, i);
	return rc;
}
