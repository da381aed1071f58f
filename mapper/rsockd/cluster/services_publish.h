/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * services_publish.h - this host's entry of services: PREFIX/services/NODE, bound to the lease of
 * its entry among the members, so that both disappear together. It is written by a transaction that
 * is executed only while this daemon holds the member's entry: who holds a name among the members
 * also speaks for its services. services.c owns it. One thread.
 */
#ifndef RSK_SERVICES_PUBLISH_H
#define RSK_SERVICES_PUBLISH_H

#include <event2/event.h>

#include "etcd.h"
#include "member.h"
#include "range_watch.h"
#include "services_self.h"
#include "services_table.h"

#define RSK_SERVICES_PUBLISH_COUNTERS(X)                                                           \
	X(writes, "times that this host's services were written")                                  \
	X(failures, "times that this host's services could not be written")                        \
	X(losses, "times that somebody else has changed or deleted this host's services")

struct rsk_services_publish_counters {
#define X(name, text) uint64_t name;
	RSK_SERVICES_PUBLISH_COUNTERS(X)
#undef X
};

struct rsk_services_publish {
	struct rsk_etcd *etcd; /* borrowed, like the next three */
	const struct rsk_member *member;
	const struct rsk_range_watch *watch;
	struct rsk_services_self *self;
	char key[RSK_DOCUMENT_KEY + 80];
	struct rsk_etcd_call *call;
	struct event *timer; /* each second */
	char *written; /* text of the entry in etcd, owned; NULL: there is none, or another one */
	char *writing; /* as the call writes it; owned */
	/* The lease that @written is bound to, and the revision that it has got */
	uint64_t lease, revision, writing_lease;
	uint64_t not_before_ns, paid_ns;
	unsigned int failures; /* in a row */
	bool is_told;
	struct rsk_services_publish_counters count;
};

/* Returns 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_services_publish_open(struct rsk_services_publish *p, struct event_base *base,
			      struct rsk_etcd *etcd, const char *head,
			      const struct rsk_member *member, const struct rsk_range_watch *watch,
			      struct rsk_services_self *self);
void rsk_services_publish_close(struct rsk_services_publish *p);

#endif
