// SPDX-License-Identifier: BSD-2-Clause
/* api.c - see api.h. */
#include "api.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/keyvalq_struct.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "events.h"
#include "diag.h"
#include "conf_value.h"
#include "guests.h"
#include "pma_show.h"
#include "policy_api.h"
#include "reply.h"
#include "unix_listen.h"
#include "user.h"
#include "verdict.h"

#define BODY_MOST 65536
#define BACKLOG 128
#define IDLE_S 60

/* ---- addresses ---- */

static json_t *ip_json(const struct rsk_pm_addr *a)
{
	char text[RSK_PM_IP_TEXT];

	return json_string(rsk_pm_ip_text(a->ipv, a->ip, text));
}

/*
 * Parses "ip" and "port", and the optional "from" and "cp_port". Returns NULL, or what is wrong
 * with them.
 */
static const char *question_of(json_t *body, struct rsk_pm_msg *req)
{
	const char *ip = NULL, *from = NULL;
	struct rsk_pm_addr ap, cp;
	int port = 0, cp_port = 0;

	*req = (struct rsk_pm_msg){ .op = RSK_PM_REQ };
	if (json_unpack(body, "{s:s,s:i,s?s,s?i}", "ip", &ip, "port", &port, "from", &from,
			"cp_port", &cp_port) < 0)
		return "an object with \"ip\" and \"port\" is needed; "
		       "\"from\" and \"cp_port\" may be";
	if (rsk_conf_ip(ip, &ap) < 0)
		return "\"ip\" is no address";
	if (port < 1 || port > UINT16_MAX || cp_port < 0 || cp_port > UINT16_MAX)
		return "ports go from 1 to 65535";
	ap.port = (uint16_t)port;
	if (from && (rsk_conf_ip(from, &cp) < 0 || cp.ipv != ap.ipv))
		return "\"from\" is no address of the same family";
	if (!from && rsk_diag_source(&ap, &cp) < 0)
		return "there is no route to that address";
	req->ipv = ap.ipv;
	req->ap_port = ap.port;
	req->cp_port = (uint16_t)cp_port;
	memcpy(req->ap_ip, ap.ip, 16);
	memcpy(req->cp_ip, cp.ip, 16);
	return NULL;
}

/* ---- the routes ---- */

static void get_metrics(struct rsk_daemon *d, struct evhttp_request *req)
{
	struct evbuffer *out = evbuffer_new();

	if (!out) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
		return;
	}
	evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
			  "application/openmetrics-text; version=1.0.0; charset=utf-8");
	rsk_metrics_write(d, out);
	evhttp_send_reply(req, HTTP_OK, NULL, out);
	evbuffer_free(out);
}

static json_t *listening(const struct rsk_udp *u)
{
	json_t *list = json_array();

	for (size_t i = 0; i < u->n; i++)
		json_array_append_new(list, json_pack("{s:o,s:i}", "ip", ip_json(&u->sockets[i].at),
						      "port", u->sockets[i].at.port));
	return list;
}

/* The state that outlives the daemon. */
static json_t *state_json(const struct rsk_state *s)
{
	return json_pack("{s:s?,s:b,s:I,s:I,s:I,s:s?}", "path", s->disk->path, "saved",
			 s->disk->dir >= 0 && !rsk_state_is_pending(s), "taken",
			 (json_int_t)s->taken, "writes", (json_int_t)s->writes, "failures",
			 (json_int_t)s->failures, "error",
			 s->why_not ? strerror(s->why_not) : NULL);
}

/* Adds the member "cluster", if there is one; takes and returns the reference. */
static json_t *with_cluster(const struct rsk_daemon *d, json_t *body)
{
	json_t *cluster = rsk_policy_status(d);

	if (cluster)
		json_object_set_new(body, "cluster", cluster);
	return body;
}

