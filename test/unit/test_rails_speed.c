// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_rails_speed.c - tests how load is split over rails by their speed, in virtual time: a sender
 * that keeps a window full, and the rails that carry it.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "rails.h"

enum {
	RAILS = 3,
	RING = 256 << 10,
	SLOT = 4096, /* bytes; RING of them are under way */
	CTL = 128
};

#define ALL_BYTES (32ull << 20)
#define TICK_NS 10000u

/* A rail that delivers a number of bytes per tick, one after the other, and reports it. */
static struct path {
	struct rsk_rail rail;
	uint64_t each_tick; /* 0: it stands still */
	bool unknown;	    /* nothing was measured */
	bool held;	    /* so much is pending for it that it should get nothing more */
	uint64_t under_way, carried;
} paths[RAILS];

static struct rsk_rail one;
static struct rsk_rails rs;

static int put(struct rsk_rail *rail, uint64_t off, size_t len)
{
	struct path *p = rail->priv;

	p->under_way += len;
	p->carried += len;
	return 1;
}

static uint64_t due(struct rsk_rail *rail, uint32_t sid, uint32_t what)
{
	return 0;
}

static void flow(struct rsk_rail *rail, uint64_t off, struct rsk_flow *f)
{
	const struct path *p = rail->priv;

	f->under_way_bytes = p->under_way;
	f->rate = p->unknown ? 0 : p->each_tick * (1000000000u / TICK_NS);
	f->held = p->held;
}

static const struct rsk_fabric_ops ops = { .name = "paths",
					   .caps = RSK_FABRIC_RELIABLE,
					   .put = put,
					   .due = due,
					   .flow = flow };

static void begin_with(const uint64_t each_tick[static RAILS], uint32_t n, uint32_t ring)
{
	const struct rsk_rails_layout at = { .ctl_step = CTL,
					     .rx_word_off = CTL / 2,
					     .ring_off = CTL,
					     .ring_bytes = ring,
					     .streams = 1 };
	const struct rsk_rails_record none = { .bytes = NULL };

	memset(paths, 0, sizeof(paths));
	cr_assert_eq(rsk_rails_init(&rs, &one, &at), 0);
	cr_assert_eq(rsk_rails_reach(&rs, 0, &none), 0);
	for (uint32_t i = 0; i < n; i++) {
		paths[i].rail = (struct rsk_rail){ .ops = &ops, .priv = &paths[i] };
		paths[i].each_tick = each_tick[i];
		rs.rail[i] = &paths[i].rail;
		rsk_rails_up(&rs, i);
	}
}

static void begin(const uint64_t each_tick[static RAILS], uint32_t n)
{
	begin_with(each_tick, n, RING);
}

static uint64_t under_way(void)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < RAILS; i++)
		n += paths[i].under_way;
	return n;
}

static void tick(void)
{
	for (uint32_t i = 0; i < RAILS; i++) {
		struct path *p = &paths[i];

		p->under_way -= p->each_tick < p->under_way ? p->each_tick : p->under_way;
	}
}

/* Sends @bytes bytes with a full window all the time. Returns the number of ticks. */
static uint64_t send_all(uint64_t bytes)
{
	uint64_t ticks = 0;

	for (uint64_t sent = 0; sent < bytes; ticks++) {
		for (; sent < bytes && under_way() + SLOT <= RING; sent += SLOT)
			cr_assert_geq(one.ops->put(&one, CTL + sent % RING, SLOT), 0);
		for (uint32_t i = 0; i < RAILS; i++) {
			uint64_t done = paths[i].each_tick;

			paths[i].under_way -= done < paths[i].under_way ? done : paths[i].under_way;
		}
		cr_assert_lt(ticks, 1u << 24, "nothing moves");
	}
	cr_assert(rsk_rails_validate(&rs));
	return ticks;
}

/* Each rail carries what it can, and none delays the others. */
static void shares(const uint64_t each_tick[static RAILS], uint32_t n)
{
	uint64_t sum = 0, ticks;

	begin(each_tick, n);
	ticks = send_all(ALL_BYTES);
	for (uint32_t i = 0; i < n; i++)
		sum += each_tick[i];
	cr_expect_leq(ticks, ALL_BYTES / sum * 105 / 100, "%llu ticks", (unsigned long long)ticks);
	for (uint32_t i = 0; i < n; i++) {
		uint64_t fair = ALL_BYTES / sum * each_tick[i];

		cr_expect(paths[i].carried > fair * 9 / 10 && paths[i].carried < fair * 11 / 10,
			  "rail %u: %llu bytes of %llu", i, (unsigned long long)paths[i].carried,
			  (unsigned long long)fair);
	}
	rsk_rails_fini(&rs);
}

Test(rails_speed, each_carries_what_it_can)
{
	shares((const uint64_t[]){ 4000, 4000, 0 }, 2);
	shares((const uint64_t[]){ 3000, 9000, 0 }, 2);
	shares((const uint64_t[]){ 9000, 3000, 0 }, 2);
	shares((const uint64_t[]){ 1000, 10000, 0 }, 2);
	shares((const uint64_t[]){ 2000, 4000, 8000 }, 3);
}

/*
 * A ring filled at once, and nothing more until it is done: no backlog shows which rail is slow,
 * but the measured rate does.
 */
