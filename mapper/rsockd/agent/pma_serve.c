// SPDX-License-Identifier: BSD-2-Clause
/* pma_serve.c - see pma_serve.h. */
#include "pma_serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pma_json.h"
#include "say.h"

#define HEADERS_MOST 8192
#define IDLE_S 5 /* plus twice the time for which a node may be silent */

enum {
	UNKNOWN_NODE = 409,
	FORBIDDEN = 403,
	STANDS_BY = 421, /* sent as 503 */
};

/* Takes the reference of @body. */
static void reply(struct evhttp_request *req, int status, json_t *body)
{
	struct evbuffer *out = evbuffer_new();
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	if (out && text) {
		evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
				  "application/json");
		evbuffer_add_printf(out, "%s\n", text);
		evhttp_send_reply(req, status, NULL, out);
	} else {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
	}
	free(text);
	if (out)
		evbuffer_free(out);
}

static void refuse(struct evhttp_request *req, int status, const char *why)
{
	if (status == FORBIDDEN || status == HTTP_BADREQUEST)
		evhttp_add_header(evhttp_request_get_output_headers(req), "Connection", "close");
	reply(req, status, json_pack("{s:s}", "error", why));
}

static bool may_ask(const struct rsk_pma_serve *s, int fd)
{
	struct rsk_pm_addr who;

	if (rsk_pm_addr_of_peer(fd, &who) < 0)
		return false;
	for (size_t i = 0; i < s->n_allow; i++)
		if (rsk_conf_within(&s->allow[i], who.ipv, who.ip))
			return true;
	return false;
}

static bool is_allowed(const struct rsk_pma_serve *s, struct evhttp_request *req)
{
	struct evhttp_connection *conn = evhttp_request_get_connection(req);

	return conn && may_ask(s, bufferevent_getfd(evhttp_connection_get_bufferevent(conn)));
}

static void arm(struct rsk_pma_serve *s);

void rsk_pma_serve_look(struct rsk_pma_serve *s)
{
	uint64_t role = s->http && s->role ? s->role(s->ctx) : 0;

	if (role && role != s->last_role) {
		rsk_central_take_over(&s->central_agent, rsk_clock_ns());
		arm(s);
	}
	if (!role != !s->last_role)
		rsk_say("this daemon is %s the central policy agent of the cluster",
			role ? "now" : "not any more");
	s->last_role = role;
}

/*
 * A host of the list may speak for any node; with TLS, only for one that its certificate names. Who
 * has found this agent by a role is answered only while this agent has that one, since otherwise
 * another agent may be at work. False: sets *status.
 */
static bool may_speak(struct rsk_pma_serve *s, struct evhttp_request *req,
		      const struct rsk_pma_speaker *who, int *status)
{
	struct evhttp_connection *conn = evhttp_request_get_connection(req);

	if (s->tls &&
	    (!conn || !rsk_tls_names(evhttp_connection_get_bufferevent(conn), who->node))) {
		*status = FORBIDDEN;
		return false;
	}
	rsk_pma_serve_look(s);
	if (!who->role || who->role == s->last_role)
		return true;
	s->count.stood_by++;
	*status = STANDS_BY;
	return false;
}

/*
 * ---- messages: each function returns the answer, or NULL and sets *status, which is
 * HTTP_BADREQUEST before; HTTP_INTERNAL: no memory ----
 */

static json_t *take_decide(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
			   uint64_t now, int *status)
{
	struct rsk_ask_item items[RSK_ASK_BATCH];
	struct rsk_central_node *node;
	struct rsk_pma_speaker who;
	int n = rsk_pma_json_take_questions(body, &who, items);

	if (n < 0 || !may_speak(s, req, &who, status))
		return NULL;
	*status = UNKNOWN_NODE;
	node = rsk_central_find(&s->central_agent, who.node, who.boot);
	if (!node)
		return NULL;
	*status = HTTP_SERVUNAVAIL;
	if (rsk_central_in_grace(&s->central_agent, now))
		return NULL;
	for (int i = 0; i < n; i++)
		rsk_central_decide(&s->central_agent, node, items[i].id, &items[i].key, now,
				   &items[i].answer);
	*status = HTTP_INTERNAL;
	return rsk_pma_json_answers(items, (size_t)n);
}

