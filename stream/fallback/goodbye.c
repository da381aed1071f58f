// SPDX-License-Identifier: BSD-2-Clause
/*
 * goodbye.c - the last descriptor of a stream is about to be closed, or will be at the process's end:
 * what is owed is sent, or given to who goes on, and the peer is told on the ring.
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
#include "relay.h"
#include "resets.h"
#include "stream.h"

/* Bytes are to be repeated still, as far as can be told now. On this host: see rsk_recovery_linger() for the others. */
static bool repeats(struct rsk_stream *s, struct rsk_tcp *c)
{
	bool owes;

	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, c);
	owes = s->tx.state == RSK_TX_RESEND && !s->tx.passed_on && !s->link->remote;
	rsk_unlock(&s->tx_lock);
	return owes && !rsk_stream_failed(s);
}

/* SO_LINGER: close() waits until all has been sent, also where O_NONBLOCK is set, or for so long, or for a signal. */
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

/* What is to be repeated still, and TCP has no room for. 0; -errno: nobody will. */
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
 * The last fd of all is about to be closed. What we sent stays readable in the peer's ring; from
 * there on the peer reads the companion, where the kernel shows our end: FIN, or RST when something
 * was left unread here. Without @close only that is prepared, and what is owed sent: threads of
 * ours go on with it until the kernel closes.
 */
static void goodbye(struct rsk_stream *s, int fd, bool close)
{
	struct rsk_kernel_tcp k;
	struct linger l;
	bool unread;
	int owed;

	rsk_pairing_forget(s);
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED)
		return;
	rsk_resets_linger(s, fd, &l);
	if (close && l.l_onoff && l.l_linger && !rsk_exiting())
		linger(s, fd, (uint64_t)l.l_linger * 1000000000u);
	/* Another process goes on with it, by TCP, and its end is not said before that one has closed it. */
	if (!rsk_stream_sole_process(s)) {
		give_owed(s, fd, close);
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
	/* Also where nobody can go on: the peer is told that something is missing. */
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
 * Of those who see that they are the only holder, one says it. Whoever closes the last fd marks it
 * as due, then counts; who holds it longer looks for the mark before it lets go, with an fd of its
 * own if it can.
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
