/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_central.h - the central policy agent's side of its exchange with local ones: which nodes it hears of, what they
 * say of their devices, and what each of them has on our books. A pure machine: the clock is handed in.
 *
 * A node is known from its first report on, as long as it reports: its devices are then as it says, and what it was
 * granted stays on the books. Unheard of for so long, its devices count as down, what it was granted is released, and
 * it is unknown; it then has to say what it holds before it may ask. So must all after a start: until any that was
 * granted something by our former life has given itself up or told us, nothing is granted (a grace period, as of a lock
 * manager). A node that names another boot is another life of that node: what the former one held is released. One
 * thread.
 */
#ifndef RSK_PMA_CENTRAL_H
#define RSK_PMA_CENTRAL_H

#include "deadline.h"
#include "pma.h"
#include "pma_ask.h"

#define RSK_CENTRAL_DEVICES 4096 /* of a node */

#define RSK_CENTRAL_COUNTERS(X)                                                                    \
	X(questions, "questions of local agents")                                                  \
	X(granted, "of them, granted")                                                             \
	X(released, "grants given back")                                                           \
	X(reports, "reports of nodes")                                                             \
	X(resumed, "grants that nodes told us of")                                                 \
	X(lost, "nodes that were not heard of any more")                                           \
	X(expired, "grants released, since their node was lost or started anew")                   \
	X(unknown_nodes, "messages of nodes that were not known")

struct rsk_central_counters {
#define RSK_CENTRAL_FIELD(name, text) uint64_t name;
	RSK_CENTRAL_COUNTERS(RSK_CENTRAL_FIELD)
#undef RSK_CENTRAL_FIELD
};

/* What a node says of a port of its RNICs. */
struct rsk_central_device {
	char name[RSK_ASK_NAME];
	uint8_t ip[16], ipv;
	enum rsk_pma_device_state state;
	uint64_t sessions, sessions_max, bps, bps_max, others_bps;
};

struct rsk_central_grant;

/* Owned by its centre. */
struct rsk_central_node {
	char name[RSK_ASK_NAME];
	uint64_t boot;
	bool resuming;	/* has not told all that it holds, */
	uint32_t parts; /* but so many parts of it */
	double load;
	struct rsk_central_device *devices; /* owned; as it says */
	size_t n_devices;
	size_t n_grants;
	struct rsk_central_grant *grants; /* list */
	uint64_t heard_ns;
	struct rsk_deadline timer;
	struct rsk_central_node *next; /* in the order of their coming */
};

/* Owns nodes and their grants' records; borrows the agent. */
struct rsk_central {
	struct rsk_central_config config;
	struct rsk_pma *pma;
	struct rsk_central_node *nodes;
	size_t n_nodes, n_grants;
	struct rsk_central_grant *table; /* uthash, by node and number */
	struct rsk_deadlines timers;
	uint64_t grace_until_ns; /* 0: over */
	struct rsk_central_counters count;
};

void rsk_central_init(struct rsk_central *c, const struct rsk_central_config *config,
		      struct rsk_pma *pma, uint64_t now_ns);
/* Releases all that is granted. */
void rsk_central_fini(struct rsk_central *c);

/* Known, and of this boot; NULL: it has to report what it holds. */
struct rsk_central_node *rsk_central_find(struct rsk_central *c, const char *name, uint64_t boot);

/*
 * A report. @devices: allocated, taken over whatever comes of it. @resume: it tells what it holds, with
 * rsk_central_resume() for each, in parts from 0 on; @last: that is all. NULL: it is not known and tells nothing, or not
 * from the first part on; or there are too many.
 */
struct rsk_central_node *rsk_central_report(struct rsk_central *c, const char *name, uint64_t boot,
					    bool resume, uint32_t part, bool last, double load,
					    struct rsk_central_device *devices, size_t n,
					    uint64_t now_ns);
void rsk_central_resume(struct rsk_central *c, struct rsk_central_node *node,
			const struct rsk_ask_item *item, uint64_t now_ns);

/* May a question be answered yet? */
bool rsk_central_in_grace(const struct rsk_central *c, uint64_t now_ns);

/* A question of that number; once more: judged anew, and what was granted to it before is replaced, or released. */
void rsk_central_decide(struct rsk_central *c, struct rsk_central_node *node, uint64_t id,
			const struct rsk_ask_key *key, uint64_t now_ns, struct rsk_ask_answer *out);
void rsk_central_release(struct rsk_central *c, struct rsk_central_node *node, uint64_t id);
void rsk_central_confirm(struct rsk_central *c, struct rsk_central_node *node, uint64_t id);

/* Another configuration is in force: what nodes said holds for it, too. */
void rsk_central_reloaded(struct rsk_central *c);

uint64_t rsk_central_next(const struct rsk_central *c);
void rsk_central_tick(struct rsk_central *c, uint64_t now_ns);

bool rsk_central_validate(const struct rsk_central *c);

/* The question of a key, for either side of the exchange. */
struct rsk_pma_question rsk_ask_question(const struct rsk_ask_key *key, uint64_t now_ns);

#endif
