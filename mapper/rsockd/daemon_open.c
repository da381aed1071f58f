// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon_open.c - see daemon.h: start and end, and the callbacks of the sockets, of signals, and of
 * the kernel's notifications. daemon_cluster.c has what a cluster adds to that.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "api.h"
#include "clock.h"
#include "daemon.h"
#include "events.h"
#include "guests.h"
#include "notify.h"
#include "random.h"
#include "redirect.h"
#include "say.h"

/* Descriptors of the daemon's own, and of connections to the two HTTP sockets. */
#define FDS_ELSE (192 + 2 * (RSK_GUESTS_MOST + RSK_GUESTS_AT_ONCE))

/* ---- the state machines, called by the event loop ---- */

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_daemon *d = arg;
	uint64_t now = rsk_clock_ns();

	rsk_pmsp_tick(&d->pmsp, now);
	rsk_pm_client_tick(&d->client, now);
	rsk_udp_flush(&d->serve);
	rsk_udp_flush(&d->ask);
	rsk_daemon_arm(d);
}

static void serve_take(void *ctx, const struct rsk_pm_addr *from, const void *datagram,
		       size_t bytes, uint64_t now_ns)
{
	struct rsk_daemon *d = ctx;
	struct rsk_pm_addr asker;

	d->agent.hops = 0;
	if (rsk_redirect_allowed(&d->settings, from) &&
	    rsk_redirect_unwrap(datagram, bytes, &asker, &d->agent.hops)) {
		rsk_pmsp_receive(&d->pmsp, &asker,
				 (const uint8_t *)datagram + RSK_REDIRECT_HEAD_BYTES,
				 bytes - RSK_REDIRECT_HEAD_BYTES, now_ns);
		return;
	}
	rsk_pmsp_receive(&d->pmsp, from, datagram, bytes, now_ns);
}

static void serve_prepare(void *ctx, const struct rsk_pmsp_coming *coming, size_t n)
{
	const struct rsk_daemon *d = ctx;

	rsk_pmsp_prepare(&d->pmsp, coming, n);
}

static void ask_take(void *ctx, const struct rsk_pm_addr *from, const void *datagram, size_t bytes,
		     uint64_t now_ns)
{
	struct rsk_daemon *d = ctx;

	rsk_pm_client_receive(&d->client, from, datagram, bytes, now_ns);
}

/* After each batch, since the state machines may have set timers. */
static void on_batch(void *ctx)
{
	rsk_daemon_arm(ctx);
}

static uint64_t random64(void *ctx)
{
	return rsk_random_u64();
}

static void client_send(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct rsk_daemon *d = ctx;

	rsk_udp_send(&d->ask, to, datagram, bytes);
}

/*
 * F1 was asked about our own side. What the agent of this host knows of the RDMA address may have
 * changed since the PMSP gave it.
 */
static bool client_holds(void *ctx, const struct rsk_pm_msg *req, const struct rsk_pm_mapping *m)
{
	const struct rsk_daemon *d = ctx;

	return rsk_pma_holds(d->pma, req->ipv, req->ap_ip, m->rdma.ip);
}

static const struct rsk_pm_client_ops client_ops = { .random = random64,
						     .send = client_send,
						     .done = rsk_map_done,
						     .holds = client_holds };

/* ---- hot-plug and signals ---- */

/* Links or addresses of this host have changed. */
static void on_hotplug(void *ctx)
{
	struct rsk_daemon *d = ctx;

	if (rsk_devices_check(&d->devices))
		rsk_daemon_rediscover(d);
	rsk_daemon_devices(d);
}

/* RDMA devices were read again; @found: the RNICs differ. */
static void on_devices(void *ctx, bool found)
{
	struct rsk_daemon *d = ctx;

	if (found)
		rsk_daemon_rediscover(d);
	rsk_daemon_devices(d);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct rsk_daemon *d = arg;
	char error[512];

	if (number != SIGHUP) {
		rsk_daemon_leave(d);
		return;
	}
	if (rsk_daemon_reload(d, error, sizeof(error)) < 0)
		fprintf(stderr, "rsockd: the configuration stays as it is: %s\n", error);
}

/* ---- start and end ---- */

