/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * decision.h - the state of one decision on its way through rules and devices. Only pma.c, rules.c
 * and rnic.c use it.
 */
#ifndef RSK_DECISION_H
#define RSK_DECISION_H

#include "conf.h"
#include "ledger.h"
#include "pma.h"
#include "port_report.h"

/* An overload ends when the load falls below this part of the limit. */
#define RSK_DECISION_RELIEF 0.9

/* Everything is borrowed for the duration of the decision. */
struct rsk_decision {
	const struct rsk_conf *conf;
	const struct rsk_ledger *ledger;
	const uint32_t *port_account; /* ledger account of each port of the configuration */
	const struct rsk_port_report *reports; /* by port: of its node's agent */
	const struct rsk_pma_question *q;
	const uint8_t *local, *peer; /* addresses of our side and of the other side */
	const struct rsk_conf_service *service;
	uint32_t service_number, service_account, need;
	double load;
	/* This node is overloaded; by its load, or only since a service carries too little. */
	bool overloaded, load_over;
	int week_minute; /* or negative: not known; the same for the next three */
	double transactions, rtt_ns, stream_bytes;
	/* Of rsk_pma_routes(); NULL: routes are not asked. */
	int (*routes_lead)(void *ctx, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to);
	void *routes_ctx;
	void (*say)(void *ctx, const char *line); /* NULL: explanations are not wanted */
	void *ctx;
};

__attribute__((format(printf, 2, 3))) void rsk_decision_say(const struct rsk_decision *d,
							    const char *fmt, ...);

/* Formatting an explanation costs more than a decision, so it is skipped if it is not wanted. */
#define RSK_SAY(d, ...)                                                                            \
	do {                                                                                       \
		if ((d)->say)                                                                      \
			rsk_decision_say(d, __VA_ARGS__);                                          \
	} while (0)

#define RSK_DECISION_IP RSK_PM_IP_TEXT
const char *rsk_decision_ip(const struct rsk_decision *d, const uint8_t ip[static 16],
			    char text[static RSK_DECISION_IP]);

#endif
