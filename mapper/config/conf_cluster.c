// SPDX-License-Identifier: BSD-2-Clause
/*
 * conf_cluster.c - reads the section about the store that many hosts share (etcd). Called by
 * conf_load.c.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "conf_build.h"
#include "conf_value.h"

#define ENDPOINTS_MOST 16
#define PREFIX_MOST 200
#define HISTORY_MOST 1000 /* a push reads their keys */
#define SECOND_NS 1000000000ull
#define HOUR_NS (3600 * SECOND_NS)

/* The end of a host's name or IPv4 address. */
static const char *end_of_name(const char *p)
{
	while (isalnum((unsigned char)*p) || *p == '.' || *p == '-')
		p++;
	return p;
}

/* http://HOST:PORT or https://HOST:PORT, with an IPv6 address in brackets; nothing behind it. */
static int take_endpoint(struct rsk_conf_build *b, const char *url, struct rsk_conf_endpoint *out)
{
	const char *host, *end, *port;
	struct rsk_pm_addr ip;
	char text[256];
	uint64_t number;

	out->tls = strncmp(url, "https://", 8) == 0;
	if (!out->tls && strncmp(url, "http://", 7) != 0)
		return -EINVAL;
	host = url + (out->tls ? 8 : 7);
	port = *host == '[' ? strchr(++host, ']') : end_of_name(host);
	end = port;
	if (!port || end == host || (*port == ']' && *++port != ':') || *port++ != ':')
		return -EINVAL;
	snprintf(text, sizeof(text), "%.*s", (int)(end - host), host);
	out->is_name = rsk_conf_ip(text, &ip) < 0;
	if (out->is_name && host[-1] == '[')
		return -EINVAL;
	if (!isdigit((unsigned char)*port) || rsk_conf_number(port, &number) < 0 || !number ||
	    number > UINT16_MAX)
		return -EINVAL;
	out->port = (uint16_t)number;
	out->url = rsk_conf_dup(b->c, url);
	out->host = rsk_conf_dup(b->c, text);
	return out->url && out->host ? 0 : -ENOMEM;
}

