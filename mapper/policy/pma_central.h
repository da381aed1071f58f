/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_central.h - the central policy agent's side of its exchange with local ones: which nodes
 * report, what they report of their devices, and what is booked for each of them. Used by rsockd. A
 * pure state machine: the caller passes the time.
 *
 * A node is known from its first report on, as long as it reports: its devices are as it reports,
 * and its grants stay booked. If it is silent for too long, its devices count as down, its grants
 * are released, and it is unknown; then it has to report what it holds before it may ask. The same
 * holds for all nodes after a start: nothing is granted until every node with grants of our former
 * incarnation has expired or reported them (a grace period, as in a lock manager). A node that
 * names another boot id is another incarnation: the grants of the former one are released. One
 * thread.
 */
#ifndef RSK_PMA_CENTRAL_H
#define RSK_PMA_CENTRAL_H

#include "deadline.h"
#include "pma.h"
#include "pma_ask.h"
#include "port_report.h"

#define RSK_CENTRAL_DEVICES 1024 /* of a node: so many fit into a message */

#define RSK_CENTRAL_COUNTERS(X)                                                                    \
	X(questions, "requests of local agents")                                                   \
	X(granted, "of these, granted")                                                            \
	X(released, "grants returned")                                                             \
	X(reports, "reports of nodes")                                                             \
	X(resumed, "grants that nodes reported")                                                   \
	X(lost, "nodes that no longer report")                                                     \
	X(expired, "grants released because their node was lost or restarted")                     \
	X(unknown_nodes, "messages of unknown nodes")

struct rsk_central_counters {
#define RSK_CENTRAL_FIELD(name, text) uint64_t name;
	RSK_CENTRAL_COUNTERS(RSK_CENTRAL_FIELD)
#undef RSK_CENTRAL_FIELD
};

/* What a node reports of a port of its RNICs. */
struct rsk_central_device {
	char name[RSK_ASK_NAME];
	uint8_t ip[16], ipv;
	enum rsk_pma_device_state state;
	uint64_t sessions, sessions_max, bps, bps_max, others_bps;
	struct rsk_port_report report;
};

struct rsk_central_grant;

/* Owned by its central agent. */
struct rsk_central_node {
	char name[RSK_ASK_NAME];
	uint64_t boot;
	bool resuming;	/* it has not reported all that it holds yet */
	uint32_t parts; /* parts that it has reported so far */
	double load;
	struct rsk_central_device *devices; /* owned; as reported */
	size_t n_devices;
	size_t n_grants;
	struct rsk_central_grant *grants; /* list */
	uint64_t heard_ns;
	struct rsk_deadline timer;
	struct rsk_central_node *next; /* newest first */
};

/* Owns nodes and the records of their grants; borrows the policy agent. */
struct rsk_central {
	struct rsk_central_config config;
	struct rsk_pma *pma;
	struct rsk_central_node *nodes;
	size_t n_nodes, n_grants;
	struct rsk_central_grant *table; /* hash table by node and id */
	struct rsk_deadlines timers;
	uint64_t grace_until_ns; /* 0: over */
	struct rsk_central_counters count;
};

void rsk_central_init(struct rsk_central *c, const struct rsk_central_config *config,
		      struct rsk_pma *pma, uint64_t now_ns);
/* Releases all grants. */
void rsk_central_fini(struct rsk_central *c);

/* Returns the node if it is known and of this boot; NULL: it has to report what it holds. */
struct rsk_central_node *rsk_central_find(struct rsk_central *c, const char *name, uint64_t boot);

/*
 * Takes a report. @devices: allocated; ownership passes in any case. @resume: it reports what it
 * holds, with one rsk_central_resume() each, in parts from 0 on; @last: that is the last part.
 * NULL: the node is unknown and does not resume, or not from the first part on; or there are too
 * many nodes.
 */
struct rsk_central_node *rsk_central_report(struct rsk_central *c, const char *name, uint64_t boot,
					    bool resume, uint32_t part, bool last, double load,
					    struct rsk_central_device *devices, size_t n,
					    uint64_t now_ns);
void rsk_central_resume(struct rsk_central *c, struct rsk_central_node *node,
			const struct rsk_ask_item *item, uint64_t now_ns);

/*
 * From now on nodes turn to this agent, which may hold grants of another one: nothing is granted
 * until they have reported them, as after a start.
 */
void rsk_central_take_over(struct rsk_central *c, uint64_t now_ns);

/* True if no question may be answered yet. */
bool rsk_central_in_grace(const struct rsk_central *c, uint64_t now_ns);

/*
 * Decides a question with that id. If the id was granted before, it is decided anew, and the former
 * grant is replaced or released.
 */
void rsk_central_decide(struct rsk_central *c, struct rsk_central_node *node, uint64_t id,
			const struct rsk_ask_key *key, uint64_t now_ns, struct rsk_ask_answer *out);
void rsk_central_release(struct rsk_central *c, struct rsk_central_node *node, uint64_t id);
void rsk_central_confirm(struct rsk_central *c, struct rsk_central_node *node, uint64_t id);

/* Another configuration is in force: applies what the nodes have reported to it. */
void rsk_central_reloaded(struct rsk_central *c);

uint64_t rsk_central_next(const struct rsk_central *c);
void rsk_central_tick(struct rsk_central *c, uint64_t now_ns);

bool rsk_central_validate(const struct rsk_central *c);

#endif
