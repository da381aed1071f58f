/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sigdefer.h - signal-deferred sections: critical sections in which asynchronous signals are
 * deferred. lock.h enters and leaves them.
 *
 * A signal handler may call send() on the very stream whose lock its own thread holds. So each
 * thread counts its open sections. preload/ installs a signal trampoline in front of the
 * application's handler (sigaction hook). If the count is not zero, the trampoline records the
 * signal and returns; leaving the outermost section delivers it. Only the thread itself, and
 * handlers on it, access the count: plain TLS with compiler barriers is enough.
 */
#ifndef RSK_SIGDEFER_H
#define RSK_SIGDEFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "host.h"

extern __thread volatile uint32_t rsk_sigdefer_depth;
/* non-zero: signals or posts wait for the end of the section. */
extern __thread volatile uint32_t rsk_sigdefer_signals;

/*
 * Per thread, the number of handlers that ran and were installed without SA_RESTART. The signal
 * trampoline adds 1 before it calls such a handler. An engine wait that sees a change returns
 * EINTR; otherwise it goes on waiting, as the kernel restarts recv() and send() after an SA_RESTART
 * handler (signal(7)).
 */
extern __thread volatile uint32_t rsk_sigdefer_cut;
/* The same of all handlers: calls that poll are interrupted by any. */
extern __thread volatile uint32_t rsk_sigdefer_handled;

/*
 * Puts of a section that the fabric has deferred (put() returned 1) go out with due(), or at the
 * end of the section at the latest. While rsk_sigdefer_signals has this bit, rsk_deferred_posts is
 * the rail.
 */
#define RSK_SIGDEFER_POSTS 0x80000000u
struct rsk_rail;
extern __thread struct rsk_rail *rsk_deferred_posts;
void rsk_defer_post(struct rsk_rail *rail);
/* Sends off now what this section has deferred: before a section goes on for long. */
void rsk_sigdefer_post(void);
/* Called when the outermost section ends and something is due. */
void rsk_sigdefer_leave(void);

/* Whether a signal waits for the end of the section. */
static inline bool rsk_sigdefer_waits(void)
{
	return rsk_sigdefer_signals & ~RSK_SIGDEFER_POSTS;
}

/* Enter and leave a section; sections nest. */
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
