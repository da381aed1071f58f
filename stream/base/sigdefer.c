// SPDX-License-Identifier: BSD-2-Clause
/*
 * sigdefer.c - the end of a signal-deferred section in which something became due: deferred posts
 * to send off, signals to deliver. See sigdefer.h.
 */
#include "sigdefer.h"

#include "fabric.h"

__thread volatile uint32_t rsk_sigdefer_depth;
__thread volatile uint32_t rsk_sigdefer_signals;
__thread volatile uint32_t rsk_sigdefer_cut;
__thread volatile uint32_t rsk_sigdefer_handled;
__thread struct rsk_rail *rsk_deferred_posts;

/*
 * Sends off the posts that the section's puts have deferred. Handlers find the section still open.
 */
static void pay(void)
{
	struct rsk_rail *rail = rsk_deferred_posts;

	rsk_sigdefer_depth++;
	rsk_deferred_posts = NULL;
	rsk_sigdefer_signals &= ~RSK_SIGDEFER_POSTS;
	rail->ops->due(rail, 0, 0);
	atomic_signal_fence(memory_order_seq_cst);
	rsk_sigdefer_depth--;
}

void rsk_defer_post(struct rsk_rail *rail)
{
	if (rsk_deferred_posts && rsk_deferred_posts != rail)
		pay();
	rsk_deferred_posts = rail;
	rsk_sigdefer_signals |= RSK_SIGDEFER_POSTS;
}

void rsk_sigdefer_post(void)
{
	if (rsk_sigdefer_signals & RSK_SIGDEFER_POSTS)
		pay();
}

void rsk_sigdefer_leave(void)
{
	rsk_sigdefer_post();
	if (rsk_sigdefer_signals)
		rsk_host->guard_pending();
}