static json_t *take_ids(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
			int *status,
			void (*each)(struct rsk_central *, struct rsk_central_node *, uint64_t))
{
	uint64_t ids[RSK_ASK_IDS];
	struct rsk_central_node *node;
	struct rsk_pma_speaker who;
	int n = rsk_pma_json_take_ids(body, &who, ids);

	if (n < 0 || !may_speak(s, req, &who, status))
		return NULL;
	*status = UNKNOWN_NODE;
	node = rsk_central_find(&s->central_agent, who.node, who.boot);
	if (!node)
		return NULL;
	for (int i = 0; i < n; i++)
		each(&s->central_agent, node, ids[i]);
	*status = HTTP_INTERNAL;
	return json_object();
}

static json_t *take_release(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
			    uint64_t now, int *status)
{
	return take_ids(s, req, body, status, rsk_central_release);
}

static json_t *take_confirm(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
			    uint64_t now, int *status)
{
	return take_ids(s, req, body, status, rsk_central_confirm);
}

static json_t *take_report(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
			   uint64_t now, int *status)
{
	struct rsk_central_node *node;
	struct rsk_pma_speaker who;
	struct rsk_pma_report r;
	int n = rsk_pma_json_take_report(body, &who, &r);

	if (n == -ENOMEM)
		*status = HTTP_INTERNAL;
	if (n < 0)
		return NULL;
	if (!may_speak(s, req, &who, status)) {
		free(r.devices);
		return NULL;
	}
	*status = UNKNOWN_NODE;
	node = rsk_central_report(&s->central_agent, who.node, who.boot, r.resume, r.part, r.last,
				  r.load, r.devices, r.n_devices, now);
	if (!node)
		return NULL;
	for (int i = 0; r.resume && i < n; i++)
		rsk_central_resume(&s->central_agent, node, &r.held[i], now);
	*status = HTTP_INTERNAL;
	return json_pack("{s:I}", "hold_ms",
			 (json_int_t)(s->central_agent.config.lost_ns / 1000000));
}

static const struct route {
	const char *path;
	json_t *(*run)(struct rsk_pma_serve *s, struct evhttp_request *req, json_t *body,
		       uint64_t now, int *status);
} routes[] = {
	{ "/v1/pma/decide", take_decide },
	{ "/v1/pma/release", take_release },
	{ "/v1/pma/confirm", take_confirm },
	{ "/v1/pma/report", take_report },
};

static const struct route *route_of(struct evhttp_request *req)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;

	for (size_t i = 0; path && i < sizeof(routes) / sizeof(routes[0]); i++)
		if (strcmp(path, routes[i].path) == 0)
			return &routes[i];
	return NULL;
}

