/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats_busy.h - the bitmap of used records in a statistics segment. All processes that share the
 * segment set and clear bits without a lock; the process that has set a bit owns the record until
 * it clears it. Called by stats.c.
 */
#ifndef RSK_STATS_BUSY_H
#define RSK_STATS_BUSY_H

#include "stats.h"

/* Takes a free record. Returns its number, or -1. */
int rsk_stats_busy_take(struct rsk_stats_header *h);
void rsk_stats_busy_drop(struct rsk_stats_header *h, unsigned int number);

#endif
