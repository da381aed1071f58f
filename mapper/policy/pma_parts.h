/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_parts.h - what the agent's two sources share. Only pma*.c include this. */
#ifndef RSK_PMA_PARTS_H
#define RSK_PMA_PARTS_H

#include "conf.h"
#include "decision.h"
#include "ledger.h"
#include "measures.h"
#include "pma.h"

/* The configuration's numbers, and the ledger's. Owned. */
struct rsk_pma_bound {
	uint32_t *ports;	       /* accounts */
	uint32_t *services[2];	       /* the same, by side */
	uint32_t *needs;	       /* of services */
	struct rsk_measures *measures; /* the same; it is carried over by name */
	/* Accounts of what another agent has decided on, and is not of this configuration: a port, and by side. */
	uint32_t other_port, other_services[2];
};

struct rsk_pma {
	struct rsk_conf *conf;
	struct rsk_ledger ledger;
	struct rsk_pma_bound bound;
	double load;
	struct rsk_pma_observer observer;
	bool overloaded;
	int week_minute; /* -1: not known */
	uint64_t events[RSK_PMA_EVENTS];
	void (*happened)(void *ctx, enum rsk_pma_event event, const char *device); /* or NULL */
	void *happened_ctx;
};

/* pma_watch.c: is a limit crossed? After whatever was booked on a port, or given back; and of everything. */
void rsk_pma_watch(struct rsk_pma *a, uint32_t port_account);
void rsk_pma_watch_all(struct rsk_pma *a);
bool rsk_pma_watch_validate(const struct rsk_pma *a);

/* Of @port, which may be RSK_CONF_NONE: one that is not of this configuration. */
static inline uint32_t rsk_pma_port_account(const struct rsk_pma *a, uint32_t port)
{
	return port == RSK_CONF_NONE ? a->bound.other_port : a->bound.ports[port];
}

/* pma_admit.c: is it another agent's service; one more session like that one, if there is room, or 0. */
bool rsk_pma_is_foreign(const struct rsk_pma *a, uint32_t service_account);
/* Something that others are told of. */
void rsk_pma_changed(const struct rsk_pma *a);
/* May a port have one more of that need, whoever's? RSK_PMA_MAP, or why not. */
enum rsk_pma_verdict rsk_pma_takes(const struct rsk_pma *a, uint32_t port_account, uint32_t need);
uint64_t rsk_pma_once_more(struct rsk_pma *a, const struct rsk_ledger_view *v);

#endif
