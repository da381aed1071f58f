/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_world.h - a model of the port mapper on a clock of its own: APs with a PMSP each, CPs with a
 * PM client each, and a network between them that loses, duplicates, delays, garbles and replays
 * datagrams. It records what each decider has promised: each grant is given back or used once, each
 * question answered once and by its own service.
 */
#ifndef PM_WORLD_H
#define PM_WORLD_H

#include "dice.h"
#include "pm_client.h"
#include "pmsp.h"

#define WORLD_APS 3
#define WORLD_CPS 6
#define WORLD_SERVICES 8
#define WORLD_FLIGHT 4096
#define WORLD_GRANTS 65536
#define WORLD_QUESTIONS 65536

struct world_net {
	uint32_t lose, twice, garble, replay; /* per 1000 */
	uint64_t delay_ns;		      /* upper bound; the order is random */
};

struct world_datagram {
	uint64_t due_ns; /* 0: free */
	struct rsk_pm_addr from, to;
	uint8_t bytes[80];
	size_t n;
};

enum world_grant_state {
	WORLD_NONE,
	WORLD_HELD,
	WORLD_SESSION, /* used for the last time */
	WORLD_BACK
};

struct world_grant {
	enum world_grant_state state;
	int ap, service;
	struct rsk_pm_msg req;
};

struct world_question {
	int cp, ap, service;
	uint16_t cp_port;
	int answers;
	enum rsk_pm_outcome outcome;
	struct rsk_pm_mapping mapping;
};

struct world_host {
	struct world *w;
	int number;
	struct rsk_pm_addr at;
};

struct world_ap {
	struct world_host host;
	struct rsk_pmsp pmsp;
	bool up[WORLD_SERVICES];
	int room[WORLD_SERVICES]; /* sessions that can still be granted */
	uint8_t pm_time_s[WORLD_SERVICES];
	bool later;		     /* decides with a delay */
	struct rsk_pm_msg asked[64]; /* and these requests wait for its decision */
	int n_asked;
};

struct world_cp {
	struct world_host host;
	struct rsk_pm_client client;
};

struct world {
	uint64_t dice, now_ns;
	struct world_net net;
	struct world_ap ap[WORLD_APS];
	struct world_cp cp[WORLD_CPS];
	struct world_datagram flight[WORLD_FLIGHT];
	size_t flying;
	struct world_grant grants[WORLD_GRANTS];
	size_t n_grants;
	struct world_question questions[WORLD_QUESTIONS];
	size_t n_questions;
	uint64_t faults, links, links_refused;
};

/* The caller owns the result and frees it with world_free(). */
struct world *world_new(uint64_t seed, const struct world_net *net,
			const struct rsk_pmsp_config *pmsp,
			const struct rsk_pm_client_config *client);
void world_free(struct world *w);

uint64_t world_roll(struct world *w, uint64_t below);
bool world_chance(struct world *w, uint32_t of_1000);

/*
 * The CP asks the AP for a service (@cp_port 0: a mapping of it). Returns the number of the
 * question.
 */
size_t world_ask(struct world *w, int cp, int ap, int service, uint16_t cp_port);

/*
 * The CP of an answered question connects its link, or another address does (@from_elsewhere).
 * Returns true if it was admitted.
 */
bool world_link(struct world *w, size_t question, bool from_elsewhere);

/* Sends a datagram that belongs to no transaction: random bytes, or a PMReq with any source. */
void world_forge(struct world *w, int ap);

/* Deciders with a delay decide now. */
void world_decide(struct world *w, int ap);

/*
 * Advances the time by @ns; due events happen in order, and everything is validated after each
 * step.
 */
void world_run(struct world *w, uint64_t ns);

/*
 * Runs without new events for as long as anything could be held. Afterwards everything must be as
 * it was at the start.
 */
void world_settle(struct world *w);

uint16_t world_rdma_port(int service);

#endif
