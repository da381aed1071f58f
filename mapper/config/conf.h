/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.h - rsockd's configuration: YAML (libcyaml), read whole, checked whole, and then in a form in which a decision
 * takes no look at text. Every key: rsockd.conf(5). Numbers are indices into the arrays of struct rsk_conf.
 */
#ifndef RSK_CONF_H
#define RSK_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"
#include "pm_client.h"
#include "pma_config.h"
#include "pmsp.h"

#define RSK_CONF_NONE UINT32_MAX

/* A bit for each minute of a week, from Monday 0:00. */
#define RSK_CONF_WEEK_MINUTES (7u * 24 * 60)
#define RSK_CONF_WEEK_BYTES (RSK_CONF_WEEK_MINUTES / 8)

/* A session of this priority or more is of the high class, any other best effort. */
#define RSK_CONF_PRIORITY_HIGH 4
#define RSK_CONF_PRIORITY_MOST 7

/* The bits behind the prefix are 0. */
struct rsk_conf_prefix {
	uint8_t ip[16];
	uint8_t ipv; /* RSK_PM_IPV4 or RSK_PM_IPV6 */
	uint8_t bits;
};

struct rsk_conf_range {
	uint16_t first, last; /* 1 to 65535, both included */
};

enum rsk_conf_pma_mode {
	RSK_CONF_PMA_LOCAL,
	RSK_CONF_PMA_CENTRAL,
	RSK_CONF_PMA_BOTH
};

/* Policy agents among themselves. */
struct rsk_conf_pma {
	struct rsk_pm_addr *listen; /* TCP: others may ask us */
	size_t n_listen;
	struct rsk_conf_prefix *allow; /* these */
	size_t n_allow;
	struct rsk_pm_addr central; /* whom we ask; port 0: nobody */
	enum rsk_conf_pma_mode mode;
	bool local_if_silent; /* else a central agent that does not answer means no */
	struct rsk_ask_config ask;
	struct rsk_central_config central_agent;
};

#define RSK_CONF_ANY_USER UINT32_MAX

/* Processes of these users may be brought together, for these service ports (none: all). */
struct rsk_conf_vouch {
	uint32_t *users;
	size_t n_users;
	struct rsk_conf_range *ports;
	size_t n_ports;
};

/* What the daemon is started with. An address whose port is 0: none. */
struct rsk_conf_daemon {
	const char *node; /* of this daemon */
	const char *user; /* to run as; NULL: as it was started */
	const char *control, *local, *state;
	bool state_is_wanted; /* named in the file */
	struct rsk_pm_addr *listen;
	size_t n_listen;
	struct rsk_pm_addr metrics;
	struct rsk_pm_addr central; /* the PMSP to ask, instead of the AP's host */
	bool watch_devices;	    /* RNICs of this node are there as the kernel says */
	bool discover;		    /* and are found, since none is named */
	struct rsk_conf_prefix *redirects_from; /* who may hand us requests of others */
	size_t n_redirects_from;
	struct rsk_conf_prefix *ask_first; /* connect() to these asks for a mapping before */
	size_t n_ask_first;
	uint64_t ask_first_ns; /* and waits so long */
	struct rsk_conf_vouch *vouch;
	size_t n_vouch;
	struct rsk_conf_range rdma_ports; /* listen ports that are made when they are asked for */
	struct rsk_pmsp_config pmsp;	  /* its seed is the daemon's to set */
	struct rsk_pm_client_config client;
	struct rsk_conf_pma pma;
};

enum rsk_conf_qos {
	RSK_CONF_QOS_ANY,
	RSK_CONF_QOS_HIGH,
	RSK_CONF_QOS_BEST_EFFORT
};

/* A limit of 0: none. */
struct rsk_conf_rnic {
	const char *name;
	uint32_t node;
	uint32_t group; /* or RSK_CONF_NONE */
	uint32_t first_port, n_ports;
	uint32_t sessions, connections, memory_maps;
	uint32_t order; /* lower ones first */
	enum rsk_conf_qos qos;
	bool spare;
};

