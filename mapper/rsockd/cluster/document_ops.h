/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * document_ops.h - what an operator does with the cluster's document: push a new one, go back
 * to an old one, read one, list them. Each operation asks etcd, and answers later. Called by the
 * http folder.
 *
 * A push and a rollback are one transaction, which is executed only if the document is still the
 * one that was read: of two at once one wins, and the other is told so. The transaction writes the
 * new document, and the former one into the history.
 */
#ifndef RSK_DOCUMENT_OPS_H
#define RSK_DOCUMENT_OPS_H

#include <jansson.h>

#include "document.h"

#define RSK_DOCUMENT_OPS_MOST 8u /* at the same time */
#define RSK_DOCUMENT_HISTORY 20u /* revisions that are listed */
#define RSK_DOCUMENT_NOTE 128u

enum rsk_document_verb {
	RSK_DOCUMENT_PUSH,
	RSK_DOCUMENT_ROLLBACK,
	RSK_DOCUMENT_READ,
	RSK_DOCUMENT_HISTORY_LIST,
};

/* @status: as in HTTP; @answer: its reference is the callee's; {"error": text} unless 200. */
typedef void rsk_document_done(void *user, int status, json_t *answer);

struct rsk_document_args {
	enum rsk_document_verb verb;
	const char *text; /* push; borrowed until the function returns, like the next two */
	size_t bytes;
	/* Push and rollback: who does it, in one line, which is stored with the document */
	const char *by;
	/* Rollback and read: the revision; read: 0 is the current one */
	uint64_t revision;
	/* Push and rollback: only if this is the current revision, where has_base is set */
	uint64_t base;
	bool has_base;
	rsk_document_done *done;
	void *user;
};

struct rsk_document_op;
/*
 * Starts an operation. @done is called later, never from in here. Returns NULL if that is not
 * possible: *status and *error (borrowed until the next call) say why.
 */
struct rsk_document_op *rsk_document_op_start(struct rsk_document *d,
					      const struct rsk_document_args *args, int *status,
					      const char **error);
/* The one who gave it is gone: @done is not called. What was sent to etcd may be executed. */
void rsk_document_op_cancel(struct rsk_document_op *o);
void rsk_document_ops_close(struct rsk_document *d);

#endif
