/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * document_keep.h - how long the cluster's document is in force while etcd is not heard, and a copy
 * of it in the state directory, for a start without etcd. The time counts from when etcd was last
 * heard, whether the daemon was running since then or not. Called by document.c. One thread.
 */
#ifndef RSK_DOCUMENT_KEEP_H
#define RSK_DOCUMENT_KEEP_H

#include <event2/event.h>

#include "disk.h"
#include "document_file.h"

#define RSK_DOCUMENT_KEEP_FILE "document"

/* So much at a time (CLOCK_BOOTTIME), and more since then. */
struct rsk_document_age {
	uint64_t ns, at_ns;
};

/* The document that is in force has expired. Returns 0 if it is not in force any more. */
typedef int rsk_document_expired(void *ctx);

struct rsk_document_keep {
	struct rsk_disk_file file;
	struct event *timer;
	rsk_document_expired *expired;
	void *ctx;
	uint64_t expire_ns; /* UINT64_MAX: never */
	char cluster[RSK_DOCUMENT_FILE_CLUSTER];
	size_t cluster_bytes;
	uint8_t boot_id[16];
	/* Since etcd was heard; and since then, until the document was not in force any more */
	struct rsk_document_age last_contact, age;
	bool is_in_force;
	/* Copy of the document that is to be in the file, owned; revision 0: none */
	uint64_t revision;
	char *text;
	size_t bytes;
	bool is_dirty; /* the file has another document, or none, or could not be written */
	uint64_t handed_ns, handed; /* the last write: CLOCK_BOOTTIME, revision */
	uint64_t on_disk;	    /* revision in the file */
	int why_not;		    /* errno of the last write; 0: it succeeded */
	uint64_t failures;
};

/*
 * @disk is borrowed. Returns 0 or -ENOMEM; the caller calls rsk_document_keep_close() in either
 * case.
 */
int rsk_document_keep_open(struct rsk_document_keep *k, struct event_base *base,
			   struct rsk_disk *disk, const struct rsk_conf_cluster *conf,
			   rsk_document_expired *expired, void *ctx);
/* Writes the age once more. The disk was stopped before. */
void rsk_document_keep_close(struct rsk_document_keep *k);

/*
 * Reads the file into @k: k->revision, text and bytes. Returns 0 if there is one, or none; -ETIME:
 * the document in it has expired; other -errno: it is not used, and *why says why.
 */
int rsk_document_keep_load(struct rsk_document_keep *k, const char **why);
/* What was read is in force. */
void rsk_document_keep_use(struct rsk_document_keep *k);

/* Whether the document has expired. */
bool rsk_document_keep_is_over(const struct rsk_document_keep *k);

/* Etcd has answered, or has sent an event. */
void rsk_document_keep_heard(struct rsk_document_keep *k);
/* This document of etcd is in force. */
void rsk_document_keep_put(struct rsk_document_keep *k, uint64_t revision, const char *text,
			   size_t bytes);
/* Whether it is the document that was given last. */
bool rsk_document_keep_is(const struct rsk_document_keep *k, uint64_t revision, const char *text,
			  size_t bytes);
/* The next start is to know no document; the one that is in force stays so, and may expire. */
void rsk_document_keep_forget(struct rsk_document_keep *k);
/* No document is in force. */
void rsk_document_keep_leave(struct rsk_document_keep *k);

/* Nanoseconds since etcd was heard, or RSK_DOCUMENT_AGE_UNKNOWN. Before it ever was: since open. */
uint64_t rsk_document_keep_last_contact_ns(const struct rsk_document_keep *k);

#endif
