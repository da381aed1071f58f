// SPDX-License-Identifier: BSD-2-Clause
/*
 * metrics.c - the daemon's figures as OpenMetrics text (openmetrics.io, version 1.0.0). api.c calls
 * it; see api.h.
 */
#include <event2/buffer.h>
#include <inttypes.h>
#include <stdlib.h>

#include "api.h"
#include "clock.h"
#include "events.h"
#include "guests.h"
#include "pma_show.h"
#include "policy_api.h"
#include "say.h"
#include "verdict.h"

static void counter(struct evbuffer *out, const char *name, const char *help, uint64_t value)
{
	evbuffer_add_printf(out,
			    "# TYPE rsockd_%s counter\n# HELP rsockd_%s %s\nrsockd_%s_total "
			    "%" PRIu64 "\n",
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
	FIGURE(rails, "additional rails of links that use the device"),
	FIGURE(rails_booked, "additional rails that links may use without asking"),
	FIGURE(promised, "sessions that are promised and not begun"),
	FIGURE(sessions_max, "maximum number of sessions"),
	FIGURE(bps, "bits per second promised or in use"),
	FIGURE(bps_max, "bits per second of its port"),
	FIGURE(carried_bps, "bits per second that it carries, measured"),
	FIGURE(others_bps, "bits per second that it carries beyond what is promised or in use"),
	FIGURE(memory_maps, "memory maps promised or in use"),
	FIGURE(memory_maps_max, "maximum number of memory maps"),
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
				 "# HELP rsockd_device_up 1: it accepts new sessions\n");
	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(out, "rsockd_device_up{device=\"%s\",node=\"%s\"} %d\n",
				    view[i].name, view[i].node, view[i].state == RSK_PMA_UP);
	evbuffer_add_printf(out, "# TYPE rsockd_device_soft gauge\n"
				 "# HELP rsockd_device_soft 1: it is a software device\n");
	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(out, "rsockd_device_soft{device=\"%s\",node=\"%s\"} %d\n",
				    view[i].name, view[i].node, view[i].soft);
	evbuffer_add_printf(out, "# TYPE rsockd_device_overloaded gauge\n"
				 "# HELP rsockd_device_overloaded 1: it is overloaded\n");
	for (size_t i = 0; i < n; i++)
		evbuffer_add_printf(out, "rsockd_device_overloaded{device=\"%s\",node=\"%s\"} %d\n",
				    view[i].name, view[i].node, view[i].overloaded);
	free(view);
}

