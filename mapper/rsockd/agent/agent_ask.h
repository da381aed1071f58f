/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent_ask.h - a decision, with the central policy agent's word where the configuration wants it:
 *
 *	local	our own rules, devices and limits
 *	central	the central agent's; of our own only whether the device that it has chosen is there and has room
 *	both	first ours; what we would map has to be agreed to by the central agent, on the device that we have chosen
 *
 * What is reserved here and there belongs together (a lease, pma_ask.h): it is confirmed and released together, whoever
 * does that to the reservation. One thread.
 */
#ifndef RSK_AGENT_ASK_H
#define RSK_AGENT_ASK_H

#include "pma.h"
#include "pma_link.h"

/* All zero but for the agent and the link (NULL: no centre) at first. Borrows both. */
struct rsk_agent_ask {
	struct rsk_pma *pma;
	struct rsk_pma_link *link;
	struct rsk_agent_waiting *waiting; /* list */
	uint64_t silent_mapped; /* without the central agent's word, since it was silent */
};

/* The agent tells it of what becomes of reservations. */
void rsk_agent_ask_init(struct rsk_agent_ask *a, struct rsk_pma *pma, struct rsk_pma_link *link);
void rsk_agent_ask_fini(struct rsk_agent_ask *a);

/* As rsk_pma_decide()'s answer; its names are borrowed for the call. */
typedef void rsk_agent_decided(void *user, const struct rsk_pma_answer *answer);

/* True: *out is the answer (its names are borrowed until anything is done); false: decided() will be called, once. */
bool rsk_agent_decide(struct rsk_agent_ask *a, const struct rsk_pma_question *q,
		      struct rsk_pma_answer *out, rsk_agent_decided *decided, void *user);
/* @user is not interested any more. */
void rsk_agent_forget(struct rsk_agent_ask *a, const void *user);

/*
 * One session more on the mapping that a reservation is for: its reservation, or 0. With a central agent it needs a lease of
 * its own; the mapping's is used by the first, and the next one is asked for meanwhile.
 */
uint64_t rsk_agent_another(struct rsk_agent_ask *a, uint64_t reservation);

#endif
