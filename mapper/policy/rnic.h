/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rnic.h - selects the port of an RNIC for a session. Called by pma.c.
 *
 * Outbound (CP): the candidates are the ports of the CP's node that reach the AP: by the configured
 * prefixes, or else by the routes of this node's kernel. Inbound (AP): the
 * port that owns the address is taken while it can be used at all and is not overloaded; otherwise,
 * and for an aggregate address, policy chooses. Excluded are ports that have no address of the
 * family, do not reach the peer, are not in the rule's group or of the session's class, are down or
 * drained, or have no room. A spare replaces a port that failed: as many as have failed, for
 * services with high availability. The best of the rest is chosen by, in this order: not overloaded
 * (conf.h) now or with this session; nearness to where the session was before (port, RNIC, node);
 * active before spare; own class before any class; order; load; the address that was asked for;
 * fewest sessions. Where the processors of the session's process are all of other NUMA nodes than
 * the RNIC, its load counts as RSK_RNIC_FAR_LOAD more: so a near one is taken as long as it is not
 * so much busier. What the node of a port reports of it (port_report.h) counts as well: what it
 * reaches, spare, class. Source: as in pma.h.
 */
#ifndef RSK_RNIC_H
#define RSK_RNIC_H

#include "decision.h"

#define RSK_RNIC_FAR_LOAD 0.25

#define RSK_RNIC_ROUTES_MOST 64u /* ports beyond it are not judged by routes */

/* The candidates. */
struct rsk_rnic_set {
	const uint32_t *ports; /* borrowed from the configuration */
	size_t n;
	uint32_t own;  /* the port that owns the address, or RSK_CONF_NONE */
	bool fixed;    /* only that one may be taken */
	bool in_order; /* in the order of the aggregate's list */
	/* Outbound: bit i: the kernel's routes do not lead from ports[i] to the peer */
	uint64_t no_route;
};

void rsk_rnic_candidates(const struct rsk_decision *d, struct rsk_rnic_set *out);

/*
 * @depends: the rule depends on the device; @priority: of the session; @near: the port where it was
 * before, or RSK_CONF_NONE. Returns RSK_PMA_MAP and *port; or why not: what rsk_rules_refusal()
 * returns if the rule holds for no device, NO_DEVICE, EXHAUSTED.
 */
enum rsk_pma_verdict rsk_rnic_select(const struct rsk_decision *d, const struct rsk_rnic_set *set,
				     const struct rsk_conf_rule *rule, bool depends,
				     unsigned int priority, uint32_t near, uint32_t *port);

/*
 * Returns the port's address for this session: the one in the question, or the first of the family.
 */
const uint8_t *rsk_rnic_ip(const struct rsk_decision *d, uint32_t port);

/* Returns the load as in the ledger. */
double rsk_rnic_load(const struct rsk_decision *d, uint32_t port);

#endif
