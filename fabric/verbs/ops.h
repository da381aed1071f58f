/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h - the fabric's ops, as streams call them: what is put, and what the peer's memory is asked for.
 */
#ifndef RSK_VERBS_OPS_H
#define RSK_VERBS_OPS_H

#include "inner.h"

/* ---- put.c: the table; flush.c posts what put() has noted ---- */
extern const struct rsk_fabric_ops rsk_verbs_ops;

/* ---- fetch.c: of those ops, what asks for something ---- */
int rsk_verbs_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);
int rsk_verbs_atomic(struct rsk_rail *rail, uint64_t off, const struct rsk_atomic *op,
		     uint64_t *old, uint64_t token);
int rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);

/* ---- locked.c: locked access; the last two with the rail's lock held ---- */
int rsk_verbs_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
/* Those that are done; the others go on. */
int rsk_locked_fetched(struct rsk_verbs_rail *r, struct rsk_completion *done, int max);
/* The rail has broken: nobody knows what has become of them. */
void rsk_locked_forget(struct rsk_verbs_rail *r);

#endif
