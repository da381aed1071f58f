/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * services_watch.h - keeps the table of services true: reads all entries below PREFIX/services/,
 * and watches them from the next revision of etcd's store on. While etcd is away the table stays as
 * it was. services.c owns it. One thread.
 */
#ifndef RSK_SERVICES_WATCH_H
#define RSK_SERVICES_WATCH_H

#include <event2/event.h>

#include "etcd.h"
#include "services_table.h"

#define RSK_SERVICES_WATCH_COUNTERS(X)                                                             \
	X(reads, "times that the services of all hosts were read")                                 \
	X(events, "changes of hosts' services that the watch has told")                            \
	X(compactions, "watches of services that etcd ended because of a compaction")              \
	X(outages, "times that the services could not be watched any more")

struct rsk_services_watch_counters {
#define X(name, text) uint64_t name;
	RSK_SERVICES_WATCH_COUNTERS(X)
#undef X
};

struct rsk_services_watch {
	struct rsk_etcd *etcd; /* borrowed, like the next two */
	const char *head;      /* what all keys begin with */
	struct rsk_services_table *table;
	/* At most one of the first two is under way, and the third only beside a watch */
	struct rsk_etcd_call *read, *watch, *check;
	struct event *timer;
	unsigned int failures; /* in a row */
	uint64_t revision;     /* of the store, up to which the table is true */
	uint64_t read_ns;      /* when all entries were read last */
	bool has_room;	       /* an entry was deleted since */
	/* is_in_sync: what the table has was read, and the watch has begun */
	bool is_in_sync, is_suspect, is_told;
	char why[512]; /* empty: nothing is wrong; printable ASCII */
	struct rsk_services_watch_counters count;
};

/* Starts to read. Returns 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_services_watch_open(struct rsk_services_watch *w, struct event_base *base,
			    struct rsk_etcd *etcd, const char *head,
			    struct rsk_services_table *table);
void rsk_services_watch_close(struct rsk_services_watch *w);

#endif
