/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbs_rail_kit.h - rails over the device in memory (verbs_device.h), for unit tests: each with a
 * segment of its own. One device for each test.
 */
#ifndef VERBS_RAIL_KIT_H
#define VERBS_RAIL_KIT_H

#include "dev.h"
#include "rail.h"
#include "verbs_device.h"

#define RAIL_RING_BYTES RSK_SEG_MIN_RING

struct kit_rail {
	struct rsk_seg seg;
	struct rsk_rail ours;
	struct rdma_cm_id id;
	struct rsk_verbs_rail *r; /* owned by the test: rsk_rail_free() */
	uint64_t news;		  /* how often something was reported of it */
	uint32_t news_of;	  /* and of which stream the last time */
};

extern struct rsk_verbs verbs;
extern struct rsk_vdev dev;

void kit_device(void);
/* A rail that is not connected. Of @streams streams the first @known have been paired. */
void kit_rail(struct kit_rail *k, uint32_t streams, uint32_t known);
/* Connects it. Returns 0; or -errno, and the rail is broken. */
int kit_rail_connect(struct kit_rail *k);

#endif
