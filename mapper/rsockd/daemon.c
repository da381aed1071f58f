// SPDX-License-Identifier: BSD-2-Clause
/* daemon.c - see daemon.h. */
#include "daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "api.h"
#include "notify.h"
#include "redirect.h"

#define FDS_ELSE 128 /* sockets of our own, and of those who talk to us */

/* ---- the machines and their time ---- */

static uint64_t random64(void *ctx)
{
	uint64_t v = 0;

	while (!v)
		if (getrandom(&v, sizeof(v), 0) != sizeof(v))
			v = 0;
	return v;
}

void rsk_daemon_arm(struct rsk_daemon *d)
{
	uint64_t next = rsk_pmsp_next(&d->pmsp), other = rsk_pm_client_next(&d->client);
	uint64_t now = rsk_udp_now_ns(), left;
	struct timeval tv;

	if (other < next)
		next = other;
	if (next == UINT64_MAX) {
		event_del(d->timer);
		return;
	}
	left = next > now ? (next - now) / 1000 + 1 : 0;
	tv.tv_sec = (time_t)(left / 1000000);
	tv.tv_usec = (suseconds_t)(left % 1000000);
	event_add(d->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_daemon *d = arg;
	uint64_t now = rsk_udp_now_ns();

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

/* After each batch: the machines may have set timers. */
static void on_batch(void *ctx)
{
	rsk_daemon_arm(ctx);
}

static void client_send(void *ctx, const struct rsk_pm_addr *to, const void *datagram, size_t bytes)
{
	struct rsk_daemon *d = ctx;

	rsk_udp_send(&d->ask, to, datagram, bytes);
}

static void client_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
			const struct rsk_pm_mapping *m)
{
	struct rsk_daemon_map *map = user;

	map->outcome = outcome;
	if (m)
		map->mapping = *m;
	map->done(map);
}

static const struct rsk_pm_client_ops client_ops = { .random = random64,
						     .send = client_send,
						     .done = client_done };

static void keep_name(char *to, size_t n, const char **name)
{
	snprintf(to, n, "%s", *name ? *name : "");
	*name = NULL;
}

int rsk_daemon_map_start(struct rsk_daemon_map *m)
{
	struct rsk_daemon *d = m->d;
	uint64_t now = rsk_udp_now_ns();
	bool asked_for;
	int rc;

	m->asked = (struct rsk_pm_addr){ .port = RSK_PM_UDP_PORT, .ipv = m->req.ipv };
	memcpy(m->asked.ip, m->req.ap_ip, 16);
	if (d->settings.central.port)
		m->asked = d->settings.central;
	m->outcome = RSK_PM_REFUSED;
	asked_for = rsk_agent_may_ask(&d->agent, &m->req, m->uid, now, &m->answer);
	keep_name(m->rule, sizeof(m->rule), &m->answer.rule);
	keep_name(m->device, sizeof(m->device), &m->answer.device);
	if (!asked_for) {
		m->done(m);
		return 0;
	}
	/* The link comes from the RNIC that was chosen: if that is not the companion's address, the PMReq says so. */
	if (memcmp(m->answer.ip, m->req.cp_ip, 16) != 0) {
		m->req.mapped = true;
		memcpy(m->req.mapped_cp_ip, m->answer.ip, 16);
	}
	rc = rsk_pm_client_ask(&d->client, &m->req, &m->asked, m, now, &m->mapping);
	if (rc < 0) {
		rsk_pma_release(d->pma, m->answer.reservation);
		return rc;
	}
	rsk_udp_flush(&d->ask);
	rsk_daemon_arm(d);
	if (rc != RSK_PM_PENDING) {
		m->outcome = (enum rsk_pm_outcome)rc;
		m->done(m);
	}
	return 0;
}

void rsk_daemon_map_cancel(struct rsk_daemon_map *m)
{
	rsk_pm_client_cancel(&m->d->client, m);
	if (m->answer.verdict == RSK_PMA_MAP)
		rsk_pma_release(m->d->pma, m->answer.reservation);
}

/* ---- signals, and the configuration ---- */

int rsk_daemon_reload(struct rsk_daemon *d, char *error, size_t n)
{
	struct rsk_conf *conf;
	int rc;

	if (!d->conf_path) {
		snprintf(error, n, "there is no configuration file: defaults are in force");
		return -ENOENT;
	}
	rsk_notify("RELOADING=1");
	rc = rsk_conf_load(d->conf_path, &conf, error, n);
	if (rc == 0) {
		conf->daemon.pmsp.seed = random64(NULL);
		rc = rsk_pma_reload(d->pma, conf);
		if (rc < 0) {
			rsk_conf_free(conf);
			snprintf(error, n, "%s: %s", d->conf_path, strerror(-rc));
		}
	}
	if (rc == 0) {
		/* It is the agent's now, and stays until the next one: the former one's lists are gone. */
		d->settings.central = conf->daemon.central;
		d->settings.redirects_from = conf->daemon.redirects_from;
		d->settings.n_redirects_from = conf->daemon.n_redirects_from;
		d->reloads++;
	} else {
		d->reloads_failed++;
	}
	rsk_notify("READY=1");
	return rc;
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
	struct rsk_daemon *d = arg;
	char error[512];

	if (number != SIGHUP) {
		event_base_loopexit(d->base, NULL);
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

/* Each made port is a descriptor. */
static size_t ports_most(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur <= FDS_ELSE)
		return 0;
	return limit.rlim_cur - FDS_ELSE;
}

static int open_machines(struct rsk_daemon *d)
{
	int rc;

	d->ports = (struct rsk_ports){ .first = d->settings.rdma_ports.first,
				       .last = d->settings.rdma_ports.last,
				       .max = ports_most() };
	d->agent = (struct rsk_agent){
		.pma = d->pma, .ports = &d->ports, .udp = &d->serve, .load = &d->load
	};
	rc = rsk_load_open(&d->load);
	if (rc == 0)
		rc = rsk_pmsp_init(&d->pmsp, &d->settings.pmsp, &rsk_agent_pmsp_ops, &d->agent);
	if (rc < 0)
		return rc;
	rsk_pm_client_init(&d->client, &d->settings.client, &client_ops, d);
	rc = rsk_udp_init(&d->serve, d->base, serve_prepare, serve_take, on_batch, d);
	return rc < 0 ? rc : rsk_udp_init(&d->ask, d->base, NULL, ask_take, on_batch, d);
}

static int fail(char *error, size_t n, int rc, const char *what, const char *which)
{
	snprintf(error, n, "%s%s: %s", what, which, strerror(-rc));
	return rc;
}

static int open_sockets(struct rsk_daemon *d, char *error, size_t n)
{
	const struct rsk_pm_addr any[] = { { .ipv = RSK_PM_IPV4 }, { .ipv = RSK_PM_IPV6 } };
	static const uint8_t no_ip[16];
	size_t asking = 0;
	int rc;

	for (size_t i = 0; i < d->settings.n_listen; i++) {
		rc = rsk_udp_open(&d->serve, &d->settings.listen[i]);
		/* A host without IPv6 is no reason to stay away: "all of its addresses" are none. */
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
	if (!d->settings.metrics.port)
		return 0;
	rc = rsk_api_open_metrics(d, &d->settings.metrics);
	return rc < 0 ? fail(error, n, rc, "the metrics' address", "") : 0;
}

int rsk_daemon_open(struct rsk_daemon *d, const char *conf_path, char *error, size_t n)
{
	struct rsk_conf *conf;
	int rc;

	*d = (struct rsk_daemon){ .conf_path = conf_path, .load.fd = -1 };
	d->started_ns = rsk_udp_now_ns();
	rc = conf_path ? rsk_conf_load(conf_path, &conf, error, n) : rsk_conf_default(&conf);
	if (rc < 0)
		return rc;
	conf->daemon.pmsp.seed = random64(NULL); /* of the ledger's tables, too */
	d->settings = conf->daemon;
	d->pma = rsk_pma_new(conf);
	if (!d->pma) {
		rsk_conf_free(conf);
		return fail(error, n, -ENOMEM, "the policy agent", "");
	}
	rc = open_loop(d);
	if (rc == 0)
		rc = open_machines(d);
	if (rc < 0)
		return fail(error, n, rc, "the event loop", "");
	return open_sockets(d, error, n);
}

int rsk_daemon_run(struct rsk_daemon *d)
{
	int rc;

	rsk_notify("READY=1");
	rc = event_base_dispatch(d->base);
	rsk_notify("STOPPING=1");
	return rc < 0 ? -EIO : 0;
}

void rsk_daemon_close(struct rsk_daemon *d)
{
	rsk_api_close(d);
	if (d->pmsp.ops)
		rsk_pmsp_fini(&d->pmsp);
	if (d->client.ops)
		rsk_pm_client_fini(&d->client);
	rsk_ports_fini(&d->ports);
	rsk_load_close(&d->load);
	rsk_udp_fini(&d->serve);
	rsk_udp_fini(&d->ask);
	for (size_t i = 0; i < sizeof(d->signals) / sizeof(d->signals[0]); i++)
		if (d->signals[i])
			event_free(d->signals[i]);
	if (d->timer)
		event_free(d->timer);
	if (d->base)
		event_base_free(d->base);
	if (d->pma)
		rsk_pma_free(d->pma);
	*d = (struct rsk_daemon){ .load.fd = -1 };
}
