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
#include <unistd.h>

#include "post.h"
#include "verbs_rail_kit.h"

enum {
	STREAMS = 4,
	KNOWN = 2, /* so many streams have been paired: their rings have memory */
};

static struct kit_rail rail;
static uint64_t put; /* units that the peer has put into our indirect buffer */

static void begin(void)
{
	kit_device();
	kit_rail(&rail, STREAMS, KNOWN);
	cr_assert_eq(kit_rail_connect(&rail), 0);
}

/* The peer writes an entry, and says how many units have come. */
static void peer_puts(uint32_t sid, uint32_t off, int fill)
{
	uint8_t cells[2 * RSK_CELL_BYTES];
	uint32_t bytes = sizeof(cells), units;

	memset(cells, fill, sizeof(cells));
	units = rsk_indirect_put(rail.r->buf->in, put, RSK_INDIRECT_UNITS, sid, off, cells, &bytes);
	cr_assert(units == 3 && bytes == sizeof(cells));
	put += units;
	cr_assert(device_notice(rail.r->qp, units << 15 | sid));
	rsk_verbs_poll(&verbs, true);
}

static bool is_placed(uint32_t sid, uint32_t off, int fill)
{
	const uint8_t *at = rail.seg.rail.segment + rsk_seg_ring_off(&rail.seg.own, sid) + off;

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
		cr_assert(!device_mrs[i] || (uint8_t *)device_mrs[i]->addr !=
						    rail.seg.rail.segment +
							    rsk_seg_ring_off(&rail.seg.own, 1),
			  "the ring is registered");
	peer_puts(1, 128, 7);
	cr_assert_eq(atomic_load(&rail.r->err), 0);
	cr_assert(is_placed(1, 128, 7) && is_placed(0, 128, 0));
	cr_assert_eq(rail.news_of, 1, "its stream is told");
	/* Its registration changes nothing for what still comes that way. */
	cr_assert_eq(rsk_mr_ring(rail.r, 1, rail.r->seg->own.ring_bytes, &rkey), 0);
	peer_puts(1, 512, 8);
	cr_assert(is_placed(1, 512, 8) && is_placed(1, 128, 7));
	cr_assert_eq(atomic_load(&rail.r->in_avail), 0);
	rsk_rail_free(rail.r);
}

/* No stream of that id has been paired: its ring has no memory, and no honest peer sends for it. */
Test(verbs_entries, of_a_stream_that_is_not_known)
{
	begin();
	peer_puts(KNOWN, 128, 7);
	cr_assert_eq(atomic_load(&rail.r->err), -EPROTO, "the rail ends");
	cr_assert(is_placed(KNOWN, 128, 0) && rail.news == 0);
	rsk_rail_free(rail.r);
}

/* ---- widths ---- */

enum {
	WIDE = 8 * RAIL_RING_BYTES
};

static bool is_key(uint32_t lkey)
{
	for (int i = 0; i < DEVICE_OBJECTS; i++)
		if (device_mrs[i] && device_mrs[i]->lkey == lkey)
			return true;
	return false;
}

static void begin_wide(void)
{
	kit_device();
	kit_rail(&rail, 1, 1);
	rail.seg.own.ring_bytes = rail.seg.peer.ring_bytes = WIDE;
	rail.seg.rail.segment = calloc(1, rsk_seg_ring_off(&rail.seg.own, 1));
	rail.seg.rail.window = calloc(1, rsk_seg_ring_off(&rail.seg.own, 1));
	cr_assert_eq(kit_rail_connect(&rail), 0);
}

/*
 * A rail that came while the ring was wide: the narrow answer was not applied (it reached the
 * ring indirectly), so its only registration of the window is a wide one.
 */
Test(verbs_entries, a_narrow_window_is_registered)
{
	struct rsk_vstream *s;

	begin_wide();
	cr_assert_eq(rsk_rail_set_ring(rail.r, 0, RSK_VERBS_INDIRECT, 0, WIDE), RSK_VERBS_INDIRECT);
	cr_assert_eq(rsk_rail_set_ring(rail.r, 0, RSK_VERBS_DIRECT, 5, WIDE), RSK_VERBS_DIRECT);
	s = rsk_rail_stream(rail.r, 0);
	cr_assert(is_key(s->lkey));
	if (rsk_rail_narrow_window(rail.r, 0, 4, RAIL_RING_BYTES) == 0)
		cr_assert(is_key(s->lkey),
			  "the next slot is read with a key that is not registered");
}

/* Other rails may carry the stream while this one is down, and pages be dropped. */
Test(verbs_entries, a_rail_that_breaks_keeps_the_first_widths_only)
{
	struct rsk_vstream *s;
	uint32_t rkey;

	begin_wide();
	cr_assert_eq(rsk_mr_ring(rail.r, 0, WIDE, &rkey), 0);
	cr_assert_eq(rsk_rail_set_ring(rail.r, 0, RSK_VERBS_DIRECT, 5, WIDE), RSK_VERBS_DIRECT);
	s = rsk_rail_stream(rail.r, 0);
	cr_assert(s->ring.mr[1] && s->window.mr[1]);
	rsk_rail_break(rail.r);
	cr_assert(s->ring.mr[0] && !s->ring.mr[1] && s->window.mr[0] && !s->window.mr[1]);
}

/* Whatever the process may lock: its peers get wide rings by asking. */
Test(verbs_entries, wide_rings_take_a_share_of_the_memory_of_the_host)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint32_t rkey;

	begin_wide();
	verbs.registered = memory / 16 - WIDE;
	cr_assert_eq(rsk_mr_ring(rail.r, 0, WIDE, &rkey), -ENOMEM);
	cr_assert_eq(rsk_mr_ring(rail.r, 0, RAIL_RING_BYTES, &rkey), 0, "the first width is there");
	verbs.registered = memory / 32;
	if (geteuid() == 0) /* no limit of its own */
		cr_assert_eq(rsk_mr_ring(rail.r, 0, WIDE, &rkey), 0);
}
