/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h - the fabric operations that streams call: puts, and reads and atomic operations on the
 * peer's memory.
 */
#ifndef RSK_VERBS_OPS_H
#define RSK_VERBS_OPS_H

#include "inner.h"

/* ---- put.c: the table. flush.c posts the writes that put() has made pending ---- */
extern const struct rsk_fabric_ops rsk_verbs_ops;

/* ---- fetch.c: operations that return data ---- */
int rsk_verbs_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);
int rsk_verbs_atomic(struct rsk_rail *rail, uint64_t off, const struct rsk_atomic *op,
		     uint64_t *old, uint64_t token);
int rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);

/* ---- locked.c: locked access. The last two are called with the rail's lock held ---- */
int rsk_verbs_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);
/* Stores the completions of finished operations; advances the others. Returns their number. */
int rsk_locked_fetched(struct rsk_verbs_rail *r, struct rsk_completion *done, int max);
/* The rail has broken: completes all operations with -EPIPE, since their outcome is unknown. */
void rsk_locked_forget(struct rsk_verbs_rail *r);

#endif
