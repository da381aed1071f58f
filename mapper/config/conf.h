/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf.h - rsockd's configuration. The YAML file (libcyaml) is read and checked completely, and
 * converted to a form in which a decision needs no text. Used by rsockd and the policy agent. All
 * keys: rsockd.conf(5). Numbers are indices into the arrays of struct rsk_conf.
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

/* One bit for each minute of a week, from Monday 0:00. */
#define RSK_CONF_WEEK_MINUTES (7u * 24 * 60)
#define RSK_CONF_WEEK_BYTES (RSK_CONF_WEEK_MINUTES / 8)

/* Sessions of this priority or more are of the high class, all others are best effort. */
#define RSK_CONF_PRIORITY_HIGH 4
#define RSK_CONF_PRIORITY_MOST 7

/* The bits after the prefix are 0. */
struct rsk_conf_prefix {
	uint8_t ip[16];
	uint8_t ipv; /* RSK_PM_IPV4 or RSK_PM_IPV6 */
	uint8_t bits;
};

struct rsk_conf_range {
	uint16_t first, last; /* 1 to 65535, inclusive */
};

enum rsk_conf_pma_mode {
	RSK_CONF_PMA_LOCAL,
	RSK_CONF_PMA_CENTRAL,
	RSK_CONF_PMA_BOTH
};

/* Absolute paths of files in PEM format. */
struct rsk_conf_tls {
	const char *ca, *certificate, *key;
};

/* The exchange between policy agents. */
struct rsk_conf_pma {
	/* TCP addresses where other agents may ask us */
	struct rsk_pm_addr *listen;
	size_t n_listen;
	struct rsk_conf_prefix *allow; /* the agents that may ask */
	size_t n_allow;
	struct rsk_pm_addr central; /* the agent that we ask; port 0: none, or the next one */
	bool central_by_role;	    /* the agent that has that role in the cluster */
	struct rsk_conf_tls tls;    /* for both; all of them, or none: without TLS */
	enum rsk_conf_pma_mode mode;
	/* If the central agent does not answer: decide locally; else deny */
	bool local_if_silent;
	struct rsk_ask_config ask;
	struct rsk_central_config central_agent;
};

struct rsk_conf_endpoint {
	const char *url, *host; /* the host is without brackets */
	uint16_t port;
	bool tls, is_name; /* is_name: the host is a name, not an address */
};

/* The store that many hosts share: etcd. Paths and names that are NULL: none. */
struct rsk_conf_cluster {
	struct rsk_conf_endpoint *endpoints;
	size_t n_endpoints; /* 0: there is no cluster */
	const char *prefix; /* of all keys; ends without '/' */
	const char *ca, *certificate, *key;
	const char *user, *password_file;
	uint64_t timeout_ns; /* of one call */
	uint64_t lease_ns;   /* of this host's entry among the members; whole seconds */
	/* How long a document is in force while etcd is not heard; UINT64_MAX: without limit */
	uint64_t expire_ns;
	uint32_t history_most; /* former documents that are kept */
	/* A request that is not mapped here goes to a host that offers the service */
	bool redirect;
	/* The endpoints are asked in the order of the list, and not in one of this daemon's own */
	bool is_listed;
	/* At which others reach what this host has a role for; its port is 0; ipv 0: not given */
	struct rsk_pm_addr address;
	/*
	 * How long quotas of remote RNICs are used without etcd; whole seconds; 0: there is no
	 * ledger
	 */
	uint64_t hold_ns;
};

/* Whether there is a central agent to ask, in whichever way it is found. */
static inline bool rsk_conf_pma_asks(const struct rsk_conf_pma *p)
{
	return p->central.port || p->central_by_role;
}

#define RSK_CONF_ANY_USER UINT32_MAX

/*
 * rsockd vouches for processes of these users to each other, for these service ports (none: all).
 * @users: also the members of the groups that the entry names, as they were when it was read.
 */
struct rsk_conf_vouch {
	uint32_t *users;
	size_t n_users;
	struct rsk_conf_range *ports;
	size_t n_ports;
	char **cgroups; /* glob(7) patterns of control groups: both are in one of them; none: any */
	size_t n_cgroups;
};

/* What decides which RNICs of this node are present. */
enum rsk_conf_watch {
	RSK_CONF_WATCH_NO,   /* nothing: all are */
	RSK_CONF_WATCH_YES,  /* the kernel */
	RSK_CONF_WATCH_RDMA, /* as YES, and without an RDMA device none is */
};

