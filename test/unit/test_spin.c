// SPDX-License-Identifier: BSD-2-Clause
/* test_spin.c - tests what a thread's spin leaves behind for its next one. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "engine.h"
#include "plain_host.h"
#include "spin.h"

enum {
	LONG_NS = 5000000
};

static void setup(void)
{
	setenv("RSOCK_DAEMON", "", 1);
	rsk_engine_init(&plain_host);
}

static int the_cpu;

int __wrap_sched_getcpu(void);

int __wrap_sched_getcpu(void)
{
	return the_cpu;
}

static bool never(void *arg)
{
	return false;
}

static bool at_once(void *arg)
{
	return true;
}

/* The spin after a ring is short; the next one is not. */
static void takes_the_ring(uint32_t budget_ns, bool same_cpu, bool (*stirs)(void *))
{
	rsk_spin_rang = true;
	rsk_spin(budget_ns, same_cpu, stirs, NULL);
	cr_assert(!rsk_spin_rang);
	cr_assert(!rsk_spin(LONG_NS, false, never, NULL));
	cr_assert_geq(rsk_spin_spent_ns, LONG_NS);
}

Test(spin, a_ring_is_of_one_wait, .init = setup)
{
	takes_the_ring(LONG_NS, false, never);
}

Test(spin, a_ring_before_a_wait_that_ends_at_once, .init = setup)
{
	takes_the_ring(LONG_NS, false, at_once);
}

/* A wait that does not spin by time leaves the ring to the next one. */
static void leaves_the_ring(uint32_t budget_ns, bool same_cpu)
{
	rsk_spin_rang = true;
	rsk_spin(budget_ns, same_cpu, never, NULL);
	cr_assert(rsk_spin_rang);
	rsk_spin(LONG_NS, false, never, NULL);
	cr_assert(!rsk_spin_rang);
	cr_assert_lt(rsk_spin_spent_ns, LONG_NS);
}

Test(spin, a_ring_before_a_wait_without_a_budget, .init = setup)
{
	leaves_the_ring(0, false);
}

Test(spin, a_ring_before_a_yield, .init = setup)
{
	leaves_the_ring(LONG_NS, true);
}

/* The two ends of one stream, in one process. */
static struct rsk_stream our, their;

static void connect_ends(void)
{
	static struct rsk_link ours, theirs;

	ours.seg.rail.segment = theirs.seg.rail.window = calloc(1, rsk_seg_ctl_off(1));
	theirs.seg.rail.segment = ours.seg.rail.window = calloc(1, rsk_seg_ctl_off(1));
	our.link = &ours;
	their.link = &theirs;
}

/* Whether our end spins, where each was on that CPU when it published it; -1: it is not known. */
static bool spins(int ours, int peers)
{
	the_cpu = peers;
	rsk_stream_publish_cpu(&their);
	the_cpu = ours;
	return rsk_spin_peer_elsewhere(&our, rsk_stream_publish_cpu(&our));
}

Test(spin, a_peer_on_our_cpu, .init = connect_ends)
{
	cr_assert(!spins(0, 0) && !spins(5, 5));
	cr_assert(spins(0, 1) && spins(5, 0));
	cr_assert(spins(-1, 5) && spins(5, -1));
	cr_assert(spins(-1, -1), "what neither knows is not the same");
}

/* A signal that comes during the spin is deferred, as the trampoline would do it. */
static bool hears_a_signal(void *arg)
{
	int *looks = arg;

	if (++*looks > RSK_SPIN_EAGER_LOOKS)
		rsk_sigdefer_signals |= 1;
	return false;
}

Test(spin, a_signal_ends_it, .init = setup)
{
	int looks = 0;

	rsk_sigdefer_enter(); /* nothing is delivered at the end of the spin */
	cr_assert(!rsk_spin(UINT32_MAX, false, hears_a_signal, &looks));
	cr_assert_lt(rsk_spin_spent_ns, UINT32_MAX);
	rsk_sigdefer_signals = 0;
	rsk_sigdefer_exit();
}

Test(spin, time_spent, .init = setup)
{
	cr_assert(rsk_spin(LONG_NS, false, at_once, NULL));
	cr_assert_eq(rsk_spin_spent_ns, 0, "a peer that answers at once costs no clock reading");
	cr_assert(!rsk_spin(LONG_NS, false, never, NULL));
	cr_assert_geq(rsk_spin_spent_ns, LONG_NS);
	cr_assert(!rsk_spin(LONG_NS, true, never, NULL));
	cr_assert_eq(rsk_spin_spent_ns, 0, "a yield is no timed spin");
}
