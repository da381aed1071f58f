/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * member_list.h - reads the members of the cluster for an operator, together with the revision of
 * the document that is the current one, both at one revision of etcd's store. Called by the http
 * folder. One thread.
 */
#ifndef RSK_MEMBER_LIST_H
#define RSK_MEMBER_LIST_H

#include "document.h"
#include "etcd.h"

#define RSK_MEMBER_LIST_MOST 1024u /* members */
#define RSK_MEMBER_LISTS 8u	   /* at the same time */

struct rsk_member_reading;

/* All zero but the first two: nobody reads. */
struct rsk_member_list {
	struct rsk_etcd *etcd; /* borrowed */
	const struct rsk_document *document;
	char head[RSK_DOCUMENT_KEY]; /* what all keys begin with */
	struct rsk_member_reading *readings;
	unsigned int n;
};

/*
 * @status: as in HTTP; @answer: its reference is the callee's: {"error": text} unless 200;
 * otherwise "revision" (0: there is no document), "members" (rows of member_json.h, by name) and
 * "more" (there may be members that are not in the list).
 */
typedef void rsk_member_list_done(void *user, int status, json_t *answer);

void rsk_member_list_init(struct rsk_member_list *l, struct rsk_etcd *etcd, const char *prefix,
			  const struct rsk_document *document);
void rsk_member_list_fini(struct rsk_member_list *l);

/* @done is called later, never from in here. NULL: too many at the same time, or no memory. */
struct rsk_member_reading *rsk_member_list_read(struct rsk_member_list *l,
						rsk_member_list_done *done, void *user);
/* The one who asked is gone: @done is not called. */
void rsk_member_list_cancel(struct rsk_member_reading *r);

#endif
