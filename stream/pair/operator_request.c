// SPDX-License-Identifier: BSD-2-Clause
/*
 * operator_request.c - see operator_request.h.
 *
 * A demotion uses what the two machines can do anyway: our sender moves to the TCP socket
 * (FALLBACK_TX), and our receiver asks the other sender to do so (REQ_FALLBACK), which it does in
 * its next call, or in its sleep, from which it is woken. Neither waits, and no new order of events
 * arises; the stream stays paired, with both directions on TCP, and neither end proposes until the
 * request is taken back. There may be a request at both ends: each holds independently.
 */
#include "operator_request.h"

#include <errno.h>

#include "pairing.h"
#include "log.h"
#include "upcall.h"

/* Both locks are held. Returns the threads to wake: RSK_WAKE_*. */
static uint32_t carry_out(struct rsk_stream *s, int fd, bool off)
{
	struct rsk_kernel_tcp k;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_tx_stay_off(&s->tx, RSK_TX_STAY_OWN, off);
	/* Other reasons that keep it off the ring still hold. */
	rsk_stream_stay_off(s);
	if (off) {
		s->full.since_ns = 0;
		if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO || rsk_rx_serve(&s->rx, &k.c) == -EPROTO)
			rsk_stream_fail(s, fd);
		rsk_stream_note(s, true, RSK_REASON_OPERATOR);
		rsk_stream_note(s, false, RSK_REASON_OPERATOR);
	} else {
		s->full.repropose_work = 0;
		s->full.fallbacks = 0;
	}
	return RSK_WAKE_RX | RSK_WAKE_TX;
}

/*
 * Not paired: after a demotion its next step finds that no more are to be taken (pairing.c); after
 * a promotion it takes one at its next call.
 */
static void carry_out_early(struct rsk_stream *s, bool off)
{
	if (off)
		return;
	atomic_store(&s->request.search_anew, true);
	atomic_store(&s->work.step, 0);
}

/*
 * Reads the phase after s->off was set; seq_cst, as the store of the phase and the check of s->off
 * are where a stream is paired (rsk_stream_request_paired()): one of the two sees the other's
 * store. Both locks are held.
 */
static uint32_t act(struct rsk_stream *s, int fd)
{
	bool off = atomic_load(&s->request.off);

	switch (rsk_stream_phase(s)) {
	case RSK_PHASE_PAIRED:
		return carry_out(s, fd, off);
	case RSK_PHASE_CANDIDATE:
	case RSK_PHASE_LOOKUP:
	case RSK_PHASE_PAIRING:
		carry_out_early(s, off);
		return 0;
	default:
		return 0;
	}
}

static bool may_act(const struct rsk_stream *s, uint64_t word)
{
	return rsk_stats_request_generation(word) == s->request.generation &&
	       (rsk_stats_request_kind(word) == RSK_REQUEST_DEMOTE ||
		rsk_stats_request_kind(word) == RSK_REQUEST_PROMOTE) &&
	       !rsk_stream_failed(s) &&
	       !atomic_load_explicit(&s->fallback_due, memory_order_relaxed) &&
	       rsk_stream_phase(s) != RSK_PHASE_UNTRACKED;
}

static uint8_t reason_of(const struct rsk_stream *s)
{
	return __atomic_load_n(&s->rec->reason, __ATOMIC_RELAXED);
}

void rsk_stream_apply(struct rsk_stream *s, int fd)
{
	uint32_t wake = 0;
	bool off = false;
	uint64_t word;

	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	word = rsk_stats_request(s->rec);
	if (word != atomic_load_explicit(&s->request.seen, memory_order_relaxed)) {
		atomic_store_explicit(&s->request.seen, word, memory_order_relaxed);
		if (may_act(s, word)) {
			off = rsk_stats_request_kind(word) == RSK_REQUEST_DEMOTE;
			atomic_store(&s->request.off, off);
			if (off)
				rsk_stats_set_reason(s->rec, RSK_REASON_OPERATOR);
			else if (reason_of(s) == RSK_REASON_OPERATOR)
				rsk_stats_set_reason(s->rec, RSK_REASON_NOT_EARNED);
			wake = act(s, fd);
			rsk_log(RSK_LOG_INFO, "fd %d: an operator requests it %s", fd,
				off ? "on TCP" : "by shared memory");
		}
		rsk_stats_applied(s->rec, word);
	}
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	if (wake)
		rsk_stream_notify(s, wake);
	rsk_sigdefer_exit();
	/*
	 * Threads that waited for room in the ring now have the TCP socket's; a peer that looks for
	 * us finds no entry.
	 */
	if (wake)
		rsk_upcalls->changed(s);
	else if (off)
		rsk_pairing_forget(s, false);
}

/*
 * If another process has the socket, too, the stream is on TCP, and stays there as long as that is
 * so.
 */
static void share_paired(struct rsk_stream *s)
{
	if (!rsk_kin_shares(&s->fork.kin))
		return;
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	atomic_store_explicit(&s->fork.shared, true, memory_order_relaxed);
	rsk_tx_stay_off(&s->tx, RSK_TX_STAY_FORK, true);
	rsk_rx_stay_off(&s->rx, true);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	rsk_sigdefer_exit();
}

void rsk_stream_request_paired(struct rsk_stream *s)
{
	share_paired(s);
	if (!atomic_load(&s->request.off))
		return;
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	act(s, -1);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	rsk_sigdefer_exit();
}
