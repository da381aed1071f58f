/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * agent.h - connects the protocol's state machines with the policy agents: this node's, and a
 * central one if there is one. For the PMSP, a PMReq becomes a question to policy (F2), and the
 * answer becomes a grant; if the service has no listen port of its own, one is made. For the PM
 * client, policy is asked (F1) before any PMReq is sent. daemon_open.c opens it; map.c and the
 * session folder call it. One thread.
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
	/*
	 * requests that we redirected; requests that we dropped since they had been redirected too
	 * often
	 */
	uint64_t redirected, redirects_dropped;
	uint64_t no_port; /* policy agreed, but no listen port was available */
	/* PMReq that waited for the accepting end; of those, the ones whose accepting end came */
	uint64_t waited, came;
};

/*
 * The process that a request may be for: it holds the accepting end of the connection, or it
 * listens at that address.
 */
struct rsk_agent_holder {
	uint32_t uid;
	uint64_t numa_nodes; /* on which the process may run; 0: any, or not known */
	uint16_t rail;	     /* the port at which its process accepts rails; 0: none */
	/*
	 * Its process has not reported such a port yet, but may still do so: it will look up the
	 * end, or has done so
	 */
	bool comes;
};

/*
 * What the agent needs to know about the processes of this host. The session folder, which lies
 * above this one, implements it (local.h).
 */
struct rsk_local;
struct rsk_agent_local_ops {
	/* Finds the process that @req may be for. False: there is none; *out then has no user. */
	bool (*holder)(const struct rsk_local *l, const struct rsk_pm_msg *req,
		       struct rsk_agent_holder *out);
	/* Number of rails that are reserved on the port of that name. */
	uint64_t (*reserved)(const struct rsk_local *l, const char *port);
};

/* Borrows everything that it points to. */
struct rsk_agent {
	struct rsk_pma *pma;
	struct rsk_ports *ports;
	struct rsk_udp *udp; /* of the PMSP */
	struct rsk_pmsp *pmsp;
	void (*after)(void *ctx); /* called after an answer that came later */
	/*
	 * Finds the PMSP of another host that offers what @req asks for and this host does not map;
	 * NULL: such requests are denied
	 */
	bool (*elsewhere)(void *ctx, const struct rsk_pm_msg *req, struct rsk_pm_addr *pmsp);
	void *ctx;
	struct rsk_agent_ask ask;
	struct rsk_agent_request *requests; /* list: PMReq that wait for the central agent */
	struct rsk_agent_request *awaiting; /* uthash: PMReq that wait for the accepting end */
	struct rsk_load *load;
	/* the PM client's cache, which knows the round-trip times to other hosts */
	const struct rsk_pm_cache *hosts;
	const struct rsk_agent_local_ops *local_ops;
	const struct rsk_local *local; /* the processes of this host */
	uint64_t clock_read_ns;	       /* time of the last look at the wall clock; 0: never */
	/*
	 * Reservation of the link that was admitted last. It belongs to the session, which has to
	 * release it.
	 */
	uint64_t session;
	/* How often the PMReq that is being processed was redirected */
	uint8_t hops;
	struct rsk_agent_counters count;
};

/* PMSP callbacks; their ctx is a struct rsk_agent. */
extern const struct rsk_pmsp_ops rsk_agent_pmsp_ops;

/*
 * A process of this host has said that it holds end @end, which waits in the rendezvous table
 * (rsk_local_holder()). Decides on a PMReq that came before it.
 */
void rsk_agent_came(struct rsk_agent *a, const struct rsk_tuple *end);

/*
 * A link has arrived at @rdma from @source (all zero: not known yet), for the connection whose
 * PMReq has the names in @link. Returns the reservation, marked as used, which belongs to that
 * session from now on; 0: no grant fits. @announced: the source that the PMReq has named; all zero
 * if no such link was announced.
 */
uint64_t rsk_agent_link(struct rsk_agent *a, const struct rsk_pm_msg *link,
			const struct rsk_pm_addr *rdma, const uint8_t source[static 16],
			uint8_t announced[static 16]);

/* True if a PMReq waits for that accepting end. */
bool rsk_agent_awaits(const struct rsk_agent *a, const struct rsk_tuple *end);

/*
 * Decides on a link that exists already, on our RNIC of address @at_ip (all zero: unknown), but
 * that this daemon does not know. Returns as rsk_agent_may_ask() does; the caller counts the
 * verdict.
 */
bool rsk_agent_again(struct rsk_agent *a, const struct rsk_pm_msg *link, enum rsk_pma_side side,
		     uint32_t uid, const uint8_t at_ip[static 16], struct rsk_pma_answer *out,
		     rsk_agent_decided *decided, void *user);

/* Updates load and time of the week, at most once a second. Called before each question. */
void rsk_agent_measure(struct rsk_agent *a, uint64_t now_ns);

void rsk_agent_count(struct rsk_agent *a, enum rsk_pma_verdict v);

/* Drops everything that waits. Called before the PMSP is closed. */
void rsk_agent_fini(struct rsk_agent *a);
/*
 * Round-trip time in microseconds to the AP's PMSP, for a CP's question. 0: unknown, or not a CP's.
 */
uint32_t rsk_agent_rtt_us(const struct rsk_agent *a, const struct rsk_pma_question *q);

/*
 * F1: asks policy whether our side may ask for this mapping, for a process of user @uid that may
 * run on @numa_nodes (0: any, or not known). After verdict MAP, out->ip is the
 * address from which the link will come, and the caller has to release or confirm out->reservation.
 * Returns true if *out is the answer. Returns false if decided() will get it, unless the caller
 * cancels that by rsk_agent_forget() with &a->ask and @user; the caller then counts the verdict.
 * Strings in an answer are borrowed for the duration of the call.
 */
bool rsk_agent_may_ask(struct rsk_agent *a, const struct rsk_pm_msg *req, uint32_t uid,
		       uint64_t numa_nodes, struct rsk_pma_answer *out, rsk_agent_decided *decided,
		       void *user);

/* Present state of all *n devices, allocated. NULL: there are none, or out of memory. */
struct rsk_pma_device_view *rsk_agent_devices(const struct rsk_agent *a, size_t *n);

#endif