/* A port of an RNIC, which is what a session is promised on: "mlx0", or "mlx0/1" where they have names. */
struct rsk_conf_port {
	const char *name;
	uint32_t rnic;
	struct rsk_pm_addr *ips; /* its own; their port is 0 */
	size_t n_ips;
	struct rsk_conf_prefix *reach; /* none: everything */
	size_t n_reach;
	uint64_t bps; /* 0: not limited */
	bool has_ipv4, has_ipv6;
};

struct rsk_conf_node {
	const char *name;
	uint32_t *ports;
	size_t n_ports;
};

/* One address over several ports, of one node or of several. */
struct rsk_conf_aggregate {
	struct rsk_pm_addr address;
	uint32_t *ports;
	size_t n_ports;
	bool in_order; /* the first that can; else by load */
};

/* When a node or a device has too much to do, and what becomes of sessions of low priority then. */
struct rsk_conf_overload {
	double load, device_load; /* 0: it is not watched */
	uint8_t refuse_below;	  /* priority; 0: none is refused */
	uint64_t rate_bps;	  /* of best effort; 0: as it is */
};

/* What a further rail of a link takes of its port, and how many of one user may be by it. */
struct rsk_conf_rails {
	uint64_t bps;
	uint32_t memory_maps, per_user;
};

struct rsk_conf_limits {
	uint32_t sessions, per_cp, per_user; /* 0: none */
};

struct rsk_conf_service {
	const char *name;
	struct rsk_conf_range *ports;
	size_t n_ports;
	uint64_t bps; /* a session's need of it; the same for the next two */
	uint32_t memory_maps, connections;
	struct rsk_conf_limits limits;
	uint64_t rate_bps;
	uint16_t rdma_port; /* 0: one is to be made */
	uint8_t priority, pm_time_s, dscp;
	bool high_availability; /* may be put on spares */
	uint32_t *rules;	/* those that may hold for it */
	uint32_t n_rules;
	bool registered; /* AP: mapped only where an accelerated process listens */
	bool balance;	 /* an address that is one RNIC's own may be changed to level the load */
};

/* ---- sub-functions ---- */

enum rsk_cond_op {
	RSK_COND_ALL,
	RSK_COND_ANY,
	RSK_COND_NOT,
	RSK_COND_FUNCTION, /* another one's value */
	RSK_COND_SERVICES,
	RSK_COND_PORTS,
	RSK_COND_USERS,
	RSK_COND_PEERS,
	RSK_COND_LOCAL,
	RSK_COND_TIME,
	RSK_COND_LOAD,		     /* of the node */
	RSK_COND_SESSIONS,	     /* of the service */
	RSK_COND_TRANSACTIONS_BELOW, /* of the service, in a second; from here on: measures.h */
	RSK_COND_TRANSACTIONS_LEAST,
	RSK_COND_RTT_BELOW, /* ns, to the peer's host */
	RSK_COND_RTT_LEAST,
	RSK_COND_STREAM_BYTES_BELOW, /* of the service's streams that ended, on average */
	RSK_COND_STREAM_BYTES_LEAST,
	RSK_COND_DEVICE_LOAD,	  /* from here on: another value for each device */
	RSK_COND_DEVICE_SESSIONS, /* of the RNIC */
	RSK_COND_BANDWIDTH_FITS,  /* R1: need <= the port's bandwidth less what others use */
	RSK_COND_BANDWIDTH_FREE,
};

/* In prefix order: what it is made of stands behind it, up to its end. */
struct rsk_cond {
	enum rsk_cond_op op;
	uint32_t end;
	size_t n; /* of the list */
	union {
		uint32_t *numbers; /* services, users */
		struct rsk_conf_range *ranges;
		struct rsk_conf_prefix *prefixes;
		uint8_t *week; /* RSK_CONF_WEEK_BYTES */
		uint32_t function;
		double part;
		uint64_t number;
	};
};

struct rsk_conf_function {
	const char *name;
	uint32_t root; /* in conds */
	uint32_t depth, cost;
};

#define RSK_CONF_SIDE_CP 1u
#define RSK_CONF_SIDE_AP 2u

