/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma.h - the policy management agent: decides whether, where and how a service is mapped, for
 * either side of a connection. Called by rsockd. What it promises is booked in the ledger in the
 * same step, so that the last unit of a resource is promised only once.
 *
 * F1 (the CP's side, before any PMReq) and F2 (the AP's) are one function over the rules of the
 * configuration, combined by OR: any rule that supports the mapping is enough. Source: JP4000331B2
 * / US20060045098, as in pmsp.h. No clock, no sockets: measurements (load, devices) are passed in.
 * One thread.
 */
#ifndef RSK_PMA_H
#define RSK_PMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rsock/qos.h>

#include "bus.h"
#include "measures.h"
#include "pm_addr.h"

struct rsk_conf; /* conf.h: the configuration, read and checked */
struct rsk_port_report;

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
	/* Of the process on our side; RSK_PMA_NOBODY: not known */
	uint32_t uid;
	/* NUMA nodes on which the process on our side may run, bit i: node i; 0: any, or unknown */
	uint64_t numa_nodes;
	/* Measured round-trip time to the peer's host; 0: not known */
	uint32_t rtt_us;
	/* AP: as far as is known, an accelerated process listens on the service's socket */
	bool listens;
	/* The reservation of an earlier answer to this same question, or 0 */
	uint64_t held;
	/* Another agent has chosen the device: the one of this address, or none */
	bool placed;
	uint8_t at_ip[16];
	/* The question is from another node, whose load is @load */
	bool elsewhere;
	double load;
	uint64_t now_ns;
};

enum rsk_pma_verdict {
	RSK_PMA_MAP,
	RSK_PMA_NO_RULE, /* no rule supports it */
	/* No RNIC reaches the other side, or all are down, drained or spare */
	RSK_PMA_NO_DEVICE,
	/* Sessions, bandwidth, memory maps or connections are used up or promised */
	RSK_PMA_EXHAUSTED,
	RSK_PMA_LIMIT,	  /* a limit of the service, the CP or the user */
	RSK_PMA_OVERLOAD, /* the node's load */
	/* The central agent, which has to agree, does not answer */
	RSK_PMA_UNHEARD,
	/* Measured round-trip time or stream sizes say that it does not pay */
	RSK_PMA_NOT_WORTH,
	/* The service requires a registered listener, and there is none */
	RSK_PMA_NO_LISTENER,
	/* There are only software devices, which must not be used */
	RSK_PMA_SOFT_RNIC,
	/* CP: the RNIC of the AP's host takes no session, as the cluster's ledger says */
	RSK_PMA_REMOTE_FULL,
	RSK_PMA_REDIRECT, /* another host answers: redirect_ip */
};

/* What a session needs. */
struct rsk_ledger_need {
	uint64_t bps;
	uint32_t memory_maps, connections;
};

struct rsk_pma_answer {
	enum rsk_pma_verdict verdict;
	/* The rule that decided, or came nearest to it, or NULL; borrowed until the next reload */
	const char *rule;
	/* The RNIC, or RNIC/port if its ports have names; borrowed likewise */
	const char *device;
	/* The device's address: source (CP) or destination (AP) of the link */
	uint8_t ip[16];
	/* AP: a fixed RDMA listen port; 0: one has to be made */
	uint16_t port;
	uint8_t pm_time_s;
	uint8_t priority; /* differentiated service: 0 is lowest */
	uint8_t dscp;
	uint8_t redirect_ipv;
	uint64_t rate_bps; /* service rate; 0: none set */
	uint8_t redirect_ip[16];
	struct rsk_ledger_need need;
	uint64_t reservation; /* MAP: to be released or confirmed */
};

/* Owns its ledger and its configuration. */
struct rsk_pma;

/*
 * Returns NULL if there is no memory; the caller then still owns the configuration. Its
 * daemon.pmsp.seed must be random.
 */
struct rsk_pma *rsk_pma_new(struct rsk_conf *conf);
void rsk_pma_free(struct rsk_pma *a);

/*
 * Applies another configuration. Reservations on devices and services that still exist by name are
 * kept and counted; others are kept until they are released. A device's state is kept by name, too.
 * Returns 0, or -ENOMEM: nothing has changed, and the caller still owns the configuration.
 */
int rsk_pma_reload(struct rsk_pma *a, struct rsk_conf *conf);

/*
 * Decides, and reserves what a session of this service needs. A question with @held is decided
 * anew: the answer has the same reservation, or another one in its place (used, if the old one
 * was); if it is not MAP, the old one stays until it is released. A session stays where it is as
 * long as it can.
 */
void rsk_pma_decide(struct rsk_pma *a, const struct rsk_pma_question *q,
		    struct rsk_pma_answer *out);

