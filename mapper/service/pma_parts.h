/* SPDX-License-Identifier: BSD-2-Clause */
/* pma_parts.h - what the agent's two sources share. Only pma*.c include this. */
#ifndef RSK_PMA_PARTS_H
#define RSK_PMA_PARTS_H

#include "conf.h"
#include "ledger.h"
#include "pma.h"

/* The configuration's numbers, and the ledger's. Owned. */
struct rsk_pma_bound {
	uint32_t *ports;       /* accounts */
	uint32_t *services[2]; /* the same, by side */
	uint32_t *needs;       /* of services */
};

struct rsk_pma {
	struct rsk_conf *conf;
	struct rsk_ledger ledger;
	struct rsk_pma_bound bound;
	double load;
};

#endif
