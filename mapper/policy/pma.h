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

#include "measures.h"
#include "pm_addr.h"

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
	uint32_t uid;	 /* of the process on our side; RSK_PMA_NOBODY: not known */
	uint32_t rtt_us; /* there and back to the peer's host, as measured; 0: not known */
	bool listens; /* AP: a process that is accelerated has the service's socket, as far as is known */
	uint64_t held; /* what an earlier answer to this same question reserved, or 0 */
	bool placed;   /* another agent has chosen: the device of this address, or none */
	uint8_t at_ip[16];
	bool elsewhere; /* on another node, whose load this is */
	double load;
	uint64_t now_ns;
};

enum rsk_pma_verdict {
	RSK_PMA_MAP,
	RSK_PMA_NO_RULE,   /* no rule supports it */
	RSK_PMA_NO_DEVICE, /* no RNIC reaches the other side, or all are down, drained or spare */
	RSK_PMA_EXHAUSTED, /* sessions, bandwidth, memory maps or connections: used up, or promised */
	RSK_PMA_LIMIT,	   /* a limit of the service, the CP or the user */
	RSK_PMA_OVERLOAD,  /* the node's load */
	RSK_PMA_UNHEARD,   /* the central agent, which has to agree, does not answer */
	RSK_PMA_NOT_WORTH, /* it would not pay: by what is measured of the way, or of the streams */
	RSK_PMA_NO_LISTENER, /* the service wants one that has registered, and there is none */
	RSK_PMA_SOFT_RNIC,   /* only devices that the CPU plays, which are not to be used */
	RSK_PMA_REDIRECT,    /* another host answers: redirect_ip */
};