/* The same without reserving; explains each step with a line of text. */
void rsk_pma_explain(struct rsk_pma *a, const struct rsk_pma_question *q,
		     struct rsk_pma_answer *out, void (*say)(void *ctx, const char *line),
		     void *ctx);

/*
 * Confirm: the session exists: from promised to used. Release: when it ends, or when a promise was
 * not used.
 */
void rsk_pma_confirm(struct rsk_pma *a, uint64_t reservation);
void rsk_pma_release(struct rsk_pma *a, uint64_t reservation);

/*
 * Books a session that another agent has decided on (@q is placed), with the need that it states,
 * on the device given. No rule and no limit is checked. @there: the session exists already, so it
 * is booked even if there is no room. An address that is not in the configuration is booked on an
 * account of its own. Returns 0 on failure: *why says NO_DEVICE or EXHAUSTED.
 */
uint64_t rsk_pma_admit(struct rsk_pma *a, const struct rsk_pma_question *q,
		       const struct rsk_ledger_need *need, bool there, enum rsk_pma_verdict *why);

/*
 * The differentiated service of a reserved session, by the present configuration and load; false:
 * another agent has decided on it, or there is no such reservation, and *out is all zero. The
 * number changes whenever the answers may.
 */
bool rsk_pma_qos(const struct rsk_pma *a, uint64_t reservation, struct rsk_qos *out);
uint32_t rsk_pma_qos_changes(const struct rsk_pma *a);

/* True if the reservation may still be used: its device is present and takes sessions. */
bool rsk_pma_stands(const struct rsk_pma *a, uint64_t reservation);

/*
 * Whether the mapping of the service at @service to the RDMA address @rdma, which a PMSP gave some
 * time ago, may still be used, as far as this agent knows: false if that address is of a port that
 * takes no sessions now, on whatever node, or if @service is an aggregate that is not over that
 * port. An address of which the configuration says nothing: true.
 */
bool rsk_pma_holds(const struct rsk_pma *a, uint8_t ipv, const uint8_t service[static 16],
		   const uint8_t rdma[static 16]);

/*
 * Callbacks for changes of reservations and devices, whatever caused them. Each may be NULL; none
 * may call rsk_pma_decide().
 */
struct rsk_pma_observer {
	void (*confirmed)(void *ctx, uint64_t reservation);
	void (*released)(void *ctx, uint64_t reservation);
	/* Decided anew; @from no longer exists */
	void (*moved)(void *ctx, uint64_t from, uint64_t to);
	void (*changed)(void *ctx); /* a device's state */
	void *ctx;
};
void rsk_pma_observe(struct rsk_pma *a, const struct rsk_pma_observer *observer);

/* ---- what is measured, or set by an operator ---- */

/* What a port of this node lacks; a smaller one lacks less. */
enum rsk_pma_absence {
	RSK_PMA_THERE,
	RSK_PMA_NO_RDMA, /* the link of its address has no RDMA device */
	RSK_PMA_NO_LINK, /* no link that works has its address */
	RSK_PMA_ABSENCES
};

enum rsk_pma_device_state {
	RSK_PMA_UP,
	RSK_PMA_DOWN, /* unplugged, or its port is down */
	/* No new sessions; answers to repeated questions move them to another address */
	RSK_PMA_DRAINING
};

/*
 * Sets the operator's state of an RNIC (all of its ports) or of one port. -ENOENT: no such device.
 * The host's report is kept separately: a port that is not present is DOWN, and returns in the
 * operator's state.
 */
int rsk_pma_device_set(struct rsk_pma *a, const char *device, enum rsk_pma_device_state state);

/*
 * Sets which ports of this node are present: those of which an address is usable by what @absence
 * says. Of one that is not, the least that is missing is kept, as the reason. NULL: all are.
 */
void rsk_pma_hotplug(struct rsk_pma *a,
		     enum rsk_pma_absence (*absence)(void *ctx, const struct rsk_pm_addr *ip),
		     void *ctx);

/* Why the port of that name is not present; RSK_PMA_THERE: it is, or there is none. */
enum rsk_pma_absence rsk_pma_absent(const struct rsk_pma *a, const char *port);

/*
 * Sets which ports of this node are on software RDMA devices (Soft-RoCE, siw): those of which an
 * address is on one. Such a port takes sessions only if the configuration allows it. NULL: none.
 */
void rsk_pma_soft(struct rsk_pma *a, bool (*is_soft)(void *ctx, const struct rsk_pm_addr *ip),
		  void *ctx);

/*
 * Sets how the RNICs of this node are attached, as it is for an address of one of their ports. The
 * bus limits the bandwidth of the RNIC, and that of a port that has one; a session of a process
 * that is bound to other NUMA nodes goes to it only if those near are busier (rnic.h). NULL: not
 * known.
 */
