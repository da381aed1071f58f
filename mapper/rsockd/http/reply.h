/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reply.h - reads and answers requests to the operator's API: who asks, JSON bodies. Called by
 * api.c and policy_api.c.
 */
#ifndef RSK_REPLY_H
#define RSK_REPLY_H

#include <event2/http.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/socket.h>

/* The process at the other end of the control socket. */
bool rsk_peer_of(struct evhttp_request *req, struct ucred *who);
/* Whether it is of root, or of the daemon's own user. */
bool rsk_may_change(struct evhttp_request *req);

/* Takes the reference of @body. */
void rsk_reply(struct evhttp_request *req, int status, json_t *body);
void rsk_refuse(struct evhttp_request *req, int status, const char *why);
/* A new reference; NULL: the request has no JSON. */
json_t *rsk_body_of(struct evhttp_request *req);

#endif
