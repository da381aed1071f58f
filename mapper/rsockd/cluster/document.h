/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * document.h - the configuration that all hosts of a cluster share: a document in etcd, which this
 * daemon reads at its start and watches. A new revision is handed on, to be taken whole or not at
 * all. While etcd is away the last one stays in force, until it expires (document_keep.h), also
 * over a restart of the daemon. document_ops.h changes it. One thread.
 *
 * PREFIX/config/current has the document that is in force, PREFIX/config/history/N those that were,
 * where N (20 digits) is the revision. A document's revision is the one that etcd gave to the key
 * when it was written (mod_revision).
 */
#ifndef RSK_DOCUMENT_H
#define RSK_DOCUMENT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "document_keep.h"
#include "etcd.h"
#include "etcd_msg.h"

#define RSK_DOCUMENT_KEY 256

/*
 * Checks a document together with this host's own configuration and, with @apply, puts both in
 * force; @text NULL: the host's own one alone. Returns 0, or -errno with a line in @error; then
 * nothing has changed.
 */
typedef int rsk_document_take(void *ctx, const char *text, size_t bytes, bool apply, char *error,
			      size_t n);

#define RSK_DOCUMENT_COUNTERS(X)                                                                   \
	X(applied, "revisions of the cluster's document that were put in force")                   \
	X(refused, "revisions of the cluster's document that were refused")                        \
	X(compactions, "watches of the document that etcd ended because of a compaction")          \
	X(outages, "times that etcd could not be reached any more")                                \
	X(expirations, "times that the cluster's document has expired, since etcd was not heard")

struct rsk_document_counters {
#define X(name, text) uint64_t name;
	RSK_DOCUMENT_COUNTERS(X)
#undef X
};

struct rsk_document {
	struct event_base *base;
	struct rsk_etcd *etcd; /* borrowed */
	rsk_document_take *take;
	void *ctx;
	char current[RSK_DOCUMENT_KEY], history[RSK_DOCUMENT_KEY]; /* keys */
	/* At most one of the first two calls is under way, and the third only beside a watch */
	struct rsk_etcd_call *read, *watch, *check;
	struct event *timer;
	unsigned int failures; /* in a row */
	/* Revisions; 0: none. @told: the one whose refusal was logged */
	uint64_t running, newest, told;
	uint64_t seen; /* the store's, of the last reading or event */
	/*
	 * is_settled: the watch has lived for a while; was_short: the one before it has not, so
	 * that another end of that kind counts as a failure
	 */
	bool is_reached, is_watched, is_settled, was_short, was_reached;
	/*
	 * The document that is in force, or that is refused, is the one that was kept, and etcd has
	 * not answered yet; the one that was in force has expired, and etcd has not answered since
	 */
	bool is_from_disk, is_expired;
	bool is_stuck;	       /* it was logged that it has expired and is in force nevertheless */
	uint32_t history_most; /* former documents that a push leaves */
	uint64_t check_ns;     /* how often the key is looked at beside the watch */
	struct rsk_document_keep keep;
	struct event *again; /* the document that was kept is tried once more */
	/* Empty: nothing is wrong. Printable ASCII only */
	char why_refused[512], why_unreached[512];
	struct rsk_document_counters count;
	struct rsk_document_op *ops; /* document_ops.c */
	unsigned int n_ops;
};

/*
 * Starts to read. @disk is borrowed. Returns 0 or -ENOMEM; the caller calls rsk_document_close() in
 * either case.
 */
int rsk_document_open(struct rsk_document *d, struct event_base *base, struct rsk_etcd *etcd,
		      struct rsk_disk *disk, const struct rsk_conf_cluster *conf,
		      rsk_document_take *take, void *ctx);
/* Puts the document that was kept in force, if there is one. After rights were given up. */
void rsk_document_start(struct rsk_document *d);
void rsk_document_close(struct rsk_document *d);

/* This host's own configuration has changed: a document that was refused may be valid now. */
void rsk_document_retry(struct rsk_document *d);

/* Replaces everything that is not printable ASCII, since it may come from anywhere. */
void rsk_document_clean(char *text);

#endif
