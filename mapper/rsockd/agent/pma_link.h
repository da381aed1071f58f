/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_link.h - carries what the local policy agent has to say to the central one (pma_ask.h): HTTP with JSON over one
 * TCP connection, one message at a time, each for a bounded time. It never blocks. One thread.
 */
#ifndef RSK_PMA_LINK_H
#define RSK_PMA_LINK_H

#include <event2/event.h>
#include <event2/http.h>

#include "conf.h"
#include "load.h"
#include "pma_ask.h"

/* Owns its connection and the machine; borrows the agent's devices. */
struct rsk_pma_link {
	struct event_base *base;
	struct rsk_pma *pma;
	struct rsk_load *load;
	struct rsk_ask ask;
	enum rsk_conf_pma_mode mode; /* as configured, with what follows; may change at a reload */
	bool local_if_silent;
	char node_text[RSK_ASK_NAME];
	char host[48];
	struct rsk_pm_addr central_agent;
	struct evhttp_connection *connection;
	struct evhttp_request *going; /* NULL: none */
	struct event *timer, *overdue;
	struct rsk_ask_item *items; /* of RSK_ASK_IDS: the message that is being made */
};

/* @conf names a central agent; @node is copied; @load is borrowed. 0 or -ENOMEM. */
int rsk_pma_link_open(struct rsk_pma_link *l, struct event_base *base, struct rsk_pma *pma,
		      struct rsk_load *load, const struct rsk_conf_pma *conf, const char *node);
void rsk_pma_link_close(struct rsk_pma_link *l);

/* Sends what is due and sets its timer: after each time that the machine was given something. */
void rsk_pma_link_arm(struct rsk_pma_link *l);

#endif
