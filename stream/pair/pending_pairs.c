// SPDX-License-Identifier: BSD-2-Clause
/*
 * pending_pairs.c - pending pairs: connecting ends that have a mapping and wait for the link to the
 * other host, or for their turn to send a request over it. A mapping is held for seconds, and the
 * next call of one among a thousand streams may come later than that. So the request is sent at
 * once if possible, and otherwise by the progress thread as soon as it may be.
 */
#include "pending_pairs.h"

#include "engine.h"
#include "local.h"
#include "log.h"
#include "rendezvous.h"
#include "stream.h"
#include "pm_transaction.h"
#include "link_requests.h"

/*
 * Streams whose link has failed ask again at once, since the next attempt may well succeed: the
 * mapping of a process's first stream may have expired before its link arrived, because the devices
 * had to be opened first. But where the peer cannot be reached this must not go on without end:
 * within this time they ask again only in their own calls.
 */
#define ANEW_NS 10000000000ull

void rsk_pending_pairs_ask_over(struct rsk_stream *s, int fd)
{
	struct rsk_link *l = rsk_rendezvous_known(s->pairing.found.nonce);

	if (rsk_remote_progress(s->pairing.found.nonce) != 0 || !l ||
	    atomic_load(&l->state) != RSK_LINK_UP || atomic_load(&s->request.off) ||
	    !rsk_stream_sole_process(s))
		return; /* its next call does it, after these checks */
	rsk_pm_transaction_begin(s, fd, l, -1);
	if (rsk_stream_phase(s) == RSK_PHASE_LOOKUP)
		return; /* not its turn yet */
	s->pairing.found.nonce = 0;
	s->pairing.found.remote = false;
}

/*
 * Calls @each for the streams that wait for the link with that name, as long as @l, if given, has
 * room for requests.
 */
static void each_waiting(uint64_t nonce, const struct rsk_link *l,
			 void (*each)(struct rsk_stream *s, int fd))
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high && (!l || rsk_pm_transaction_may_ask(l)); i++) {
		struct rsk_stream *s = rsk_fd_tracked((int)i) ? rsk_stream_of((int)i) : NULL;

		if (!s)
			continue;
		if (rsk_stream_phase(s) == RSK_PHASE_LOOKUP && s->pairing.found.remote &&
		    s->pairing.found.nonce == nonce)
			each(s, (int)i);
		rsk_stream_unpin(s);
	}
}

void rsk_pending_pairs_work(struct rsk_link *l)
{
	if (!l->waits || !rsk_pm_transaction_may_ask(l))
		return;
	l->waits = false; /* a stream that finds no room sets it again */
	each_waiting(l->peer_nonce, l, rsk_pending_pairs_ask_over);
	if (!rsk_pm_transaction_may_ask(l))
		l->waits = true; /* there may be more of them */
}

/*
 * The address may also refuse because the process there has ended. Then so have its connections,
 * and the next one is another process's: only an established one makes it a refusal.
 */
static void refuse(struct rsk_stream *s, int fd)
{
	if (s->pairing.mapping && rsk_kernel_established(fd) &&
	    rsk_local_link_refused(s, fd, s->pairing.mapping))
		s->pairing.mapping = 0;
}

static uint64_t anew_ns; /* not before this time; under the pairing lock */

static uint8_t peer_reason; /* of the refusal; under the pairing lock */

static void lose(struct rsk_stream *s, int fd)
{
	if (s->pairing.mapping)
		rsk_local_unlink_later(s->pairing.mapping);
	s->pairing.mapping = 0;
	s->pairing.found.nonce = 0;
	s->pairing.found.remote = false;
	s->pairing.answer.asked_daemon = 0;
	rsk_log(RSK_LOG_INFO, "fd %d: the link to the other host was not made, or is gone", fd);
	rsk_stats_set_reason(s->rec, RSK_REASON_LINK_ERROR);
	if (peer_reason == RSK_REASON_VERSION)
		rsk_stream_untrack(s, RSK_REASON_VERSION); /* another link would be no better */
	else if (peer_reason)
		s->rec->peer_reason = peer_reason;
}

static void lose_and_ask(struct rsk_stream *s, int fd)
{
	lose(s, fd);
	if (rsk_stream_phase(s) == RSK_PHASE_LOOKUP && !atomic_load(&s->request.off) &&
	    rsk_stream_sole_process(s))
		rsk_local_lookup(s, fd);
}

void rsk_pending_pairs_lost(uint64_t nonce, bool refused, uint32_t why)
{
	uint64_t now = rsk_now_ns();
	bool early = now < anew_ns;

	if (!early)
		anew_ns = now + ANEW_NS;
	peer_reason = (uint8_t)why;
	if (refused)
		each_waiting(nonce, NULL, refuse);
	each_waiting(nonce, NULL, early ? lose : lose_and_ask);
}
