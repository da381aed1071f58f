/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h - the fabric operations that streams call: puts, and reads of the peer's memory.
 */
#ifndef RSK_VERBS_OPS_H
#define RSK_VERBS_OPS_H

#include "inner.h"

/* ---- put.c: the table. flush.c posts the writes that put() has made pending ---- */
extern const struct rsk_fabric_ops rsk_verbs_ops;

/* ---- fetch.c: reads ---- */
int rsk_verbs_get(struct rsk_rail *rail, uint64_t off, void *dst, size_t len, uint64_t token);
int rsk_verbs_fetched(struct rsk_rail *rail, struct rsk_completion *done, int max);

#endif
