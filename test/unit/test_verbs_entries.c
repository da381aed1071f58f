// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_verbs_entries.c - tests where the entries of the indirect buffer go: to the place in the
 * ring of their stream, whether or not anybody has asked for that ring, and never beyond the
 * streams that are known. The device is in memory (verbs_device.h); the test plays the peer.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "dev.h"
#include "post.h"
#include "rail.h"
#include "verbs_device.h"

enum {
	RING = RSK_SEG_MIN_RING,
	STREAMS = 4,
	KNOWN = 2, /* so many streams have been paired: their rings have memory */
	NONE = UINT32_MAX,
};

static struct rsk_verbs verbs;
static struct rsk_vdev dev;
static struct rsk_seg seg;
static struct rsk_rail ours;
static struct rdma_cm_id id;
static struct rsk_verbs_rail *rail;
static uint64_t put;		/* units that the peer has put into our indirect buffer */
static uint32_t news_of = NONE; /* the stream that was reported last */

static void news(void *ctx, void *rail_ctx, uint32_t sid, uint32_t what)
{
	news_of = sid;
}

static void call(void *ctx)
{
}

static void begin(void)
{
	verbs.host = (struct rsk_verbs_host){ .news = news, .call = call };
	verbs.more_fd = eventfd(0, EFD_NONBLOCK);
	dev = (struct rsk_vdev){ .v = &verbs,
				 .ctx = &device_context,
				 .recvs = RSK_VERBS_RECVS,
				 .cq_rails = RSK_VERBS_CQ_RAILS,
				 .depth = RSK_VERBS_DEPTH };
	pthread_mutex_init(&dev.lock, NULL);
	atomic_store(&verbs.devs, &dev);
	seg.own = (struct rsk_seg_geometry){ .ring_bytes = RING, .streams = STREAMS };
	seg.peer = seg.own;
	seg.window_streams = STREAMS;
	atomic_store(&seg.reach, KNOWN);
	seg.rail.segment = calloc(1, rsk_seg_ring_off(&seg.own, STREAMS));
	seg.rail.window = calloc(1, rsk_seg_ring_off(&seg.own, STREAMS));
	rail = rsk_rail_new(&verbs, &seg, &ours, NULL);
	cr_assert_not_null(rail);
	id = (struct rdma_cm_id){ .verbs = &device_context, .port_num = 1 };
	rail->id = &id;
	rail->state = RSK_RAIL_CONNECTING;
	cr_assert_eq(rsk_rail_make_qp(rail), 0);
	rail->live = true;
	rail->state = RSK_RAIL_UP;
}

/* The peer writes an entry, and says how many units have come. */
static void peer_puts(uint32_t sid, uint32_t off, int fill)
{
	uint8_t cells[2 * RSK_CELL_BYTES];
	uint32_t bytes = sizeof(cells), units;

	memset(cells, fill, sizeof(cells));
	units = rsk_indirect_put(rail->buf->in, put, RSK_INDIRECT_UNITS, sid, off, cells, &bytes);
	cr_assert(units == 3 && bytes == sizeof(cells));
	put += units;
	cr_assert(device_notice(rail->qp, units << 15 | sid));
	rsk_verbs_poll(&verbs, true);
}

static bool is_placed(uint32_t sid, uint32_t off, int fill)
{
	const uint8_t *at = seg.rail.segment + rsk_seg_ring_off(&seg.own, sid) + off;

	for (uint32_t i = 0; i < 2 * RSK_CELL_BYTES; i++)
		if (at[i] != fill)
			return false;
	return true;
}

Test(verbs_entries, of_a_ring_that_nobody_has_asked_for)
{
	uint32_t rkey;

	begin();
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		cr_assert(!device_mrs[i] ||
				  (uint8_t *)device_mrs[i]->addr !=
					  seg.rail.segment + rsk_seg_ring_off(&seg.own, 1),
			  "the ring is registered");
	peer_puts(1, 128, 7);
	cr_assert_eq(atomic_load(&rail->err), 0);
	cr_assert(is_placed(1, 128, 7) && is_placed(0, 128, 0));
	cr_assert_eq(news_of, 1, "its stream is told");
	/* Its registration changes nothing for what still comes that way. */
	cr_assert_eq(rsk_mr_ring(rail, 1, &rkey), 0);
	peer_puts(1, 512, 8);
	cr_assert(is_placed(1, 512, 8) && is_placed(1, 128, 7));
	cr_assert_eq(atomic_load(&rail->in_avail), 0);
	rsk_rail_free(rail);
}

/* No stream of that id has been paired: its ring has no memory, and no honest peer sends for it. */
Test(verbs_entries, of_a_stream_that_is_not_known)
{
	begin();
	peer_puts(KNOWN, 128, 7);
	cr_assert_eq(atomic_load(&rail->err), -EPROTO, "the rail ends");
	cr_assert(is_placed(KNOWN, 128, 0) && news_of == NONE);
	rsk_rail_free(rail);
}
