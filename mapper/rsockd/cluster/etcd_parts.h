/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etcd_parts.h - between etcd.c (what a call is: endpoints in turn, tokens, verdicts) and
 * etcd_http.c (one HTTP exchange at a time, by libcurl under libevent). Only these two include it.
 */
#ifndef RSK_ETCD_PARTS_H
#define RSK_ETCD_PARTS_H

#include "curl_table.h"
#include "etcd.h"
#include "etcd_msg.h"

struct rsk_etcd_endpoint {
	char *url;
	bool is_dead; /* its name has no address */
};

/* The bytes of a file; owned. */
struct rsk_etcd_file {
	char *bytes;
	size_t n;
};

struct rsk_etcd {
	struct event_base *base;
	bool has_curl;
	/* libcurl's timer; and an event for calls that end before they begin */
	struct event *timer, *kick;
	CURLM *multi;
	struct rsk_etcd_endpoint *endpoints;
	size_t n_endpoints, n_alive, at;
	struct curl_slist *addresses; /* of endpoints that have names */
	struct rsk_etcd_file ca, certificate, key, password;
	char *user, *token;	     /* token NULL: none yet */
	struct rsk_etcd_call *login; /* the call that fetches the token; NULL: none does */
	uint64_t timeout_ns;
	struct rsk_etcd_call *calls;
	struct rsk_etcd_counters count;
};

struct rsk_etcd_call {
	struct rsk_etcd *by;
	struct rsk_etcd_call *prev, *next;
	struct rsk_etcd_question q; /* without its body */
	char *body;		    /* as text */
	/* ---- where it is: etcd.c ---- */
	uint64_t deadline_ns;
	size_t tried; /* endpoints */
	size_t at;    /* the endpoint of the exchange */
	/* The exchange under way is for a token; one that etcd had rejected was replaced */
	bool is_authenticating, was_renewed;
	bool is_parked;	       /* there is no exchange: it waits for another call's token */
	uint64_t token_number; /* of the token that the exchange has */
	/* ---- the exchange: etcd_http.c ---- */
	CURL *easy;
	struct curl_slist *headers;
	char *sent; /* body of the exchange; owned */
	char *in;
	size_t n_in, room;
	struct rsk_json_split split;
	json_t *objects; /* array: of a watch, not delivered yet */
	bool is_over, is_too_big, is_garbage;
	CURLcode result;
	char error[CURL_ERROR_SIZE];
};

/* ---- etcd_http.c ---- */

int rsk_etcd_http_open(struct rsk_etcd *e);
void rsk_etcd_http_close(struct rsk_etcd *e);
/*
 * Begins an exchange: POST of @body, whose ownership is taken, to @path of the call's endpoint.
 * @limit_ns 0: it may last. When it is over, or an object of a watch is there,
 * rsk_etcd_call_advance() is called from the event loop, after a failure to begin as well.
 */
void rsk_etcd_http_begin(struct rsk_etcd_call *c, const char *path, char *body, uint64_t limit_ns);
/* Ends the exchange, and frees what belongs to it. */
void rsk_etcd_http_end(struct rsk_etcd_call *c);

/* ---- etcd.c ---- */

/* An object was received, or the exchange is over. @c may be gone afterwards. */
void rsk_etcd_call_advance(struct rsk_etcd_call *c);

#endif
