/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sigdefer.h - critical sections and asynchronous signals.
 *
 * A signal handler may call send() on the very stream whose lock its own thread holds. So a thread counts
 * its critical sections; preload/ puts its own handler in front of the application's (sigaction hook),
 * which, when the count is not zero, notes the signal and returns; leaving the outermost section runs it.
 * Depth is touched only by its own thread (and the handlers on it): plain TLS, compiler barriers suffice.
 */
#ifndef RSK_SIGDEFER_H
#define RSK_SIGDEFER_H

#include <stdatomic.h>
#include <stdint.h>

#include "host.h"

extern __thread volatile uint32_t rsk_sigdefer_depth;
extern __thread volatile uint32_t
	rsk_sigdefer_signals; /* non-zero: some wait for the end of the section */

/*
 * Counts, per thread, handlers that ran and were installed without SA_RESTART. preload/'s front handler adds 1
 * before it calls such a handler. An engine wait that sees it change returns EINTR; else it goes on waiting, as the
 * kernel restarts recv() and send() after an SA_RESTART handler (signal(7)).
 */
extern __thread volatile uint32_t rsk_sigdefer_cut;

/*
 * What was put in the section and only noted by its fabric (put() returned 1) goes out with due(), or at the section's
 * end at the latest. Where rsk_sigdefer_signals has this bit, rsk_deferred_posts is the rail.
 */
#define RSK_SIGDEFER_POSTS 0x80000000u
struct rsk_rail;
extern __thread struct rsk_rail *rsk_deferred_posts;
void rsk_defer_post(struct rsk_rail *rail);
void rsk_sigdefer_leave(void); /* the outermost section ends, and something is due */

static inline void rsk_sigdefer_enter(void)
{
	rsk_sigdefer_depth++;
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void rsk_sigdefer_exit(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	if (--rsk_sigdefer_depth == 0 && __builtin_expect(rsk_sigdefer_signals != 0, 0))
		rsk_sigdefer_leave();
}

#endif
