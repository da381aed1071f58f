/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roles.h - who is a central policy agent or a central PMSP in the cluster: this host tells what it
 * is, and knows all of them, as etcd has them. cluster.c owns it; the core asks it who is asked,
 * and the http folder shows it. One thread.
 */
#ifndef RSK_ROLES_H
#define RSK_ROLES_H

#include "roles_publish.h"

struct rsk_roles {
	char head[RSK_DOCUMENT_KEY];	 /* what all keys begin with */
	const char *node;		 /* this host's name; borrowed */
	const struct rsk_member *member; /* borrowed */
	struct rsk_roles_table table;
	struct rsk_range_watch watch;
	struct rsk_roles_publish publish;
	void (*changed)(void *ctx);
	void *ctx;
};

/*
 * Starts to watch, and to write where @member is registered. @settings is read in here only;
 * @member and @pma are borrowed. @changed is called from the event loop when the answers of the
 * next functions may have changed. Returns 0 or -ENOMEM; the caller calls close() in either case.
 */
int rsk_roles_open(struct rsk_roles *r, struct event_base *base, struct rsk_etcd *etcd,
		   const struct rsk_conf_daemon *settings, const struct rsk_member *member,
		   const struct rsk_pma *pma, void (*changed)(void *ctx), void *ctx);
/* All zero: nothing. */
void rsk_roles_close(struct rsk_roles *r);

/*
 * If this daemon is the central policy agent of the cluster: the revision of its role; otherwise 0.
 * It is not when its lease is over by its own clock, unless that is because etcd is not reached:
 * then what was known last holds.
 */
uint64_t rsk_roles_agent_here(const struct rsk_roles *r);

/*
 * For an operator, a new reference: "in-sync", "error", "roles" (each "role", "node", "address",
 * "port", "asked": the one that policy agents ask, or the first that this host's PM client asks),
 * "unreadable" (keys), "more", "not-told" (why this host's role is not in etcd, or null). NULL: no
 * memory.
 */
json_t *rsk_roles_list(const struct rsk_roles *r);

#endif
