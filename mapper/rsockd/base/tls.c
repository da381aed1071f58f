// SPDX-License-Identifier: BSD-2-Clause
/* tls.c - see tls.h. */
#include "tls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls_table.h"

struct rsk_tls {
	SSL_CTX *ctx;
	bool (*may)(void *ctx, int fd); /* rsk_tls_accept_only() */
	void *may_ctx;
};

static bool wrong(const char *what, char *error, size_t n)
{
	char why[256];

	rsk_tls_lib.error_text(rsk_tls_lib.error(), why, sizeof(why));
	snprintf(error, n, "%s: %s", what, why);
	return false;
}

static bool set_up(SSL_CTX *ctx, const struct rsk_conf_tls *conf, char *error, size_t n)
{
	if (rsk_tls_lib.ctx_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) != 1)
		return wrong("TLS 1.3", error, n);
	if (rsk_tls_lib.ctx_ca(ctx, conf->ca) != 1)
		return wrong(conf->ca, error, n);
	if (rsk_tls_lib.ctx_certificate(ctx, conf->certificate) != 1)
		return wrong(conf->certificate, error, n);
	/* It has to fit the certificate. */
	if (rsk_tls_lib.ctx_key(ctx, conf->key, SSL_FILETYPE_PEM) != 1)
		return wrong(conf->key, error, n);
	rsk_tls_lib.ctx_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	/* No session is resumed: each connection shows its certificates. */
	rsk_tls_lib.ctx_options(ctx, SSL_OP_NO_TICKET);
	rsk_tls_lib.ctx_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
	return true;
}

struct rsk_tls *rsk_tls_new(const struct rsk_conf_tls *conf, char *error, size_t n)
{
	struct rsk_tls *t;

	if (rsk_tls_load(error, n) < 0)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (t)
		t->ctx = rsk_tls_lib.ctx_new(rsk_tls_lib.method());
	if (!t || !t->ctx)
		snprintf(error, n, "no memory");
	else if (set_up(t->ctx, conf, error, n))
		return t;
	rsk_tls_free(t);
	return NULL;
}

void rsk_tls_free(struct rsk_tls *t)
{
	if (t && t->ctx)
		rsk_tls_lib.ctx_free(t->ctx);
	free(t);
}

/* SSL_client_hello_cb_fn. The expensive part of the handshake begins behind it. */
static int on_hello(SSL *ssl, int *alert, void *arg)
{
	const struct rsk_tls *t = arg;

	if (t->may(t->may_ctx, rsk_tls_lib.ssl_fd(ssl)))
		return SSL_CLIENT_HELLO_SUCCESS;
	*alert = SSL_AD_ACCESS_DENIED;
	return SSL_CLIENT_HELLO_ERROR;
}

void rsk_tls_accept_only(struct rsk_tls *t, bool (*may)(void *ctx, int fd), void *ctx)
{
	t->may = may;
	t->may_ctx = ctx;
	rsk_tls_lib.ctx_hello(t->ctx, on_hello, t);
}

/* Takes @ssl. */
static struct bufferevent *over(struct event_base *base, SSL *ssl, enum bufferevent_ssl_state state)
{
	struct bufferevent *b = rsk_tls_lib.bev_new(base, -1, ssl, state, BEV_OPT_CLOSE_ON_FREE);

	if (!b)
		rsk_tls_lib.ssl_free(ssl);
	return b;
}

struct bufferevent *rsk_tls_accepting(struct rsk_tls *t, struct event_base *base)
{
	SSL *ssl = rsk_tls_lib.ssl_new(t->ctx);

	return ssl ? over(base, ssl, BUFFEREVENT_SSL_ACCEPTING) : NULL;
}

struct bufferevent *rsk_tls_connecting(struct rsk_tls *t, struct event_base *base,
				       const struct rsk_pm_addr *to)
{
	SSL *ssl = rsk_tls_lib.ssl_new(t->ctx);

	if (!ssl)
		return NULL;
	if (rsk_tls_lib.param_ip(rsk_tls_lib.ssl_param(ssl), to->ip,
				 to->ipv == RSK_PM_IPV6 ? 16 : 4) != 1) {
		rsk_tls_lib.ssl_free(ssl);
		return NULL;
	}
	return over(base, ssl, BUFFEREVENT_SSL_CONNECTING);
}

/* OpenSSL's comparison is without regard to case, and ".x" is any name below x for it. */
bool rsk_tls_names(struct bufferevent *connection, const char *name)
{
	SSL *ssl = connection ? rsk_tls_lib.bev_ssl(connection) : NULL;
	X509 *certificate = ssl ? rsk_tls_lib.ssl_certificate(ssl) : NULL;
	char *found = NULL;
	bool is;

	if (!certificate)
		return false;
	is = rsk_tls_lib.x509_host(certificate, name, strlen(name), X509_CHECK_FLAG_NO_WILDCARDS,
				   &found) == 1 &&
	     found && strcmp(found, name) == 0;
	rsk_tls_lib.free(found, __FILE__, __LINE__);
	rsk_tls_lib.x509_free(certificate);
	return is;
}
