/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_serve.h - the central policy agent's server: HTTP with JSON (pma_json.h) over TCP, for the
 * hosts that the configuration allows. A host that is allowed may speak for any node. daemon_open.c
 * opens it.
 *
 *	POST /v1/pma/decide	POST /v1/pma/release	POST /v1/pma/confirm	POST /v1/pma/report
 *
 * Status 409: the node is unknown, and has to report what it holds; 503: too soon after a start, or
 * this agent does not have the role by which the node has found it. One thread.
 */
#ifndef RSK_PMA_SERVE_H
#define RSK_PMA_SERVE_H

#include <event2/event.h>
#include <event2/http.h>

#include "conf.h"
#include "pma_central.h"
#include "tls.h"

struct rsk_pma_serve_counters {
	/* refused: the sender is not an allowed host, or its certificate has another name */
	/* stood_by: the sender asks for a role that this agent does not have (any more, or yet) */
	uint64_t messages, refused, malformed, stood_by;
};

/* Owns its sockets and the state machine. */
struct rsk_pma_serve {
	struct evhttp *http;
	struct rsk_tls *tls; /* borrowed; NULL: without */
	struct event *timer;
	struct rsk_central central_agent;
	const struct rsk_conf_prefix *allow; /* borrowed from the configuration in force */
	size_t n_allow;
	void (*after)(void *ctx); /* called after each message */
	/*
	 * The revision of the role that this daemon has in the cluster at the moment, 0: none.
	 * NULL: there is no cluster
	 */
	uint64_t (*role)(void *ctx);
	uint64_t last_role; /* when it was looked at last */
	void *ctx;
	struct rsk_pma_serve_counters count;
};

/* Listens at the configured addresses; @tls: NULL, or borrowed. Returns 0 or -errno. */
int rsk_pma_serve_open(struct rsk_pma_serve *s, struct event_base *base, struct rsk_pma *pma,
		       const struct rsk_conf_pma *conf, struct rsk_tls *tls,
		       void (*after)(void *ctx), void *ctx);
void rsk_pma_serve_close(struct rsk_pma_serve *s);

/*
 * The role may have changed. Nodes that come by a new one may hold what another agent has granted:
 * nothing is granted until they have had time to say so.
 */
void rsk_pma_serve_look(struct rsk_pma_serve *s);

/*
 * A new configuration is in force: takes its list of allowed hosts, and applies again what nodes
 * have reported of their devices.
 */
void rsk_pma_serve_reloaded(struct rsk_pma_serve *s, const struct rsk_conf_pma *conf);

#endif
