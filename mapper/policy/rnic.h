/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rnic.h - which port of which RNIC a session is put on.
 *
 * Outbound (CP): the ports of the CP's node that reach the AP. Inbound (AP): an address that is one port's own fixes
 * it while it can be used at all, and has not too much to do; else, and of an aggregate address, policy has the
 * choice. Left out is what has no address of the family, does not reach the peer, is not of the rule's group or of
 * the session's class, is down or drained, or has no room. A spare stands in for a port that failed: as many as have
 * failed, for services of high availability. Of the rest the first is taken by: whether it has too much to do
 * (overload, conf.h) or would have; nearness to where the session was before (port, RNIC, node); active before
 * spare; class of its own before any; order; load; the address that was asked for; fewest sessions.
 * Source: as in pma.h.
 */
#ifndef RSK_RNIC_H
#define RSK_RNIC_H

#include "decision.h"

/* What there is to choose from. */
struct rsk_rnic_set {
	const uint32_t *ports; /* borrowed from the configuration */
	size_t n;
	uint32_t own;  /* the port whose own the address is, or RSK_CONF_NONE */
	bool fixed;    /* it is to be that one */
	bool in_order; /* as the aggregate lists them */
};

void rsk_rnic_candidates(const struct rsk_decision *d, struct rsk_rnic_set *out);

/*
 * @depends: the rule holds for some devices, perhaps; @priority: of the session; @near: a port where it was before, or
 * RSK_CONF_NONE. RSK_PMA_MAP and *port; or why not: what rsk_rules_refusal() calls it that the rule holds for no
 * device, NO_DEVICE, EXHAUSTED.
 */
enum rsk_pma_verdict rsk_rnic_select(const struct rsk_decision *d, const struct rsk_rnic_set *set,
				     const struct rsk_conf_rule *rule, bool depends,
				     unsigned int priority, uint32_t near, uint32_t *port);

/* Its address for this session: the one that is in the question, or the first of the family. */
const uint8_t *rsk_rnic_ip(const struct rsk_decision *d, uint32_t port);

/* As of the ledger. */
double rsk_rnic_load(const struct rsk_decision *d, uint32_t port);

#endif