/* What a session takes. */
struct rsk_ledger_need {
	uint64_t bps;
	uint32_t memory_maps, connections;
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
	struct rsk_ledger_need need;
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

/*
 * A session that another agent has decided on (@q is placed), with what it says that one needs: booked where it is put,
 * with no rule and no limit asked. @there: it exists already, so that it counts whether there is room or not. An
 * address that is none of the configuration's is booked by itself. 0: *why says NO_DEVICE or EXHAUSTED.
 */
uint64_t rsk_pma_admit(struct rsk_pma *a, const struct rsk_pma_question *q,
		       const struct rsk_ledger_need *need, bool there, enum rsk_pma_verdict *why);

/* May what is reserved still be used: is its device there, and takes it sessions? */
bool rsk_pma_stands(const struct rsk_pma *a, uint64_t reservation);

/* Who is told of what becomes of reservations and devices, whoever does it. Each may be NULL; none may decide. */
struct rsk_pma_observer {
	void (*confirmed)(void *ctx, uint64_t reservation);
	void (*released)(void *ctx, uint64_t reservation);
	void (*moved)(void *ctx, uint64_t from, uint64_t to); /* judged anew; @from is gone */
	void (*changed)(void *ctx);			      /* a device's state */
	void *ctx;
};
void rsk_pma_observe(struct rsk_pma *a, const struct rsk_pma_observer *observer);

/* ---- what is measured, or said by an operator ---- */

enum rsk_pma_device_state {
	RSK_PMA_UP,
	RSK_PMA_DOWN,	 /* unplugged, or its port is down */
	RSK_PMA_DRAINING /* no new sessions; a changed address moves those who ask again */
};

/*
 * As an operator wants it: of an RNIC, all of its ports, or of one port. -ENOENT: no such device. What its host says of
 * it is kept apart from that: a port that is not there is DOWN, and comes back as the operator left it.
 */
int rsk_pma_device_set(struct rsk_pma *a, const char *device, enum rsk_pma_device_state state);

/* Which of this node's ports are there: those of which it carries an address. NULL: all of them. */
void rsk_pma_hotplug(struct rsk_pma *a, bool (*carries)(void *ctx, const struct rsk_pm_addr *ip),
		     void *ctx);

/*
 * Which of this node's ports are of RDMA devices that the CPU plays (Soft-RoCE, siw): those of which an address is on
 * one. Such a port takes sessions only where the configuration says so. NULL: none.
 */
void rsk_pma_soft(struct rsk_pma *a, bool (*is_soft)(void *ctx, const struct rsk_pm_addr *ip),
		  void *ctx);

/*
 * Minutes of the week since Monday 0:00, by the wall clock; anything else: not known, and no rule that asks for the
 * time holds. It may jump: nothing is kept by it.
 */
void rsk_pma_time_set(struct rsk_pma *a, unsigned int week_minute);

/*
 * A stream of the service at that port ended, whatever it went by, after so many bytes of both ways, by the word of a
 * process of that user (RSK_PMA_NOBODY: nobody's word). -ENOENT.
 */
int rsk_pma_measured(struct rsk_pma *a, uint32_t uid, uint16_t ap_port, uint64_t bytes);

/* A service on which anything is measured. */
struct rsk_pma_service_view {
	const char *name;
	double decisions_per_s[2]; /* by side */
	uint32_t n_users;	   /* of whose streams enough have ended */
	struct rsk_means_user of[RSK_MEANS_USERS];
};
/* How many there are; @max at the most are filled in. */
size_t rsk_pma_services(const struct rsk_pma *a, uint64_t now_ns, struct rsk_pma_service_view *out,
			size_t max);

/* Load of this node, 0 to 1 (more: overloaded), and bandwidth in use that is not ours, of a port (-ENOENT). */
void rsk_pma_load_set(struct rsk_pma *a, double load);
double rsk_pma_load(const struct rsk_pma *a);
int rsk_pma_bandwidth_set(struct rsk_pma *a, const char *device, uint64_t others_bps);

/*
 * What the agent of a node tells of its port that has this address: counts beside what is said here, the worse of both.
 * -ENOENT: no such port, or not of that node.
 */
int rsk_pma_port_seen(struct rsk_pma *a, const char *node, uint8_t ipv, const uint8_t ip[static 16],
		      enum rsk_pma_device_state state, uint64_t others_bps);
/* The same of all of a node's; NULL: of all nodes but our own. */
void rsk_pma_node_seen(struct rsk_pma *a, const char *node, enum rsk_pma_device_state state);

/* ---- further rails of links, which processes reserve at a board (fabric/port_table.h) ---- */

/* A port of this node. Borrowed until the next load. */
struct rsk_pma_rail_port {
	const char *name;
	const struct rsk_pm_addr *ips;
	size_t n_ips;
	enum rsk_pma_device_state state;
	bool overloaded; /* it, or the node */
	bool spare;
	uint64_t sessions_max; /* of its RNIC; 0: none */
};
/* How many there are; @max at the most are filled in. */
size_t rsk_pma_rail_ports(const struct rsk_pma *a, struct rsk_pma_rail_port *out, size_t max);

/* What one takes, and how many of a port may be booked for one user. */
struct rsk_pma_rail_terms {
	struct rsk_ledger_need need;
	uint32_t per_user;
};
struct rsk_pma_rail_terms rsk_pma_rail_terms(const struct rsk_pma *a);

/*
 * Books what one rail by that port takes, as used: no limit of services, CPs or users counts it. 0: there is no room,
 * or the port takes no sessions. To be given back by unbook().
 */
uint64_t rsk_pma_rail_booking(struct rsk_pma *a, const char *port);
void rsk_pma_rail_unbook(struct rsk_pma *a, uint64_t reservation);

/* ---- what happens by it ---- */

/* Each at the moment at which it becomes so, once. */
enum rsk_pma_event {
	RSK_PMA_DEVICE_UP,
	RSK_PMA_DEVICE_DOWN,
	RSK_PMA_DEVICE_DRAINING,
	RSK_PMA_DEVICE_OVERLOAD, /* overload of the configuration: reached */
	RSK_PMA_DEVICE_RELIEF,	 /* less than nine tenths of it again */
	RSK_PMA_NODE_OVERLOAD,
	RSK_PMA_NODE_RELIEF,
	RSK_PMA_EVENTS
};

/* Tells of them; @device is a port's name, or NULL: the node. It may not ask for more. NULL: nobody is told. */
void rsk_pma_listen(struct rsk_pma *a,
		    void (*happened)(void *ctx, enum rsk_pma_event event, const char *device),
		    void *ctx);
/* Has the node too much to do? */
bool rsk_pma_overloaded(const struct rsk_pma *a);
uint64_t rsk_pma_event_count(const struct rsk_pma *a, enum rsk_pma_event event);

/* ---- what there is to be seen ---- */

/* A port of an RNIC, for the tool and the metrics; a maximum of 0: none. */
struct rsk_pma_device_view {
	const char *name, *node;
	uint8_t ip[16], ipv; /* the first of its own */
	enum rsk_pma_device_state state;
	bool there; /* its host has it */
	bool overloaded;
	bool soft; /* the CPU plays it */
	bool spare, in_use_as_spare;
	uint64_t sessions, sessions_max,
		promised; /* booked here, promised ones included; of the RNIC */
	uint64_t rails,
		rails_booked; /* further rails of links: reserved at boards, and booked for them */
	uint64_t bps, bps_max, others_bps;
	uint64_t memory_maps, memory_maps_max;
};
/* How many there are; @max at the most are filled in. */
size_t rsk_pma_devices(const struct rsk_pma *a, struct rsk_pma_device_view *out, size_t max);

bool rsk_pma_validate(const struct rsk_pma *a);

#endif