static int open_loop(struct rsk_daemon *d)
{
	static const int numbers[] = { SIGHUP, SIGINT, SIGTERM };

	d->base = event_base_new();
	d->timer = d->base ? evtimer_new(d->base, on_timer, d) : NULL;
	if (!d->timer)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		d->signals[i] = evsignal_new(d->base, numbers[i], on_signal, d);
		if (!d->signals[i] || event_add(d->signals[i], NULL) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Descriptors for the ports that are made, and for the processes: half each, after what the rest of
 * the daemon and the nodes that report to our policy agent need.
 */
static size_t fds_half(const struct rsk_conf_pma *pma)
{
	struct rlimit limit;
	size_t left, nodes = pma->n_listen ? pma->central_agent.max_nodes : 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= FDS_ELSE)
		return 0;
	left = limit.rlim_cur - FDS_ELSE;
	return (left - (nodes < left / 2 ? nodes : left / 2)) / 2;
}

static int open_machines(struct rsk_daemon *d)
{
	int rc;

	d->ports = (struct rsk_ports){ .first = d->settings.rdma_ports.first,
				       .last = d->settings.rdma_ports.last,
				       .max = fds_half(&d->settings.pma) };
	d->agent = (struct rsk_agent){ .pma = d->pma,
				       .ports = &d->ports,
				       .udp = &d->serve,
				       .load = &d->load,
				       .hosts = &d->client.cache,
				       .local_ops = &rsk_local_agent_ops,
				       .local = &d->local,
				       .pmsp = &d->pmsp,
				       .after = on_batch,
				       .ctx = d };
	rsk_agent_ask_init(&d->agent.ask, d->pma,
			   rsk_conf_pma_asks(&d->settings.pma) ? &d->link : NULL);
	rc = rsk_load_open(&d->load);
	if (rc == 0)
		rc = rsk_traffic_open(&d->traffic, d->base, d->pma, &d->devices);
	if (rc == 0)
		rc = rsk_pmsp_init(&d->pmsp, &d->settings.pmsp, &rsk_agent_pmsp_ops, &d->agent);
	if (rc < 0)
		return rc;
	rsk_pm_client_init(&d->client, &d->settings.client, &client_ops, d);
	d->maps = (struct rsk_map_client){ .agent = &d->agent,
					   .client = &d->client,
					   .udp = &d->ask,
					   .settings = &d->settings,
					   .central = rsk_daemon_central_pmsp,
					   .ctx = d };
	rc = rsk_udp_init(&d->serve, d->base, serve_prepare, serve_take, on_batch, d);
	return rc < 0 ? rc : rsk_udp_init(&d->ask, d->base, NULL, ask_take, on_batch, d);
}

static int fail(char *error, size_t n, int rc, const char *what, const char *which)
{
	snprintf(error, n, "%s%s: %s", what, which, strerror(-rc));
	return rc;
}

static int open_pma(struct rsk_daemon *d, char *error, size_t n)
{
	struct rsk_conf_pma *pma = &d->settings.pma;
	int rc = 0;

	if (pma->tls.ca && (pma->n_listen || rsk_conf_pma_asks(pma))) {
		char why[512];

		d->tls = rsk_tls_new(&pma->tls, why, sizeof(why));
		if (!d->tls) {
			snprintf(error, n, "pma.tls: %s", why);
			return -EINVAL;
		}
	}
	if (pma->n_listen)
		rc = rsk_pma_serve_open(&d->serve_pma, d->base, d->pma, pma, d->tls, on_batch, d);
	if (rc < 0)
		return fail(error, n, rc, "pma.listen", "");
	if (pma->n_listen && d->settings.cluster.n_endpoints)
		d->serve_pma.role = rsk_daemon_agent_role;
	pma->ask.boot = rsk_random_u64();
	if (rsk_conf_pma_asks(pma))
		rc = rsk_pma_link_open(&d->link, d->base, d->pma, &d->load, pma, d->tls,
				       d->settings.node);
	return rc < 0 ? fail(error, n, rc, "pma.central", "") : 0;
}

static int open_sockets(struct rsk_daemon *d, char *error, size_t n)
{
	const struct rsk_pm_addr any[] = { { .ipv = RSK_PM_IPV4 }, { .ipv = RSK_PM_IPV6 } };
	static const uint8_t no_ip[16];
	size_t asking = 0;
	int rc;

	for (size_t i = 0; i < d->settings.n_listen; i++) {
		rc = rsk_udp_open(&d->serve, &d->settings.listen[i]);
		/* On a host without IPv6, "all of its addresses" are none; this is not an error. */
		if (rc == -EAFNOSUPPORT && !memcmp(d->settings.listen[i].ip, no_ip, 16))
			continue;
		if (rc < 0)
			return fail(error, n, rc, "cannot listen for the port mapper's datagrams",
				    "");
	}
	for (size_t i = 0; i < 2; i++)
		asking += rsk_udp_open(&d->ask, &any[i]) == 0;
	if (!asking)
		return fail(error, n, -EAFNOSUPPORT, "no socket to ask from", "");
	rc = rsk_api_open_control(d, d->settings.control);
	if (rc < 0)
		return fail(error, n, rc, "the control socket ", d->settings.control);
	rc = rsk_local_open(&d->local, d->base, &d->maps, d->settings.local,
			    fds_half(&d->settings.pma));
	if (rc < 0)
		return fail(error, n, rc, "the processes' socket ", d->settings.local);
	if (d->settings.metrics.port) {
		rc = rsk_api_open_metrics(d, &d->settings.metrics);
		if (rc < 0)
			return fail(error, n, rc, "the metrics' address", "");
	}
	return open_pma(d, error, n);
}

/* A missing directory is reported only if the configuration names it, or there is a cluster. */
static int open_state(struct rsk_daemon *d)
{
	char note[512] = "";
	int rc = rsk_disk_open(&d->disk, d->base, d->settings.state);

	if (rc == 0)
		rc = rsk_state_open(&d->state, d->base, &d->disk, &d->client.cache, d->pma, note,
				    sizeof(note));
	if (rc < 0)
		return rc;

	if (*note && (d->state.why_not != ENOENT || d->settings.state_is_wanted ||
		      d->settings.cluster.n_endpoints))
		fprintf(stderr, "rsockd: %s\n", note);
	return rc;
}

static int load_conf(struct rsk_daemon *d, struct rsk_conf **out, char *error, size_t n)
{
	char why[512];
	int rc;

	if (!d->conf_path)
		return rsk_conf_default(out);
	rc = rsk_conf_read(d->conf_path, &d->conf_text, &d->conf_bytes, error, n);
	if (rc < 0)
		return rc;
	rc = rsk_conf_parse_with(d->conf_text, d->conf_bytes, d->devices.found, out, why,
				 sizeof(why));
	if (rc < 0)
		snprintf(error, n, "%s: %s", d->conf_path, why);
	return rc;
}

/* The devices have to be known before the configuration is read. */
static int open_devices(struct rsk_daemon *d, int *watched)
{
	int rc;

	*watched = rsk_hotplug_open(&d->plug, d->base, on_hotplug, d);
	rsk_route_socket_open(&d->routes, &d->plug.links);
	rc = rsk_devices_open(&d->devices, d->base, &d->plug.links, on_devices, d);
	if (rc < 0 && rc != -ENOMEM)
		fprintf(stderr, "rsockd: the kernel's word of RDMA devices is not heard: %s\n",
			strerror(-rc));
	return rc == -ENOMEM ? rc : 0;
}

int rsk_daemon_open(struct rsk_daemon *d, const char *conf_path, char *error, size_t n)
{
	struct rsk_conf *conf;
	int rc, watched = 0;

	*d = (struct rsk_daemon){ .conf_path = conf_path, .load.fd = -1, .disk.dir = -1 };
	d->started_ns = rsk_clock_ns();
	rsk_say_open();
	rc = open_loop(d);
	if (rc == 0)
		rc = open_devices(d, &watched);
	if (rc < 0)
		return fail(error, n, rc, "the event loop", "");
	rc = load_conf(d, &conf, error, n);
	if (rc < 0)
		return rc;
	conf->daemon.pmsp.seed = rsk_random_u64(); /* it seeds the ledger's tables, too */
	d->settings = conf->daemon;
	d->pma = rsk_pma_new(conf);
	if (!d->pma) {
		rsk_conf_free(conf);
		return fail(error, n, -ENOMEM, "the policy agent", "");
	}
	rc = open_machines(d);
	if (rc < 0)
		return fail(error, n, rc, "the event loop", "");
	if (watched < 0 && d->settings.watch_devices)
		fprintf(stderr, "rsockd: devices are not watched: %s\n", strerror(-watched));
	rc = open_state(d);
	if (rc < 0)
		return fail(error, n, rc, "the state directory", "");
	rsk_events_open(d->pma);
	rsk_daemon_devices(d);
	rc = open_sockets(d, error, n);
	return rc < 0 ? rc : rsk_daemon_open_cluster(d, error, n);
}

int rsk_daemon_run(struct rsk_daemon *d)
{
	int rc;

	if (d->cluster)
		rsk_document_start(&d->cluster->document);
	rsk_notify("READY=1");
	rc = event_base_dispatch(d->base);
	rsk_notify("STOPPING=1");
	return rc < 0 ? -EIO : 0;
}

void rsk_daemon_close(struct rsk_daemon *d)
{
	rsk_api_close(d);
	rsk_disk_stop(&d->disk);
	d->agent.ask.quota_ops = NULL;
	rsk_quotas_close(d->quotas);
	rsk_cluster_close(d->cluster);
	d->cluster = NULL;
	rsk_agent_fini(&d->agent);
	rsk_pma_link_close(&d->link);
	rsk_pma_serve_close(&d->serve_pma);
	rsk_tls_free(d->tls);
	d->tls = NULL;
	rsk_state_close(&d->state);
	rsk_local_close(&d->local);
	if (d->pmsp.ops)
		rsk_pmsp_fini(&d->pmsp);
	if (d->client.ops)
		rsk_pm_client_fini(&d->client);
	rsk_ports_fini(&d->ports);
	rsk_load_close(&d->load);
	rsk_traffic_close(&d->traffic);
	rsk_devices_close(&d->devices);
	rsk_route_socket_close(&d->routes);
	rsk_hotplug_close(&d->plug);
	rsk_udp_fini(&d->serve);
	rsk_udp_fini(&d->ask);
	for (size_t i = 0; i < sizeof(d->signals) / sizeof(d->signals[0]); i++)
		if (d->signals[i])
			event_free(d->signals[i]);
	if (d->timer)
		event_free(d->timer);
	rsk_disk_close(&d->disk);
	if (d->base)
		event_base_free(d->base);
	if (d->pma)
		rsk_pma_free(d->pma);
	free(d->conf_text);
	free(d->document_text);
	*d = (struct rsk_daemon){ .load.fd = -1, .disk.dir = -1 };
}
