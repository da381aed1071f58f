/* SPDX-License-Identifier: BSD-2-Clause */
/* rules.h - sub-functions evaluated: true or false for a question and, where they ask for one, a device. Pure. */
#ifndef RSK_RULES_H
#define RSK_RULES_H

#include "decision.h"

enum rsk_rules_value {
	RSK_RULES_FALSE,
	RSK_RULES_TRUE,
	RSK_RULES_DEPENDS /* on the device */
};

/* @port: a port of the configuration; RSK_CONF_NONE: not known, for DEPENDS. */
enum rsk_rules_value rsk_rules_ask(const struct rsk_decision *d, uint32_t function, uint32_t port);

/*
 * What to call it that a function does not hold: OVERLOAD if it would without the node's load, NOT_WORTH if it would
 * with no measurement (round trips, bytes of streams), else NO_RULE.
 */
enum rsk_pma_verdict rsk_rules_refusal(const struct rsk_decision *d, uint32_t function,
				       uint32_t port);

/* The first condition that does not hold, in words with its values. Of a function that does not. */
void rsk_rules_why_not(const struct rsk_decision *d, uint32_t function, uint32_t port, char *text,
		       size_t n);

#endif
