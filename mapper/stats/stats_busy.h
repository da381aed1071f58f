/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats_busy.h - which records of a statistics segment are in use: a bit each, taken and dropped by all processes that
 * share it, without a lock. Who has set a bit owns the record until it drops it.
 */
#ifndef RSK_STATS_BUSY_H
#define RSK_STATS_BUSY_H

#include "stats.h"

/* The number of a record that was free, or -1. */
int rsk_stats_busy_take(struct rsk_stats_header *h);
void rsk_stats_busy_drop(struct rsk_stats_header *h, unsigned int number);

#endif
