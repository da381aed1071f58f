// SPDX-License-Identifier: BSD-2-Clause
/* etcd.c - see etcd.h. */
#include "etcd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "etcd_parts.h"

#define MS 1000000ull
#define ATTEMPT_LEAST_NS (50 * MS)
/* Codes of gRPC */
#define NOT_FOUND 5
#define UNAVAILABLE 14
#define PERMISSION_DENIED 7
#define UNAUTHENTICATED 16

static const struct {
	const char *path;
	bool may_repeat; /* executing it twice does no harm */
} methods[] = {
	[RSK_ETCD_RANGE] = { "/v3/kv/range", true },
	[RSK_ETCD_PUT] = { "/v3/kv/put", true },
	[RSK_ETCD_TXN] = { "/v3/kv/txn", false },
	[RSK_ETCD_TXN_READ] = { "/v3/kv/txn", true },
	[RSK_ETCD_WATCH] = { "/v3/watch", false },
	/* A lease that nobody knows of ends by itself. */
	[RSK_ETCD_LEASE_GRANT] = { "/v3/lease/grant", true },
	[RSK_ETCD_LEASE_KEEPALIVE] = { "/v3/lease/keepalive", true },
	[RSK_ETCD_LEASE_REVOKE] = { "/v3/lease/revoke", true },
};

struct rsk_etcd_counters rsk_etcd_count(const struct rsk_etcd *e)
{
	return e->count;
}

const char *rsk_etcd_endpoint(const struct rsk_etcd *e)
{
	return e->endpoints[e->at].url;
}

/* ---- a call ---- */

static const char *endpoint_of(const struct rsk_etcd_call *c)
{
	return c->by->endpoints[c->at].url;
}

/* The next endpoint in turn whose name has an address. */
static void turn(struct rsk_etcd *e)
{
	for (size_t i = 0; i < e->n_endpoints; i++) {
		e->at = (e->at + 1) % e->n_endpoints;
		if (!e->endpoints[e->at].is_dead)
			return;
	}
}

static char *login(const struct rsk_etcd *e)
{
	json_t *body = rsk_etcd_authenticate(e->user, e->password.bytes);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	return text;
}

/*
 * Begins the next exchange of a call; first for a token, if one is needed. While another call
 * fetches it, this one waits.
 */
static void begin(struct rsk_etcd_call *c)
{
	struct rsk_etcd *e = c->by;
	uint64_t now = rsk_clock_ns(), limit = 0;
	bool needs_token = e->user && !e->token;

	/* Each endpoint that is left gets an equal part of the time that is left. */
	if (c->q.method != RSK_ETCD_WATCH || needs_token) {
		limit = c->deadline_ns > now ? c->deadline_ns - now : 0;
		limit /= c->tried < e->n_alive ? e->n_alive - c->tried : 1;
		limit = limit < ATTEMPT_LEAST_NS ? ATTEMPT_LEAST_NS : limit;
	}
	rsk_etcd_http_end(c); /* while it is known what it was for */
	c->is_parked = needs_token && e->login && e->login != c;
	c->is_authenticating = needs_token && !c->is_parked;
	c->token_number = e->count.tokens;
	if (c->is_parked)
		return;
	c->at = e->at;
	if (needs_token)
		e->login = c;
	e->count.calls++;
	if (needs_token)
		rsk_etcd_http_begin(c, "/v3/auth/authenticate", login(e), limit);
	else
		rsk_etcd_http_begin(c, methods[c->q.method].path, strdup(c->body), limit);
}

/* The call that fetched a token does so no more: those that wait have one, or one of them asks. */
static void login_is_over(struct rsk_etcd *e)
{
	e->login = NULL;
	for (struct rsk_etcd_call *c = e->calls; c; c = c->next)
		if (c->is_parked)
			begin(c);
}

static void remove_call(struct rsk_etcd_call *c)
{
	struct rsk_etcd *e = c->by;
	bool was_login = e->login == c;

	rsk_etcd_http_end(c);
	if (c->prev)
		c->prev->next = c->next;
	else
		c->by->calls = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c->body);
	free(c);
	if (was_login)
		login_is_over(e);
}

/* The callback is the last to be called: it may free the client. */
static void end(struct rsk_etcd_call *c, int rc, const json_t *body, const char *why)
{
	struct rsk_etcd_question q = c->q;

	remove_call(c);
	q.done(q.ctx, rc, body, why);
}

/* ---- what became of an exchange ---- */

/* It failed before there was an answer. */
static int verdict_of_transport(struct rsk_etcd_call *c)
{
	curl_off_t begun = 0;

	if (c->is_too_big)
		return -EFBIG;
	if (c->result == CURLE_OUT_OF_MEMORY)
		return -ENOMEM;
	rsk_curl.easy_getinfo(c->easy, CURLINFO_PRETRANSFER_TIME_T, &begun);
	/* TLS 1.3 reports a certificate that is not accepted after the request was sent. */
	return begun ? -ETIMEDOUT : -EHOSTUNREACH;
}

static int verdict_of_error(const json_t *body, long status, const char **text)
{
	int code;

	*text = rsk_etcd_take_error(body, &code);
	/* A token that etcd does not know any more, or that is of other rights, has no code. */
	if (status == 401 || code == UNAUTHENTICATED || strstr(*text, "invalid auth token") ||
	    strstr(*text, "auth store is old"))
		return -EACCES;
	if (code == PERMISSION_DENIED || status == 403)
		return -EACCES;
	if (code == NOT_FOUND && strstr(*text, "lease not found"))
		return -ENOENT;
	return code == UNAVAILABLE || status >= 500 ? -ETIMEDOUT : -EREMOTEIO;
}

