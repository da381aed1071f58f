/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma.h - the policy management agent: whether, where and how a service is mapped, for either side of a connection;
 * what it promises is on record in the ledger in the same step, so that the last of anything is
 * promised once.
 *
 * F1 (the CP's side, before any PMReq) and F2 (the AP's) are one function over the rules of the
 * configuration, joined by OR: any rule that supports the mapping is enough. Source: JP4000331B2 /
 * US20060045098, as in pmsp.h. No clock, no sockets: measurements (load, devices) are handed in. One
 * thread.
 */
#ifndef RSK_PMA_H
#define RSK_PMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rsk_conf; /* conf.h: the configuration, read and checked */

enum rsk_pma_side {
	RSK_PMA_CP,
	RSK_PMA_AP
};

#define RSK_PMA_NOBODY UINT32_MAX

struct rsk_pma_question {
	enum rsk_pma_side side;
	uint8_t ipv;
	uint8_t cp_ip[16], ap_ip[16];
	uint16_t cp_port; /* 0: a service mapping */
	uint16_t ap_port;
	uint32_t uid;  /* of the process on our side; RSK_PMA_NOBODY: not known */
	uint64_t held; /* what an earlier answer to this same question reserved, or 0 */
	uint64_t now_ns;
};

enum rsk_pma_verdict {
	RSK_PMA_MAP,
	RSK_PMA_NO_RULE,   /* no rule supports it */
	RSK_PMA_NO_DEVICE, /* no RNIC reaches the other side, or all are down, drained or spare */
	RSK_PMA_EXHAUSTED, /* sessions, bandwidth, memory maps or connections: used up, or promised */
	RSK_PMA_LIMIT,	   /* a limit of the service, the CP or the user */
	RSK_PMA_OVERLOAD,  /* the node's load */
	RSK_PMA_ELSEWHERE, /* another host answers: redirect_ip */
};

struct rsk_pma_answer {
	enum rsk_pma_verdict verdict;
	const char *rule; /* that decided, or was nearest to, or NULL; borrowed until the next load */
	const char *device; /* the RNIC, or RNIC/port where its ports have names; the same */
	uint8_t ip[16];	    /* its address: where the link comes from (CP), or goes to (AP) */
	uint16_t port;	    /* AP: a fixed RDMA listen port; 0: one is to be made */
	uint8_t pm_time_s;
	uint8_t priority; /* differentiated service: 0 lowest */
	uint8_t dscp;
	uint8_t redirect_ipv;
	uint64_t rate_bps; /* service rate; 0: none set */
	uint8_t redirect_ip[16];
	uint64_t reservation; /* MAP: to be given back or confirmed */
};

/* Owns its ledger; the configuration is handed over. */
struct rsk_pma;

/* NULL: no memory, and the configuration is still the caller's. Its daemon.pmsp.seed is to be random. */
struct rsk_pma *rsk_pma_new(struct rsk_conf *conf);
void rsk_pma_free(struct rsk_pma *a);

/*
 * Another configuration. What is reserved stays so, on devices and services that are still there under their name, and
 * is counted on; on others until it is released. So does a device's state. 0, or -ENOMEM: all is as it was, and the
 * configuration is still the caller's.
 */
int rsk_pma_reload(struct rsk_pma *a, struct rsk_conf *conf);

/*
 * Decides, and reserves what a session of this service is said to need. A question that is @held is judged anew: the
 * answer's reservation is the same, or another in its place (used, if that was); if it is not MAP, the old one stays
 * until it is released. What is held stays where it is as long as it can.
 */
void rsk_pma_decide(struct rsk_pma *a, const struct rsk_pma_question *q,
		    struct rsk_pma_answer *out);

/* The same without reserving; tells each step in words, a line each. */
void rsk_pma_explain(struct rsk_pma *a, const struct rsk_pma_question *q,
		     struct rsk_pma_answer *out, void (*say)(void *ctx, const char *line),
		     void *ctx);

/* The session is there: from promised to used. Then, when it ends, and of a promise that nobody took: release. */
void rsk_pma_confirm(struct rsk_pma *a, uint64_t reservation);
void rsk_pma_release(struct rsk_pma *a, uint64_t reservation);

/*
 * One session more on the same mapping (a service mapping serves many), promised like any other. 0: there is no room,
 * or its device takes no more. Rules are not asked again.
 */
uint64_t rsk_pma_another(struct rsk_pma *a, uint64_t reservation);

/* ---- what is measured, or said by an operator ---- */

enum rsk_pma_device_state {
	RSK_PMA_UP,
	RSK_PMA_DOWN,	 /* unplugged, or its port is down */
	RSK_PMA_DRAINING /* no new sessions; a changed address moves those who ask again */
};

/* Of an RNIC, all of its ports, or of one port. -ENOENT: no such device. */
int rsk_pma_device_set(struct rsk_pma *a, const char *device, enum rsk_pma_device_state state);

/* Load of this node, 0 to 1 (more: overloaded), and bandwidth in use that is not ours, of a port (-ENOENT). */
void rsk_pma_load_set(struct rsk_pma *a, double load);
int rsk_pma_bandwidth_set(struct rsk_pma *a, const char *device, uint64_t others_bps);

/* A port of an RNIC, for the tool and the metrics; a maximum of 0: none. */
struct rsk_pma_device_view {
	const char *name, *node;
	enum rsk_pma_device_state state;
	bool spare, in_use_as_spare;
	uint64_t sessions, sessions_max,
		promised; /* booked here, promised ones included; of the RNIC */
	uint64_t bps, bps_max, others_bps;
	uint64_t memory_maps, memory_maps_max;
};
/* How many there are; @max at the most are filled in. */
size_t rsk_pma_devices(const struct rsk_pma *a, struct rsk_pma_device_view *out, size_t max);

bool rsk_pma_validate(const struct rsk_pma *a);

#endif