static void get_status(struct rsk_daemon *d, struct evhttp_request *req)
{
	json_t *pmsp = json_object(), *client = json_object(), *policy = json_object();

#define PUT(name, text)                                                                            \
	json_object_set_new(pmsp, #name, json_integer((json_int_t)d->pmsp.count.name));
	RSK_PMSP_COUNTERS(PUT)
#undef PUT
#define PUT(name, text)                                                                            \
	json_object_set_new(client, #name, json_integer((json_int_t)d->client.count.name));
	RSK_PM_CLIENT_COUNTERS(PUT)
#undef PUT
	for (int v = 0; v <= RSK_PMA_REDIRECT; v++)
		json_object_set_new(policy, rsk_verdict_name((enum rsk_pma_verdict)v),
				    json_integer((json_int_t)d->agent.count.verdicts[v]));
	rsk_reply(req, HTTP_OK,
		  with_cluster(d,
			       json_pack("{s:s,s:i,s:I,s:s?,s:o,s:I,s:I,s:o,s:o,s:o,s:o,s:o}",
					 "version", RSOCK_VERSION, "pid", (int)getpid(), "up_s",
					 (json_int_t)((rsk_clock_ns() - d->started_ns) /
						      1000000000u),
					 "configuration", d->conf_path, "listens",
					 listening(&d->serve), "open", (json_int_t)d->pmsp.table.n,
					 "ports", (json_int_t)d->ports.n, "pmsp", pmsp, "client",
					 client, "policy", policy, "pma", rsk_pma_show_status(d),
					 "state", state_json(&d->state))));
}

static const char *state_name(const struct rsk_pma_device_view *v)
{
	if (v->state == RSK_PMA_DOWN)
		return "down";
	if (v->state == RSK_PMA_DRAINING)
		return "draining";
	return v->spare && !v->in_use_as_spare ? "spare" : "up";
}

/* Why the device is down; NULL: it is not. */
static const char *why_down(const struct rsk_pma_device_view *v)
{
	if (v->state != RSK_PMA_DOWN)
		return NULL;
	return v->absent ? rsk_absence_words(v->absent) : "its node reports it, or reports nothing";
}

static void get_devices(struct rsk_daemon *d, struct evhttp_request *req)
{
	size_t n;
	struct rsk_pma_device_view *view = rsk_agent_devices(&d->agent, &n);
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(
			list,
			json_pack("{s:s,s:s,s:s,s:s?,s:b,s:b,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I"
				  ",s:I,s:i}",
				  "name", view[i].name, "node", view[i].node, "state",
				  state_name(&view[i]), "why_down", why_down(&view[i]), "there",
				  (int)!view[i].absent, "soft", (int)view[i].soft, "overloaded",
				  (int)view[i].overloaded, "sessions", (json_int_t)view[i].sessions,
				  "promised", (json_int_t)view[i].promised, "sessions_max",
				  (json_int_t)view[i].sessions_max, "bps", (json_int_t)view[i].bps,
				  "bps_max", (json_int_t)view[i].bps_max, "carried_bps",
				  (json_int_t)view[i].carried_bps, "others_bps",
				  (json_int_t)view[i].others_bps, "memory_maps",
				  (json_int_t)view[i].memory_maps, "memory_maps_max",
				  (json_int_t)view[i].memory_maps_max, "rails",
				  (json_int_t)view[i].rails, "rails_booked",
				  (json_int_t)view[i].rails_booked, "bus_bps",
				  (json_int_t)view[i].bus.bps, "numa_node",
				  (int)view[i].bus.numa - 1)); /* -1: unknown, as in sysfs */
	free(view);
	rsk_reply(req, HTTP_OK, with_cluster(d, json_pack("{s:o}", "devices", list)));
}

static void say_line(void *ctx, const char *line)
{
	json_array_append_new(ctx, json_string(line));
}

/* The address that a mapping would get, NULL without one. A port of 0: one would be made. */
static json_t *address_of(const struct rsk_pma_question *q, const struct rsk_pma_answer *a)
{
	struct rsk_pm_addr at = { .ipv = q->ipv };

	if (a->verdict != RSK_PMA_MAP)
		return NULL;
	memcpy(at.ip, a->ip, 16);
	return json_pack("{s:o,s:i}", "ip", ip_json(&at), "port", a->port);
}

static void post_explain(struct rsk_daemon *d, struct evhttp_request *req)
{
	json_t *body = rsk_body_of(req), *steps = json_array();
	struct rsk_pma_question q = { .uid = RSK_PMA_NOBODY, .now_ns = rsk_clock_ns() };
	struct rsk_pma_answer answer = { 0 };
	struct rsk_agent_holder holder;
	const char *wrong, *side = "cp";
	struct rsk_pm_msg m;
	json_int_t user = -1;

	wrong = question_of(body, &m);
	if (!wrong && json_unpack(body, "{s?s,s?I}", "side", &side, "user", &user) < 0)
		wrong = "\"side\" is a string, \"user\" a number";
	if (!wrong && user > (json_int_t)UINT32_MAX)
		wrong = "\"user\" is no user id";
	if (!wrong && strcmp(side, "cp") != 0 && strcmp(side, "ap") != 0)
		wrong = "\"side\" is \"cp\" or \"ap\"";
	if (wrong) {
		rsk_refuse(req, HTTP_BADREQUEST, wrong);
	} else {
		q.side = strcmp(side, "ap") == 0 ? RSK_PMA_AP : RSK_PMA_CP;
		q.ipv = m.ipv;
		q.cp_port = m.cp_port;
		q.ap_port = m.ap_port;
		q.uid = RSK_PMA_NOBODY;
		q.listens = q.side == RSK_PMA_AP && rsk_local_holder(&d->local, &m, &holder);
		if (q.listens) {
			q.uid = holder.uid;
			q.numa_nodes = holder.numa_nodes;
		}
		if (user >= 0)
			q.uid = (uint32_t)user;
		memcpy(q.cp_ip, m.cp_ip, 16);
		memcpy(q.ap_ip, m.ap_ip, 16);
		q.rtt_us = rsk_agent_rtt_us(&d->agent, &q);
		rsk_agent_measure(&d->agent, q.now_ns);
		rsk_pma_explain(d->pma, &q, &answer, say_line, steps);
		rsk_reply(req, HTTP_OK,
			  json_pack("{s:s,s:s?,s:s?,s:o*,s:O}", "verdict",
				    rsk_verdict_name(answer.verdict), "rule", answer.rule, "device",
				    answer.device, "address", address_of(&q, &answer), "steps",
				    steps));
	}
	json_decref(steps);
	json_decref(body);
}

static const char *outcome_name(const struct rsk_map *m)
{
	if (m->answer.verdict != RSK_PMA_MAP)
		return "not-asked";
	switch (m->outcome) {
	case RSK_PM_MAPPED:
		return "mapped";
	case RSK_PM_REFUSED:
		return "refused";
	default:
		return "no-answer";
	}
}

static void map_done(struct rsk_map *m)
{
	struct evhttp_request *req = m->user;
	json_t *rdma = json_null();

	if (m->outcome == RSK_PM_MAPPED)
		rdma = json_pack("{s:o,s:i}", "ip", ip_json(&m->mapping.rdma), "port",
				 m->mapping.rdma.port);
	if (m->answer.verdict == RSK_PMA_MAP)
		rsk_pma_release(m->by->agent->pma, m->answer.reservation); /* it is not used */
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), NULL, NULL);
	rsk_reply(req, HTTP_OK,
		  json_pack("{s:s,s:s,s:s?,s:s?,s:o,s:{s:o,s:i}}", "outcome", outcome_name(m),
			    "verdict", rsk_verdict_name(m->answer.verdict), "rule",
			    m->rule[0] ? m->rule : NULL, "device", m->device[0] ? m->device : NULL,
			    "rdma", rdma, "asked", "ip", ip_json(&m->asked), "port",
			    m->asked.port));
	free(m);
}

