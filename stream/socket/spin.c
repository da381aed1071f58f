// SPDX-License-Identifier: BSD-2-Clause
/*
 * spin.c - the adaptive budgets and counters of a thread's spins, and on which CPUs its peers run.
 * See spin.h.
 */
#include "spin.h"

#include <sched.h>

#include <rsock/sys.h>

#define SPINS_TOLD 64	     /* spins that are counted here before the record has them */
#define YIELDS 2	     /* of one wait */
#define YIELD_SLOW_NS 20000u /* a yield this long gave away a time slice */
#define YIELD_REST_VAIN 16u  /* waits without a yield after yields in vain */
#define YIELD_REST_SLOW 512u /* the same after a slow one */
#define RING_LEAST_NS 10000u /* shortest spin after waking a peer, if the budget allows it */
#define LONGEST_TIMES 4u     /* longest spin, as a multiple of the knob */

static __thread uint32_t spins, spins_useful;

void rsk_spun_tell(void)
{
	struct rsk_stats_process *me = rsk_stats_self();

	if (!spins)
		return;
	rsk_stats_add_shared(&me->spins, spins);
	rsk_stats_add_shared(&me->spins_useful, spins_useful);
	spins = spins_useful = 0;
}

void rsk_spun(bool useful)
{
	spins_useful += useful;
	if (++spins >= SPINS_TOLD)
		rsk_spun_tell();
}

/* Moving average of the time that waking this thread takes; 0: not woken yet. */
static __thread uint32_t waking_ns;

/*
 * At least the knob, at most 4 times that, between them twice what waking costs; exactly the knob
 * if the user set it.
 */
uint32_t rsk_spin_longest(void)
{
	uint32_t knob_ns = rsk_knobs.spin_ns, longest = 2 * waking_ns;

	if (rsk_knobs.spin_set || longest < knob_ns)
		return knob_ns;
	return longest < LONGEST_TIMES * knob_ns ? longest : LONGEST_TIMES * knob_ns;
}

uint64_t rsk_spin_woken(const struct rsk_link *l, uint64_t began_ns)
{
	uint64_t now = rsk_now_ns(), rang;
	int64_t took;

	/* The time of the link's newest ring, of any doorbell: a hint. */
	rang = atomic_load_explicit(&rsk_seg_own_head(&l->seg)->rang_ns, memory_order_relaxed);
	if (rang < began_ns || rang > now)
		return now; /* another wait's, or a peer's false value */
	took = (int64_t)(now - rang < UINT32_MAX / 4 ? now - rang : UINT32_MAX / 4);
	waking_ns = waking_ns ? (uint32_t)((int64_t)waking_ns + (took - (int64_t)waking_ns) / 8) :
				(uint32_t)took;
	return rang;
}

__thread bool rsk_spin_rang;
__thread uint64_t rsk_spin_spent_ns;

uint32_t rsk_spin_after_ring(uint32_t budget_ns)
{
	uint32_t enough = 2 * waking_ns > RING_LEAST_NS ? 2 * waking_ns : RING_LEAST_NS;

	rsk_spin_rang = false;
	return budget_ns < enough ? budget_ns : enough;
}

/* ---- a peer on our CPU ---- */

static __thread uint32_t yield_rest; /* number of waits without another try */

bool rsk_spin_yield(bool (*stirs)(void *), void *arg)
{
	uint64_t start;

	if (yield_rest) {
		yield_rest--;
		return false;
	}
	for (int i = 0; i < YIELDS; i++) {
		start = rsk_now_ns();
		rsk_sys_sched_yield();
		if (rsk_now_ns() - start > YIELD_SLOW_NS)
			yield_rest = YIELD_REST_SLOW;
		if (stirs(arg))
			return true;
		if (yield_rest)
			return false;
	}
	yield_rest = YIELD_REST_VAIN;
	return false;
}

/* ---- on which CPUs peers run ---- */

uint32_t rsk_stream_publish_cpu(struct rsk_stream *s)
{
	struct rsk_seg_ctl *ctl;
	uint32_t cpu;

	if (s->link->remote)
		return 0;
	ctl = rsk_seg_own_ctl(&s->link->seg, s->sid);
	cpu = (uint32_t)sched_getcpu() + 1;
	if (atomic_load_explicit(&ctl->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&ctl->cpu, cpu, memory_order_relaxed);
	return cpu;
}

bool rsk_spin_peer_elsewhere(const struct rsk_stream *s, uint32_t cpu)
{
	struct rsk_seg_ctl *ctl = rsk_seg_peer_ctl(&s->link->seg, s->sid);

	return !cpu || atomic_load_explicit(&ctl->cpu, memory_order_relaxed) != cpu;
}