/* -1: as the service says. */
struct rsk_conf_rule {
	uint32_t function; /* has the rule's name */
	unsigned int sides;
	int pm_time_s, priority;
	uint32_t group;		     /* or RSK_CONF_NONE: any device */
	struct rsk_pm_addr redirect; /* ipv 0: none */
};

struct rsk_conf_target; /* of whom an address is */
struct rsk_conf_name;
struct rsk_conf_block;

enum rsk_conf_names {
	RSK_CONF_NODES,
	RSK_CONF_GROUPS,
	RSK_CONF_RNICS,
	RSK_CONF_PORTS,
	RSK_CONF_SERVICES,
	RSK_CONF_FUNCTIONS, /* rules are functions, too */
	RSK_CONF_NAMES
};

/* Owns all that it points to; not changed once it is there. */
struct rsk_conf {
	struct rsk_conf_daemon daemon;
	struct rsk_conf_limits limits; /* of all services together */
	struct rsk_conf_overload overload;
	struct rsk_conf_rails rails;
	bool use_soft; /* software RDMA devices take sessions like others */
	struct rsk_conf_node *nodes;
	struct rsk_conf_rnic *rnics;
	struct rsk_conf_port *ports;
	struct rsk_conf_aggregate *aggregates;
	struct rsk_conf_service *services;
	struct rsk_conf_function *functions;
	struct rsk_conf_rule *rules;
	struct rsk_cond *conds;
	uint32_t n_nodes, n_groups, n_rnics, n_ports, n_aggregates, n_services, n_functions,
		n_rules, n_conds;
	uint32_t own_node;
	uint16_t *service_at; /* by service port: its number and 1; 0: none is registered there */
	struct rsk_conf_target *targets;
	struct rsk_conf_name *names[RSK_CONF_NAMES];
	struct rsk_conf_block *blocks;
};

/*
 * Reads a file. 0; -EINVAL: it is not right; -ENOMEM, or why it cannot be read. Of a failure @error says in one line
 * where and what, with the file's name, the line as far as the parser knows it, else the path of keys. Blocks.
 */
int rsk_conf_load(const char *path, struct rsk_conf **out, char *error, size_t n);
/* The same of text; @len bytes, no end mark needed. */
int rsk_conf_parse(const char *text, size_t len, struct rsk_conf **out, char *error, size_t n);
/*
 * The same, with RNICs that were discovered on this host, if the text names none of its own and does not forbid it:
 * each under its device's name.
 */
struct rsk_discovered;
int rsk_conf_parse_with(const char *text, size_t len, const struct rsk_discovered *found,
			struct rsk_conf **out, char *error, size_t n);
/* A file's text, to be freed. As rsk_conf_load(). */
int rsk_conf_read(const char *path, char **text, size_t *len, char *error, size_t n);
/*
 * What holds with no file: the daemon's defaults, no RNIC, no service (so nothing is mapped), and one rule that
 * supports whatever is registered; it also holds where a file has no rules.
 */
int rsk_conf_default(struct rsk_conf **out);
void rsk_conf_free(struct rsk_conf *c);

/* A number, or RSK_CONF_NONE. */
uint32_t rsk_conf_find(const struct rsk_conf *c, enum rsk_conf_names kind, const char *name);

enum rsk_conf_owner {
	RSK_CONF_NOBODYS,
	RSK_CONF_PORTS_OWN,
	RSK_CONF_AGGREGATES
};
/* Whose address it is, and that one's number. */
enum rsk_conf_owner rsk_conf_owner_of(const struct rsk_conf *c, uint8_t ipv,
				      const uint8_t ip[static 16], uint32_t *number);

/* The port that has this address of its own: a place that holds its number. NULL: none. */
const uint32_t *rsk_conf_port_at(const struct rsk_conf *c, uint8_t ipv,
				 const uint8_t ip[static 16]);

bool rsk_conf_within(const struct rsk_conf_prefix *p, uint8_t ipv, const uint8_t ip[static 16]);

bool rsk_conf_validate(const struct rsk_conf *c);

#endif
