// SPDX-License-Identifier: BSD-2-Clause
/* etcd_http.c - see etcd_parts.h: libcurl's multi interface, driven by libevent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_parts.h"

#define CONNECTIONS_MOST 8L
#define CONNECT_MS 2000L
/* A peer that has vanished is noticed within half a minute, in a watch without traffic as well. */
#define KEEPALIVE_S 10L

/* ---- libcurl and the event loop ---- */

static void settle(struct rsk_etcd *e);

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_etcd *e = arg;
	int mask = (what & EV_READ ? CURL_CSELECT_IN : 0) |
		   (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
	int running;

	rsk_curl.multi_action(e->multi, fd, mask, &running);
	settle(e);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct rsk_etcd *e = arg;
	int running;

	rsk_curl.multi_action(e->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	settle(e);
}

static void on_kick(evutil_socket_t fd, short what, void *arg)
{
	settle(arg);
}

/* libcurl wants to know when a socket is ready; @known is the event that it has for it so far. */
static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	struct rsk_etcd *e = ctx;
	struct event *event = known;
	short events = EV_PERSIST;

	if (event)
		event_free(event);
	event = NULL;
	if (what != CURL_POLL_REMOVE) {
		events |= what & CURL_POLL_IN ? EV_READ : 0;
		events |= what & CURL_POLL_OUT ? EV_WRITE : 0;
		event = event_new(e->base, fd, events, on_socket, e);
		if (event && event_add(event, NULL) < 0) {
			event_free(event);
			event = NULL;
		}
	}
	rsk_curl.multi_assign(e->multi, fd, event);
	return event || what == CURL_POLL_REMOVE ? 0 : -1;
}

static int set_timer(CURLM *multi, long ms, void *ctx)
{
	const struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct rsk_etcd *e = ctx;

	if (ms < 0)
		return event_del(e->timer);
	return event_add(e->timer, &tv);
}

/* Marks the calls whose exchange is over. */
static void collect(struct rsk_etcd *e)
{
	struct rsk_etcd_call *c;
	CURLMsg *message;
	CURL *easy;
	CURLcode result;
	int left;

	while ((message = rsk_curl.multi_info_read(e->multi, &left)))
		if (message->msg == CURLMSG_DONE) {
			easy = message->easy_handle; /* removing it frees the message */
			result = message->data.result;
			for (c = e->calls; c && c->easy != easy; c = c->next)
				;
			if (!c)
				continue;
			c->is_over = true;
			c->result = result;
			rsk_curl.multi_remove(e->multi, easy);
		}
}

/*
 * Tells the calls about which there is something to tell. Each may start, end or cancel any call,
 * so the list is searched from its start again.
 */
static void settle(struct rsk_etcd *e)
{
	struct rsk_etcd_call *c;

	collect(e);
	do {
		for (c = e->calls; c; c = c->next)
			if (c->is_over || json_array_size(c->objects))
				break;
		if (c)
			rsk_etcd_call_advance(c);
	} while (c);
}

/* ---- what arrives ---- */

/* Moves the complete objects at the start of what was received to the call's list. */
static int take_objects(struct rsk_etcd_call *c, size_t from)
{
	size_t begin = 0, at = from;
	json_error_t error;
	ssize_t n;

	while (at < c->n_in && (n = rsk_json_split(&c->split, c->in + at, c->n_in - at)) != 0) {
		json_t *object = n > 0 ? json_loadb(c->in + begin, at + (size_t)n - begin,
						    JSON_REJECT_DUPLICATES, &error) :
					 NULL;

		if (!object || json_array_append_new(c->objects, object) < 0)
			return -EPROTO;
		at += (size_t)n;
		begin = at;
		c->split = (struct rsk_json_split){ 0 };
	}
	memmove(c->in, c->in + begin, c->n_in - begin);
	c->n_in -= begin;
	return 0;
}

static size_t on_bytes(char *bytes, size_t one, size_t n, void *ctx)
{
	struct rsk_etcd_call *c = ctx;
	size_t before = c->n_in, room;
	char *more;

	n *= one;
	if (c->n_in + n > c->room) {
		room = 2 * (c->n_in + n);
		more = realloc(c->in, room);
		if (!more)
			return 0;
		c->in = more;
		c->room = room;
	}
	memcpy(c->in + c->n_in, bytes, n);
	c->n_in += n;
	if (c->objects && take_objects(c, before) < 0) {
		c->is_garbage = true;
		return 0;
	}
	c->is_too_big = c->n_in > c->q.answer_most;
	return c->is_too_big ? 0 : n;
}

/* ---- one exchange ---- */

static bool set_blob(CURL *easy, CURLoption option, const struct rsk_etcd_file *file)
{
	struct curl_blob blob = { file->bytes, file->n, CURL_BLOB_NOCOPY };

	return !file->bytes || rsk_curl.easy_setopt(easy, option, &blob) == CURLE_OK;
}