static void map_abandoned(struct evhttp_connection *conn, void *arg)
{
	struct rsk_map *m = arg;

	rsk_map_cancel(m);
	free(m);
}

static void post_map(struct rsk_daemon *d, struct evhttp_request *req)
{
	struct rsk_map *m = calloc(1, sizeof(*m));
	json_t *body = rsk_body_of(req);
	struct ucred who = { 0 };
	const char *wrong;
	int rc;

	if (!m || !rsk_peer_of(req, &who)) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
		free(m);
		json_decref(body);
		return;
	}
	*m = (struct rsk_map){ .by = &d->maps,
			       .uid = rsk_user_is_one(who.uid) ? who.uid : RSK_PMA_NOBODY,
			       .done = map_done,
			       .user = req };
	wrong = question_of(body, &m->req);
	json_decref(body);
	if (wrong) {
		free(m);
		rsk_refuse(req, HTTP_BADREQUEST, wrong);
		return;
	}
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), map_abandoned, m);
	rc = rsk_map_start(m);
	if (rc < 0) {
		evhttp_connection_set_closecb(evhttp_request_get_connection(req), NULL, NULL);
		free(m);
		rsk_refuse(req, HTTP_SERVUNAVAIL, strerror(-rc));
	}
}

static void post_drain(struct rsk_daemon *d, struct evhttp_request *req)
{
	json_t *body = rsk_body_of(req);
	const char *device = NULL;
	int on = 1;

	if (!rsk_may_change(req))
		rsk_refuse(req, 403, "changes are for root and the daemon's own user");
	else if (json_unpack(body, "{s:s,s?b}", "device", &device, "on", &on) < 0)
		rsk_refuse(req, HTTP_BADREQUEST,
			   "an object with \"device\" is needed; \"on\" may be");
	else if (rsk_pma_device_set(d->pma, device, on ? RSK_PMA_DRAINING : RSK_PMA_UP) < 0)
		rsk_refuse(req, HTTP_NOTFOUND, "there is no such device");
	else {
		rsk_state_drained(&d->state, device, on);
		rsk_port_tables_check(&d->local.port_tables);
		rsk_reply(req, HTTP_OK,
			  json_pack("{s:s,s:s}", "device", device, "state",
				    on ? "draining" : "up"));
	}
	json_decref(body);
}

static void post_reload(struct rsk_daemon *d, struct evhttp_request *req)
{
	char error[512];

	if (!rsk_may_change(req))
		rsk_refuse(req, 403, "changes are for root and the daemon's own user");
	else if (rsk_daemon_reload(d, error, sizeof(error)) < 0)
		rsk_refuse(req, 409, error);
	else
		rsk_reply(req, HTTP_OK, json_pack("{s:s?}", "configuration", d->conf_path));
}

