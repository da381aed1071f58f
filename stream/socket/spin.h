/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - to look again and again before a sleep, for as long as that has paid lately. Every wait has a budget in
 * nanoseconds that learns: from 0 (straight to sleep) to rsk_spin_longest(). No lock; no system call but a yield to a
 * peer on the same processor.
 */
#ifndef RSK_SPIN_H
#define RSK_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"
#include "stream.h"

/* A peer that is at it answers within a microsecond: that long without pauses, each of which can take 50 ns. */
#define RSK_SPIN_EAGER_LOOKS 256
#define RSK_SPIN_LOOKS_PER_CLOCK 16
#define RSK_SPIN_LEAST_NS 1000u

/* How long the last spin of this thread was in vain. */
extern __thread uint64_t rsk_spin_spent_ns;

/*
 * For a peer on our processor: let it run. Rests for some waits after it was in vain, and for many after it took long:
 * others want the processor too, and one yield can cost a time slice of theirs; who sleeps is woken ahead of them.
 */
bool rsk_spin_yield(bool (*stirs)(void *), void *arg);

/*
 * The budget of a thread that has woken a peer since its last wait (rsk_spin_rang): as long as waking takes. A peer
 * that is not at it by then may have been put on our processor, where it waits for us.
 */
uint32_t rsk_spin_after_ring(uint32_t budget_ns);

/* For the record: this thread spun, in vain or not. Put together per thread, told at least before it sleeps. */
void rsk_spun(bool useful);
void rsk_spun_tell(void);

/* True when stirs(arg) was within the budget. Inlined, with the look, into each of the waits. */
static inline __attribute__((always_inline)) bool rsk_spin(uint32_t budget_ns, bool same_cpu,
							   bool (*stirs)(void *), void *arg)
{
	uint64_t start, now;
	bool found = false;

	rsk_spin_spent_ns = 0;
	if (same_cpu && rsk_knobs.spin_ns)
		return rsk_spin_yield(stirs, arg);
	if (!budget_ns)
		return false;
	if (rsk_spin_rang)
		budget_ns = rsk_spin_after_ring(budget_ns);
	for (int i = 0; i < RSK_SPIN_EAGER_LOOKS; i++)
		if (stirs(arg)) {
			rsk_spun(true);
			return true;
		}
	start = rsk_now_ns();
	do {
		for (int i = 0; i < RSK_SPIN_LOOKS_PER_CLOCK && !found; i++) {
			found = stirs(arg);
			rsk_pause();
		}
		now = rsk_now_ns();
	} while (!found && now - start < budget_ns);
	rsk_spin_spent_ns = now - start;
	rsk_spun(found);
	return found;
}

/*
 * The longest spin: what RSOCK_SPIN_US says; if it is not set, as long as a sleep would cost, from 50 to 200 us, by how
 * long this thread takes to be woken.
 */
uint32_t rsk_spin_longest(void);

/* Woken by a bell of @l, in a wait that @began_ns: when the news came, which is when it was rung. */
uint64_t rsk_spin_woken(const struct rsk_link *l, uint64_t began_ns);

/* News within the longest spin would have been worth spinning for; else spin less. */
static inline uint32_t rsk_spin_learn(uint32_t budget_ns, uint64_t took_ns)
{
	uint32_t longest = rsk_spin_longest();

	if (took_ns <= longest)
		return longest;
	return budget_ns / 2 < RSK_SPIN_LEAST_NS ? 0 : budget_ns / 2;
}

/* May we spin for this stream's peer, i.e. does it run on another processor? Says on which we do. */
bool rsk_spin_pays(struct rsk_stream *s);

/* On which processor we run, for the peer's rsk_spin_pays(). */
void rsk_stream_publish_cpu(struct rsk_stream *s);

#endif
