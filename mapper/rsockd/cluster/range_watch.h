/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * range_watch.h - keeps a table of etcd's keys below a prefix true: reads all of them, and watches
 * them from the next revision of etcd's store on. While etcd is away the table stays as it was.
 * services.c and roles.c own one each. One thread.
 */
#ifndef RSK_RANGE_WATCH_H
#define RSK_RANGE_WATCH_H

#include <event2/event.h>

#include "etcd.h"
#include "etcd_msg.h"

/* The texts are for several tables: the metric's name says which. */
#define RSK_RANGE_WATCH_COUNTERS(X)                                                                \
	X(reads, "times that all keys of this table were read")                                    \
	X(events, "changes of keys that the watch has told")                                       \
	X(compactions, "watches that etcd ended because of a compaction")                          \
	X(outages, "times that the keys could not be watched any more")

struct rsk_range_watch_counters {
#define X(name, text) uint64_t name;
	RSK_RANGE_WATCH_COUNTERS(X)
#undef X
};

/* What the keys are taken into. All functions get the table. */
struct rsk_range_table {
	const char *what;   /* for the log: "services" */
	uint32_t keys_most; /* more are not read */
	/* The key has this value now, or, with @kv->is_deleted, is gone. 0 or -ENOMEM */
	int (*put)(void *table, const struct rsk_etcd_kv *kv);
	/* The same for an event, which may come late, behind a newer value */
	int (*event)(void *table, const struct rsk_etcd_kv *kv);
	/* What put() is called for between these two is all that there is; @more: but for some */
	void (*begin)(void *table);
	void (*end)(void *table, bool more);
	size_t (*keys)(const void *table);
	uint64_t (*newest)(const void *table); /* largest mod_revision of a key; 0: there is none */
	bool (*is_full)(const void *table);    /* keys were left out */
	void (*changed)(void *table);	       /* after a reading and after events; NULL: nothing */
};

struct rsk_range_watch {
	struct rsk_etcd *etcd; /* borrowed, like the next three */
	const char *head;      /* what all keys begin with */
	const struct rsk_range_table *to;
	void *table;
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
	struct rsk_range_watch_counters count;
};

/* Starts to read. Returns 0 or -ENOMEM; the caller calls close() in either case. */
int rsk_range_watch_open(struct rsk_range_watch *w, struct event_base *base, struct rsk_etcd *etcd,
			 const char *head, const struct rsk_range_table *to, void *table);
void rsk_range_watch_close(struct rsk_range_watch *w);

#endif
