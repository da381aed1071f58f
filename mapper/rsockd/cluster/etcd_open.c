// SPDX-License-Identifier: BSD-2-Clause
/*
 * etcd_open.c - see etcd.h: what is done before rights are given up, and may block. Certificates
 * and the password are read, and the endpoints' names are resolved, so that afterwards libcurl
 * opens no file and starts no thread for a resolver.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "etcd_parts.h"
#include "random.h"

#define FILE_MOST (1u << 20)
#define ADDRESSES_MOST 8

static int read_file(const char *path, struct rsk_etcd_file *out, char *error, size_t n)
{
	int rc;

	if (!path)
		return 0;
	rc = rsk_conf_read(path, &out->bytes, &out->n, error, n);
	if (rc == 0 && (!out->n || out->n > FILE_MOST)) {
		snprintf(error, n, "%s: empty, or too large", path);
		rc = -EFBIG;
	}
	if (rc == 0)
		out->bytes[out->n] = 0; /* there is room for it */
	return rc;
}

/* The first line of the file. */
static int read_password(struct rsk_etcd *e, const char *path, char *error, size_t n)
{
	int rc = read_file(path, &e->password, error, n);

	if (rc == 0 && path)
		e->password.bytes[strcspn(e->password.bytes, "\r\n")] = 0;
	return rc;
}

/* "HOST:PORT:ADDRESS,ADDRESS", which libcurl takes instead of a resolver's answer. */
static int resolve(struct rsk_etcd *e, const struct rsk_conf_endpoint *at, bool *is_dead)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char line[256 + 16 + ADDRESSES_MOST * (NI_MAXHOST + 3)], ip[NI_MAXHOST];
	struct addrinfo *found = NULL;
	struct curl_slist *more;
	int rc = getaddrinfo(at->host, NULL, &hints, &found), count = 0;
	size_t used;

	if (rc) {
		fprintf(stderr, "rsockd: cluster.etcd: %s is not used: %s\n", at->url,
			gai_strerror(rc));
		*is_dead = true;
		return 0;
	}
	used = (size_t)snprintf(line, sizeof(line), "%s:%u:", at->host, at->port);
	for (const struct addrinfo *a = found; a && count < ADDRESSES_MOST; a = a->ai_next) {
		bool six = a->ai_family == AF_INET6;

		if (getnameinfo(a->ai_addr, a->ai_addrlen, ip, sizeof(ip), NULL, 0, NI_NUMERICHOST))
			continue;
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%s%s%s",
					 count++ ? "," : "", six ? "[" : "", ip, six ? "]" : "");
	}
	freeaddrinfo(found);
	more = rsk_curl.slist_append(e->addresses, line);
	if (!more)
		return -ENOMEM;
	e->addresses = more;
	return 0;
}

static int take_endpoints(struct rsk_etcd *e, const struct rsk_conf_cluster *conf)
{
	int rc = 0;

	e->endpoints = calloc(conf->n_endpoints, sizeof(*e->endpoints));
	if (!e->endpoints)
		return -ENOMEM;
	for (; rc == 0 && e->n_endpoints < conf->n_endpoints; e->n_endpoints++) {
		const struct rsk_conf_endpoint *from = &conf->endpoints[e->n_endpoints];
		struct rsk_etcd_endpoint *to = &e->endpoints[e->n_endpoints];

		to->url = strdup(from->url);
		rc = to->url ? 0 : -ENOMEM;
		if (rc == 0 && from->is_name)
			rc = resolve(e, from, &to->is_dead);
		e->n_alive += !to->is_dead;
	}
	return rc;
}

/*
 * Hosts that have the same list would all ask its first node, and, when that one has failed, all
 * the next one.
 */
static void shuffle(struct rsk_etcd *e)
{
	for (size_t i = e->n_endpoints; i > 1; i--) {
		size_t with = rsk_random_u64() % i;
		struct rsk_etcd_endpoint one = e->endpoints[i - 1];

		e->endpoints[i - 1] = e->endpoints[with];
		e->endpoints[with] = one;
	}
}

struct rsk_etcd *rsk_etcd_new(struct event_base *base, const struct rsk_conf_cluster *conf,
			      char *error, size_t n)
{
	struct rsk_etcd *e = calloc(1, sizeof(*e));
	int rc = e ? rsk_curl_load(error, n) : -ENOMEM;

	if (rc == 0) {
		e->has_curl = true;
		e->base = base;
		e->timeout_ns = conf->timeout_ns;
		rc = read_file(conf->ca, &e->ca, error, n);
	}
	if (rc == 0)
		rc = read_file(conf->certificate, &e->certificate, error, n);
	if (rc == 0)
		rc = read_file(conf->key, &e->key, error, n);
	if (rc == 0)
		rc = read_password(e, conf->password_file, error, n);
	if (rc == 0 && conf->user && !(e->user = strdup(conf->user)))
		rc = -ENOMEM;
	if (rc == 0)
		rc = take_endpoints(e, conf);
	if (rc == 0 && !conf->is_listed)
		shuffle(e);
	if (rc == 0 && !e->n_alive) {
		snprintf(error, n, "no endpoint has an address");
		rc = -EHOSTUNREACH;
	}
	while (rc == 0 && e->endpoints[e->at].is_dead)
		e->at++;
	if (rc == 0)
		rc = rsk_etcd_http_open(e);
	if (rc == 0)
		return e;
	if (rc == -ENOMEM)
		snprintf(error, n, "no memory");
	rsk_etcd_free(e);
	return NULL;
}

static void free_file(struct rsk_etcd_file *file)
{
	if (file->bytes)
		explicit_bzero(file->bytes, file->n);
	free(file->bytes);
}

void rsk_etcd_free(struct rsk_etcd *e)
{
	if (!e)
		return;
	while (e->calls)
		rsk_etcd_cancel(e->calls);
	rsk_etcd_http_close(e);
	if (e->addresses)
		rsk_curl.slist_free_all(e->addresses);
	for (size_t i = 0; i < e->n_endpoints; i++)
		free(e->endpoints[i].url);
	free(e->endpoints);
	free_file(&e->ca);
	free_file(&e->certificate);
	free_file(&e->key);
	free_file(&e->password);
	free(e->user);
	free(e->token);
	if (e->has_curl)
		rsk_curl_end();
	free(e);
}
