/* SPDX-License-Identifier: BSD-2-Clause */
/* decision.h - one question on its way through rules and devices. Of pma.c, rules.c and rnic.c; nobody else's. */
#ifndef RSK_DECISION_H
#define RSK_DECISION_H

#include "conf.h"
#include "ledger.h"
#include "pma.h"

/* What was overloaded is so no more at this part of the limit. */
#define RSK_DECISION_RELIEF 0.9

/* All borrowed for the decision. */
struct rsk_decision {
	const struct rsk_conf *conf;
	const struct rsk_ledger *ledger;
	const uint32_t *port_account; /* of each port of the configuration */
	const struct rsk_pma_question *q;
	const uint8_t *local, *peer; /* addresses of our side and the other */
	const struct rsk_conf_service *service;
	uint32_t service_number, service_account, need;
	double load;
	bool overloaded; /* the node is */
	int week_minute; /* or less than 0, as what follows: it is not known */
	double transactions, rtt_ns, stream_bytes;
	void (*say)(void *ctx, const char *line); /* NULL: nobody listens */
	void *ctx;
};

__attribute__((format(printf, 2, 3))) void rsk_decision_say(const struct rsk_decision *d,
							    const char *fmt, ...);

/* Words cost more than decisions. */
#define RSK_SAY(d, ...)                                                                            \
	do {                                                                                       \
		if ((d)->say)                                                                      \
			rsk_decision_say(d, __VA_ARGS__);                                          \
	} while (0)

#define RSK_DECISION_IP RSK_PM_IP_TEXT
const char *rsk_decision_ip(const struct rsk_decision *d, const uint8_t ip[static 16],
			    char text[static RSK_DECISION_IP]);

#endif
