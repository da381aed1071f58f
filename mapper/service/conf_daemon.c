// SPDX-License-Identifier: BSD-2-Clause
/* conf_daemon.c - the sections about the daemon itself and its two machines. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf_build.h"
#include "conf_value.h"

#define LISTEN_MOST 64

/* A setting of a machine: where its text is, where it goes. */
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

static int take_addr(struct rsk_conf_build *b, const char *where, const char *text,
		     struct rsk_pm_addr *out)
{
	if (text && rsk_conf_addr(text, out) < 0)
		return rsk_conf_wrong(b, where,
				      "\"%s\" is not IP:port (an IPv6 address in brackets)", text);
	return 0;
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
		rc = take_addr(b, "listen", list->v[d->n_listen], &d->listen[d->n_listen]);
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
	if (text &&
	    strlen(text) > 100) /* sun_path has 108 bytes, and a name of a new one is longer */
		return rsk_conf_wrong(b, where, "longer than 100 bytes");
	if (text)
		*out = rsk_conf_dup(b->c, text);
	return *out ? 0 : -ENOMEM;
}

static int check_machines(struct rsk_conf_build *b)
{
	const struct rsk_conf_daemon *d = &b->c->daemon;

	if (d->client.cache.rto_least_ns > d->client.cache.rto_most_ns ||
	    d->client.cache.rto_first_ns > d->client.cache.rto_most_ns)
		return rsk_conf_wrong(b, "client", "rto-most: less than rto-least or rto-first");
	if (d->pmsp.resend_ns > d->pmsp.accept_ns)
		return rsk_conf_wrong(b, "pmsp", "resend-time: longer than accept-time");
	return 0;
}

static int take_texts(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	d->control = "/run/rsockd/control.sock";
	d->state = "/var/lib/rsockd";
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
	return rc < 0 ? rc : take_path(b, "state", raw->state, &d->state);
}

int rsk_conf_build_daemon(struct rsk_conf_build *b)
{
	const struct rsk_raw_conf *raw = b->raw;
	struct rsk_conf_daemon *d = &b->c->daemon;
	int rc;

	d->pmsp = (struct rsk_pmsp_config)RSK_PMSP_DEFAULT;
	d->client = (struct rsk_pm_client_config)RSK_PM_CLIENT_DEFAULT;
	/* The dynamic ports of RFC 6335. */
	d->rdma_ports = (struct rsk_conf_range){ 49152, 65535 };
	rc = take_texts(b);
	if (rc == 0)
		rc = take_listen(b);
	if (rc == 0)
		rc = rsk_conf_take_prefixes(b, "(top)", "redirects-from", &raw->redirects_from,
					    &d->redirects_from, &d->n_redirects_from);
	if (rc == 0)
		rc = take_addr(b, "metrics", raw->metrics, &d->metrics);
	if (rc == 0 && raw->rdma_ports && rsk_conf_range(raw->rdma_ports, &d->rdma_ports) < 0)
		rc = rsk_conf_wrong(b, "rdma-ports", "\"%s\" is not a range of ports",
				    raw->rdma_ports);
	if (rc == 0 && raw->pmsp)
		rc = take_rows(b, "pmsp", pmsp_rows, sizeof(pmsp_rows) / sizeof(pmsp_rows[0]),
			       raw->pmsp, &d->pmsp);
	if (rc == 0 && raw->client)
		rc = take_addr(b, "client.central", raw->client->central, &d->central);
	if (rc == 0 && raw->client)
		rc = take_rows(b, "client", client_rows,
			       sizeof(client_rows) / sizeof(client_rows[0]), raw->client,
			       &d->client);
	if (rc == 0)
		rc = rsk_conf_take_limits(b, "(top)", raw->limits, &b->c->limits);
	return rc < 0 ? rc : check_machines(b);
}
