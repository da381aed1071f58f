/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - polls memory before a sleep, for as long as that has paid lately. Every wait has a
 * budget in nanoseconds that adapts: from 0 (straight to sleep) to rsk_spin_longest(). No lock; no
 * system call except a yield to a peer on the same CPU. wait.c, poll.c and epoll_map.c spin;
 * epoll_answer.c and epoll_wait.c adjust a set's budget, calls/send.c and fast_path.c publish our
 * CPU, engine.c writes the counts at exit.
 */
#ifndef RSK_SPIN_H
#define RSK_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"
#include "stream.h"

/*
 * A peer that is running answers within a microsecond: that long without pauses, each of which can
 * take 50 ns.
 */
#define RSK_SPIN_EAGER_LOOKS 256
#define RSK_SPIN_LOOKS_PER_CLOCK 16
#define RSK_SPIN_LEAST_NS 1000u

/*
 * Spins of one wait. What ends a spin need not be what the call waits for: a receiver whose peer
 * has read gets credit, and would sleep, although the answer comes in a moment.
 */
#define RSK_SPINS_OF_A_WAIT 4u

/*
 * Time of this thread's last timed spin, whether it found something or not; 0: none, or a yield.
 * Without the eager looks.
 */
extern __thread uint64_t rsk_spin_spent_ns;

/*
 * For a peer on our CPU: yields to it. After an unsuccessful yield it is skipped for some waits,
 * and after one that took long for many: other processes want the CPU too, and one yield can cost a
 * time slice of theirs; a thread that sleeps is woken ahead of them.
 */
bool rsk_spin_yield(bool (*stirs)(void *), void *arg);

/*
 * The budget of a thread that has woken a peer since its last timed spin (rsk_spin_rang): as long
 * as waking takes. A peer that is not running by then may have been put on our CPU, where it waits
 * for us. A yield is no timed spin, nor is a wait without a budget: to forget the ring there makes
 * four pairs on two processors nine times slower.
 */
uint32_t rsk_spin_after_ring(uint32_t budget_ns);

/*
 * Counts a spin of this thread, successful or not. The counts are collected per thread, and written
 * to the record at least before the thread sleeps.
 */
void rsk_spun(bool useful);
void rsk_spun_tell(void);

/*
 * True: stirs(arg) was true within the budget. Inlined, with the check, into each of the waits. A
 * signal ends it: its handler runs before the return, as it would interrupt a sleep.
 */
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
	rsk_sigdefer_enter();
	start = rsk_now_ns();
	do {
		for (int i = 0; i < RSK_SPIN_LOOKS_PER_CLOCK && !found; i++) {
			found = stirs(arg);
			rsk_pause();
		}
		now = rsk_now_ns();
	} while (!found && now - start < budget_ns && !rsk_sigdefer_waits());
	rsk_sigdefer_exit();
	rsk_spin_spent_ns = now - start;
	rsk_spun(found);
	return found;
}

/*
 * The longest spin: the value of RSOCK_SPIN_US; if it is not set, as long as a sleep would cost,
 * from 50 to 200 us, depending on how long this thread takes to be woken.
 */
uint32_t rsk_spin_longest(void);

/*
 * Woken by a doorbell of @l, in a wait that began at @began_ns: returns when the news came, which
 * is when the doorbell was rung.
 */
uint64_t rsk_spin_woken(const struct rsk_link *l, uint64_t began_ns);

/*
 * If the news came within the longest spin, spinning would have been worthwhile; otherwise spin
 * less.
 */
static inline uint32_t rsk_spin_learn(uint32_t budget_ns, uint64_t took_ns)
{
	uint32_t longest = rsk_spin_longest();

	if (took_ns <= longest)
		return longest;
	return budget_ns / 2 < RSK_SPIN_LEAST_NS ? 0 : budget_ns / 2;
}

/*
 * Publishes the CPU on which we run, for the peer's rsk_spin_peer_elsewhere(). Returns its number
 * + 1; 0: it is not known, or the peer is on another host.
 */
uint32_t rsk_stream_publish_cpu(struct rsk_stream *s);

/*
 * Whether this stream's peer was last on another CPU than ours, which is @cpu (as published); true
 * if one of them is not known. If it was on the same one, spinning would keep the CPU from it.
 */
bool rsk_spin_peer_elsewhere(const struct rsk_stream *s, uint32_t cpu);

#endif
