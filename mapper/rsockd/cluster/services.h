/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * services.h - the services that the hosts of a cluster offer on RDMA: this host tells its own, and
 * knows those of all. cluster.c owns it; the http folder and, for the agent, the core read it. One
 * thread.
 */
#ifndef RSK_SERVICES_H
#define RSK_SERVICES_H

#include "services_publish.h"
#include "services_self.h"
#include "services_table.h"
#include "range_watch.h"

struct rsk_services {
	char head[RSK_DOCUMENT_KEY]; /* what all keys begin with */
	struct rsk_services_self self;
	struct rsk_services_table table;
	struct rsk_range_watch watch;
	struct rsk_services_publish publish;
	uint64_t referred; /* requests that were redirected to a host of the table */
};

/*
 * Starts to watch, and to write where @member is registered. @from is copied, @member borrowed.
 * Returns 0 or -ENOMEM; the caller calls close() in either case.
 */
int rsk_services_open(struct rsk_services *s, struct event_base *base, struct rsk_etcd *etcd,
		      const struct rsk_conf_daemon *conf, const struct rsk_member *member,
		      const struct rsk_services_source *from);
/* All zero: nothing. */
void rsk_services_close(struct rsk_services *s);

/*
 * For an operator, a new reference: "in-sync" (the list is what etcd has), "error" (why not, or
 * null), "services" (of all hosts, by host, each with "node" and what service_json.h has),
 * "unreadable" (names of entries that are none), "left-out" (how many services are not in the list,
 * as far as is known), "more" (entries are missing since there are too many). NULL: no memory.
 */
json_t *rsk_services_list(struct rsk_services *s);

#endif
