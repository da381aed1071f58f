/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * services_table.h - which hosts of the cluster offer which services on RDMA, as their entries in
 * etcd say: by key, and by the address of a service. services.c fills it; operators and the
 * agent read it. No clock, no sockets. One thread.
 */
#ifndef RSK_SERVICES_TABLE_H
#define RSK_SERVICES_TABLE_H

#include "etcd_msg.h"
#include "pm_addr.h"
#include "pm_msg.h"
#include "service_json.h"

#define RSK_SERVICES_TABLE_NODES 1024u
#define RSK_SERVICES_TABLE_MOST 16384u /* services of all nodes */

enum rsk_services_kind {
	RSK_SERVICES_READABLE,
	RSK_SERVICES_UNREADABLE, /* the entry is not one of rsockd */
	RSK_SERVICES_TOO_MANY,	 /* those of other nodes fill the table */
};

struct rsk_services_node;
struct rsk_services_place;

/* All zero but for the first two: empty. */
struct rsk_services_table {
	const char *own;		   /* this host's name; borrowed */
	size_t head;			   /* bytes with which all keys begin */
	struct rsk_services_node *nodes;   /* uthash, by key */
	struct rsk_services_place *places; /* uthash, by the address of a service */
	size_t n_services;
	uint32_t round;
	/* Something was left out since there is too much */
	bool is_full;
};

void rsk_services_table_fini(struct rsk_services_table *t);

/* The key has this value now, or, with @kv->is_deleted, is gone. Returns 0 or -ENOMEM. */
int rsk_services_table_put(struct rsk_services_table *t, const struct rsk_etcd_kv *kv);
/* The same for an event of a watch; one that comes late, behind a newer value, is not taken. */
int rsk_services_table_event(struct rsk_services_table *t, const struct rsk_etcd_kv *kv);
/* What put() is called for between these two is all that there is. */
void rsk_services_table_begin(struct rsk_services_table *t);
void rsk_services_table_end(struct rsk_services_table *t);

/* Revision of the key; 0: there is none. */
uint64_t rsk_services_table_revision(const struct rsk_services_table *t, const char *key);
size_t rsk_services_table_nodes(const struct rsk_services_table *t);
/* The largest revision of a key; 0: there is none. */
uint64_t rsk_services_table_newest(const struct rsk_services_table *t);

/*
 * Finds the port mapper of another host that offers what a PMReq asks for. If there are several,
 * one is taken by AssocHandle, so that a repeated request goes to the same one; but for a
 * connection that exists only the host that has it can answer, so then there has to be one.
 */
bool rsk_services_table_find(const struct rsk_services_table *t, const struct rsk_pm_msg *req,
			     struct rsk_pm_addr *pmsp);

/* In the order of the nodes' names. @e: of RSK_SERVICES_READABLE only. */
void rsk_services_table_each(struct rsk_services_table *t,
			     void (*each)(void *ctx, const char *name, enum rsk_services_kind kind,
					  const struct rsk_service_entry *e),
			     void *ctx);
bool rsk_services_table_validate(const struct rsk_services_table *t);

#endif
