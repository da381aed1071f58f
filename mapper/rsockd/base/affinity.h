/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * affinity.h - on which NUMA nodes a process of this host may run. local_ask.c and
 * local_rendezvous.c ask, for policy's choice of an RNIC.
 */
#ifndef RSK_AFFINITY_H
#define RSK_AFFINITY_H

#include <stdint.h>

#include "bus.h"

/*
 * Returns the NUMA nodes of the processors on which the main thread of @pid may run: bit i is node
 * i. 0: any node, or not known, as for a process that has exited. Does not block.
 */
uint64_t rsk_affinity_nodes(const struct rsk_numa *numa, int32_t pid);

#endif
