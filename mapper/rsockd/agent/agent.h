/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h - between the protocol's machines and the policy agents, ours and perhaps a central one: a PMReq becomes a
 * question (F2), its answer a grant, with a listen port made for it if the service has none of its own; and for our own
 * side (F1) a question comes before any PMReq. One thread.
 */
#ifndef RSK_AGENT_H
#define RSK_AGENT_H

#include <rsock/tuple.h>

#include "agent_ask.h"
#include "load.h"
#include "pm_client.h"
#include "pma.h"
#include "pmsp.h"
#include "ports.h"
#include "udp.h"

struct rsk_agent_counters {
	uint64_t verdicts[RSK_PMA_REDIRECT + 1];
	uint64_t redirected,
		redirects_dropped; /* by us; of those, such as had come too far already */
	uint64_t no_port;	   /* policy agreed, but no listen port could be had */
	uint64_t waited,
		came; /* PMReq that waited for the accepting end; of those, that it came to */
};

/* Whom a request could be for: a connection's end that seeks, or who listens there. */
struct rsk_agent_holder {
	uint32_t uid;
	uint16_t rail; /* the port at which its process accepts rails; 0: none */
	bool comes;    /* it will seek, or has, and its process may yet have such a port */
};

/* What the agent asks of the processes of this host, which lie a floor above it (local.h). */
struct rsk_local;
struct rsk_agent_local_ops {
	/* False: nobody, and *out says so. */
	bool (*holder)(const struct rsk_local *l, const struct rsk_pm_msg *req,
		       struct rsk_agent_holder *out);
	/* Rails that are reserved by the port of that name. */
	uint64_t (*reserved)(const struct rsk_local *l, const char *port);
};

/* Borrows all that it points to. */
struct rsk_agent {
	struct rsk_pma *pma;
	struct rsk_ports *ports;
	struct rsk_udp *udp; /* of the PMSP */
	struct rsk_pmsp *pmsp;
	void (*after)(void *ctx); /* an answer that came later */
	void *ctx;
	struct rsk_agent_ask ask;
	struct rsk_agent_request *requests; /* list: PMReq that wait for the central agent */
	struct rsk_agent_request *awaiting; /* uthash: those that wait for the accepting end */
	struct rsk_load *load;
	const struct rsk_pm_cache *hosts; /* how far they are */
	const struct rsk_agent_local_ops *local_ops;
	const struct rsk_local *local; /* who listens here */
	uint64_t clock_read_ns;	       /* 0: never */
	uint64_t session; /* reservation of the link that was let in last: its owner's to release */
	uint8_t hops;	  /* of the PMReq that is being taken in: how often it was redirected */
	struct rsk_agent_counters count;
};

/* With a struct rsk_agent as their ctx. */
extern const struct rsk_pmsp_ops rsk_agent_pmsp_ops;

/*
 * A process of this host has said that it holds that end, and it waits (rsk_local_holder()): a PMReq that came before
 * it is decided on.
 */
void rsk_agent_came(struct rsk_agent *a, const struct rsk_tuple *end);

/*
 * A link has come, of the connection that @link is the PMReq's name of, to @rdma, from @source (all zero: not known).
 * The reservation that is its session's from now on, used; 0: nothing of that kind is granted.
 */
uint64_t rsk_agent_link(struct rsk_agent *a, const struct rsk_pm_msg *link,
			const struct rsk_pm_addr *rdma, const uint8_t source[static 16]);

/* Does a PMReq wait for that accepting end? */
bool rsk_agent_awaits(const struct rsk_agent *a, const struct rsk_tuple *end);

/*
 * A link that is there already, on our RNIC of address @at_ip (all zero: not known), and is not known here. As
 * rsk_agent_may_ask(); the answer is the asker's to count.
 */
bool rsk_agent_again(struct rsk_agent *a, const struct rsk_pm_msg *link, enum rsk_pma_side side,
		     uint32_t uid, const uint8_t at_ip[static 16], struct rsk_pma_answer *out,
		     rsk_agent_decided *decided, void *user);

/* What is measured, and the time of the week, once a second at the most; before each question. */
void rsk_agent_measure(struct rsk_agent *a, uint64_t now_ns);

void rsk_agent_count(struct rsk_agent *a, enum rsk_pma_verdict v);

/* Before the PMSP is closed: what waits is forgotten. */
void rsk_agent_fini(struct rsk_agent *a);
/* Of a CP's question: how long its AP's PMSP takes to answer us. 0: not known, or not a CP's. */
uint32_t rsk_agent_rtt_us(const struct rsk_agent *a, const struct rsk_pma_question *q);

/*
 * F1: may our side ask for this mapping at all? MAP: out->ip is where the link will come from, and out->reservation is
 * to be given back, or confirmed. True: *out is the answer; false: decided() will bring it, unless that is forgotten
 * (rsk_agent_forget() with &a->ask and @user), and is then the asker's to count. Its names are borrowed for the call.
 */
bool rsk_agent_may_ask(struct rsk_agent *a, const struct rsk_pm_msg *req, uint32_t uid,
		       uint64_t now_ns, struct rsk_pma_answer *out, rsk_agent_decided *decided,
		       void *user);

/* All devices as they are, *n of them; allocated. NULL: there are none, or no memory. */
struct rsk_pma_device_view *rsk_agent_devices(const struct rsk_agent *a, size_t *n);

#endif
