/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_link.h - the local policy agent's connection to the central one: sends the messages of
 * pma_ask.h as HTTP with JSON over one TCP connection, one at a time, each with a time limit. It
 * never blocks. daemon_open.c opens it; agent_ask.c calls it. One thread.
 */
#ifndef RSK_PMA_LINK_H
#define RSK_PMA_LINK_H

#include <event2/event.h>
#include <event2/http.h>

#include "conf.h"
#include "load.h"
#include "pma_ask.h"
#include "tls.h"

/* Owns its connection and the state machine; borrows the policy agent. */
struct rsk_pma_link {
	struct event_base *base;
	struct rsk_pma *pma;
	struct rsk_load *load;
	struct rsk_ask ask;
	/* as configured, as the next field is; a reload may change both */
	enum rsk_conf_pma_mode mode;
	bool local_if_silent;
	char node_text[RSK_ASK_NAME];
	char host[48];
	struct rsk_pm_addr central_agent; /* port 0: there is none */
	uint64_t role; /* by which it was found; 0: the configuration names it, or there is none */
	struct rsk_tls *tls; /* borrowed; NULL: without */
	struct evhttp_connection *connection;
	bool is_over;		      /* the connection was closed; TLS cannot begin again on it */
	struct evhttp_request *going; /* the request in flight; NULL: none */
	struct event *timer, *overdue;
	struct rsk_ask_item *items; /* RSK_ASK_IDS of them: the message that is being built */
};

/*
 * @conf names a central agent, or says that one is found by its role: then there is none to ask
 * until rsk_pma_link_turn(). @node is copied; @load and @tls (or NULL) are borrowed. Returns 0 or
 * -ENOMEM.
 */
int rsk_pma_link_open(struct rsk_pma_link *l, struct event_base *base, struct rsk_pma *pma,
		      struct rsk_load *load, const struct rsk_conf_pma *conf, struct rsk_tls *tls,
		      const char *node);
void rsk_pma_link_close(struct rsk_pma_link *l);

/*
 * Turns to the agent at that address, which has the role of that revision; NULL: to none, as if it
 * were silent. What is under way is not waited for. Not called by the link's own callbacks.
 */
void rsk_pma_link_turn(struct rsk_pma_link *l, const struct rsk_pm_addr *to, uint64_t role);

/* Sends what is due and sets the timer. Called after each input to the state machine. */
void rsk_pma_link_arm(struct rsk_pma_link *l);

#endif