static void streams(struct rsk_daemon *d, struct evbuffer *out)
{
	struct rsk_streams_figures f;

	rsk_streams_read_anew(&d->local.streams, rsk_clock_ns());
	rsk_streams_figures(&d->local.streams, &f);
	evbuffer_add_printf(out, "# TYPE rsockd_streams gauge\n"
				 "# HELP rsockd_streams open streams\n");
	for (int m = 0; m < RSK_STREAM_MODES; m++)
		for (unsigned int r = 0; r < RSK_REASON_COUNT; r++)
			if (f.open[m][r])
				evbuffer_add_printf(
					out,
					"rsockd_streams{mode=\"%s\",reason=\"%s\"} %" PRIu64 "\n",
					rsk_stream_mode_name((enum rsk_stream_mode)m),
					rsk_reason_token(r), f.open[m][r]);
#define PUT(name, text) counter(out, "streams_" #name, text, f.count.name);
	RSK_STREAMS_COUNTERS(PUT)
#undef PUT
	evbuffer_add_printf(out,
			    "# TYPE rsockd_streams_bytes counter\n"
			    "# HELP rsockd_streams_bytes bytes sent and received\n"
			    "rsockd_streams_bytes_total{path=\"ring\"} %" PRIu64 "\n"
			    "rsockd_streams_bytes_total{path=\"tcp\"} %" PRIu64 "\n",
			    f.count.ring_bytes, f.count.tcp_bytes);
#define PUT(code, name, text)                                                                      \
	counter(out, "registrations_" #name, text, f.count.registrations[RSK_STATS_REG_##code]);
	RSK_STATS_REGISTRATIONS(PUT)
#undef PUT
#define PUT(code, name, text)                                                                      \
	counter(out, "verbs_" #name, text, f.count.verbs[RSK_STATS_VERBS_##code]);
	RSK_STATS_VERBS(PUT)
#undef PUT
}

static void http(struct rsk_daemon *d, struct evbuffer *out)
{
	const struct rsk_guests_figures control = rsk_guests_figures(d->control_guests);
	const struct rsk_guests_figures metrics = rsk_guests_figures(d->metrics_guests);

	gauge(out, "http_connections", "connections to the two HTTP sockets",
	      control.n + metrics.n);
	counter(out, "http_refused", "connections refused: too many of a user, or of all",
		control.refused + metrics.refused);
	counter(out, "http_paused", "times that no connection was accepted for a while",
		control.paused + metrics.paused);
}

static void local(struct rsk_daemon *d, struct evbuffer *out)
{
	struct rsk_local *l = &d->local;

	rsk_rendezvous_table_expire(&l->rendezvous, rsk_clock_ns());
	gauge(out, "processes", "connected processes of this host", rsk_local_processes(l));
	gauge(out, "listeners", "listening sockets of these processes", l->listeners.n);
	gauge(out, "rails", "processes that accept rails", l->rails);
	gauge(out, "sessions", "sessions held for streams of processes", l->sessions.n);
	gauge(out, "sessions_promised", "of these, sessions that no stream uses yet",
	      l->sessions.n_promised);
	gauge(out, "pending_lookups",
	      "ends whose other end was not found, looked up in the last minute",
	      rsk_rendezvous_table_count(&l->rendezvous));
#define PUT(name, text) counter(out, "local_" #name, text, l->count.name);
	RSK_LOCAL_COUNTERS(PUT)
#undef PUT
	gauge(out, "port_tables", "port tables that are shared with processes", l->port_tables.n);
#define PUT(name, text) counter(out, "port_tables_" #name, text, l->port_tables.count.name);
	RSK_PORT_TABLES_COUNTERS(PUT)
#undef PUT
	http(d, out);
	counter(out, "log_left_out", "log lines that were left out", rsk_say_left_out());
	gauge(out, "statistics_segments",
	      "statistics segments of processes that are "
	      "read",
	      l->streams.n);
	counter(out, "statistics_refused", "statistics segments refused: too many, or not valid",
		l->streams.refused);
	counter(out, "statistics_put_off",
		"readings put off because the user had used up its "
		"share",
		l->streams.put_off);
	counter(out, "statistics_implausible",
		"streams whose statistics exceed what memory can "
		"carry",
		l->streams.implausible);
	streams(d, out);
}

static void services(struct rsk_daemon *d, struct evbuffer *out)
{
	static const char *const sides[] = { "cp", "ap" };
	uint64_t now = rsk_clock_ns();
	size_t n = rsk_pma_services(d->pma, now, NULL, 0);
	struct rsk_pma_service_view *view = calloc(n + 1, sizeof(*view));

	n = view ? rsk_pma_services(d->pma, now, view, n) : 0;
	evbuffer_add_printf(out, "# TYPE rsockd_service_decisions_per_second gauge\n"
				 "# HELP rsockd_service_decisions_per_second decaying average of "
				 "decisions\n");
	for (size_t i = 0; i < n; i++)
		for (int side = 0; side < 2; side++)
			evbuffer_add_printf(
				out,
				"rsockd_service_decisions_per_second{service=\"%s\",side=\"%s\"} "
				"%.3f\n",
				view[i].name, sides[side], view[i].decisions_per_s[side]);
	evbuffer_add_printf(out, "# TYPE rsockd_service_transactions_per_second gauge\n"
				 "# HELP rsockd_service_transactions_per_second decaying average "
				 "of what streams carry, by user\n");
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < 2 * view[i].n_users; k++)
			evbuffer_add_printf(out,
					    "rsockd_service_transactions_per_second{service=\"%s\","
					    "side=\"%s\",user=\"%u\"} %.3f\n",
					    view[i].name, sides[k % 2], view[i].of[k / 2].uid,
					    view[i].of[k / 2].transactions_per_s[k % 2]);
	evbuffer_add_printf(
		out, "# TYPE rsockd_service_stream_bytes gauge\n"
		     "# HELP rsockd_service_stream_bytes mean bytes of ended streams, by user\n");
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < view[i].n_users; k++)
			if (view[i].of[k].stream_bytes >= 0)
				evbuffer_add_printf(
					out,
					"rsockd_service_stream_bytes{service=\"%s\",user=\"%u\"} "
					"%.0f\n",
					view[i].name, view[i].of[k].uid,
					view[i].of[k].stream_bytes);
	free(view);
}

