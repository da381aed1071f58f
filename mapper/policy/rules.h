/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rules.h - evaluates sub-functions: true or false for a question and, if they depend on it, a
 * device. Called by pma.c and rnic.c. Pure.
 */
#ifndef RSK_RULES_H
#define RSK_RULES_H

#include "decision.h"

enum rsk_rules_value {
	RSK_RULES_FALSE,
	RSK_RULES_TRUE,
	RSK_RULES_DEPENDS /* depends on the device */
};

/* @port: a port of the configuration; RSK_CONF_NONE: not known, the result may be DEPENDS. */
enum rsk_rules_value rsk_rules_ask(const struct rsk_decision *d, uint32_t function, uint32_t port);

/*
 * Returns the reason why a function does not hold: OVERLOAD if it would hold without the node's
 * load, NOT_WORTH if it would hold without measurements (round trips, bytes of streams), else
 * NO_RULE.
 */
enum rsk_pma_verdict rsk_rules_refusal(const struct rsk_decision *d, uint32_t function,
				       uint32_t port);

/*
 * Describes the first condition that does not hold, with its values. For a function that does not
 * hold.
 */
void rsk_rules_why_not(const struct rsk_decision *d, uint32_t function, uint32_t port, char *text,
		       size_t n);

#endif
