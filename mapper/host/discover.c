// SPDX-License-Identifier: BSD-2-Clause
/* discover.c - see discover.h. */
#include "discover.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

struct search {
	struct rsk_discovered *out;
	const struct rsk_rdma_port *port;
};

static bool is_taken(const struct rsk_discovered *d, const struct rsk_pm_addr *ip)
{
	for (size_t i = 0; i < d->n; i++)
		for (size_t k = 0; k < d->ports[i].n_ips; k++)
			if (rsk_pm_addr_equal(&d->ports[i].ips[k], ip))
				return true;
	return false;
}

static struct rsk_discovered_port *port_of(struct rsk_discovered *d,
					   const struct rsk_rdma_port *port)
{
	unsigned int number = port->ports > 1 ? port->number : 0;
	struct rsk_discovered_port *p = d->n ? &d->ports[d->n - 1] : NULL;

	if (p && strcmp(p->device, port->device) == 0 && p->number == number)
		return p;
	if (d->n == RSK_DISCOVER_PORTS_MOST)
		return NULL;
	p = &d->ports[d->n++];
	p->number = number;
	p->bps = port->bps;
	snprintf(p->device, sizeof(p->device), "%s", port->device);
	return p;
}

static void on_address(void *ctx, const char *link, const struct rsk_pm_addr *ip)
{
	struct search *s = ctx;
	struct rsk_discovered_port *p;

	if (strcmp(link, s->port->link) != 0 || is_taken(s->out, ip))
		return;
	p = port_of(s->out, s->port);
	if (p && p->n_ips < RSK_DISCOVER_IPS_MOST)
		p->ips[p->n_ips++] = *ip;
}

/* True if a configuration can name it. */
static bool has_a_name(const struct rsk_rdma_port *p)
{
	for (const char *c = p->device; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			return false;
	return true;
}

static int in_order(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct rsk_pm_addr));
}

void rsk_discover(const struct rsk_rdma_ports *ports, const struct rsk_ifaces *links,
		  struct rsk_discovered *out)
{
	memset(out, 0, sizeof(*out));
	for (int soft = 0; soft < 2; soft++)
		for (size_t i = 0; i < ports->n; i++) {
			struct search s = { .out = out, .port = &ports->at[i] };

			if (s.port->soft == soft && s.port->works && has_a_name(s.port))
				rsk_ifaces_each(links, on_address, &s);
		}
	for (size_t i = 0; i < out->n; i++)
		qsort(out->ports[i].ips, out->ports[i].n_ips, sizeof(out->ports[i].ips[0]),
		      in_order);
}

bool rsk_discovered_equal(const struct rsk_discovered *a, const struct rsk_discovered *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		const struct rsk_discovered_port *x = &a->ports[i], *y = &b->ports[i];

		if (strcmp(x->device, y->device) != 0 || x->number != y->number ||
		    x->bps != y->bps || x->n_ips != y->n_ips ||
		    memcmp(x->ips, y->ips, x->n_ips * sizeof(x->ips[0])) != 0)
			return false;
	}
	return a->n == b->n;
}
