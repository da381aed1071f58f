/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * map.h - asks for mappings as a PM client: F1 first, which may take the central agent's word,
 * then the PMSP. local_rendezvous.c asks so for connections of processes, and api.c for an operator. One
 * thread.
 */
#ifndef RSK_MAP_H
#define RSK_MAP_H

#include "agent.h"
#include "conf.h"
#include "pm_client.h"
#include "udp.h"

/* What all questions need; borrows it. */
struct rsk_map_client {
	struct rsk_agent *agent;
	struct rsk_pm_client *client;
	struct rsk_udp *udp; /* of the PM client */
	const struct rsk_conf_daemon *settings;
};

/*
 * One question. done() is called once, perhaps at once; @answer is F1's; if that is not MAP there was no PMReq, and
 * outcome says REFUSED.
 */
struct rsk_map {
	const struct rsk_map_client *by;
	struct rsk_pm_msg req;
	struct rsk_pm_addr asked; /* the PMSP */
	struct rsk_pma_answer
		answer; /* but its names: a reload takes them away, and these are copies */
	char rule[256], device[256]; /* "": none */
	uint32_t uid;
	bool waits; /* for the central agent's word */
	enum rsk_pm_outcome outcome;
	struct rsk_pm_mapping mapping;
	void (*done)(struct rsk_map *m);
	void *user;
};
/* 0; -errno: done() will not be called. */
int rsk_map_start(struct rsk_map *m);
void rsk_map_cancel(struct rsk_map *m);

/* The PM client's: what became of @user's question, which is an rsk_map. */
void rsk_map_done(void *ctx, void *user, enum rsk_pm_outcome outcome,
		  const struct rsk_pm_mapping *m);

#endif