static int take_endpoints(struct rsk_conf_build *b, const struct rsk_raw_list *list,
			  struct rsk_conf_cluster *k)
{
	if (list->n > ENDPOINTS_MOST)
		return rsk_conf_wrong(b, "cluster.etcd", "more than %d endpoints", ENDPOINTS_MOST);
	k->endpoints = rsk_conf_alloc(b->c, list->n, sizeof(*k->endpoints));
	if (!k->endpoints)
		return -ENOMEM;
	for (; k->n_endpoints < list->n; k->n_endpoints++) {
		const char *url = list->v[k->n_endpoints];
		int rc = take_endpoint(b, url, &k->endpoints[k->n_endpoints]);

		if (rc == -EINVAL)
			return rsk_conf_wrong(b, "cluster.etcd",
					      "\"%s\" is not http://HOST:PORT or https://HOST:PORT",
					      url);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int take_prefix(struct rsk_conf_build *b, const char *text, struct rsk_conf_cluster *k)
{
	size_t n;

	k->prefix = "/rsock";
	if (!text)
		return 0;
	n = strlen(text);
	if (*text != '/' || text[n - 1] == '/' || n > PREFIX_MOST)
		return rsk_conf_wrong(b, "cluster.prefix",
				      "\"%s\" does not begin with '/', or ends with it, or is "
				      "longer than %d bytes",
				      text, PREFIX_MOST);
	k->prefix = rsk_conf_dup(b->c, text);
	return k->prefix ? 0 : -ENOMEM;
}

static int take_expire(struct rsk_conf_build *b, const char *text, struct rsk_conf_cluster *k)
{
	k->expire_ns = 24 * HOUR_NS;
	if (text && strcmp(text, "lasting") == 0) {
		k->expire_ns = UINT64_MAX;
		return 0;
	}
	return rsk_conf_take(b, "cluster", "expire", text, RSK_CONF_TIME, 2 * SECOND_NS,
			     365 * 24 * HOUR_NS, &k->expire_ns);
}

static int take_address(struct rsk_conf_build *b, const char *text, struct rsk_conf_cluster *k)
{
	if (!text)
		return 0;
	if (rsk_conf_ip(text, &k->address) < 0 || !rsk_pm_addr_is_for_others(&k->address))
		return rsk_conf_wrong(b, "cluster.address",
				      "\"%s\" is not an address that other hosts can reach", text);
	return 0;
}

/* Quotas last longer than this host's entry among the members, which its own offers go with. */
static int take_ledger(struct rsk_conf_build *b, const struct rsk_raw_cluster_ledger *raw,
		       struct rsk_conf_cluster *k)
{
	int rc;

	if (!raw)
		return 0;
	k->hold_ns = 60 * SECOND_NS > 2 * k->lease_ns ? 60 * SECOND_NS : 2 * k->lease_ns;
	rc = rsk_conf_take(b, "cluster", "ledger.hold", raw->hold, RSK_CONF_TIME, 4 * SECOND_NS,
			   3600 * SECOND_NS, &k->hold_ns);
	k->hold_ns = (k->hold_ns + SECOND_NS - 1) / SECOND_NS * SECOND_NS;
	if (rc == 0 && k->hold_ns < 2 * k->lease_ns)
		return rsk_conf_wrong(b, "cluster.ledger",
				      "hold is less than twice the lease of %llu s",
				      (unsigned long long)(k->lease_ns / SECOND_NS));
	return rc;
}

static int check(struct rsk_conf_build *b, const struct rsk_conf_cluster *k)
{
	bool all_tls = true, any_tls = false;

	for (size_t i = 0; i < k->n_endpoints; i++) {
		all_tls &= k->endpoints[i].tls;
		any_tls |= k->endpoints[i].tls;
	}
	if (!k->certificate != !k->key)
		return rsk_conf_wrong(b, "cluster.tls",
				      "certificate and key: one without the "
				      "other");
	if ((k->ca || k->certificate) && !any_tls)
		return rsk_conf_wrong(b, "cluster.tls", "no endpoint is https://");
	if (!k->user != !k->password_file)
		return rsk_conf_wrong(b, "cluster",
				      "user and password-file: one without the "
				      "other");
	if (k->user && !all_tls)
		return rsk_conf_wrong(b, "cluster", "user: only where all endpoints are https://");
	return 0;
}

int rsk_conf_build_cluster(struct rsk_conf_build *b)
{
	static const struct rsk_raw_tls no_tls;
	const struct rsk_raw_cluster *raw = b->raw->cluster;
	const struct rsk_raw_tls *tls = raw && raw->tls ? raw->tls : &no_tls;
	struct rsk_conf_cluster *k = &b->c->daemon.cluster;
	int rc;

	if (!raw)
		return 0;
	k->timeout_ns = 5000000000;
	k->lease_ns = 10 * SECOND_NS;
	k->history_most = 100;
	k->redirect = raw->redirect == RSK_RAW_YES;
	k->is_listed = raw->is_listed;
	rc = take_endpoints(b, &raw->etcd, k);
	if (rc == 0)
		rc = take_prefix(b, raw->prefix, k);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "cluster", "tls.ca", tls->ca, true, &k->ca);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "cluster", "tls.certificate", tls->certificate, true,
					&k->certificate);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "cluster", "tls.key", tls->key, true, &k->key);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "cluster", "user", raw->user, false, &k->user);
	if (rc == 0)
		rc = rsk_conf_take_text(b, "cluster", "password-file", raw->password_file, true,
					&k->password_file);
	if (rc == 0)
		rc = rsk_conf_take(b, "cluster", "timeout", raw->timeout, RSK_CONF_TIME, 100000000,
				   60000000000, &k->timeout_ns);
	if (rc == 0)
		rc = rsk_conf_take(b, "cluster", "lease", raw->lease, RSK_CONF_TIME, 2 * SECOND_NS,
				   600 * SECOND_NS, &k->lease_ns);
	if (rc == 0)
		rc = take_address(b, raw->address, k);
	if (rc == 0)
		rc = take_expire(b, raw->expire, k);
	if (rc == 0)
		rc = rsk_conf_take(b, "cluster", "history", raw->history, RSK_CONF_U32, 1,
				   HISTORY_MOST, &k->history_most);
	/* etcd has leases of whole seconds. */
	k->lease_ns = (k->lease_ns + SECOND_NS - 1) / SECOND_NS * SECOND_NS;
	if (rc == 0)
		rc = take_ledger(b, raw->ledger, k);
	return rc < 0 ? rc : check(b, k);
}
