/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conf_schema.h - the configuration as parsed from the file: text, not interpreted yet. The schema
 * refuses unknown and duplicate keys, values of another kind, and aliases; conf.c interprets the
 * values. Only conf_*.c include this.
 */
#ifndef RSK_CONF_SCHEMA_H
#define RSK_CONF_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "conf.h"

enum rsk_raw_bool {
	RSK_RAW_ABSENT,
	RSK_RAW_YES,
	RSK_RAW_NO
};

struct rsk_raw_list {
	char **v;
	unsigned int n;
};

/* NULL, or a list with n 0: absent. */
struct rsk_raw_when {
	struct rsk_raw_list services, ports, users, peers, local, time;
	char *load_below, *sessions_below, *device_load_below, *device_sessions_below;
	char *bandwidth_free;
	char *transactions_below, *transactions_least, *rtt_below, *rtt_least;
	char *stream_bytes_below, *stream_bytes_least;
	enum rsk_raw_bool bandwidth_fits;
	struct rsk_raw_list functions;
	struct rsk_raw_when *any, *all, *not_;
	unsigned int n_any, n_all;
};

struct rsk_raw_function {
	char *name;
	struct rsk_raw_when *when;
};

struct rsk_raw_map {
	char *pm_time, *priority, *group, *redirect;
};

struct rsk_raw_rule {
	char *name;
	unsigned int side; /* 0: both */
	struct rsk_raw_when *when;
	struct rsk_raw_map *map;
};

struct rsk_raw_port {
	char *name, *bandwidth;
	struct rsk_raw_list addresses, reach;
};

struct rsk_raw_rnic {
	char *name, *node, *group, *bandwidth, *sessions, *connections, *memory_maps, *order;
	struct rsk_raw_list addresses, reach;
	struct rsk_raw_port *ports;
	unsigned int n_ports;
	enum rsk_conf_qos qos;
	bool spare;
};

struct rsk_raw_aggregate {
	char *address;
	struct rsk_raw_list over;
	bool in_order;
};

struct rsk_raw_limits {
	char *sessions, *per_cp, *per_user;
};

struct rsk_raw_overload {
	char *load, *device_load, *refuse_below, *rate;
};

struct rsk_raw_rails {
	char *bandwidth, *memory_maps, *per_user;
};

struct rsk_raw_service {
	char *name, *bandwidth, *memory_maps, *connections, *priority, *rdma_port, *pm_time, *dscp;
	char *rate, *transactions_wanted;
	struct rsk_raw_list ports, transactions_of;
	struct rsk_raw_limits *limits;
	enum rsk_raw_bool high_availability, balance, registered;
};

/*
 * Settings of the two state machines. X(name, key, field of the machine's configuration, kind,
 * least, most)
 */
#define RSK_CONF_PMSP(X)                                                                           \
	X(max_open, "max-open", max_open, SIZE, 1, 1u << 24)                                       \
	X(accept, "accept-time", accept_ns, TIME, 1000000, 3600000000000)                          \
	X(ask, "ask-time", ask_ns, TIME, 1000000, 3600000000000)                                   \
	X(resend, "resend-time", resend_ns, TIME, 1000000, 3600000000000)                          \
	X(resends, "resends", resends, U8, 0, 255)                                                 \
	X(rate, "rate", rate_per_s, U32, 0, 1000000000)                                            \
	X(burst, "burst", burst, U32, 1, 1000000000)

#define RSK_CONF_CLIENT(X)                                                                         \
	X(max_open, "max-open", max_open, U32, 1, 1u << 24)                                        \
	X(max_sends, "max-sends", max_sends, U8, 1, 20)                                            \
	X(linger, "linger-time", linger_ns, TIME, 0, 3600000000000)                                \
	X(services, "max-services", cache.max_services, SIZE, 1, 1u << 24)                         \
	X(hosts, "max-hosts", cache.max_hosts, SIZE, 1, 1u << 24)                                  \
	X(refused, "refused-time", cache.refused_ns, TIME, 0, 86400000000000)                      \
	X(silent, "silent-time", cache.silent_ns, TIME, 0, 86400000000000)                         \
	X(rtt, "rtt-time", cache.rtt_ns, TIME, 0, 86400000000000)                                  \
	X(rto_first, "rto-first", cache.rto_first_ns, TIME, 1000000, 60000000000)                  \
	X(rto_least, "rto-least", cache.rto_least_ns, TIME, 1000000, 60000000000)                  \
	X(rto_most, "rto-most", cache.rto_most_ns, TIME, 1000000, 60000000000)