/* Settings of the daemon. An address whose port is 0: none. */
struct rsk_conf_daemon {
	const char *node; /* name of this daemon's node */
	const char *user; /* user to run as; NULL: unchanged */
	const char *control, *local, *state;
	bool state_is_wanted; /* the file names it */
	struct rsk_pm_addr *listen;
	size_t n_listen;
	struct rsk_pm_addr metrics;
	/* The PMSP to ask, instead of the AP's host; or those that have the role in the cluster */
	struct rsk_pm_addr central;
	bool central_by_role;
	enum rsk_conf_watch watch_devices;
	/* Streams between network namespaces are brought together */
	bool between_namespaces;
	/* RNICs are discovered, because the file names none */
	bool discover;
	/* Hosts that may forward others' requests to us */
	struct rsk_conf_prefix *redirects_from;
	size_t n_redirects_from;
	/* connect() to these addresses asks for a mapping first */
	struct rsk_conf_prefix *ask_first;
	size_t n_ask_first;
	uint64_t ask_first_ns; /* and waits so long */
	struct rsk_conf_vouch *vouch;
	size_t n_vouch;
	/* Range for listen ports that are made on request */
	struct rsk_conf_range rdma_ports;
	struct rsk_pmsp_config pmsp; /* the daemon sets its seed */
	struct rsk_pm_client_config client;
	struct rsk_conf_pma pma;
	struct rsk_conf_cluster cluster;
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
	uint32_t order; /* lower ones are used first */
	enum rsk_conf_qos qos;
	bool spare;
};

/*
 * A port of an RNIC. Sessions are reserved on ports. The name is "mlx0", or "mlx0/1" if its ports
 * have names.
 */
struct rsk_conf_port {
	const char *name;
	uint32_t rnic;
	struct rsk_pm_addr *ips; /* its own addresses; their port is 0 */
	size_t n_ips;
	struct rsk_conf_prefix *reach; /* none: everything */
	size_t n_reach;
	uint64_t bps; /* 0: no limit */
	bool has_ipv4, has_ipv6;
};

struct rsk_conf_node {
	const char *name;
	uint32_t *ports;
	size_t n_ports;
};

/* One address for several ports, of one node or of several. */
struct rsk_conf_aggregate {
	struct rsk_pm_addr address;
	uint32_t *ports;
	size_t n_ports;
	bool in_order; /* choose the first usable one; else by load */
};

/*
 * When a node or a device counts as overloaded, and what happens to sessions of low priority then.
 */
struct rsk_conf_overload {
	double load, device_load; /* 0: not watched */
	uint8_t refuse_below;	  /* priority; 0: none is refused */
	uint64_t rate_bps;	  /* of best effort; 0: unchanged */
};

/*
 * What a further rail of a link takes of its port, and how many rails of one user may use a port.
 */
struct rsk_conf_rails {
	uint64_t bps;
	uint32_t memory_maps, per_user;
};

struct rsk_conf_limits {
	uint32_t sessions, per_cp, per_user; /* 0: no limit */
};

struct rsk_conf_service {
	const char *name;
	struct rsk_conf_range *ports;
	size_t n_ports;
	uint64_t bps; /* needs of a session; the same for the next two */
	uint32_t memory_maps, connections;
	struct rsk_conf_limits limits;
	uint64_t rate_bps;
	uint32_t transactions_wanted; /* per second; 0: any number */
	uint32_t *transactions_of;    /* users whose processes are believed, beside root's */
	size_t n_transactions_of;
	uint16_t rdma_port; /* 0: a port is made */
	uint8_t priority, pm_time_s, dscp;
	bool high_availability; /* may use spares */
	uint32_t *rules;	/* rules that may hold for it */
	uint32_t n_rules;
	/* AP: mapped only if an accelerated process listens */
	bool registered;
	/* A device's own address may be replaced by another's to balance the load */
	bool balance;
};

/* ---- sub-functions ---- */

enum rsk_cond_op {
	RSK_COND_ALL,
	RSK_COND_ANY,
	RSK_COND_NOT,
	RSK_COND_FUNCTION, /* value of another sub-function */
	RSK_COND_SERVICES,
	RSK_COND_PORTS,
	RSK_COND_USERS,
	RSK_COND_PEERS,
	RSK_COND_LOCAL,
	RSK_COND_TIME,
	RSK_COND_LOAD,	   /* of the node */
	RSK_COND_SESSIONS, /* of the service */
	/* Of the service, per second; from here on: measures.h */
	RSK_COND_TRANSACTIONS_BELOW,
	RSK_COND_TRANSACTIONS_LEAST,
	RSK_COND_RTT_BELOW, /* ns, to the peer's host */
	RSK_COND_RTT_LEAST,
	/* Average of the service's streams that have ended */
	RSK_COND_STREAM_BYTES_BELOW,
	RSK_COND_STREAM_BYTES_LEAST,
	/* From here on the value depends on the device */
	RSK_COND_DEVICE_LOAD,
	RSK_COND_DEVICE_SESSIONS, /* of the RNIC */
	/* R1: need <= the port's bandwidth less what others use */
	RSK_COND_BANDWIDTH_FITS,
	RSK_COND_BANDWIDTH_FREE,
};