/*
 * Returns the verdict about an exchange that is over. *body is its answer, which the caller
 * releases; @why gets a line.
 */
static int verdict(struct rsk_etcd_call *c, json_t **body, char *why, size_t n)
{
	const char *text = "the answer is not etcd's";
	json_error_t error;
	long status = 0;
	int rc;

	*body = NULL;
	if (c->is_garbage) {
		rc = -EPROTO;
	} else if (c->result != CURLE_OK) {
		rc = verdict_of_transport(c);
		text = rc == -EFBIG ? "the answer is too large" :
		       *c->error    ? c->error :
				      rsk_curl.easy_strerror(c->result);
	} else if (c->objects) {
		rc = -ETIMEDOUT;
		text = "the watch was ended";
	} else {
		rsk_curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
		*body = json_loadb(c->in ? c->in : "", c->n_in, JSON_REJECT_DUPLICATES, &error);
		rc = !json_is_object(*body) ? -EPROTO : 0;
		/* An answer that is a stream has an error in it, and the status 200. */
		if (rc == 0 && (status != 200 || json_object_get(*body, "error")))
			rc = verdict_of_error(*body, status, &text);
	}
	snprintf(why, n, "%s: %s", endpoint_of(c), text);
	return rc;
}

static int take_token(struct rsk_etcd *e, const json_t *body)
{
	const char *token = rsk_etcd_take_token(body);

	if (!token)
		return -EPROTO;
	free(e->token);
	e->token = strdup(token);
	e->count.tokens += e->token != NULL;
	return e->token ? 0 : -ENOMEM;
}

/* Whether the call is to be tried at another endpoint. */
static bool may_go_on(const struct rsk_etcd_call *c, int rc)
{
	bool unexecuted = rc == -EHOSTUNREACH || c->is_authenticating;

	if (rc != -EHOSTUNREACH && rc != -ETIMEDOUT && rc != -EPROTO)
		return false;
	return (unexecuted || methods[c->q.method].may_repeat) && c->tried < c->by->n_alive &&
	       rsk_clock_ns() < c->deadline_ns;
}

/* The token is too old, or etcd was started again: it is fetched anew, once. */
static bool renews(struct rsk_etcd_call *c, int rc)
{
	struct rsk_etcd *e = c->by;

	if (rc != -EACCES || c->is_authenticating || c->was_renewed || !e->user)
		return false;
	c->was_renewed = true;
	/* Another call may have replaced the token that this one had. */
	if (c->token_number == e->count.tokens) {
		free(e->token);
		e->token = NULL;
	}
	begin(c);
	return true;
}

static void exchange_is_over(struct rsk_etcd_call *c)
{
	struct rsk_etcd *e = c->by;
	json_t *body;
	char why[512];
	int rc = verdict(c, &body, why, sizeof(why));

	if (rc == 0 && c->is_authenticating) {
		rc = take_token(e, body);
		json_decref(body);
		body = NULL;
		if (rc == 0) {
			begin(c);
			login_is_over(e);
			return;
		}
	}
	if (rc < 0 && c->is_authenticating && rc == -EREMOTEIO)
		rc = -EACCES;
	e->count.failures += rc < 0;
	if (rc == -EHOSTUNREACH || rc == -ETIMEDOUT || rc == -EPROTO) {
		c->tried++;
		/* Of calls that fail there together, the first one has turned already. */
		if (e->at == c->at)
			turn(e);
	}
	if (may_go_on(c, rc))
		begin(c);
	else if (!renews(c, rc))
		end(c, rc, body, rc < 0 ? why : NULL);
	json_decref(body);
}

/* Delivers the oldest object of a watch. One with an error ends it. */
static void deliver(struct rsk_etcd_call *c)
{
	json_t *object = json_incref(json_array_get(c->objects, 0));
	const json_t *result = json_object_get(object, "result");
	const char *text;
	char why[512];
	int rc;

	json_array_remove(c->objects, 0);
	if (json_is_object(result)) {
		c->q.event(c->q.ctx, result);
	} else {
		rc = verdict_of_error(object, 200, &text);
		snprintf(why, sizeof(why), "%s: %s", endpoint_of(c), text);
		c->by->count.failures++;
		if (!renews(c, rc))
			end(c, rc, NULL, why);
	}
	json_decref(object);
}

void rsk_etcd_call_advance(struct rsk_etcd_call *c)
{
	if (json_array_size(c->objects))
		deliver(c);
	else
		exchange_is_over(c);
}

struct rsk_etcd_call *rsk_etcd_ask(struct rsk_etcd *e, const struct rsk_etcd_question *q)
{
	struct rsk_etcd_call *c = calloc(1, sizeof(*c));
	uint64_t limit;

	if (c && q->body)
		c->body = json_dumps(q->body, JSON_COMPACT);
	json_decref(q->body);
	if (!c || !c->body) {
		free(c);
		return NULL;
	}
	c->by = e;
	c->q = *q;
	c->q.body = NULL;
	c->next = e->calls;
	if (c->next)
		c->next->prev = c;
	e->calls = c;
	limit = q->limit_ns && q->limit_ns < e->timeout_ns ? q->limit_ns : e->timeout_ns;
	c->deadline_ns = rsk_clock_ns() + limit;
	begin(c);
	return c;
}

void rsk_etcd_cancel(struct rsk_etcd_call *call)
{
	if (call)
		remove_call(call);
}

bool rsk_etcd_was_left(const struct rsk_etcd_call *call)
{
	return call->at != call->by->at;
}
