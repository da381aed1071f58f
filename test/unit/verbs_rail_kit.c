// SPDX-License-Identifier: BSD-2-Clause
/* verbs_rail_kit.c - see verbs_rail_kit.h. */
#include "verbs_rail_kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/eventfd.h>

struct rsk_verbs verbs;
static uint64_t counts[RSK_STATS_VERBS_COUNT];
struct rsk_vdev dev;

static void news(void *ctx, void *rail, uint32_t sid, uint32_t what)
{
	struct kit_rail *k = rail;

	k->news++;
	k->news_of = sid;
}

static void call(void *ctx)
{
}

void kit_device(void)
{
	verbs.host = (struct rsk_verbs_host){ .counts = counts, .news = news, .call = call };
	verbs.more_fd = eventfd(0, EFD_NONBLOCK);
	dev = (struct rsk_vdev){ .v = &verbs,
				 .ctx = &device_context,
				 .recvs = RSK_VERBS_RECVS,
				 .cq_rails = RSK_VERBS_CQ_RAILS,
				 .depth = RSK_VERBS_DEPTH };
	pthread_mutex_init(&dev.lock, NULL);
	atomic_store(&verbs.devs, &dev);
}

void kit_rail(struct kit_rail *k, uint32_t streams, uint32_t known)
{
	k->seg.own = (struct rsk_seg_geometry){ .ring_bytes = RAIL_RING_BYTES, .streams = streams };
	k->seg.peer = k->seg.own;
	k->seg.window_streams = streams;
	atomic_store(&k->seg.reach, known);
	k->seg.rail.segment = calloc(1, rsk_seg_ring_off(&k->seg.own, streams));
	k->seg.rail.window = calloc(1, rsk_seg_ring_off(&k->seg.own, streams));
	k->r = rsk_rail_new(&verbs, &k->seg, &k->ours, k);
	cr_assert(k->seg.rail.segment && k->seg.rail.window && k->r);
}

int kit_rail_connect(struct kit_rail *k)
{
	int rc;

	k->id = (struct rdma_cm_id){ .verbs = &device_context, .port_num = 1 };
	k->r->id = &k->id;
	k->r->state = RSK_RAIL_CONNECTING;
	rc = rsk_rail_make_qp(k->r);
	if (rc < 0) {
		rsk_rail_break(k->r);
		return rc;
	}
	k->r->live = true;
	k->r->state = RSK_RAIL_UP;
	return 0;
}