void rsk_pma_attach(struct rsk_pma *a,
		    struct rsk_bus (*bus_of)(void *ctx, const struct rsk_pm_addr *ip), void *ctx);

/*
 * Sets who knows whether this node's routes lead from an address of one of its ports to a target,
 * by the link that has the address. @lead returns 1, or 0 if they do not, or a value less than 0 if
 * it does not know. It is asked in decisions, so it may not block. NULL: nobody knows.
 */
void rsk_pma_routes(struct rsk_pma *a,
		    int (*lead)(void *ctx, const struct rsk_pm_addr *from,
				const struct rsk_pm_addr *to),
		    void *ctx);

/*
 * Sets the minute of the week since Monday 0:00, by the wall clock; any other value: not known, and
 * no condition on the time holds. It may jump: no state depends on it.
 */
void rsk_pma_time_set(struct rsk_pma *a, unsigned int week_minute);

/*
 * A stream of the service at that port has ended, on whatever path, after so many bytes in both
 * directions. A process of that user reports it (RSK_PMA_NOBODY: ignored). Returns 0 or -ENOENT.
 */
int rsk_pma_measured(struct rsk_pma *a, uint32_t uid, uint16_t ap_port, uint64_t bytes);

/*
 * Streams of the service at that port have carried @n more transactions, on whatever path; @side:
 * of the reporting end. A process of that user reports it (RSK_PMA_NOBODY: ignored). Returns 0 or
 * -ENOENT.
 */
int rsk_pma_transactions(struct rsk_pma *a, uint32_t uid, enum rsk_pma_side side, uint16_t ap_port,
			 uint64_t n, uint64_t now_ns);

/*
 * A period for the levels of services (transactions-wanted) is over: since the last call. To be
 * called about once a second.
 */
void rsk_pma_period(struct rsk_pma *a, uint64_t now_ns);

struct rsk_pma_user_view {
	uint32_t uid;
	double stream_bytes;	      /* RSK_NOT_MEASURED: too few streams have ended */
	double transactions_per_s[2]; /* by side */
};
/* A service for which something was measured. */
struct rsk_pma_service_view {
	const char *name;
	double decisions_per_s[2]; /* by side */
	uint32_t n_users;	   /* users for whom something was measured */
	struct rsk_pma_user_view of[RSK_MEASURES_USERS];
};
/* Returns how many there are; at most @max are filled in. */
size_t rsk_pma_services(const struct rsk_pma *a, uint64_t now_ns, struct rsk_pma_service_view *out,
			size_t max);

/* Load of this node, 0 to 1 (more: overloaded). */
void rsk_pma_load_set(struct rsk_pma *a, double load);
double rsk_pma_load(const struct rsk_pma *a);

/* Time in which the weight of a measured bandwidth falls by a factor of e. */
#define RSK_PMA_CARRIED_TIME_NS 5000000000ull
/*
 * @carried_bps: what a port of this node has carried in the last @period_ns, in bits per second of
 * its busier direction, from our sessions and from others; negative: not measured. What exceeds the
 * booked bandwidth is in use by others (x3 of rule R1); an average of both is kept. Returns 0 or
 * -ENOENT.
 *
 * Booked bandwidth that is not carried hides that much of what others use: the port's bandwidth
 * less the larger of what is booked and what is carried is free. Sessions of services without a
 * bandwidth book none, so what they carry counts as used by others.
 */
int rsk_pma_carried_set(struct rsk_pma *a, const char *device, int64_t carried_bps,
			uint64_t period_ns);

/*
 * Records what a node's agent reports of its port with this address: it is combined with the local
 * state, and the worse one counts. @report: of its configuration; the port is chosen only for what
 * both agents' configurations allow. NULL: nothing. -ENOENT: no such port, or not of that node.
 */
int rsk_pma_port_seen(struct rsk_pma *a, const char *node, uint8_t ipv, const uint8_t ip[static 16],
		      enum rsk_pma_device_state state, uint64_t others_bps,
		      const struct rsk_port_report *report);
/* The same for all ports of a node; NULL: of all nodes but our own. */
void rsk_pma_node_seen(struct rsk_pma *a, const char *node, enum rsk_pma_device_state state);

/*
 * ---- further rails of links, which processes reserve in a port table (fabric/port_table.h) ----
 */

