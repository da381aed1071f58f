// SPDX-License-Identifier: BSD-2-Clause
/* pma_link.c - see pma_link.h. */
#include "pma_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pma_json.h"
#include "random.h"

static const char *const paths[] = {
	[RSK_ASK_REPORT] = "/v1/pma/report",
	[RSK_ASK_DECIDE] = "/v1/pma/decide",
	[RSK_ASK_RELEASE] = "/v1/pma/release",
	[RSK_ASK_CONFIRM] = "/v1/pma/confirm",
};

static struct timeval in_ns(uint64_t ns)
{
	return (struct timeval){ .tv_sec = (time_t)(ns / 1000000000u),
				 .tv_usec = (suseconds_t)(ns % 1000000000u / 1000) };
}

/* ---- answers ---- */

static bool take(struct rsk_pma_link *l, json_t *body, uint64_t now)
{
	struct rsk_ask_answer answers[RSK_ASK_BATCH];
	uint64_t ids[RSK_ASK_BATCH], hold;
	int n = 0;

	switch (l->ask.going) {
	case RSK_ASK_DECIDE:
		n = rsk_pma_json_take_answers(body, ids, answers);
		break;
	case RSK_ASK_REPORT:
		n = rsk_pma_json_take_hold(body, &hold);
		if (n == 0)
			rsk_ask_hold(&l->ask, hold);
		break;
	default:
		break;
	}
	if (n < 0)
		return false;
	rsk_ask_answered(&l->ask, ids, answers, (size_t)n, now);
	return true;
}

static void on_answer(struct evhttp_request *req, void *arg)
{
	struct rsk_pma_link *l = arg;
	int status = req ? evhttp_request_get_response_code(req) : 0;
	uint64_t now = rsk_clock_ns();
	json_t *body = NULL;

	l->going = NULL;
	event_del(l->overdue);
	if (status == HTTP_OK) {
		struct evbuffer *in = evhttp_request_get_input_buffer(req);
		size_t n = evbuffer_get_length(in);

		body = rsk_pma_json_read(evbuffer_pullup(in, -1), n);
	}
	if (status == 409)
		rsk_ask_unknown(&l->ask, now);
	else if (!body || !take(l, body, now))
		rsk_ask_failed(&l->ask, now);
	json_decref(body);
	l->is_over |= !req || !status;
	/* The next message may need another connection, and this is a callback of the last one. */
	if (l->tls)
		event_active(l->timer, EV_TIMEOUT, 0);
	else
		rsk_pma_link_arm(l);
}

static void hang_up(struct rsk_pma_link *l)
{
	if (l->connection)
		evhttp_connection_free(l->connection);
	l->connection = NULL;
	l->going = NULL;
}

/* The answer takes too long, or arrives bit by bit: the connection is closed. */
static void on_overdue(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_pma_link *l = arg;

	hang_up(l);
	rsk_ask_failed(&l->ask, rsk_clock_ns());
	rsk_pma_link_arm(l);
}

/* ---- messages ---- */

static json_t *report(struct rsk_pma_link *l, const struct rsk_pma_speaker *who, size_t n,
		      bool resume, bool last)
{
	size_t devices = rsk_pma_devices(l->pma, NULL, 0), own = 0;
	struct rsk_pma_device_view *view = calloc(devices + 1, sizeof(*view));
	struct rsk_central_device *out = calloc(devices + 1, sizeof(*out));
	json_t *body = NULL;
	double busy;

	if (rsk_load_check(l->load, rsk_clock_ns(), &busy) > 0)
		rsk_pma_load_set(l->pma, busy);
	if (view && out) {
		rsk_pma_devices(l->pma, view, devices);
		for (size_t i = 0; i < devices && own < RSK_CENTRAL_DEVICES; i++) {
			const struct rsk_pma_device_view *v = &view[i];
			struct rsk_central_device *d = &out[own];

			if (strcmp(v->node, l->node_text) != 0)
				continue;
			own++;
			snprintf(d->name, sizeof(d->name), "%s", v->name);
			memcpy(d->ip, v->ip, 16);
			d->ipv = v->ipv;
			d->state = v->state;
			d->sessions = v->sessions;
			d->sessions_max = v->sessions_max;
			d->bps = v->bps;
			d->bps_max = v->bps_max;
			d->others_bps = v->others_bps;
			rsk_pma_port_report(l->pma, i, &d->report);
		}
		body = rsk_pma_json_report(who, resume, l->ask.part, last, rsk_pma_load(l->pma),
					   out, own, l->items, n);
	}
	free(view);
	free(out);
	return body;
}

static json_t *message(struct rsk_pma_link *l, enum rsk_ask_kind kind, size_t n, bool resume,
		       bool last)
{
	const struct rsk_pma_speaker who = { l->node_text, l->ask.config.boot, l->role };

	if (kind == RSK_ASK_REPORT)
		return report(l, &who, n, resume, last);
	if (kind == RSK_ASK_DECIDE)
		return rsk_pma_json_questions(&who, l->items, n);
	return rsk_pma_json_ids(&who, l->items, n);
}

static void on_closed(struct evhttp_connection *connection, void *arg)
{
	struct rsk_pma_link *l = arg;

	l->is_over = true;
}

