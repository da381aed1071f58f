// SPDX-License-Identifier: BSD-2-Clause
/* guard.c - the end of a section in which something came up: puts to send off, signals to run. */
#include "guard.h"

#include "fabric.h"

__thread volatile uint32_t rsk_guard_depth;
__thread volatile uint32_t rsk_guard_signals;
__thread volatile uint32_t rsk_guard_cut;
__thread struct rsk_rail *rsk_owed;

/* Sends off what the section's puts have noted. Handlers find the section still open. */
static void pay(void)
{
	struct rsk_rail *rail = rsk_owed;

	rsk_guard_depth++;
	rsk_owed = NULL;
	rsk_guard_signals &= ~RSK_GUARD_OWES;
	rail->ops->due(rail, 0, 0);
	atomic_signal_fence(memory_order_seq_cst);
	rsk_guard_depth--;
}

void rsk_owe(struct rsk_rail *rail)
{
	if (rsk_owed && rsk_owed != rail)
		pay();
	rsk_owed = rail;
	rsk_guard_signals |= RSK_GUARD_OWES;
}

void rsk_guard_leave(void)
{
	if (rsk_guard_signals & RSK_GUARD_OWES)
		pay();
	if (rsk_guard_signals)
		rsk_host->guard_pending();
}
