// SPDX-License-Identifier: BSD-2-Clause
/*
 * anew.c - see anew.h.
 *
 * In the peer of a parent and its child, threads may use what belongs to the pairing without a
 * lock. A call counts itself, then reads the phase; here the phase is stored, then the count read,
 * both seq_cst. So either the count shows that call, or it finds the stream untracked, and goes to
 * the kernel. The progress thread does the same with the stream's place in its link.
 */
#include "anew.h"

#include <string.h>

#include "arena.h"
#include "cpu.h"
#include "engine.h"
#include "links.h"
#include "local.h"
#include "over.h"
#include "pairing.h"

#define PIN_LOOKS 10000 /* some 100 us */

void rsk_stream_detach(struct rsk_stream *s)
{
	rsk_rx_fini(&s->rx);
	rsk_tx_fini(&s->tx);
	s->link = NULL;
	s->asks = false;
	atomic_store(&s->apply_due, false);
	atomic_store(&s->credit_due, false);
	atomic_store(&s->repair.due, false);
	memset(s->noted, 0, sizeof(s->noted));
	s->full.since_ns = 0;
}

void rsk_stream_search_anew(struct rsk_stream *s)
{
	rsk_arena_free(s->pairing.held);
	s->pairing.held = NULL;
	s->pairing.search = (struct rsk_policy_search){ 0 };
	s->pairing.steps = 0;
	s->pairing.handle = s->pairing.mapping = s->pairing.found.nonce = s->pairing.posted_nonce =
		0;
	s->pairing.found.remote = false;
	s->pairing.answer.asked_daemon = 0;
	s->pairing.answer.told = 0;
	atomic_store(&s->phase, RSK_PHASE_CANDIDATE);
	atomic_store(&s->work.step, 0);
}

/* This call's pin, and one for each descriptor. */
static bool alone(const struct rsk_stream *s)
{
	return rsk_stream_holders(s) == atomic_load(&s->fds) + 1;
}

/*
 * Takes the stream out of its place in the link, where the progress thread finds it: that pins it,
 * for a moment, then looks at the place again. False: it is there again, and somebody uses it.
 */
static bool leave_place(struct rsk_stream *s)
{
	rsk_link_set_stream(s->link, s->sid, NULL);
	for (int i = 0; i < PIN_LOOKS; i++) {
		if (alone(s))
			return true;
		rsk_pause();
	}
	rsk_link_set_stream(s->link, s->sid, s);
	return false;
}

/* Only the kernel carries the stream, and nothing of the pairing is owed to either end. */
static bool settled(struct rsk_stream *s)
{
	bool is;

	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	is = rsk_tx_arrived(&s->tx) && !rsk_tx_retransmits(&s->tx) && s->tx.fin == RSK_FIN_OPEN &&
	     rsk_rx_drained(&s->rx) && !s->rx.fin && !rsk_over_unread(s) && !rsk_stream_failed(s) &&
	     !atomic_load(&s->fallback_due) && !rsk_zerocopy_pending(&s->zerocopy);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	return is;
}

void rsk_stream_anew(struct rsk_stream *s, int fd)
{
	if (!alone(s) || !rsk_stream_sole_process(s) || !settled(s) || !rsk_stream_is_at(s, fd))
		return;
	rsk_fd_fall_back(fd, RSK_REASON_SHARED_HOLDER);
	rsk_pairing_take();
	if (rsk_stream_phase(s) == RSK_PHASE_UNTRACKED && leave_place(s)) {
		rsk_stream_unpair(s);
		rsk_stream_detach(s);
		if (s->pairing.mapping)
			rsk_local_unlink_later(s->pairing.mapping);
		atomic_store_explicit(&s->fork.anew_due, false, memory_order_relaxed);
		rsk_stats_looks_again(s->rec);
		rsk_stream_search_anew(s);
		rsk_fd_replace((uintptr_t)s, (uintptr_t)s | RSK_FD_TRACKED);
	}
	rsk_pairing_give();
}