/* In prefix order: the operands follow the condition, up to @end. */
struct rsk_cond {
	enum rsk_cond_op op;
	uint32_t end;
	size_t n; /* length of the list */
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
	uint32_t root; /* index in conds */
	uint32_t depth, cost;
};

#define RSK_CONF_SIDE_CP 1u
#define RSK_CONF_SIDE_AP 2u

/* -1: as in the service. */
struct rsk_conf_rule {
	uint32_t function; /* has the rule's name */
	unsigned int sides;
	int pm_time_s, priority;
	uint32_t group;		     /* or RSK_CONF_NONE: any device */
	struct rsk_pm_addr redirect; /* ipv 0: none */
};

struct rsk_conf_target; /* maps an address to its owner */
struct rsk_conf_name;
struct rsk_conf_block;

enum rsk_conf_names {
	RSK_CONF_NODES,
	RSK_CONF_GROUPS,
	RSK_CONF_RNICS,
	RSK_CONF_PORTS,
	RSK_CONF_SERVICES,
	RSK_CONF_FUNCTIONS, /* includes rules */
	RSK_CONF_NAMES
};

/* Owns everything it points to; immutable once built. */
struct rsk_conf {
	struct rsk_conf_daemon daemon;
	struct rsk_conf_limits limits; /* of all services together */
	struct rsk_conf_overload overload;
	struct rsk_conf_rails rails;
	/* Software RDMA devices take sessions like others */
	bool use_soft;
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
	/* By service port: the service's number + 1; 0: none is registered */
	uint16_t *service_at;
	struct rsk_conf_target *targets;
	struct rsk_conf_name *names[RSK_CONF_NAMES];
	struct rsk_conf_block *blocks;
};

/*
 * Reads a file. Returns 0; -EINVAL: it is wrong; -ENOMEM; or the -errno of reading it. On failure
 * @error says in one line where and what: the file's name, the line as far as the parser knows it,
 * else the path of keys. Blocks.
 */
int rsk_conf_load(const char *path, struct rsk_conf **out, char *error, size_t n);
/* The same for text of @len bytes; no terminating zero is needed. */
int rsk_conf_parse(const char *text, size_t len, struct rsk_conf **out, char *error, size_t n);
/*
 * The same, with RNICs that were discovered on this host if the text names none and does not forbid
 * it: each under its device's name.
 */
struct rsk_discovered;
int rsk_conf_parse_with(const char *text, size_t len, const struct rsk_discovered *found,
			struct rsk_conf **out, char *error, size_t n);
/*
 * The same, with a document of the cluster over it: its services, functions and rules are in force
 * instead of those of @text, and its aggregates beside those of @text, except those of which this
 * host knows no RNIC. A document has no other keys. An error of the document begins with the path
 * of its keys, like any other.
 */
#define RSK_CONF_DOCUMENT_MOST 262144u /* bytes */
int rsk_conf_parse_shared(const char *text, size_t len, const char *document, size_t document_len,
			  const struct rsk_discovered *found, struct rsk_conf **out, char *error,
			  size_t n);
/* Reads a file's text; the caller frees it. Errors as rsk_conf_load(). */
int rsk_conf_read(const char *path, char **text, size_t *len, char *error, size_t n);
/*
 * The configuration without a file: the daemon's defaults, no RNIC, no service (so nothing is
 * mapped), and one rule that supports every registered service; that rule also applies if a file
 * has no rules.
 */
int rsk_conf_default(struct rsk_conf **out);
void rsk_conf_free(struct rsk_conf *c);

/* Returns the number of that name, or RSK_CONF_NONE. */
uint32_t rsk_conf_find(const struct rsk_conf *c, enum rsk_conf_names kind, const char *name);

enum rsk_conf_owner {
	RSK_CONF_NOBODYS,
	RSK_CONF_PORTS_OWN,
	RSK_CONF_AGGREGATES
};
/* Returns what kind of owner the address has, and stores the owner's number. */
enum rsk_conf_owner rsk_conf_owner_of(const struct rsk_conf *c, uint8_t ipv,
				      const uint8_t ip[static 16], uint32_t *number);

/* Returns the port that has this address as its own: a pointer to its number. NULL: none. */
const uint32_t *rsk_conf_port_at(const struct rsk_conf *c, uint8_t ipv,
				 const uint8_t ip[static 16]);

bool rsk_conf_within(const struct rsk_conf_prefix *p, uint8_t ipv, const uint8_t ip[static 16]);

bool rsk_conf_validate(const struct rsk_conf *c);

#endif
