// SPDX-License-Identifier: BSD-2-Clause
/* reply.c - see reply.h. */
#include "reply.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <unistd.h>

#include "user.h"

bool rsk_peer_of(struct evhttp_request *req, struct ucred *who)
{
	struct evhttp_connection *conn = evhttp_request_get_connection(req);
	struct bufferevent *bev = conn ? evhttp_connection_get_bufferevent(conn) : NULL;
	socklen_t len = sizeof(*who);

	return bev && getsockopt(bufferevent_getfd(bev), SOL_SOCKET, SO_PEERCRED, who, &len) == 0;
}

bool rsk_may_change(struct evhttp_request *req)
{
	struct ucred who;

	return rsk_peer_of(req, &who) &&
	       (rsk_user_same(who.uid, 0) || rsk_user_same(who.uid, geteuid()));
}

void rsk_reply(struct evhttp_request *req, int status, json_t *body)
{
	struct evbuffer *out = evbuffer_new();
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

	json_decref(body);
	if (!out || !text) {
		evhttp_send_error(req, HTTP_INTERNAL, NULL);
	} else {
		evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type",
				  "application/json");
		evbuffer_add_printf(out, "%s\n", text);
		evhttp_send_reply(req, status, NULL, out);
	}
	free(text);
	if (out)
		evbuffer_free(out);
}

void rsk_refuse(struct evhttp_request *req, int status, const char *why)
{
	rsk_reply(req, status, json_pack("{s:s}", "error", why));
}

json_t *rsk_body_of(struct evhttp_request *req)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(req);
	size_t n = evbuffer_get_length(in);
	json_error_t error;

	return json_loadb((const char *)evbuffer_pullup(in, -1), n, JSON_REJECT_DUPLICATES, &error);
}
