/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * map.h - asks for mappings as a PM client: first policy (F1), which may have to ask the central
 * agent, then the PMSP of the other host. local_ask.c calls it for connections of processes, api.c
 * for an operator. One thread.
 */
#ifndef RSK_MAP_H
#define RSK_MAP_H

#include "agent.h"
#include "conf.h"
#include "pm_client.h"
#include "udp.h"

/* What all requests need; borrows it. */
struct rsk_map_client {
	struct rsk_agent *agent;
	struct rsk_pm_client *client;
	struct rsk_udp *udp; /* of the PM client */
	const struct rsk_conf_daemon *settings;
	/*
	 * The central PMSPs of the cluster, in this host's order. *cursor: UINT64_MAX for the
	 * first. False: there is no other one
	 */
	bool (*central)(void *ctx, uint64_t *cursor, struct rsk_pm_addr *out);
	void *ctx;
};

/*
 * One request. done() is called once, possibly before rsk_map_start() returns. @answer is the
 * result of F1; if its verdict is not MAP, no PMReq was sent and outcome is REFUSED.
 */
struct rsk_map {
	const struct rsk_map_client *by;
	struct rsk_pm_msg req;
	struct rsk_pm_addr asked; /* address of the PMSP; port 0: none is known */
	uint64_t cursor;	  /* of the central PMSPs that were not asked yet */
	/*
	 * Result of F1, without its strings: a reload frees those, so they are copied to rule and
	 * device
	 */
	struct rsk_pma_answer answer;
	char rule[256], device[256]; /* "": none */
	uint32_t uid;
	uint64_t numa_nodes; /* of the asking process; 0: any, or not known */
	bool waits;	     /* for the central agent's answer */
	enum rsk_pm_outcome outcome;
	struct rsk_pm_mapping mapping;
	void (*done)(struct rsk_map *m);
	void *user;
};
/* Returns 0, or -errno; after an error done() is not called. */
int rsk_map_start(struct rsk_map *m);
/* Drops the request and releases what is reserved for it; done() is not called. */
void rsk_map_cancel(struct rsk_map *m);

/* Called by the PM client when request @user, a struct rsk_map, has ended. */
void rsk_map_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
		  const struct rsk_pm_mapping *m);

#endif
