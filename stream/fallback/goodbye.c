// SPDX-License-Identifier: BSD-2-Clause
/*
 * goodbye.c - the last descriptor of a stream is about to be closed, or will be at the process's
 * end: owed bytes are sent, or given to a process that goes on, and the peer is told on the ring.
 * See fallback.h.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "pairing.h"
#include "fallback.h"
#include "log.h"
#include "recovery.h"
#include "over.h"
#include "pm_transaction.h"
#include "relay.h"
#include "resets.h"
#include "stream.h"

/*
 * True if bytes are still to be repeated, as far as can be told now. Only on one host: see
 * rsk_recovery_linger() for the others.
 */
static bool repeats(struct rsk_stream *s, struct rsk_tcp *c)
{
	bool owes;

	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, c);
	owes = rsk_tx_retransmits(&s->tx) && !s->tx.passed_on && !s->link->remote;
	rsk_unlock(&s->tx_lock);
	return owes && !rsk_stream_failed(s);
}

/*
 * SO_LINGER: close() waits until all has been sent, even with O_NONBLOCK, or until the time is
 * over, or for a signal.
 */
static void linger(struct rsk_stream *s, int fd, uint64_t most_ns)
{
	uint64_t until = rsk_now_ns() + most_ns;
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct rsk_kernel_tcp k;

	rsk_kernel_tcp_init(&k, s, fd);
	while (repeats(s, &k.c)) {
		uint64_t now = rsk_now_ns(), left = until > now ? until - now : 0;
		struct timespec ts = { .tv_sec = (time_t)(left / 1000000000u),
				       .tv_nsec = (long)(left % 1000000000u) };

		if (!left || rsk_sys_ppoll(&p, 1, &ts, NULL) < 0 ||
		    (p.revents & (POLLERR | POLLHUP)))
			return;
	}
}

/*
 * Hands over what is still to be repeated and TCP has no room for. Returns 0; -errno: no process
 * will repeat it.
 */
static int give_owed(struct rsk_stream *s, int fd, bool close)
{
	struct rsk_kernel_tcp k;
	int rc = 0;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	if (fd >= 0 && repeats(s, &k.c)) {
		rsk_lock(&s->tx_lock);
		rc = rsk_stream_give_owed(s, fd, close ? RSK_OWED_CLOSED : RSK_OWED_ENDING, -1);
		rsk_unlock(&s->tx_lock);
	}
	rsk_sigdefer_exit();
	if (rc < 0)
		rsk_log(RSK_LOG_ERROR, "fd %d: nobody can repeat what is owed: %d", fd, rc);
	return rc;
}

/*
 * Another process goes on with the stream, by TCP. The pairing is this process's: the peer takes it
 * back, and is paired with the other one (anew.h).
 */
static void leave_to_another(struct rsk_stream *s, bool wait)
{
	bool settled;

	if (rsk_stream_failed(s))
		return;
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	settled = rsk_tx_arrived(&s->tx) && !rsk_tx_retransmits(&s->tx) &&
		  s->tx.fin == RSK_FIN_OPEN;
	rsk_unlock(&s->tx_lock);
	if (settled && s->link->remote)
		rsk_pm_transaction_leave(s, wait);
	else if (settled)
		atomic_store_explicit(&rsk_seg_own_ctl(&s->link->seg, s->sid)->left, 1,
				      memory_order_release);
	rsk_sigdefer_exit();
}

/*
 * The last fd of all is about to be closed. What we sent stays readable in the peer's ring; after
 * that the peer reads the TCP socket, where the kernel shows our end: FIN, or RST if something was
 * left unread here. Without @close this is only prepared, and owed bytes are sent: threads of ours
 * use the stream until the kernel closes it.
 */
static void goodbye(struct rsk_stream *s, int fd, bool close)
{
	struct rsk_kernel_tcp k;
	struct linger l;
	bool unread;
	int owed;

	rsk_pairing_forget(s, fd >= 0); /* a close, which holds no lock */
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED)
		return;
	rsk_resets_linger(s, fd, &l);
	if (close && l.l_onoff && l.l_linger && !rsk_exiting())
		linger(s, fd, (uint64_t)l.l_linger * 1000000000u);
	/*
	 * Another process uses it, by TCP, and its end is not announced before that process has
	 * closed it.
	 */
	if (!rsk_stream_sole_process(s)) {
		if (give_owed(s, fd, close) == 0)
			leave_to_another(s, fd >= 0);
		return;
	}
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	rsk_lock(&s->rx_lock);
	rsk_rx_serve(&s->rx, &k.c);
	unread = !rsk_stream_failed(s) && (rsk_rx_unread(&s->rx) || rsk_over_unread(s));
	if (close)
		rsk_rx_close(&s->rx);
	rsk_unlock(&s->rx_lock);
	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, &k.c);
	if (close && !rsk_stream_failed(s))
		rsk_tx_fall_back(&s->tx, &k.c);
	rsk_unlock(&s->tx_lock);
	owed = unread || (l.l_onoff && !l.l_linger) ? 0 : give_owed(s, fd, close);
	/*
	 * Also if no process can repeat the rest: the reset tells the peer that something is
	 * missing.
	 */
	if (unread || owed < 0) {
		const struct linger reset = { .l_onoff = 1, .l_linger = 0 };

		rsk_sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	}
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	if (close && !unread)
		rsk_recovery_linger(s, fd);
	rsk_sigdefer_exit();
}

void rsk_stream_goodbye(struct rsk_stream *s, int fd)
{
	goodbye(s, fd, true);
}

/*
 * Several threads may see that they are the only holder: one of them says goodbye. The thread that
 * closes the last fd marks the goodbye as due, then counts; a thread that holds the stream longer
 * checks the mark before it lets go, with an fd of its own if it can.
 */
void rsk_stream_last_goodbye(struct rsk_stream *s, int fd)
{
	if (atomic_load(&s->goodbye_due) && rsk_stream_holders(s) == 1 &&
	    atomic_exchange(&s->goodbye_due, 0) && rsk_stream_phase(s) != RSK_PHASE_CANDIDATE)
		rsk_stream_goodbye(s, fd);
}

void rsk_stream_abandon(struct rsk_stream *s, int fd)
{
	goodbye(s, fd, false);
}
