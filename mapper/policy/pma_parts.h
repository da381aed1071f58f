/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_parts.h - shared by the source files of the policy agent. Only pma*.c include this. */
#ifndef RSK_PMA_PARTS_H
#define RSK_PMA_PARTS_H

#include "conf.h"
#include "decision.h"
#include "ledger.h"
#include "measures.h"
#include "pma.h"

/* Maps the configuration's numbers to the ledger's. Owned. */
struct rsk_pma_bound {
	uint32_t *ports;	       /* accounts, by port */
	uint32_t *services[2];	       /* accounts, by side and service */
	uint32_t *needs;	       /* by service */
	struct rsk_measures *measures; /* by service; carried over by name */
	/* By port, of other nodes; their agents report again after a reload */
	struct rsk_port_report *reports;
	/*
	 * Accounts for sessions that another agent has decided on and that are not in this
	 * configuration: a port, and a service by side.
	 */
	uint32_t other_port, other_services[2];
};

struct rsk_pma {
	struct rsk_conf *conf;
	struct rsk_ledger ledger;
	struct rsk_pma_bound bound;
	double load;
	struct rsk_pma_observer observer;
	/* This node: its load, or a service that carries too little; both together. */
	bool load_over, service_below, overloaded;
	int week_minute;       /* -1: not known */
	uint64_t period_at_ns; /* end of the last period of the services' levels; 0: none yet */
	/* Of rsk_pma_routes(); NULL: routes are not asked. */
	int (*routes_lead)(void *ctx, const struct rsk_pm_addr *from, const struct rsk_pm_addr *to);
	void *routes_ctx;
	uint32_t qos_changes;
	uint64_t events[RSK_PMA_EVENTS];
	void (*happened)(void *ctx, enum rsk_pma_event event, const char *name); /* or NULL */
	void *happened_ctx;
};

/*
 * pma_state.c: sets the limits of bandwidth of a port and of its RNIC; @bps: the configured one, or
 * 0.
 */
void rsk_pma_bus_limits(struct rsk_ledger_account *port, struct rsk_ledger_account *rnic,
			uint64_t bps);

/* pma_watch.c: an RNIC is attached like that. */
void rsk_pma_bus_set(struct rsk_pma *a, uint32_t rnic, const struct rsk_bus *bus);

/* pma_watch.c: checks limits, after something was booked on a port or released; and all limits. */
void rsk_pma_watch(struct rsk_pma *a, uint32_t port_account);
void rsk_pma_watch_all(struct rsk_pma *a);
void rsk_pma_watch_node(struct rsk_pma *a);
void rsk_pma_tell(struct rsk_pma *a, enum rsk_pma_event event, const char *name);
bool rsk_pma_watch_validate(const struct rsk_pma *a);

/*
 * pma_qos.c: the rate of a session of that service and priority on that port (RSK_CONF_NONE: of
 * another agent); @overloaded: this node is.
 */
uint64_t rsk_pma_rate(const struct rsk_conf *conf, const struct rsk_conf_service *service,
		      uint32_t port, unsigned int priority, bool overloaded);

/* @port may be RSK_CONF_NONE: a port that is not in this configuration. */
static inline uint32_t rsk_pma_port_account(const struct rsk_pma *a, uint32_t port)
{
	return port == RSK_CONF_NONE ? a->bound.other_port : a->bound.ports[port];
}

/* pma_admit.c: true if the account is for another agent's services. */
bool rsk_pma_is_foreign(const struct rsk_pma *a, uint32_t service_account);
/* Calls the observer's changed(). */
void rsk_pma_changed(const struct rsk_pma *a);
/* Returns RSK_PMA_MAP if a port can take one more session of that need, or why not. */
enum rsk_pma_verdict rsk_pma_takes(const struct rsk_pma *a, uint32_t port_account, uint32_t need);

#endif
