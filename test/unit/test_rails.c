// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rails.c - tests what is known to have arrived over several rails of which one fails: for
 * each stream, whether what it has put is there, and by which rail.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "rails.h"

enum {
	RAILS = 3,
	CELLS = 64,
	STREAMS = 3,
	CTL = 128,
	RING = CELLS * RSK_CELL_BYTES
};

#define RING_OFF ((uint64_t)STREAMS * CTL)

/* A rail that records what is put for each stream, and delivers it when the test says so. */
static struct path {
	struct rsk_rail rail;
	bool shut[STREAMS], indirect[STREAMS];
	uint32_t under_way[STREAMS];
	uint32_t asked[STREAMS];
} paths[RAILS];

static uint32_t stream_at(uint64_t off)
{
	return (uint32_t)(off < RING_OFF ? off / CTL : (off - RING_OFF) / RING);
}

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	((struct path *)rail->priv)->under_way[stream_at(off)]++;
	return 1;
}

static uint64_t due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return 0;
}

static bool arrived(struct rsk_rail *rail, uint64_t off)
{
	struct path *p = rail->priv;

	p->asked[stream_at(off)]++;
	return !p->under_way[stream_at(off)];
}

static void flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *f)
{
	const struct path *p = rail->priv;

	f->shut = p->shut[stream_at(off)];
	f->indirect = p->indirect[stream_at(off)];
}

static const struct rsk_fabric_ops ops = { .name = "paths",
					   .caps = RSK_FABRIC_RELIABLE,
					   .put = put,
					   .due = due,
					   .arrived = arrived,
					   .flow = flow };

static struct rsk_rail one;
static struct rsk_rails rs;

static void begin(void)
{
	const struct rsk_rails_layout at = { .ctl_step = CTL,
					     .rx_word_off = CTL / 2,
					     .ring_off = RING_OFF,
					     .ring_bytes = RING,
					     .streams = STREAMS };
	const struct rsk_rails_record none = { .bytes = NULL };

	cr_assert_eq(rsk_rails_init(&rs, &one, &at), 0);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_assert_eq(rsk_rails_reach(&rs, sid, &none), 0);
	for (uint32_t i = 0; i < RAILS; i++) {
		paths[i].rail = (struct rsk_rail){ .ops = &ops, .priv = &paths[i] };
		rs.rail[i] = &paths[i].rail;
		rsk_rails_up(&rs, i);
	}
	cr_assert_eq(atomic_load(&rs.lead), 0);
}

/* Puts a slot of the stream that can go by no other rail. */
static void slot_by(uint32_t sid, uint32_t rail)
{
	static uint32_t cell;

	for (uint32_t i = 0; i < RAILS; i++)
		paths[i].shut[sid] = i != rail;
	rsk_rails_changed(&rs);
	cr_assert_geq(one.ops->put(&one, RING_OFF + sid * RING + cell++ % CELLS * RSK_CELL_BYTES,
				   RSK_CELL_BYTES),
		      0);
	cr_assert_gt(paths[rail].under_way[sid], 0);
}

static void word_of(uint32_t sid)
{
	cr_assert_geq(one.ops->put(&one, (uint64_t)sid * CTL, sizeof(struct rsk_control_word)), 0);
}

static void all_arrive(uint32_t rail)
{
	memset(paths[rail].under_way, 0, sizeof(paths[rail].under_way));
}

static bool is_there(uint32_t sid)
{
	bool there = one.ops->arrived(&one, RING_OFF + sid * RING);

	cr_assert(rsk_rails_validate(&rs));
	return there;
}

/*
 * What a failed rail carried counts as arrived only when everything that is missing has been
 * reported; a stream that put nothing by it does not wait.
 */
Test(rails, another_streams_rail_is_lost)
{
	begin();
	slot_by(0, 1);
	slot_by(1, 2);
	cr_assert_not(is_there(0));
	all_arrive(1);
	cr_assert(is_there(0));
	slot_by(0, 1);
	all_arrive(1);
	rsk_rails_lost(&rs, 2);
	cr_expect(is_there(0), "it has nothing to do with that one");
	cr_expect(is_there(2), "nor has one that has put nothing");
	cr_expect_not(is_there(1));
	rsk_rails_closed(&rs, 2);
	cr_expect_not(is_there(1));
	cr_expect(is_there(0));
	slot_by(0, 1);
	cr_expect_not(is_there(0), "by the other one");
	all_arrive(1);
	cr_expect(is_there(0));
	rsk_rails_named(&rs, 2);
	cr_expect(is_there(1));
}

/* What had arrived before the rail failed is there. */
Test(rails, it_was_asked_before)
{
	begin();
	slot_by(1, 2);
	all_arrive(2);
	cr_assert(is_there(1));
	rsk_rails_lost(&rs, 2);
	cr_expect(is_there(1));
}

/* The rail failed before any check: whether the slot has arrived is unknown. */
Test(rails, it_was_not_asked)
{
	begin();
	slot_by(1, 2);
	all_arrive(2);
	rsk_rails_lost(&rs, 2);
	cr_expect_not(is_there(1));
	rsk_rails_closed(&rs, 2);
	cr_expect_not(is_there(1));
	rsk_rails_named(&rs, 2);
	cr_expect(is_there(1));
}

/*
 * The control words of all streams go by the lead rail: they count as arrived when the next lead
 * has carried them.
 */
