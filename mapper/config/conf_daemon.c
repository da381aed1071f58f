// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_daemon.c - reads the sections about the daemon and its two state machines. Called by
 * conf_load.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rsock/local.h>

#include "conf_build.h"
#include "conf_value.h"

#define LISTEN_MOST 64

/* A setting of a state machine: where its text is, and where its value goes. */
struct row {
	const char *key;
	size_t from, to;
	enum rsk_conf_kind kind;
	uint64_t least, most;
};

static const struct row pmsp_rows[] = {
#define ROW(name, key, field, kind, least, most)                                                   \
	{ key,                                                                                     \
	  offsetof(struct rsk_raw_pmsp, name),                                                     \
	  offsetof(struct rsk_pmsp_config, field),                                                 \
	  RSK_CONF_##kind,                                                                         \
	  least,                                                                                   \
	  most },
	RSK_CONF_PMSP(ROW)
#undef ROW
};

static const struct row client_rows[] = {
#define ROW(name, key, field, kind, least, most)                                                   \
	{ key,                                                                                     \
	  offsetof(struct rsk_raw_client, name),                                                   \
	  offsetof(struct rsk_pm_client_config, field),                                            \
	  RSK_CONF_##kind,                                                                         \
	  least,                                                                                   \
	  most },
	RSK_CONF_CLIENT(ROW)
#undef ROW
};