/* Settings of the exchange between policy agents; fields of struct rsk_conf_pma. */
#define RSK_CONF_PMA(X)                                                                            \
	X(timeout, "timeout", ask.timeout_ns, TIME, 1000000, 60000000000)                          \
	X(report, "report-time", ask.report_ns, TIME, 10000000, 3600000000000)                     \
	X(questions, "max-questions", ask.max_questions, U32, 1, 1u << 20)                         \
	X(idle, "max-idle", ask.max_idle, U32, 0, 1u << 20)                                        \
	X(lost, "lost-after", central_agent.lost_ns, TIME, 30000000, 3600000000000)                \
	X(lease, "lease-time", central_agent.lease_ns, TIME, 0, 3600000000000)                     \
	X(nodes, "max-nodes", central_agent.max_nodes, SIZE, 1, 65536)                             \
	X(leases, "max-leases", central_agent.max_leases, SIZE, 1, 1u << 28)

#define RSK_RAW_FIELD(name, ...) char *name;
struct rsk_raw_pmsp {
	RSK_CONF_PMSP(RSK_RAW_FIELD)
};

struct rsk_raw_client {
	char *central;
	RSK_CONF_CLIENT(RSK_RAW_FIELD)
};

struct rsk_raw_tls {
	char *ca, *certificate, *key;
};

struct rsk_raw_pma {
	struct rsk_raw_list listen, allow;
	struct rsk_raw_tls *tls;
	char *central;
	unsigned int mode; /* enum rsk_conf_pma_mode + 1; 0: absent */
	bool local_if_silent;
	RSK_CONF_PMA(RSK_RAW_FIELD)
};
#undef RSK_RAW_FIELD

struct rsk_raw_cluster_ledger {
	char *hold;
};

struct rsk_raw_cluster {
	struct rsk_raw_list etcd;
	char *prefix, *user, *password_file, *timeout, *lease, *expire, *history, *address;
	enum rsk_raw_bool redirect;
	bool is_listed;
	struct rsk_raw_tls *tls;
	struct rsk_raw_cluster_ledger *ledger;
};

struct rsk_raw_vouch {
	struct rsk_raw_list users, groups, ports, cgroups;
};

struct rsk_raw_conf {
	char *node, *user, *control, *local, *state, *metrics, *rdma_ports, *ask_first_time;
	struct rsk_raw_list listen, redirects_from, ask_first;
	unsigned int watch_devices; /* enum rsk_conf_watch + 1; 0: absent */
	enum rsk_raw_bool discover, between_namespaces;
	bool use_soft;
	struct rsk_raw_pmsp *pmsp;
	struct rsk_raw_client *client;
	struct rsk_raw_pma *pma;
	struct rsk_raw_cluster *cluster;
	struct rsk_raw_limits *limits;
	struct rsk_raw_overload *overload;
	struct rsk_raw_rails *rails;
	struct rsk_raw_rnic *rnics;
	struct rsk_raw_aggregate *aggregates;
	struct rsk_raw_service *services;
	struct rsk_raw_function *functions;
	struct rsk_raw_rule *rules;
	struct rsk_raw_vouch *vouch;
	unsigned int n_vouch, n_rnics, n_aggregates, n_services, n_functions, n_rules;
};

/* Returns 0, -EINVAL (@error says where and why) or -ENOMEM. *out is NULL if the text is empty. */
int rsk_raw_parse(const char *text, size_t len, struct rsk_raw_conf **out, char *error, size_t n);
/* The same for a document of the cluster, which has only some of the keys: conf.h. */
int rsk_raw_parse_document(const char *text, size_t len, struct rsk_raw_conf **out, char *error,
			   size_t n);
void rsk_raw_free(struct rsk_raw_conf *raw);

#endif
