/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent_ask.h - decides a question by policy, asking the central policy agent if the configuration
 * wants it:
 *
 *	local	our own rules, devices and limits
 *	central	the central agent decides; we only check whether the device that it has chosen
 *		is present and has room
 *	both	our policy decides first; what we would map, the central agent has to agree to,
 *		on the device that we have chosen
 *
 * A reservation here and a lease of the central agent (pma_ask.h) belong together: when the
 * reservation is confirmed or released, so is the lease. agent.c calls this. One thread.
 */
#ifndef RSK_AGENT_ASK_H
#define RSK_AGENT_ASK_H

#include "pma.h"
#include "pm_msg.h"
#include "pma_link.h"

/*
 * The ledger of remote ports: the quota folder, which lies above this one, implements it. Each is
 * told of a reservation: of one that a session of a CP of ours is to have, and of its end.
 */
struct rsk_agent_quota_ops {
	/* False: the other host's RNIC takes no session. @there: it exists already. */
	bool (*begin)(void *ctx, const struct rsk_pm_msg *req, uint64_t reservation, bool there);
	void (*ended)(void *ctx, uint64_t reservation);
	void (*moved)(void *ctx, uint64_t from, uint64_t to);
};

/* Initially all zero except for the agent and the link (NULL: no central agent). Borrows both. */
struct rsk_agent_ask {
	struct rsk_pma *pma;
	struct rsk_pma_link *link;
	struct rsk_agent_waiting *waiting; /* list of open questions to the central agent */
	const struct rsk_agent_quota_ops *quota_ops; /* NULL: there is no ledger of remote ports */
	void *quota_ctx;
	uint64_t silent_mapped; /* mapped without the central agent's answer, since it was silent */
};

/* Registers as observer of @pma, to be told of confirmed and released reservations. */
void rsk_agent_ask_init(struct rsk_agent_ask *a, struct rsk_pma *pma, struct rsk_pma_link *link);
/* From now on there is a ledger of remote ports. */
void rsk_agent_ask_quotas(struct rsk_agent_ask *a, const struct rsk_agent_quota_ops *ops,
			  void *ctx);
void rsk_agent_ask_fini(struct rsk_agent_ask *a);

/* Gets an answer as rsk_pma_decide() returns it; its strings are borrowed for the call. */
typedef void rsk_agent_decided(void *user, const struct rsk_pma_answer *answer);

/*
 * Decides @q. True: *out is the answer; its strings are borrowed until the next call. False:
 * decided() will be called once.
 */
bool rsk_agent_decide(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		      struct rsk_pma_answer *out, rsk_agent_decided *decided, void *user);

/*
 * The differentiated service of a session that holds @reservation, as it is now; all zero: nothing
 * is decided. In mode "both" the lower rate of the two holds, and the rest is our own decision.
 */
void rsk_agent_qos(const struct rsk_agent_ask *a, uint64_t reservation, struct rsk_qos *out);

/* Drops the decided() call that is due to @user. */
void rsk_agent_forget(struct rsk_agent_ask *a, const void *user);

#endif