static int take_rows(struct rsk_conf_build *b, const char *where, const struct row *rows, size_t n,
		     const void *from, void *to)
{
	for (size_t i = 0; i < n; i++) {
		const char *const *text =
			(const char *const *)(const void *)((const char *)from + rows[i].from);
		int rc = rsk_conf_take(b, where, rows[i].key, *text, rows[i].kind, rows[i].least,
				       rows[i].most, (char *)to + rows[i].to);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int rsk_conf_take_addr(struct rsk_conf_build *b, const char *where, const char *text,
		       struct rsk_pm_addr *out)
{
	if (text && rsk_conf_addr(text, out) < 0)
		return rsk_conf_wrong(b, where,
				      "\"%s\" is not IP:port (an IPv6 address in brackets)", text);
	return 0;
}

int rsk_conf_take_central(struct rsk_conf_build *b, const char *where, const char *text,
			  struct rsk_pm_addr *out, bool *by_role)
{
	*by_role = text && strcmp(text, "cluster") == 0;
	return *by_role ? 0 : rsk_conf_take_addr(b, where, text, out);
}

static int take_listen(struct rsk_conf_build *b)
{
	static char v4[] = "0.0.0.0:3935", v6[] = "[::]:3935";
	static char *normal[] = { v4, v6 };
	const struct rsk_raw_list *list = &b->raw->listen;
	const struct rsk_raw_list all = { normal, 2 };
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	if (!list->n)
		list = &all;
	if (list->n > LISTEN_MOST)
		return rsk_conf_wrong(b, "listen", "more than %d addresses", LISTEN_MOST);
	d->listen = rsk_conf_alloc(b->c, list->n, sizeof(*d->listen));
	if (!d->listen)
		return -ENOMEM;
	for (; d->n_listen < list->n; d->n_listen++) {
		rc = rsk_conf_take_addr(b, "listen", list->v[d->n_listen], &d->listen[d->n_listen]);
		if (rc < 0)
			return rc;
		for (size_t i = 0; i < d->n_listen; i++)
			if (rsk_pm_addr_equal(&d->listen[i], &d->listen[d->n_listen]))
				return rsk_conf_wrong(b, "listen", "\"%s\" is there twice",
						      list->v[d->n_listen]);
	}
	return 0;
}

static int take_path(struct rsk_conf_build *b, const char *where, const char *text,
		     const char **out)
{
	if (text && *text != '/')
		return rsk_conf_wrong(b, where, "\"%s\" is not an absolute path", text);
	/* sun_path has 108 bytes, and the temporary name of a new socket is longer */
	if (text && strlen(text) > 100)
		return rsk_conf_wrong(b, where, "longer than 100 bytes");
	if (text)
		*out = rsk_conf_dup(b->c, text);
	return *out ? 0 : -ENOMEM;
}

static int take_ask_first(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	d->ask_first_ns = 100000000;
	if (raw->ask_first.n > RSK_LOCAL_FIRST_CONTACT_MOST)
		return rsk_conf_wrong(b, "ask-first", "more than %u prefixes",
				      RSK_LOCAL_FIRST_CONTACT_MOST);
	rc = rsk_conf_take_prefixes(b, "(top)", "ask-first", &raw->ask_first, &d->ask_first,
				    &d->n_ask_first);
	return rc < 0 ? rc :
			rsk_conf_take(b, "(top)", "ask-first-time", raw->ask_first_time,
				      RSK_CONF_TIME, 1000000, 10000000000, &d->ask_first_ns);
}

#define CONTROL_PATH "/run/rsockd/control.sock"

/* The default: where the library looks, or beside a control socket at another place. */
static int default_local(struct rsk_conf_build *b)
{
	struct rsk_conf_daemon *d = &b->c->daemon;
	const char *end = strrchr(d->control, '/');
	char path[128];

	if (strcmp(d->control, CONTROL_PATH) == 0) {
		d->local = RSK_LOCAL_PATH;
		return 0;
	}

	snprintf(path, sizeof(path), "%.*s/local.sock", (int)(end - d->control), d->control);
	d->local = rsk_conf_dup(b->c, path);
	return d->local ? 0 : -ENOMEM;
}

static int check_machines(struct rsk_conf_build *b)
{
	const struct rsk_conf_daemon *d = &b->c->daemon;

	if (d->client.cache.rto_least_ns > d->client.cache.rto_most_ns ||
	    d->client.cache.rto_first_ns > d->client.cache.rto_most_ns)
		return rsk_conf_wrong(b, "client", "rto-most: less than rto-least or rto-first");
	if (d->central_by_role && !b->raw->cluster)
		return rsk_conf_wrong(b, "client", "central: cluster: there is no cluster");
	if (d->pmsp.resend_ns > d->pmsp.accept_ns)
		return rsk_conf_wrong(b, "pmsp", "resend-time: longer than accept-time");
	return 0;
}

static int take_texts(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	d->control = CONTROL_PATH;
	d->state = "/var/lib/rsockd";
	d->state_is_wanted = raw->state != NULL;
	d->node = "local";
	if (raw->user && *raw->user)
		d->user = rsk_conf_dup(b->c, raw->user);
	if (raw->node)
		d->node = rsk_conf_dup(b->c, raw->node);
	if ((raw->user && *raw->user && !d->user) || !d->node)
		return -ENOMEM;
	if (!*d->node)
		return rsk_conf_wrong(b, "node", "empty");
	if (raw->user && !*raw->user)
		return rsk_conf_wrong(b, "user", "empty");
	rc = take_path(b, "control", raw->control, &d->control);
	if (rc == 0)
		rc = raw->local ? take_path(b, "local", raw->local, &d->local) : default_local(b);
	return rc < 0 ? rc : take_path(b, "state", raw->state, &d->state);
}

static int take_level(struct rsk_conf_build *b, const char *key, const char *text, double *out)
{
	if (text && (rsk_conf_part(text, out) < 0 || *out <= 0))
		return rsk_conf_wrong(b, "overload",
				      "%s: \"%s\" is not a part above 0, such as 0.9 or 90%%", key,
				      text);
	return 0;
}

static int take_overload(struct rsk_conf_build *b)
{
	const struct rsk_raw_overload *raw = b->raw->overload;
	struct rsk_conf_overload *o = &b->c->overload;
	int rc;

	if (!raw)
		return 0;
	rc = take_level(b, "load", raw->load, &o->load);
	if (rc == 0)
		rc = take_level(b, "device-load", raw->device_load, &o->device_load);
	if (rc == 0)
		rc = rsk_conf_take(b, "overload", "refuse-below-priority", raw->refuse_below,
				   RSK_CONF_U8, 1, RSK_CONF_PRIORITY_MOST, &o->refuse_below);
	if (rc == 0)
		rc = rsk_conf_take(b, "overload", "rate", raw->rate, RSK_CONF_RATE, 1,
				   RSK_CONF_RATE_MOST, &o->rate_bps);
	return rc;
}

static int take_rails(struct rsk_conf_build *b)
{
	const struct rsk_raw_rails *raw = b->raw->rails;
	struct rsk_conf_rails *r = &b->c->rails;
	int rc;

	r->per_user = 1024;
	if (!raw)
		return 0;
	rc = rsk_conf_take(b, "rails", "bandwidth", raw->bandwidth, RSK_CONF_RATE, 0,
			   RSK_CONF_RATE_MOST, &r->bps);
	if (rc == 0)
		rc = rsk_conf_take(b, "rails", "memory-maps", raw->memory_maps, RSK_CONF_U32, 0,
				   1u << 16, &r->memory_maps);
	return rc < 0 ? rc :
			rsk_conf_take(b, "rails", "per-user", raw->per_user, RSK_CONF_U32, 0,
				      1u << 16, &r->per_user);
}

int rsk_conf_build_daemon(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	d->pmsp = (struct rsk_pmsp_config)RSK_PMSP_DEFAULT;
	d->client = (struct rsk_pm_client_config)RSK_PM_CLIENT_DEFAULT;
	d->watch_devices = raw->watch_devices ? raw->watch_devices - 1 : RSK_CONF_WATCH_YES;
	b->c->use_soft = raw->use_soft;
	d->between_namespaces = raw->between_namespaces != RSK_RAW_NO;
	d->discover = raw->discover != RSK_RAW_NO && !raw->n_rnics;
	/* The dynamic ports of RFC 6335. */
	d->rdma_ports = (struct rsk_conf_range){ 49152, 65535 };
	rc = take_texts(b);
	if (rc == 0)
		rc = take_listen(b);
	if (rc == 0)
		rc = rsk_conf_take_vouch(b);
	if (rc == 0)
		rc = take_ask_first(b);
	if (rc == 0)
		rc = rsk_conf_take_prefixes(b, "(top)", "redirects-from", &raw->redirects_from,
					    &d->redirects_from, &d->n_redirects_from);
	if (rc == 0)
		rc = rsk_conf_take_addr(b, "metrics", raw->metrics, &d->metrics);
	if (rc == 0 && raw->rdma_ports && rsk_conf_range(raw->rdma_ports, &d->rdma_ports) < 0)
		rc = rsk_conf_wrong(b, "rdma-ports", "\"%s\" is not a range of ports",
				    raw->rdma_ports);
	if (rc == 0 && raw->pmsp)
		rc = take_rows(b, "pmsp", pmsp_rows, sizeof(pmsp_rows) / sizeof(pmsp_rows[0]),
			       raw->pmsp, &d->pmsp);
	if (rc == 0 && raw->client)
		rc = rsk_conf_take_central(b, "client.central", raw->client->central, &d->central,
					   &d->central_by_role);
	if (rc == 0 && raw->client)
		rc = take_rows(b, "client", client_rows,
			       sizeof(client_rows) / sizeof(client_rows[0]), raw->client,
			       &d->client);
	if (rc == 0)
		rc = rsk_conf_take_limits(b, "(top)", raw->limits, &b->c->limits);
	if (rc == 0)
		rc = take_overload(b);
	if (rc == 0)
		rc = take_rails(b);
	return rc < 0 ? rc : check_machines(b);
}