static void arm(struct rsk_pma_serve *s)
{
	uint64_t next = rsk_central_next(&s->central_agent), now = rsk_clock_ns(), left;
	struct timeval tv;

	if (next == UINT64_MAX) {
		event_del(s->timer);
		return;
	}
	left = next > now ? (next - now) / 1000 + 1 : 0;
	tv = (struct timeval){ .tv_sec = (time_t)(left / 1000000),
			       .tv_usec = (suseconds_t)(left % 1000000) };
	event_add(s->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_pma_serve *s = arg;

	rsk_central_tick(&s->central_agent, rsk_clock_ns());
	arm(s);
}

static void on_message(struct evhttp_request *req, void *arg)
{
	struct rsk_pma_serve *s = arg;
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	const struct route *route;
	json_t *body, *answer = NULL;
	int status = HTTP_BADREQUEST;

	if (!is_allowed(s, req)) {
		s->count.refused++;
		refuse(req, FORBIDDEN, "this host may not ask");
		return;
	}
	s->count.messages++;
	route = route_of(req);
	if (!route) {
		refuse(req, HTTP_NOTFOUND, "no such thing");
		return;
	}
	body = rsk_pma_json_read(evbuffer_pullup(in, -1), evbuffer_get_length(in));
	if (body)
		answer = route->run(s, req, body, rsk_clock_ns(), &status);
	json_decref(body);
	if (answer)
		reply(req, HTTP_OK, answer);
	else if (status == FORBIDDEN)
		refuse(req, status, "the certificate does not name this node");
	else if (status == UNKNOWN_NODE)
		refuse(req, status, "say first what is held");
	else if (status == HTTP_SERVUNAVAIL)
		refuse(req, status, "nodes are still telling what they hold");
	else if (status == STANDS_BY)
		refuse(req, HTTP_SERVUNAVAIL, "this agent does not have that role");
	else if (status == HTTP_INTERNAL)
		refuse(req, status, "no memory");
	else
		refuse(req, status, "this is no message of a policy agent");
	s->count.malformed += !answer && status == HTTP_BADREQUEST;
	s->count.refused += !answer && status == FORBIDDEN;
	arm(s);
	s->after(s->ctx);
}

/* ---- start and end ---- */

static bool may_begin(void *ctx, int fd)
{
	struct rsk_pma_serve *s = ctx;

	if (may_ask(s, fd))
		return true;
	s->count.refused++;
	return false;
}

/* Without memory it is a plain connection, whose messages are refused: may_speak(). */
static struct bufferevent *accepting(struct event_base *base, void *arg)
{
	struct rsk_pma_serve *s = arg;

	return rsk_tls_accepting(s->tls, base);
}

int rsk_pma_serve_open(struct rsk_pma_serve *s, struct event_base *base, struct rsk_pma *pma,
		       const struct rsk_conf_pma *conf, struct rsk_tls *tls,
		       void (*after)(void *ctx), void *ctx)
{
	char ip[INET6_ADDRSTRLEN];

	rsk_central_init(&s->central_agent, &conf->central_agent, pma, rsk_clock_ns());
	s->after = after;
	s->ctx = ctx;
	s->allow = conf->allow;
	s->n_allow = conf->n_allow;
	s->http = evhttp_new(base);
	s->timer = evtimer_new(base, on_timer, s);
	if (!s->http || !s->timer)
		return -ENOMEM;
	evhttp_set_allowed_methods(s->http, EVHTTP_REQ_POST);
	evhttp_set_max_body_size(s->http, RSK_PMA_JSON_MOST);
	evhttp_set_max_headers_size(s->http, HEADERS_MOST);
	evhttp_set_timeout(s->http, IDLE_S + 2 * (int)(conf->central_agent.lost_ns / 1000000000u));
	evhttp_set_gencb(s->http, on_message, s);
	s->tls = tls;
	if (tls) {
		rsk_tls_accept_only(tls, may_begin, s);
		evhttp_set_bevcb(s->http, accepting, s);
	}
	for (size_t i = 0; i < conf->n_listen; i++) {
		const struct rsk_pm_addr *at = &conf->listen[i];

		inet_ntop(at->ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, at->ip, ip, sizeof(ip));
		errno = 0;
		if (evhttp_bind_socket(s->http, ip, at->port) < 0)
			return errno ? -errno : -EADDRNOTAVAIL;
	}
	arm(s);
	return 0;
}

void rsk_pma_serve_close(struct rsk_pma_serve *s)
{
	if (s->http) {
		evhttp_free(s->http);
		rsk_central_fini(&s->central_agent);
	}
	if (s->timer)
		event_free(s->timer);
	*s = (struct rsk_pma_serve){ 0 };
}

void rsk_pma_serve_reloaded(struct rsk_pma_serve *s, const struct rsk_conf_pma *conf)
{
	s->allow = conf->allow;
	s->n_allow = conf->n_allow;
	if (s->http)
		rsk_central_reloaded(&s->central_agent);
}