/* The limits of limits.def: amounts, limits, and how often each was reached. */
static void limits(struct rsk_daemon *d, struct evbuffer *out)
{
	const struct {
		const char *name;
		uint64_t held, of_user, of_all, met;
	} rows[] = {
#define RSK_LIMIT(name, what, user, all, then, test, held, of_user, of_all, met)                   \
	{ #name, held, of_user, of_all, met },
#include "limits.def"
#undef RSK_LIMIT
	};
	static const struct {
		const char *name, *type, *help;
		size_t offset;
	} figures[] = {
		{ "held", "gauge", "amount that is held now", offsetof(typeof(rows[0]), held) },
		{ "of_user", "gauge", "limit of one user", offsetof(typeof(rows[0]), of_user) },
		{ "of_all", "gauge", "limit of all users", offsetof(typeof(rows[0]), of_all) },
		{ "met", "counter",
		  "times that the limit was "
		  "reached",
		  offsetof(typeof(rows[0]), met) },
	};

	for (size_t f = 0; f < sizeof(figures) / sizeof(figures[0]); f++) {
		bool total = figures[f].offset == offsetof(typeof(rows[0]), met);

		evbuffer_add_printf(out, "# TYPE rsockd_limit_%s %s\n# HELP rsockd_limit_%s %s\n",
				    figures[f].name, figures[f].type, figures[f].name,
				    figures[f].help);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			const void *row = &rows[i], *figure = (const char *)row + figures[f].offset;

			evbuffer_add_printf(out, "rsockd_limit_%s%s{of=\"%s\"} %" PRIu64 "\n",
					    figures[f].name, total ? "_total" : "", rows[i].name,
					    *(const uint64_t *)figure);
		}
	}
}

void rsk_metrics_write(struct rsk_daemon *d, struct evbuffer *out)
{
	evbuffer_add_printf(out, "# TYPE rsockd_build info\n# HELP rsockd_build version of rsockd\n"
				 "rsockd_build_info{version=\"" RSOCK_VERSION "\"} 1\n");
#define PUT(name, text) counter(out, "pmsp_" #name, text, d->pmsp.count.name);
	RSK_PMSP_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) counter(out, "client_" #name, text, d->client.count.name);
	RSK_PM_CLIENT_COUNTERS(PUT)
#undef PUT
	gauge(out, "pmsp_open", "transactions and mappings that the PMSP holds", d->pmsp.table.n);
	gauge(out, "ports", "RDMA listen ports opened for services", d->ports.n);
	gauge(out, "client_open", "requests that are not answered yet", d->client.open);
	evbuffer_add_printf(out, "# TYPE rsockd_policy_verdicts counter\n"
				 "# HELP rsockd_policy_verdicts decisions of the policy agent\n");
	for (int v = 0; v <= RSK_PMA_REDIRECT; v++)
		evbuffer_add_printf(out,
				    "rsockd_policy_verdicts_total{verdict=\"%s\"} %" PRIu64 "\n",
				    rsk_verdict_name((enum rsk_pma_verdict)v),
				    d->agent.count.verdicts[v]);
	counter(out, "policy_no_port", "mappings denied because no listen port was available",
		d->agent.count.no_port);
	counter(out, "policy_waited", "requests that waited for the accepting end's process",
		d->agent.count.waited);
	counter(out, "policy_came",
		"of these, requests whose process appeared in "
		"time",
		d->agent.count.came);
	counter(out, "redirected",
		"requests redirected to another "
		"host",
		d->agent.count.redirected);
	counter(out, "redirects_dropped", "requests dropped because they were redirected too often",
		d->agent.count.redirects_dropped);
	counter(out, "datagrams_received", "datagrams received", d->serve.count.received);
	counter(out, "datagrams_sent", "datagrams sent", d->serve.count.sent);
	counter(out, "datagrams_lost", "datagrams that the kernel did not accept",
		d->serve.count.lost);
	counter(out, "reloads", "times that the configuration was read again", d->reloads);
	counter(out, "reloads_failed", "times that it could not be read", d->reloads_failed);
#define PUT(name, text) counter(out, "hotplug_" #name, text, d->plug.count.name);
	RSK_HOTPLUG_COUNTERS(PUT)
#undef PUT
#define PUT(name, text) counter(out, "routes_" #name, text, d->routes.count.name);
	RSK_ROUTE_SOCKET_COUNTERS(PUT)
#undef PUT
	rsk_events_write(d->pma, out);
	counter(out, "state_writes", "times that the state file was written", d->state.writes);
	counter(out, "state_failures", "times that it could not be written", d->state.failures);
	rsk_pma_show_metrics(d, out);
	rsk_policy_metrics(d, out);
	devices(d, out);
	local(d, out);
	services(d, out);
	limits(d, out);
	evbuffer_add_printf(out, "# EOF\n");
}
