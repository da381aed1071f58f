// SPDX-License-Identifier: BSD-2-Clause
/* metrics.c - the daemon's figures as OpenMetrics text (openmetrics.io, version 1.0.0). */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdlib.h>

#include "api.h"
#include "verdict.h"

static void counter(struct evbuffer *out, const char *name, const char *help, uint64_t value)
{
	evbuffer_add_printf(out,
			    "# TYPE rsockd_%s counter\n# HELP rsockd_%s %s\nrsockd_%s_total %" PRIu64
			    "\n",
			    name, name, help, name, value);
}

static void gauge(struct evbuffer *out, const char *name, const char *help, uint64_t value)
{
	evbuffer_add_printf(out,
			    "# TYPE rsockd_%s gauge\n# HELP rsockd_%s %s\nrsockd_%s %" PRIu64 "\n",
			    name, name, help, name, value);
}

struct device_figure {
	const char *name, *help;
	size_t offset;
};

#define FIGURE(field, text)                                                                        \
	{                                                                                          \
#field, text, offsetof(struct rsk_pma_device_view, field)                          \
	}

static const struct device_figure device_figures[] = {
	FIGURE(sessions, "sessions that use the device"),
	FIGURE(promised, "sessions that were promised and not begun"),
	FIGURE(sessions_max, "sessions that it may carry"),
	FIGURE(bps, "bits per second promised or in use"),
	FIGURE(bps_max, "bits per second of its port"),
	FIGURE(others_bps, "bits per second that others use"),
	FIGURE(memory_maps, "memory maps promised or in use"),
	FIGURE(memory_maps_max, "memory maps that it holds"),
};

static void devices(struct rsk_daemon *d, struct evbuffer *out)
{
	size_t n;
	struct rsk_pma_device_view *view = rsk_agent_devices(&d->agent, &n);

	for (size_t f = 0; f < sizeof(device_figures) / sizeof(device_figures[0]); f++) {
		const struct device_figure *figure = &device_figures[f];

		evbuffer_add_printf(out,
				    "# TYPE rsockd_device_%s gauge\n# HELP rsockd_device_%s %s\n",
				    figure->name, figure->name, figure->help);
		for (size_t i = 0; i < n; i++)
			evbuffer_add_printf(
				out, "rsockd_device_%s{device=\"%s\",node=\"%s\"} %" PRIu64 "\n",
				figure->name, view[i].name, view[i].node,
				*(const uint64_t *)(const void *)((const char *)&view[i] +
								  figure->offset));
	}
	evbuffer_add_printf(out, "# TYPE rsockd_device_up gauge\n"
				 "# HELP rsockd_device_up 1: takes new sessions\n");
	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(out, "rsockd_device_up{device=\"%s\",node=\"%s\"} %d\n",
				    view[i].name, view[i].node, view[i].state == RSK_PMA_UP);
	free(view);
}

void rsk_metrics_write(struct rsk_daemon *d, struct evbuffer *out)
{
	evbuffer_add_printf(out, "# TYPE rsockd_build info\n# HELP rsockd_build which one it is\n"
				 "rsockd_build_info{version=\"" RSOCK_VERSION "\"} 1\n");
#define PUT(name, text) counter(out, "pmsp_" #name, text, d->pmsp.count.name);
	RSK_PMSP_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) counter(out, "client_" #name, text, d->client.count.name);
	RSK_PM_CLIENT_COUNTERS(PUT)
#undef PUT
	gauge(out, "pmsp_open", "transactions and mappings that the PMSP holds", d->pmsp.table.n);
	gauge(out, "ports", "RDMA listen ports made for services", d->ports.n);
	gauge(out, "client_open", "questions that are not answered yet", d->client.open);
	evbuffer_add_printf(out, "# TYPE rsockd_policy_verdicts counter\n"
				 "# HELP rsockd_policy_verdicts decisions of the policy agent\n");
	for (int v = 0; v <= RSK_PMA_ELSEWHERE; v++)
		evbuffer_add_printf(out,
				    "rsockd_policy_verdicts_total{verdict=\"%s\"} %" PRIu64 "\n",
				    rsk_verdict_name((enum rsk_pma_verdict)v),
				    d->agent.count.verdicts[v]);
	counter(out, "policy_no_port", "mappings denied, since no listen port could be had",
		d->agent.count.no_port);
	counter(out, "redirected", "requests handed to another host", d->agent.count.redirected);
	counter(out, "redirects_dropped", "requests that had been handed on too often",
		d->agent.count.redirects_dropped);
	counter(out, "datagrams_received", "datagrams taken in", d->serve.count.received);
	counter(out, "datagrams_sent", "datagrams given to the kernel", d->serve.count.sent);
	counter(out, "datagrams_lost", "datagrams that the kernel did not take",
		d->serve.count.lost);
	counter(out, "reloads", "configurations read anew", d->reloads);
	counter(out, "reloads_failed", "configurations that could not be read", d->reloads_failed);
	devices(d, out);
	evbuffer_add_printf(out, "# EOF\n");
}
