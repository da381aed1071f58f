/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * etcd.h - calls to etcd's v3 API, by its JSON gateway, over HTTP or HTTPS, in the daemon's event
 * loop. Several endpoints are tried in turn, in an order that is random unless the configuration
 * says otherwise, each call has a deadline, an answer has a limit, and
 * a token is fetched where there is a user. Nothing blocks after rsk_etcd_new(). etcd_msg.h builds
 * the requests and converts the answers. One thread.
 */
#ifndef RSK_ETCD_H
#define RSK_ETCD_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

struct rsk_etcd;
struct rsk_etcd_call;

enum rsk_etcd_method {
	RSK_ETCD_RANGE,
	RSK_ETCD_PUT,
	RSK_ETCD_TXN,	   /* changes something: sent once only */
	RSK_ETCD_TXN_READ, /* ranges only */
	RSK_ETCD_WATCH,
	RSK_ETCD_LEASE_GRANT,
	RSK_ETCD_LEASE_KEEPALIVE,
	RSK_ETCD_LEASE_REVOKE,
};

/*
 * What became of a call. 0: @body is etcd's answer, borrowed until the callback returns. Otherwise
 * @why says in one line what is wrong, and which endpoint it was:
 *   -EHOSTUNREACH  no endpoint was reached, nothing was executed
 *   -ETIMEDOUT     there was no answer; a change may have been executed or not
 *   -EFBIG         the answer is larger than its limit
 *   -EACCES        etcd does not let us
 *   -ENOENT        etcd does not know the lease (any more)
 *   -EREMOTEIO     etcd has refused the call
 *   -EPROTO        the answer is not one of etcd
 *   -ENOMEM
 * A watch ends with one of these, and never with 0.
 */
typedef void rsk_etcd_done(void *ctx, int rc, const json_t *body, const char *why);
/* An object of a watch: its "result", borrowed. */
typedef void rsk_etcd_event(void *ctx, const json_t *result);

struct rsk_etcd_question {
	enum rsk_etcd_method method;
	json_t *body; /* its reference is taken */
	/* Limit of the answer, or of an object of a watch */
	size_t answer_most;
	/* The call may take so long, if that is less than the configured time; 0: that time */
	uint64_t limit_ns;
	rsk_etcd_done *done; /* the call does not exist any more */
	rsk_etcd_event *event;
	void *ctx;
};

#define RSK_ETCD_COUNTERS(X)                                                                       \
	X(calls, "calls to etcd")                                                                  \
	X(failures, "calls to etcd that failed at an endpoint")                                    \
	X(tokens, "tokens that etcd has given")

struct rsk_etcd_counters {
#define X(name, text) uint64_t name;
	RSK_ETCD_COUNTERS(X)
#undef X
};

/*
 * Loads libcurl, reads certificates and the password, and resolves the endpoints' names; an
 * endpoint whose name has no address is reported, and left out. NULL: @error has a line for the
 * operator. Blocks.
 */
struct rsk_etcd *rsk_etcd_new(struct event_base *base, const struct rsk_conf_cluster *conf,
			      char *error, size_t n);
/* Ends all calls; their callbacks are not called. @e NULL: nothing. */
void rsk_etcd_free(struct rsk_etcd *e);

/*
 * Starts a call. One of the callbacks is called later, from the event loop, never from in here;
 * they may start and cancel calls. NULL: no memory, and no callback is called.
 */
struct rsk_etcd_call *rsk_etcd_ask(struct rsk_etcd *e, const struct rsk_etcd_question *q);
/* Ends a call whose @done was not called yet. @call NULL: nothing. */
void rsk_etcd_cancel(struct rsk_etcd_call *call);
/*
 * Whether others are asked at another endpoint by now, since the one that this call is at has
 * failed one of them. A watch without events does not notice that by itself.
 */
bool rsk_etcd_was_left(const struct rsk_etcd_call *call);

struct rsk_etcd_counters rsk_etcd_count(const struct rsk_etcd *e);
/* The endpoint that is asked now. Borrowed until @e is freed. */
const char *rsk_etcd_endpoint(const struct rsk_etcd *e);

#endif