/* Not within a callback of the connection: it may free it. */
static struct evhttp_connection *connection(struct rsk_pma_link *l)
{
	struct bufferevent *secured = NULL;

	if (l->tls && l->is_over)
		hang_up(l);
	l->is_over = false;
	if (!l->connection && l->tls) {
		secured = rsk_tls_connecting(l->tls, l->base, &l->central_agent);
		if (!secured)
			return NULL;
	}
	if (!l->connection)
		l->connection = evhttp_connection_base_bufferevent_new(l->base, NULL, secured,
								       l->host,
								       l->central_agent.port);
	if (!l->connection && secured)
		bufferevent_free(secured);
	if (l->connection) {
		evhttp_connection_set_closecb(l->connection, on_closed, l);
		evhttp_connection_set_max_body_size(l->connection, RSK_PMA_JSON_MOST);
		evhttp_connection_set_max_headers_size(l->connection, 8192);
	}
	return l->connection;
}

/* Takes the reference of @body. False: nothing was sent. */
static bool post(struct rsk_pma_link *l, const char *path, json_t *body)
{
	struct evhttp_request *req = evhttp_request_new(on_answer, l);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct timeval tv = in_ns(l->ask.config.timeout_ns);
	bool ok = req && text && connection(l);

	json_decref(body);
	if (ok) {
		struct evkeyvalq *headers = evhttp_request_get_output_headers(req);

		evhttp_add_header(headers, "Host", l->host);
		evhttp_add_header(headers, "Content-Type", "application/json");
		ok = evbuffer_add(evhttp_request_get_output_buffer(req), text, strlen(text)) == 0;
	}
	free(text);
	if (!ok) {
		if (req)
			evhttp_request_free(req);
		return false;
	}
	l->going = req;
	event_add(l->overdue, &tv);
	/* It may fail at once; on_answer() has run by then. The request is freed by libevent. */
	return evhttp_make_request(l->connection, req, EVHTTP_REQ_POST, path) == 0;
}

void rsk_pma_link_arm(struct rsk_pma_link *l)
{
	uint64_t now = rsk_clock_ns(), next;
	bool resume, last;
	struct timeval tv;
	size_t n;

	if (!l->base)
		return;
	if (!l->going) {
		enum rsk_ask_kind kind =
			rsk_ask_next_message(&l->ask, now, l->items, &n, &resume, &last);

		if (kind != RSK_ASK_NOTHING &&
		    !post(l, paths[kind], message(l, kind, n, resume, last)) &&
		    l->ask.going != RSK_ASK_NOTHING) {
			l->going = NULL;
			event_del(l->overdue);
			rsk_ask_failed(&l->ask, now);
		}
	}
	next = rsk_ask_next(&l->ask);
	if (next == UINT64_MAX) {
		event_del(l->timer);
		return;
	}
	tv = in_ns(next > now ? next - now + 1000 : 0);
	event_add(l->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_pma_link *l = arg;

	rsk_ask_tick(&l->ask, rsk_clock_ns());
	rsk_pma_link_arm(l);
}

/* ---- start and end ---- */

static void set_agent(struct rsk_pma_link *l, const struct rsk_pm_addr *to)
{
	l->central_agent = *to;
	inet_ntop(to->ipv == RSK_PM_IPV6 ? AF_INET6 : AF_INET, to->ip, l->host, sizeof(l->host));
}

void rsk_pma_link_turn(struct rsk_pma_link *l, const struct rsk_pm_addr *to, uint64_t role)
{
	static const struct rsk_pm_addr none = { .ipv = RSK_PM_IPV4 };
	uint64_t boot = 0;

	hang_up(l);
	event_del(l->overdue);
	set_agent(l, to ? to : &none);
	l->role = to ? role : 0;
	while (to && !boot)
		boot = rsk_random_u64();
	rsk_ask_turn(&l->ask, boot, rsk_clock_ns());
	rsk_pma_link_arm(l);
}

int rsk_pma_link_open(struct rsk_pma_link *l, struct event_base *base, struct rsk_pma *pma,
		      struct rsk_load *load, const struct rsk_conf_pma *conf, struct rsk_tls *tls,
		      const char *node)
{
	*l = (struct rsk_pma_link){ .base = base,
				    .pma = pma,
				    .load = load,
				    .tls = tls,
				    .mode = conf->mode,
				    .local_if_silent = conf->local_if_silent };
	snprintf(l->node_text, sizeof(l->node_text), "%s", node);
	set_agent(l, &conf->central);
	rsk_ask_init(&l->ask, &conf->ask);
	l->items = calloc(RSK_ASK_IDS, sizeof(*l->items));
	l->timer = evtimer_new(base, on_timer, l);
	l->overdue = evtimer_new(base, on_overdue, l);
	if (!l->items || !l->timer || !l->overdue)
		return -ENOMEM;
	if (conf->central.port)
		rsk_pma_link_arm(l);
	else
		rsk_pma_link_turn(l, NULL, 0);
	return 0;
}

void rsk_pma_link_close(struct rsk_pma_link *l)
{
	if (!l->base)
		return;
	hang_up(l);
	rsk_ask_fini(&l->ask);
	free(l->items);
	if (l->timer)
		event_free(l->timer);
	if (l->overdue)
		event_free(l->overdue);
	*l = (struct rsk_pma_link){ 0 };
}