/* With a CA of its own the system's are not trusted. */
static bool set_tls(struct rsk_etcd *e, CURL *easy)
{
	bool ok = set_blob(easy, CURLOPT_CAINFO_BLOB, &e->ca) &&
		  set_blob(easy, CURLOPT_SSLCERT_BLOB, &e->certificate) &&
		  set_blob(easy, CURLOPT_SSLKEY_BLOB, &e->key);

	if (e->ca.bytes)
		ok &= rsk_curl.easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
	return ok && rsk_curl.easy_setopt(easy, CURLOPT_SSLVERSION,
					  (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK;
}

static bool add_header(struct rsk_etcd_call *c, const char *text)
{
	struct curl_slist *more = rsk_curl.slist_append(c->headers, text);

	if (more)
		c->headers = more;
	return more != NULL;
}

static bool set_headers(struct rsk_etcd_call *c)
{
	const char *token = c->is_authenticating ? NULL : c->by->token;
	char line[5000];

	if (!add_header(c, "Content-Type: application/json") || !add_header(c, "Expect:"))
		return false;
	snprintf(line, sizeof(line), "Authorization: %s", token ? token : "");
	return !token || add_header(c, line);
}

static bool set_up(struct rsk_etcd_call *c, const char *path, uint64_t limit_ns)
{
	struct rsk_etcd *e = c->by;
	long limit_ms = (long)((limit_ns + 999999) / 1000000);
	long connect_ms = limit_ms && limit_ms < CONNECT_MS ? limit_ms : CONNECT_MS;
	char url[512];
	bool ok = set_headers(c) && set_tls(e, c->easy);

	snprintf(url, sizeof(url), "%s%s", e->endpoints[c->at].url, path);
#define SET(option, value)                                                                         \
	(ok = ok && rsk_curl.easy_setopt(c->easy, CURLOPT_##option, value) == CURLE_OK)
	SET(URL, url);
	/* No proxy of the environment, no redirection, no signals. */
	SET(PROTOCOLS_STR, "http,https");
	SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(PROXY, "");
	SET(NOSIGNAL, 1L);
	SET(TCP_KEEPALIVE, 1L);
	SET(TCP_KEEPIDLE, KEEPALIVE_S);
	SET(TCP_KEEPINTVL, KEEPALIVE_S / 4);
	SET(CONNECTTIMEOUT_MS, connect_ms);
	SET(TIMEOUT_MS, limit_ms);
	SET(HTTPHEADER, c->headers);
	SET(POSTFIELDS, c->sent);
	SET(POSTFIELDSIZE_LARGE, (curl_off_t)strlen(c->sent));
	SET(WRITEFUNCTION, on_bytes);
	SET(WRITEDATA, c);
	SET(ERRORBUFFER, c->error);
	if (e->addresses)
		SET(RESOLVE, e->addresses);
	/* libcurl repeats a request that an old connection has lost; a change is sent only once. */
	if (c->q.method == RSK_ETCD_TXN)
		SET(FRESH_CONNECT, 1L);
#undef SET
	return ok;
}

void rsk_etcd_http_begin(struct rsk_etcd_call *c, const char *path, char *body, uint64_t limit_ns)
{
	bool is_stream = c->q.method == RSK_ETCD_WATCH && !c->is_authenticating;

	rsk_etcd_http_end(c);
	c->sent = body;
	c->easy = rsk_curl.easy_init();
	c->objects = is_stream ? json_array() : NULL;
	c->result = CURLE_OUT_OF_MEMORY;
	if (body && c->easy && (c->objects || !is_stream) && set_up(c, path, limit_ns) &&
	    rsk_curl.multi_add(c->by->multi, c->easy) == CURLM_OK)
		return;
	c->is_over = true;
	event_active(c->by->kick, EV_TIMEOUT, 0);
}

void rsk_etcd_http_end(struct rsk_etcd_call *c)
{
	if (c->easy) {
		if (!c->is_over)
			rsk_curl.multi_remove(c->by->multi, c->easy);
		rsk_curl.easy_cleanup(c->easy);
	}
	rsk_curl.slist_free_all(c->headers);
	json_decref(c->objects);
	free(c->in);
	if (c->sent && c->is_authenticating)
		explicit_bzero(c->sent, strlen(c->sent));
	free(c->sent);
	c->easy = NULL;
	c->headers = NULL;
	c->objects = NULL;
	c->in = c->sent = NULL;
	c->n_in = c->room = 0;
	c->split = (struct rsk_json_split){ 0 };
	c->is_over = c->is_too_big = c->is_garbage = false;
	*c->error = 0;
}

/* ---- start and end ---- */

int rsk_etcd_http_open(struct rsk_etcd *e)
{
	bool ok;

	e->multi = rsk_curl.multi_init();
	e->timer = evtimer_new(e->base, on_timer, e);
	e->kick = event_new(e->base, -1, 0, on_kick, e);
	ok = e->multi && e->timer && e->kick;
#define SET(option, value)                                                                         \
	(ok = ok && rsk_curl.multi_setopt(e->multi, CURLMOPT_##option, value) == CURLM_OK)
	SET(SOCKETFUNCTION, watch_socket);
	SET(SOCKETDATA, e);
	SET(TIMERFUNCTION, set_timer);
	SET(TIMERDATA, e);
	SET(MAX_TOTAL_CONNECTIONS, CONNECTIONS_MOST);
#undef SET
	return ok ? 0 : -ENOMEM;
}

void rsk_etcd_http_close(struct rsk_etcd *e)
{
	if (e->multi)
		rsk_curl.multi_cleanup(e->multi);
	if (e->timer)
		event_free(e->timer);
	if (e->kick)
		event_free(e->kick);
}