/* A port of this node. Borrowed until the next reload. */
struct rsk_pma_rail_port {
	const char *name;
	const struct rsk_pm_addr *ips;
	size_t n_ips;
	enum rsk_pma_device_state state;
	bool overloaded; /* the port or the node is overloaded */
	bool spare;
	uint64_t sessions_max; /* limit of its RNIC; 0: none */
	uint64_t bps_max;      /* 0: none */
};
/* Returns how many there are; at most @max are filled in. */
size_t rsk_pma_rail_ports(const struct rsk_pma *a, struct rsk_pma_rail_port *out, size_t max);

/* What a rail takes, and how many rails of a port may be booked for one user. */
struct rsk_pma_rail_terms {
	struct rsk_ledger_need need;
	uint32_t per_user;
};
struct rsk_pma_rail_terms rsk_pma_rail_terms(const struct rsk_pma *a);

/*
 * Books what one rail by that port takes, as used; limits of services, CPs or users do not count
 * it. Returns 0 if there is no room or the port takes no sessions. Undone by unbook().
 */
uint64_t rsk_pma_rail_booking(struct rsk_pma *a, const char *port);
void rsk_pma_rail_unbook(struct rsk_pma *a, uint64_t reservation);

/* ---- quotas of other hosts at this node's RNICs (claims.h) ---- */

struct rsk_claims;
struct rsk_claims_set;

/* What other hosts hold; replaces all of it. Returns 0, -ENOMEM or -EINVAL. */
int rsk_pma_claims_set(struct rsk_pma *a, const struct rsk_claims_set *set);
const struct rsk_claims *rsk_pma_claims(const struct rsk_pma *a);

/* An RNIC of this node that has a limit of sessions. Strings are borrowed until the next reload. */
struct rsk_pma_rnic_view {
	const char *name;
	uint64_t sessions, sessions_max; /* booked, and the limit */
	enum rsk_pma_device_state state; /* of the best of its ports */
	const struct rsk_pm_addr *ips[16];
	size_t n_ips;
};
/* Returns how many there are; at most @max are filled in. */
size_t rsk_pma_rnics(const struct rsk_pma *a, struct rsk_pma_rnic_view *out, size_t max);

/* ---- events ---- */

/* Each is reported once, at the moment of the change. */
enum rsk_pma_event {
	RSK_PMA_DEVICE_UP,
	RSK_PMA_DEVICE_DOWN,
	RSK_PMA_DEVICE_DRAINING,
	/* The configured overload limit is reached */
	RSK_PMA_DEVICE_OVERLOAD,
	/* Below nine tenths of it again */
	RSK_PMA_DEVICE_RELIEF,
	RSK_PMA_NODE_OVERLOAD,
	RSK_PMA_NODE_RELIEF,
	/* A service carries fewer transactions than wanted; the node counts as overloaded. */
	RSK_PMA_SERVICE_BELOW,
	RSK_PMA_SERVICE_RELIEF,
	RSK_PMA_EVENTS
};

/*
 * Reports events to @happened; @name is a port's or a service's, or NULL: the node. The callback
 * may not call rsk_pma_decide(). NULL: no reports.
 */
void rsk_pma_listen(struct rsk_pma *a,
		    void (*happened)(void *ctx, enum rsk_pma_event event, const char *name),
		    void *ctx);
/* True if the node is overloaded. */
bool rsk_pma_overloaded(const struct rsk_pma *a);
uint64_t rsk_pma_event_count(const struct rsk_pma *a, enum rsk_pma_event event);

/* ---- views ---- */

/* A port of an RNIC, for the tool and the metrics; a maximum of 0: none. */
struct rsk_pma_device_view {
	const char *name, *node;
	/* Its addresses; borrowed until the next reload */
	const struct rsk_pm_addr *ips;
	size_t n_ips;
	enum rsk_pma_device_state state;
	uint8_t ip[16], ipv;	     /* the first of them */
	enum rsk_pma_absence absent; /* as its host reports */
	bool overloaded;
	bool soft; /* a software device */
	bool spare, in_use_as_spare;
	/* Sessions booked here, including promised ones; limits of the RNIC */
	uint64_t sessions, sessions_max, promised;
	/* Further rails of links: reserved in port tables, and booked for them */
	uint64_t rails, rails_booked;
	uint64_t bps, bps_max;
	struct rsk_bus bus; /* of its RNIC */
	/* Measured: what it carries (of this node's ports only), and what of it is others' */
	uint64_t carried_bps, others_bps;
	uint64_t memory_maps, memory_maps_max;
};
/* Returns how many there are; at most @max are filled in. */
size_t rsk_pma_devices(const struct rsk_pma *a, struct rsk_pma_device_view *out, size_t max);
/* What this agent has to report of the port with that index among them. */
void rsk_pma_port_report(const struct rsk_pma *a, size_t number, struct rsk_port_report *out);

bool rsk_pma_validate(const struct rsk_pma *a);

#endif
