// SPDX-License-Identifier: BSD-2-Clause
/*
 * daemon.c - see daemon.h: the timer, the list of devices, and the configuration. daemon_open.c has
 * start and end.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "notify.h"
#include "random.h"

void rsk_daemon_arm(struct rsk_daemon *d)
{
	uint64_t next = rsk_pmsp_next(&d->pmsp), other = rsk_pm_client_next(&d->client);
	uint64_t now = rsk_clock_ns(), left;
	struct timeval tv;

	rsk_state_check(&d->state);
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

static enum rsk_pma_absence absence(void *daemon, const struct rsk_pm_addr *ip)
{
	struct rsk_daemon *d = daemon;

	if (!rsk_hotplug_carries(&d->plug, ip))
		return RSK_PMA_NO_LINK;
	return rsk_devices_lack(&d->devices, ip, d->settings.watch_devices == RSK_CONF_WATCH_RDMA) ?
		       RSK_PMA_NO_RDMA :
		       RSK_PMA_THERE;
}

void rsk_daemon_devices(struct rsk_daemon *d)
{
	rsk_pma_hotplug(d->pma, d->settings.watch_devices ? absence : NULL, d);
	rsk_pma_soft(d->pma, rsk_devices_soft, &d->devices);
	rsk_pma_attach(d->pma, rsk_devices_bus, &d->devices);
	rsk_pma_routes(d->pma, rsk_route_socket_leads, &d->routes);
	rsk_traffic_check(&d->traffic);
	if (d->local.agent)
		rsk_port_tables_check(&d->local.port_tables);
	if (d->cluster)
		rsk_member_changed(&d->cluster->member);
}

/* Of this host, and of the cluster: none where @document is NULL. Borrowed. */
struct texts {
	const char *own, *document;
	size_t own_bytes, document_bytes;
};

/* On failure @error says whether it is the document with which the host's own text is not valid. */
static int parse(struct rsk_daemon *d, const struct texts *t, struct rsk_conf **out, char *error,
		 size_t n)
{
	int rc = rsk_conf_parse_shared(t->own, t->own_bytes, t->document, t->document_bytes,
				       d->devices.found, out, error, n);
	char why[512];

	if (rc == -EINVAL && t->document &&
	    rsk_conf_parse_with(t->own, t->own_bytes, d->devices.found, out, why, sizeof(why)) ==
		    0) {
		rsk_conf_free(*out);
		snprintf(why, sizeof(why), "%s", error);
		snprintf(error, n, "cluster's document: %s", why);
	}
	return rc;
}

/*
 * Parses the texts, with the devices that are found now, and makes them the configuration in force.
 * The policy agent owns it then.
 */
static int take_conf(struct rsk_daemon *d, const struct texts *t, char *error, size_t n)
{
	struct rsk_conf *conf;
	int rc = parse(d, t, &conf, error, n);

	if (rc < 0)
		return rc;
	conf->daemon.pmsp.seed = rsk_random_u64();
	rc = rsk_pma_reload(d->pma, conf);
	if (rc < 0) {
		rsk_conf_free(conf);
		snprintf(error, n, "%s", strerror(-rc));
		return rc;
	}
	/* These pointers are valid until the next reload, which frees the former lists. */
	d->settings.central = conf->daemon.central;
	d->settings.central_by_role = conf->daemon.central_by_role;
	d->settings.redirects_from = conf->daemon.redirects_from;
	d->settings.n_redirects_from = conf->daemon.n_redirects_from;
	d->settings.pma.allow = conf->daemon.pma.allow;
	d->link.mode = conf->daemon.pma.mode;
	d->link.local_if_silent = conf->daemon.pma.local_if_silent;
	rsk_pma_serve_reloaded(&d->serve_pma, &conf->daemon.pma);
	rsk_state_reloaded(&d->state);
	d->settings.vouch = conf->daemon.vouch;
	d->settings.n_vouch = conf->daemon.n_vouch;
	d->settings.ask_first = conf->daemon.ask_first;
	d->settings.n_ask_first = conf->daemon.n_ask_first;
	d->settings.ask_first_ns = conf->daemon.ask_first_ns;
	d->settings.watch_devices = conf->daemon.watch_devices;
	d->settings.discover = conf->daemon.discover;
	d->settings.between_namespaces = conf->daemon.between_namespaces;
	return 0;
}

void rsk_daemon_rediscover(struct rsk_daemon *d)
{
	const struct texts t = { d->conf_text, d->document_text, d->conf_bytes, d->document_bytes };
	char error[512];

	if (!d->settings.discover || !d->conf_text)
		return;
	if (take_conf(d, &t, error, sizeof(error)) < 0)
		fprintf(stderr, "rsockd: devices that were found are not taken: %s\n", error);
	else if (d->cluster)
		rsk_document_retry(&d->cluster->document);
}

int rsk_daemon_document(void *ctx, const char *text, size_t bytes, bool apply, char *error,
			size_t n)
{
	struct rsk_daemon *d = ctx;
	const struct texts t = { d->conf_text, text, d->conf_bytes, bytes };
	struct rsk_conf *conf;
	char *copy;
	int rc;

	if (!apply) {
		rc = parse(d, &t, &conf, error, n);
		if (rc == 0)
			rsk_conf_free(conf);
		return rc;
	}
	copy = text ? malloc(bytes + 1) : NULL;
	if (text && !copy) {
		snprintf(error, n, "no memory");
		return -ENOMEM;
	}
	rc = take_conf(d, &t, error, n);
	if (rc < 0) {
		free(copy);
		return rc;
	}
	if (copy)
		memcpy(copy, text, bytes);
	free(d->document_text);
	d->document_text = copy;
	d->document_bytes = bytes;
	rsk_daemon_devices(d);
	rsk_daemon_arm(d);
	return 0;
}

/* A document may expire, and this host's own configuration has to be valid then. */
static int check_own(const struct rsk_daemon *d, const char *text, size_t len, char *error,
		     size_t n)
{
	struct rsk_conf *conf;
	int rc = rsk_conf_parse_with(text, len, d->devices.found, &conf, error, n);

	if (rc == 0)
		rsk_conf_free(conf);
	return rc;
}

int rsk_daemon_reload(struct rsk_daemon *d, char *error, size_t n)
{
	char *text, why[512];
	size_t len;
	int rc;

	if (!d->conf_path) {
		snprintf(error, n, "there is no configuration file: defaults are in force");
		return -ENOENT;
	}
	rsk_notify("RELOADING=1");
	tzset(); /* the time zone may have changed; rules may depend on local time */
	rsk_devices_check(&d->devices);
	rc = rsk_conf_read(d->conf_path, &text, &len, error, n);
	if (rc == 0) {
		const struct texts t = { text, d->document_text, len, d->document_bytes };

		rc = d->document_text ? check_own(d, text, len, why, sizeof(why)) : 0;
		if (rc == 0)
			rc = take_conf(d, &t, why, sizeof(why));
		if (rc < 0) {
			snprintf(error, n, "%s: %s", d->conf_path, why);
			free(text);
		}
	}
	if (rc == 0) {
		free(d->conf_text);
		d->conf_text = text;
		d->conf_bytes = len;
		if (rsk_local_reloaded(&d->local) < 0)
			fprintf(stderr, "rsockd: ask-first: processes have the former list\n");
		rsk_daemon_devices(d);
		d->reloads++;
		if (d->cluster)
			rsk_document_retry(&d->cluster->document);
	} else {
		d->reloads_failed++;
	}
	rsk_notify("READY=1");
	return rc;
}
