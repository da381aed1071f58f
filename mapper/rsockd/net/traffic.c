// SPDX-License-Identifier: BSD-2-Clause
/* traffic.c - see traffic.h. */
#include "traffic.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "link_counters.h"

#define PERIOD_S 1

struct rsk_traffic_port {
	char *name;		   /* owned */
	char link[IF_NAMESIZE];	   /* empty: no link carries its address */
	struct rsk_rdma_port rdma; /* on that link; number 0: no hardware device is */
	struct rsk_port_rate rate;
	struct rsk_counted octets; /* of the link, in this reading */
};

/* ---- which ports, and which counters ---- */

struct search {
	const struct rsk_pma_rail_port *port;
	struct rsk_traffic_port *out;
};

/* A port whose addresses are on several links is counted on the first of them by name. */
static void on_address(void *ctx, const char *link, const struct rsk_pm_addr *ip)
{
	struct search *s = ctx;

	for (size_t i = 0; i < s->port->n_ips; i++)
		if (s->port->ips[i].ipv == ip->ipv && memcmp(s->port->ips[i].ip, ip->ip, 16) == 0 &&
		    (!*s->out->link || strcmp(link, s->out->link) < 0))
			snprintf(s->out->link, sizeof(s->out->link), "%s", link);
}

static void find(const struct rsk_traffic *t, const struct rsk_pma_rail_port *port,
		 struct rsk_traffic_port *out)
{
	struct search s = { .port = port, .out = out };
	const struct rsk_rdma_ports *all = t->devices->ports;

	rsk_ifaces_each(t->devices->links, on_address, &s);
	for (size_t i = 0; *out->link && t->devices->found && i < all->n; i++)
		if (!all->at[i].soft && strcmp(all->at[i].link, out->link) == 0) {
			out->rdma = all->at[i];
			return;
		}
}

static bool is_same(const struct rsk_traffic_port *a, const struct rsk_traffic_port *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->link, b->link) == 0 &&
	       strcmp(a->rdma.device, b->rdma.device) == 0 && a->rdma.number == b->rdma.number;
}

static void drop_ports(struct rsk_traffic *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->ports[i].name);
	free(t->ports);
	t->ports = NULL;
	t->n = 0;
}

/* Adds a port, with what is known of it from before. */
static void add(struct rsk_traffic *t, const struct rsk_traffic *before,
		const struct rsk_pma_rail_port *port)
{
	struct rsk_traffic_port *p = &t->ports[t->n];

	p->name = strdup(port->name);
	if (!p->name)
		return;
	find(t, port, p);
	for (size_t i = 0; i < before->n; i++)
		if (is_same(p, &before->ports[i]))
			p->rate = before->ports[i].rate;
	t->n++;
}

static bool has(const struct rsk_traffic *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++)
		if (strcmp(t->ports[i].name, name) == 0)
			return true;
	return false;
}

void rsk_traffic_check(struct rsk_traffic *t)
{
	static const struct timeval period = { .tv_sec = PERIOD_S };
	size_t n = rsk_pma_rail_ports(t->pma, NULL, 0);
	struct rsk_pma_rail_port *ports = calloc(n + 1, sizeof(*ports));
	struct rsk_traffic before = *t;

	t->n = 0;
	t->ports = ports ? calloc(n + 1, sizeof(*t->ports)) : NULL;
	n = t->ports ? rsk_pma_rail_ports(t->pma, ports, n) : 0;
	for (size_t i = 0; i < n; i++)
		if (ports[i].bps_max)
			add(t, &before, &ports[i]);
	for (size_t i = 0; i < before.n; i++)
		if (!has(t, before.ports[i].name))
			rsk_pma_carried_set(t->pma, before.ports[i].name, RSK_PORT_RATE_UNKNOWN, 0);
	drop_ports(&before);
	free(ports);
	if (!t->n)
		event_del(t->timer);
	else if (!event_pending(t->timer, EV_TIMEOUT, NULL))
		event_add(t->timer, &period);
}

/* ---- measurements ---- */

static void on_link(void *ctx, const char *link, const struct rsk_counted *octets)
{
	struct rsk_traffic *t = ctx;

	for (size_t i = 0; i < t->n; i++)
		if (strcmp(link, t->ports[i].link) == 0)
			t->ports[i].octets = *octets;
}

static void measure(struct rsk_traffic *t, struct rsk_traffic_port *p)
{
	struct rsk_port_reading reading = { .link = p->octets, .line_bps = p->rdma.bps };
	uint64_t before_ns = p->rate.read_ns, now_ns;
	int64_t bps;

	if (p->rdma.number)
		reading.rdma = rsk_rdma_port_counters(RSK_RDMA_CLASS, &p->rdma);
	if (reading.rdma.known && p->rdma.infiniband)
		reading.link.known = false;
	now_ns = rsk_clock_ns();
	bps = rsk_port_rate_take(&p->rate, &reading, now_ns);
	rsk_pma_carried_set(t->pma, p->name, bps, now_ns - before_ns);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_traffic *t = arg;

	for (size_t i = 0; i < t->n; i++)
		t->ports[i].octets.known = false;
	if (t->links)
		rsk_link_counters_read(t->links, on_link, t);
	for (size_t i = 0; i < t->n; i++)
		measure(t, &t->ports[i]);
}

/* ---- start and end ---- */

int rsk_traffic_open(struct rsk_traffic *t, struct event_base *base, struct rsk_pma *pma,
		     const struct rsk_devices *devices)
{
	*t = (struct rsk_traffic){ .pma = pma, .devices = devices };
	t->timer = event_new(base, -1, EV_PERSIST, on_timer, t);
	if (!t->timer)
		return -ENOMEM;
	t->links = fopen(RSK_LINK_COUNTERS, "re");
	if (!t->links)
		fprintf(stderr, "rsockd: %s: %s: what network links carry is not measured\n",
			RSK_LINK_COUNTERS, strerror(errno));
	return 0;
}

void rsk_traffic_close(struct rsk_traffic *t)
{
	if (t->timer)
		event_free(t->timer);
	if (t->links)
		fclose(t->links);
	drop_ports(t);
	*t = (struct rsk_traffic){ 0 };
}
