/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * roles_publish.h - this host's entries of roles: PREFIX/roles/pma/NODE and PREFIX/roles/pmsp/NODE,
 * bound to the lease of its entry among the members, and written only while this daemon holds that
 * one. They do not change while the daemon runs, but for the address, if that is not known yet.
 * roles.c owns it. One thread.
 */
#ifndef RSK_ROLES_PUBLISH_H
#define RSK_ROLES_PUBLISH_H

#include <event2/event.h>

#include "conf.h"
#include "etcd.h"
#include "member.h"
#include "pma.h"
#include "range_watch.h"
#include "roles_table.h"

#define RSK_ROLES_PUBLISH_COUNTERS(X)                                                              \
	X(writes, "times that this host's roles were written")                                     \
	X(failures, "times that this host's roles could not be written")                           \
	X(losses, "times that somebody else has changed or deleted this host's roles")

struct rsk_roles_publish_counters {
#define X(name, text) uint64_t name;
	RSK_ROLES_PUBLISH_COUNTERS(X)
#undef X
};

#define RSK_ROLE_LISTENS 64u

/* A role that this host has by its configuration. */
struct rsk_roles_own {
	bool is_wanted, is_known; /* is_known: its address is */
	struct rsk_pm_addr listen[RSK_ROLE_LISTENS];
	size_t n_listen;
	struct rsk_role role;
	char key[RSK_DOCUMENT_KEY + 80];
};

struct rsk_roles_publish {
	struct rsk_etcd *etcd; /* borrowed, like the next four */
	const struct rsk_member *member;
	const struct rsk_range_watch *watch;
	const struct rsk_roles_table *table;
	const struct rsk_pma *pma;
	struct rsk_pm_addr address; /* as configured; ipv 0: none */
	struct rsk_roles_own own[RSK_ROLE_KINDS];
	struct rsk_etcd_call *call;
	struct event *timer; /* each second; not added if there is no role */
	/* The lease under which they were written, 0: they are not; and the revision they got */
	uint64_t lease, revision, writing_lease;
	uint64_t not_before_ns;
	unsigned int failures; /* in a row */
	bool is_told, is_address_told;
	char why[256]; /* empty: nothing is wrong; printable ASCII */
	/* Called when they were written */
	void (*written)(void *ctx);
	void *ctx;
	struct rsk_roles_publish_counters count;
};

/*
 * Which roles there are, and where: @settings is read in here only. What is borrowed, and @written,
 * has been set. Returns 0 or -ENOMEM; the caller calls close() in either case.
 */
int rsk_roles_publish_open(struct rsk_roles_publish *p, struct event_base *base, const char *head,
			   const struct rsk_conf_daemon *settings, const char *node);
void rsk_roles_publish_close(struct rsk_roles_publish *p);

/* Why a role of this host is not in etcd, as far as that is an error; NULL: nothing is wrong. */
const char *rsk_roles_publish_why(const struct rsk_roles_publish *p);

/*
 * Where others reach what listens at these addresses: the configured one; else the first that is
 * not "all addresses"; else, where it listens at all, the first of an RNIC of this host. False: it
 * is not known.
 */
bool rsk_roles_address(const struct rsk_pm_addr *listen, size_t n, const struct rsk_pm_addr *given,
		       const struct rsk_pma *pma, struct rsk_pm_addr *out);

#endif
