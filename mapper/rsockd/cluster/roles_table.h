/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roles_table.h - which hosts of the cluster are central policy agents and central PMSPs, as their
 * entries in etcd say, and which of them is asked. roles.c fills it and asks it. No clock, no
 * sockets. One thread.
 */
#ifndef RSK_ROLES_TABLE_H
#define RSK_ROLES_TABLE_H

#include "role_json.h"

#define RSK_ROLES_TABLE_MOST 1024u

struct rsk_roles_entry {
	char *key; /* owned; followed by a zero */
	size_t key_bytes;
	uint64_t created, revision; /* of the key: since when it exists, when it was changed */
	uint32_t round;
	bool is_readable;
	struct rsk_role role; /* if it is readable */
};

/* All zero but for the first: empty. */
struct rsk_roles_table {
	size_t head;			 /* bytes with which all keys begin */
	struct rsk_roles_entry *entries; /* owned, with room for RSK_ROLES_TABLE_MOST; by key */
	size_t n;
	uint32_t round;
	bool is_full; /* some were left out since there are too many */
};

void rsk_roles_table_fini(struct rsk_roles_table *t);

/* The key has this value now, or, with @kv->is_deleted, is gone. Returns 0 or -ENOMEM. */
int rsk_roles_table_put(struct rsk_roles_table *t, const struct rsk_etcd_kv *kv);
/* The same for an event of a watch; one that comes late, behind a newer value, is not taken. */
int rsk_roles_table_event(struct rsk_roles_table *t, const struct rsk_etcd_kv *kv);
/* What put() is called for between these two is all that there is; @more: but for some. */
void rsk_roles_table_begin(struct rsk_roles_table *t);
void rsk_roles_table_end(struct rsk_roles_table *t, bool more);

/* Revision of that key; 0: there is none. */
uint64_t rsk_roles_table_revision(const struct rsk_roles_table *t, const char *key);
/* The largest revision of a key; 0: there is none. */
uint64_t rsk_roles_table_newest(const struct rsk_roles_table *t);

/*
 * The central policy agent that all nodes ask: the one whose entry exists for the longest time, as
 * in an election of etcd. NULL: there is none. Borrowed until the table changes.
 */
const struct rsk_roles_entry *rsk_roles_table_agent(const struct rsk_roles_table *t);

/*
 * The central PMSPs in the order in which the PM client of node @own asks them: by a hash of both
 * names, so that each node has an order of its own, and the one that goes leaves its nodes to all
 * others. *cursor: UINT64_MAX for the first; each call moves it on, also over changes of the table.
 * False: there is no other one.
 */
bool rsk_roles_table_pmsp(const struct rsk_roles_table *t, const char *own, uint64_t *cursor,
			  struct rsk_pm_addr *out);

bool rsk_roles_table_validate(const struct rsk_roles_table *t);

#endif