Test(rails, the_lead_is_lost)
{
	begin();
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		word_of(sid);
	slot_by(0, 1);
	slot_by(1, 2);
	all_arrive(1);
	all_arrive(2);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_assert_not(is_there(sid));
	rsk_rails_lost(&rs, 0);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_expect_not(is_there(sid), "stream %u: its control word is nowhere", sid);
	word_of(2);
	cr_expect_not(is_there(2));
	rsk_rails_closed(&rs, 0);
	cr_assert_eq(atomic_load(&rs.lead), 1);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_expect_not(is_there(sid), "stream %u: its control word is under way", sid);
	all_arrive(1);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_expect(is_there(sid), "stream %u", sid);
	rsk_rails_named(&rs, 0);
	for (uint32_t sid = 0; sid < STREAMS; sid++)
		cr_expect(is_there(sid), "stream %u", sid);
}

/*
 * A slot that waited for a rail gets one: neither the slot nor its stream counts as arrived before.
 */
Test(rails, nobody_carried_it)
{
	begin();
	for (uint32_t i = 0; i < RAILS; i++)
		paths[i].shut[0] = true;
	rsk_rails_changed(&rs);
	cr_assert_eq(one.ops->put(&one, RING_OFF, RSK_CELL_BYTES), 0);
	cr_expect_not(is_there(0));
	rsk_rails_lost(&rs, 2);
	cr_expect_not(is_there(0));
	cr_expect(is_there(1));
	paths[1].shut[0] = false;
	rsk_rails_changed(&rs);
	cr_assert_eq(one.ops->again(&one, RING_OFF, RSK_CELL_BYTES, RSK_RAILS_NOBODY), 1);
	cr_expect_not(is_there(0));
	all_arrive(1);
	cr_expect(is_there(0));
}

/* All rails fail, and the link starts anew: no control word from before is waited for. */
Test(rails, from_the_start)
{
	begin();
	word_of(0);
	rsk_rails_lost(&rs, 0);
	rsk_rails_down(&rs);
	cr_expect_not(is_there(0));
	memset(paths[0].under_way, 0, sizeof(paths[0].under_way));
	rsk_rails_up(&rs, 0);
	cr_expect(is_there(0));
}

/* Puts a slot again, as the peer asks. Returns the rail that has it, or -errno. */
static int ask_again(uint32_t sid, uint64_t off)
{
	int rc;

	for (uint32_t i = 0; i < RAILS; i++)
		all_arrive(i);
	rc = one.ops->again(&one, off, RSK_CELL_BYTES, RSK_RAILS_ASKED);
	cr_assert(rsk_rails_validate(&rs));
	for (uint32_t i = 0; rc >= 0 && i < RAILS; i++)
		if (paths[i].under_way[sid])
			return (int)i;
	return rc;
}

/* A slot that has arrived goes by the lead, or by another rail that reaches the ring itself. */
Test(rails, asked_again)
{
	const uint64_t off = RING_OFF + RING;

	begin();
	cr_assert_geq(one.ops->put(&one, off, RSK_CELL_BYTES), 0);
	cr_assert_eq(ask_again(1, off), 0);
	paths[0].shut[1] = true;
	cr_assert_eq(ask_again(1, off), 1);
	paths[1].indirect[1] = true;
	cr_assert_eq(ask_again(1, off), 2);
	paths[2].indirect[1] = true;
	cr_assert_eq(ask_again(1, off), -EOPNOTSUPP, "by an indirect buffer");
	paths[1].shut[1] = paths[2].shut[1] = true;
	cr_assert_eq(ask_again(1, off), -EAGAIN, "by none");
	paths[0].shut[1] = false;
	cr_assert_eq(ask_again(1, off), 0);
	cr_assert_eq(ask_again(1, RING_OFF + STREAMS * RING), 0, "of a stream that there is not");
}

/* While a rail that had it is lost, the other end names the slot if it is not whole there. */
Test(rails, asked_again_when_a_rail_is_lost)
{
	const uint64_t off = RING_OFF + RING;

	begin();
	cr_assert_geq(one.ops->put(&one, off, RSK_CELL_BYTES), 0);
	cr_assert_eq(ask_again(1, off), 0);
	rsk_rails_lost(&rs, 0);
	cr_assert_eq(ask_again(1, off), -EAGAIN);
	rsk_rails_closed(&rs, 0);
	cr_assert_eq(ask_again(1, off), -EAGAIN);
	rsk_rails_named(&rs, 0);
	cr_assert_eq(ask_again(1, off), 1, "it has arrived by a rail that is gone");
	/* That rail has carried it now. */
	rsk_rails_lost(&rs, 1);
	cr_assert_eq(ask_again(1, off), -EAGAIN);
	rsk_rails_closed(&rs, 1);
	cr_assert_geq(one.ops->again(&one, off, RSK_CELL_BYTES, 1), 0);
	cr_assert_gt(paths[2].under_way[1], 0, "named, and not put again");
}

/* What no rail has carried yet is put by rsk_rails_changed(), not for a request. */
Test(rails, asked_again_for_what_was_not_put)
{
	const uint64_t off = RING_OFF + RING;

	begin();
	for (uint32_t i = 0; i < RAILS; i++)
		paths[i].shut[1] = true;
	cr_assert_geq(one.ops->put(&one, off, RSK_CELL_BYTES), 0);
	paths[0].shut[1] = false;
	cr_assert_eq(ask_again(1, off), -EAGAIN);
}
