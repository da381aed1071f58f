/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h - between the protocol's machines and the policy agent: a PMReq becomes a question (F2), its answer a grant,
 * with a listen port made for it if the service has none of its own; and for our own side (F1) a question comes before
 * any PMReq. One thread.
 */
#ifndef RSK_AGENT_H
#define RSK_AGENT_H

#include "load.h"
#include "pm_client.h"
#include "pma.h"
#include "pmsp.h"
#include "ports.h"
#include "udp.h"

struct rsk_agent_counters {
	uint64_t verdicts[RSK_PMA_ELSEWHERE + 1];
	uint64_t redirected,
		redirects_dropped; /* by us; of those, such as had come too far already */
	uint64_t no_port;	   /* policy agreed, but no listen port could be had */
};

/* Borrows all that it points to. */
struct rsk_agent {
	struct rsk_pma *pma;
	struct rsk_ports *ports;
	struct rsk_udp *udp; /* of the PMSP */
	struct rsk_load *load;
	uint64_t session; /* reservation of the link that was let in last: its owner's to release */
	uint8_t hops;	  /* of the PMReq that is being taken in: how often it was redirected */
	struct rsk_agent_counters count;
};

/* With a struct rsk_agent as their ctx. */
extern const struct rsk_pmsp_ops rsk_agent_pmsp_ops;

/* What is measured, if it is time to; before each question. */
void rsk_agent_measure(struct rsk_agent *a, uint64_t now_ns);

/*
 * F1: may our side ask for this mapping at all? True: out->ip is where the link will come from, and out->reservation is
 * to be given back, or confirmed.
 */
bool rsk_agent_may_ask(struct rsk_agent *a, const struct rsk_pm_msg *req, uint32_t uid,
		       uint64_t now_ns, struct rsk_pma_answer *out);

/* All devices as they are, *n of them; allocated. NULL: there are none, or no memory. */
struct rsk_pma_device_view *rsk_agent_devices(const struct rsk_agent *a, size_t *n);

#endif