static const struct route {
	enum evhttp_cmd_type method;
	const char *path;
	void (*run)(struct rsk_daemon *d, struct evhttp_request *req);
} routes[] = {
	/* has to be first: it is the only one on TCP */
	{ EVHTTP_REQ_GET, "/metrics", get_metrics },
	{ EVHTTP_REQ_GET, "/v1/status", get_status },
	{ EVHTTP_REQ_GET, "/v1/devices", get_devices },
	{ EVHTTP_REQ_POST, "/v1/explain", post_explain },
	{ EVHTTP_REQ_POST, "/v1/map", post_map },
	{ EVHTTP_REQ_POST, "/v1/drain", post_drain },
	{ EVHTTP_REQ_POST, "/v1/reload", post_reload },
	{ EVHTTP_REQ_GET, "/v1/policy/history", rsk_policy_history },
	{ EVHTTP_REQ_GET, "/v1/policy/members", rsk_policy_members },
	{ EVHTTP_REQ_GET, "/v1/policy/services", rsk_policy_services },
	{ EVHTTP_REQ_GET, "/v1/policy/roles", rsk_policy_roles },
	{ EVHTTP_REQ_GET, "/v1/policy/ledger", rsk_policy_ledger },
	{ EVHTTP_REQ_POST, "/v1/policy/read", rsk_policy_read },
	{ EVHTTP_REQ_POST, "/v1/policy/push", rsk_policy_push },
	{ EVHTTP_REQ_POST, "/v1/policy/rollback", rsk_policy_rollback },
};

static void dispatch(struct rsk_daemon *d, struct evhttp_request *req, size_t n_routes)
{
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
	bool known = false;

	for (size_t i = 0; path && i < n_routes; i++) {
		if (strcmp(path, routes[i].path) != 0)
			continue;
		known = true;
		if (evhttp_request_get_command(req) != routes[i].method)
			continue;
		routes[i].run(d, req);
		rsk_daemon_arm(d);
		return;
	}
	rsk_refuse(req, known ? HTTP_BADMETHOD : HTTP_NOTFOUND,
		   known ? "another method" : "no such thing");
}

static void on_control(struct evhttp_request *req, void *arg)
{
	dispatch(arg, req, sizeof(routes) / sizeof(routes[0]));
}

static void on_metrics(struct evhttp_request *req, void *arg)
{
	dispatch(arg, req, 1);
}

/* ---- sockets ---- */

static struct evhttp *server(struct rsk_daemon *d, void (*run)(struct evhttp_request *, void *))
{
	struct evhttp *h = evhttp_new(d->base);

	if (!h)
		return NULL;
	evhttp_set_allowed_methods(h, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
	evhttp_set_max_body_size(h, BODY_MOST);
	evhttp_set_max_headers_size(h, BODY_MOST);
	evhttp_set_timeout(h, IDLE_S);
	evhttp_set_gencb(h, run, d);
	return h;
}

int rsk_api_open_control(struct rsk_daemon *d, const char *path)
{
	int fd = rsk_unix_listen(path, SOCK_STREAM, BACKLOG);
	struct evhttp_bound_socket *bound;

	if (fd < 0)
		return fd;
	d->control = server(d, on_control);
	if (d->control && d->settings.cluster.n_endpoints)
		evhttp_set_max_body_size(d->control, RSK_POLICY_BODY_MOST);
	bound = d->control ? evhttp_accept_socket_with_handle(d->control, fd) : NULL;
	if (!bound) {
		close(fd);
		return -ENOMEM;
	}
	d->control_guests = rsk_guests_new(d->control, bound);
	return d->control_guests ? 0 : -ENOMEM;
}

int rsk_api_open_metrics(struct rsk_daemon *d, const struct rsk_pm_addr *at)
{
	struct evhttp_bound_socket *bound;
	char ip[RSK_PM_IP_TEXT];

	d->metrics = server(d, on_metrics);
	if (!d->metrics)
		return -ENOMEM;
	rsk_pm_ip_text(at->ipv, at->ip, ip);
	errno = 0;
	bound = evhttp_bind_socket_with_handle(d->metrics, ip, at->port);
	if (!bound)
		return errno ? -errno : -EADDRNOTAVAIL;
	d->metrics_guests = rsk_guests_new(d->metrics, bound);
	return d->metrics_guests ? 0 : -ENOMEM;
}

void rsk_api_close(struct rsk_daemon *d)
{
	if (d->control)
		evhttp_free(d->control);
	if (d->metrics)
		evhttp_free(d->metrics);
	rsk_guests_free(d->control_guests);
	rsk_guests_free(d->metrics_guests);
	d->control = d->metrics = NULL;
	d->control_guests = d->metrics_guests = NULL;
}