Test(rails_speed, a_burst)
{
	uint64_t ticks = 0;

	begin((const uint64_t[]){ 9000, 3000, 0 }, 2);
	for (int burst = 0; burst < 100; burst++) {
		ticks += send_all(RING);
		for (; under_way(); ticks++)
			tick();
	}
	/* Split in halves it would take RING / 2 / 3000 ticks each. */
	cr_expect_leq(ticks, 100u * RING / 12000 * 13 / 10, "%llu ticks",
		      (unsigned long long)ticks);
	rsk_rails_fini(&rs);
}

/*
 * Delivery is in order: a ring is free again up to the first slot that has not come, and a run on a
 * slow rail delays all that lies behind it. Each rail has a queue; the slots that have come are
 * passed over up to the first that has not.
 */
static uint64_t send_in_order(uint64_t bytes, uint32_t ring, uint32_t slot)
{
	static uint64_t comes[RAILS]
			     [1024]; /* where the slots' last bytes are, in the rail's own bytes */
	static uint8_t by[1024];
	uint64_t given[RAILS] = { 0 }, done[RAILS] = { 0 }, sent = 0, free_to = ring, ticks = 0;
	uint32_t cells = ring / slot;

	for (; sent < bytes; ticks++) {
		for (; sent < bytes && sent + slot <= free_to; sent += slot) {
			uint32_t cell = (uint32_t)(sent / slot) % cells;
			uint64_t had[RAILS];

			for (uint32_t i = 0; i < RAILS; i++)
				had[i] = paths[i].carried;
			cr_assert_geq(one.ops->put(&one, CTL + sent % ring, slot), 0);
			for (uint32_t i = 0; i < RAILS; i++) {
				if (paths[i].carried == had[i])
					continue;
				by[cell] = (uint8_t)i;
				comes[i][cell] = given[i] += slot;
			}
		}
		for (uint32_t i = 0; i < RAILS; i++) {
			uint64_t step = paths[i].each_tick;

			step = step < paths[i].under_way ? step : paths[i].under_way;
			paths[i].under_way -= step;
			done[i] += step;
		}
		for (; free_to - ring < sent; free_to += slot) {
			uint32_t cell = (uint32_t)((free_to - ring) / slot) % cells;

			if (done[by[cell]] < comes[by[cell]][cell])
				break;
		}
		cr_assert_lt(ticks, 1u << 24, "nothing moves");
	}
	return ticks;
}

/*
 * Rings of all sizes, and two rails of which one is up to ten times as fast: they carry what both
 * together can.
 */
Test(rails_speed, rings_of_all_sizes)
{
	const uint64_t slow = 60, bytes = ALL_BYTES / 8;

	for (uint32_t ring = 32 << 10; ring <= 512 << 10; ring *= 2)
		for (uint32_t times = 1; times <= 10; times++) {
			uint64_t ticks, best = bytes / (slow * (1 + times));

			begin_with((const uint64_t[]){ slow, slow * times, 0 }, 2, ring);
			ticks = send_in_order(bytes, ring, 1024);
			cr_expect_leq(ticks, best * 105 / 100,
				      "ring of %u, 1 to %u: %llu ticks, %llu at best", ring, times,
				      (unsigned long long)ticks, (unsigned long long)best);
			rsk_rails_fini(&rs);
		}
}

/* A rail that was never measured is tried as if it were as fast as the fastest. */
Test(rails_speed, one_that_is_not_known)
{
	begin((const uint64_t[]){ 4000, 4000, 0 }, 2);
	paths[1].unknown = true;
	send_all(ALL_BYTES);
	cr_expect(paths[1].carried > ALL_BYTES * 4 / 10 && paths[1].carried < ALL_BYTES * 6 / 10,
		  "%llu", (unsigned long long)paths[1].carried);
	rsk_rails_fini(&rs);
}

/*
 * A rail that stands still keeps what it was given, and gets no more; the others do not wait for
 * it.
 */
Test(rails_speed, one_that_stands_still)
{
	uint64_t ticks;

	begin((const uint64_t[]){ 4000, 0, 0 }, 2);
	paths[1].unknown = true;
	ticks = send_all(ALL_BYTES);
	cr_expect_leq(paths[1].carried, RING / 2, "%llu", (unsigned long long)paths[1].carried);
	cr_expect_leq(ticks, ALL_BYTES / 4000 * 105 / 100);
	rsk_rails_fini(&rs);

	begin((const uint64_t[]){ 4000, 4000, 0 }, 2);
	paths[1].held = true;
	send_all(ALL_BYTES);
	cr_expect_eq(paths[1].carried, 0, "%llu", (unsigned long long)paths[1].carried);
	rsk_rails_fini(&rs);
}

/* The rate changes meanwhile: the backlog on the rail shows it, and the next measurement. */
Test(rails_speed, one_gets_slower)
{
	uint64_t before;

	begin((const uint64_t[]){ 6000, 6000, 0 }, 2);
	send_all(ALL_BYTES);
	before = paths[1].carried;
	paths[1].each_tick = 1000;
	send_all(ALL_BYTES);
	cr_expect_leq(paths[1].carried - before, ALL_BYTES * 11 / 70, "%llu",
		      (unsigned long long)(paths[1].carried - before));
	rsk_rails_fini(&rs);
}
