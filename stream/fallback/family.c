// SPDX-License-Identifier: BSD-2-Clause
/* family.c - see family.h. */
#include "family.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "anew.h"
#include "arena.h"
#include "epoll.h"
#include "pairing.h"
#include "kin.h"
#include "links.h"
#include "log.h"
#include "recovery.h"
#include "over.h"
#include "resets.h"
#include "rx_parts.h"
#include "operator_request.h"

#define BLOCK_BYTES 65536
/*
 * For the TCP bytes before the ring's, or for room in the socket; between hosts for the peer's
 * answer, too.
 */
#define SETTLE_NS 200000000ull
#define SETTLE_REMOTE_NS 2000000000ull
#define LOOK_WORK 32
/* at most so many commands of a sender end one promotion: one, and some more for a broken peer */
#define COMMANDS 4

static uint64_t settle_until(const struct rsk_stream *s)
{
	return rsk_now_ns() + (s->link->remote ? SETTLE_REMOTE_NS : SETTLE_NS);
}

static bool ring_has(const struct rsk_rx *rx)
{
	if (rx->partial.len || rx->overread.len)
		return true;
	return rx->state >= RSK_RX_DRAIN_TCP && !rx->fin;
}

/*
 * rx_lock held. Upper bound of the bytes that a sender can still deliver that reads our control
 * word before it fills a ring once more: what is here of the ring, which may be full, and a ring
 * that it has begun to fill.
 */
static uint64_t most_over(const struct rsk_rx *rx)
{
	uint64_t before = rx->state == RSK_RX_DRAIN_TCP ? rx->switch_at.pos - rx->pos : 0;

	return before + rx->overread.len + rx->partial.len + BLOCK_BYTES +
	       2 * (uint64_t)rx->ring.cells * RSK_CELL_BYTES;
}

/*
 * The sender goes on all the same. On one host it has read our control word, or should have: we
 * would stay in fork(), and the file would grow, for as long as the peer likes. Between hosts the
 * control word may be late, and the rest stays in the ring: the child cannot have it.
 */
static int too_much(struct rsk_rx *rx)
{
	return rx->rail->ops->caps & RSK_FABRIC_SYNC ? rsk_rx_refuse(rx) : 0;
}

/*
 * rx_lock held. Everything that can be read of the ring, and the TCP bytes before and after it,
 * goes to the overread file. *@most: bytes that may still come.
 */
static int read_over(struct rsk_stream *s, struct rsk_tcp *c, uint8_t *block, uint64_t *most)
{
	uint64_t until = settle_until(s);
	int rc;

	for (;;) {
		struct iovec iov = { block, BLOCK_BYTES };
		struct rsk_iovcur cur;
		ssize_t n;

		rc = rsk_rx_serve(&s->rx, c);
		if (rc < 0 || !ring_has(&s->rx))
			return rc;
		rsk_iovcur_init(&cur, &iov, 1);
		n = rsk_rx_recv(&s->rx, c, &cur, false, false);
		if (n > 0) {
			rc = rsk_over_add(s, block, (size_t)n);
			/* memory: what was taken is lost, which must not go unnoticed */
			if (rc < 0) {
				rsk_log(RSK_LOG_ERROR, "fork: what is unread finds no room: %d",
					rc);
				return -EPROTO;
			}
			if ((uint64_t)n > *most)
				return too_much(&s->rx);
			*most -= (uint64_t)n;
			continue;
		}
		/* The kernel has to deliver the bytes before the ring's. */
		if (n == -EAGAIN && s->rx.state == RSK_RX_DRAIN_TCP &&
		    s->rx.pos < s->rx.switch_at.pos && rsk_now_ns() < until) {
			struct pollfd p = { .fd = c->fd, .events = POLLIN };

			rsk_sys_ppoll(&p, 1, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
			continue;
		}
		if (n == -EPROTO || n == -ENOMEM)
			return (int)n;
		if (n < 0 && n != -EAGAIN && n != -EINTR) { /* to be reported after those bytes */
			s->rx.tcp.err = (int)n;
			s->rx.tcp.err_told = false;
		}
		return 0;
	}
}

/*
 * rx_lock held. Returns 0: off the ring, and all that was in it is where both processes find it.
 * -errno: not so.
 */
static int off_ring(struct rsk_stream *s, struct rsk_kernel_tcp *k)
{
	uint8_t *block;
	uint64_t most;
	int rc = -EAGAIN;

	rsk_rx_stay_off(&s->rx, true);
	/*
	 * Store our control word before checking the ring; the sender stores its slot before
	 * checking our control word (rsk_stream_due()).
	 */
	atomic_thread_fence(memory_order_seq_cst);
	rc = rsk_rx_serve(&s->rx, &k->c);
	if (rc < 0 || (s->rx.state == RSK_RX_TCP && !ring_has(&s->rx)))
		return rc;
	/* Nothing to read, as nearly always: no file is needed. */
	if (s->rx.state != RSK_RX_DRAIN_TCP && !rsk_rx_pending(&s->rx, NULL)) {
		rc = rsk_rx_pause(&s->rx);
		if (rc != -EAGAIN)
			return rc;
	}
	most = most_over(&s->rx);
	if (!rsk_over_fits(s, most))
		return -EFBIG;
	rc = rsk_over_open(s);
	block = rc < 0 ? NULL : rsk_arena_alloc_raw(BLOCK_BYTES);
	if (!block)
		return rc < 0 ? rc : -ENOMEM;
	k->socket_alone = true;
	for (int i = 0; i < COMMANDS; i++) {
		rc = read_over(s, &k->c, block, &most);
		if (rc == 0)
			rc = rsk_rx_pause(&s->rx);
		if (rc != -EAGAIN)
			break;
	}
	k->socket_alone = false;
	rsk_over_seal(s, k->c.fd);
	rsk_arena_free(block);
	return rc == -EAGAIN ? -EPROTO : rc;
}

void rsk_stream_share(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_tcp k;
	int rc;

	atomic_store_explicit(&s->fork.torn, false, memory_order_relaxed);
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED || rsk_stream_failed(s))
		return;
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	rsk_lock(&s->tx_lock);
	rsk_lock(&s->rx_lock);
	atomic_store_explicit(&s->fork.shared, true, memory_order_relaxed);
	s->full.since_ns = 0;
	rsk_tx_stay_off(&s->tx, RSK_TX_STAY_FORK, true);
	rc = rsk_tx_serve(&s->tx, &k.c);
	if (rc == 0 || rc == -EAGAIN)
		rc = off_ring(s, &k);
	if (rc == -EPROTO)
		rsk_stream_fail(s, fd);
	/* Also if the sender has not said yet what of the ring's bytes it repeats, and whether. */
	else if (rc < 0 || rsk_rx_in_race(&s->rx) || s->rx.skip || rsk_rx_unreported(&s->rx) ||
		 (s->rx.state > RSK_RX_TCP && !s->rx.fin))
		atomic_store_explicit(&s->fork.torn, true, memory_order_relaxed);
	rsk_stream_note(s, true, RSK_REASON_SHARED_HOLDER);
	rsk_stream_note(s, false, RSK_REASON_SHARED_HOLDER);
	rsk_stats_set_reason(s->rec, RSK_REASON_SHARED_HOLDER);
	rsk_unlock(&s->rx_lock);
	rsk_unlock(&s->tx_lock);
	rsk_stream_notify(s, RSK_WAKE_RX | RSK_WAKE_TX);
	rsk_recovery_stir(s); /* threads of ours that sleep: by TCP from now on */
	rsk_sigdefer_exit();
}

void rsk_streams_settle(struct rsk_stream *const *all, const int *fd, uint32_t n)
{
	uint64_t until = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rsk_stream *s = all[i];
		struct rsk_kernel_tcp k;
		bool owes = true;

		if (rsk_stream_phase(s) != RSK_PHASE_PAIRED)
			continue;
		rsk_kernel_tcp_init(&k, s, fd[i]);
		while (owes) {
			struct pollfd p = { .fd = fd[i], .events = POLLOUT };

			rsk_lock(&s->tx_lock);
			rsk_tx_serve(&s->tx, &k.c);
			owes = rsk_tx_owes(&s->tx) && !rsk_stream_failed(s);
			rsk_unlock(&s->tx_lock);
			if (!owes)
				break;
			if (!until)
				until = settle_until(s);
			if (rsk_now_ns() >= until)
				break;
			rsk_sys_ppoll(&p, 1, &(struct timespec){ .tv_nsec = 1000000 }, NULL);
		}
		/* This process continues with it; the child must not send before what is owed. */
		if (owes)
			atomic_store_explicit(&s->fork.torn, true, memory_order_relaxed);
	}
}

/* Socket state that another process may have changed. */
static void learn_modes(struct rsk_stream *s, int fd)
{
	socklen_t len = sizeof(int);
	int low = 1;

	atomic_store(&s->nonblock, rsk_kernel_nonblock(fd));
	atomic_store_explicit(&s->timeouts.rx, 0, memory_order_relaxed);
	atomic_store_explicit(&s->timeouts.tx, 0, memory_order_relaxed);
	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, &len) == 0)
		atomic_store(&s->rcvlowat, low);
}

void rsk_stream_check_alone(struct rsk_stream *s, int fd)
{
	uint64_t work = rsk_stream_work(s);

	if (work < atomic_load_explicit(&s->fork.alone_work, memory_order_relaxed))
		return;
	atomic_store_explicit(&s->fork.alone_work, work + LOOK_WORK, memory_order_relaxed);
	if (rsk_stream_phase(s) != RSK_PHASE_PAIRED || !rsk_stream_sole_process(s) ||
	    rsk_over_unread(s))
		return;
	/* No fork comes between. */
	if (!rsk_pairing_try())
		return;
	if (!rsk_kin_shares(&s->fork.kin) && rsk_epoll_retake(s) == 0) {
		learn_modes(s, fd);
		rsk_lock(&s->tx_lock);
		rsk_tx_stay_off(&s->tx, RSK_TX_STAY_FORK, false);
		s->full.repropose_work = 0;
		rsk_lock(&s->rx_lock);
		rsk_rx_stay_off(&s->rx, s->tx.stay_off & ~RSK_TX_STAY_ASKED);
		atomic_store_explicit(&s->fork.shared, false, memory_order_relaxed);
		rsk_unlock(&s->rx_lock);
		rsk_unlock(&s->tx_lock);
		rsk_stream_notify(s, RSK_WAKE_TX);
	}
	rsk_pairing_give();
}

/* ---- the child ---- */

static struct rsk_link *hollow; /* private to the process */

/* Makes a stream without a peer: on TCP both ways for good, over a link that leads nowhere. */
static bool attach_hollow(struct rsk_stream *s)
{
	const struct rsk_rx rx = s->rx;
	const struct rsk_tx tx = s->tx;
	struct rsk_seg_ctl *ctl;
	struct rsk_link *l;

	if (!hollow)
		hollow = rsk_link_hollow();
	l = hollow;
	if (!l)
		return false;
	ctl = rsk_seg_own_ctl(&l->seg, 0);
	rsk_tx_init(&s->tx, &l->seg.rail, rsk_seg_ring_off(&l->seg.peer, 0),
		    l->seg.peer.ring_bytes / RSK_CELL_BYTES,
		    rsk_seg_ctl_off(0) + offsetof(struct rsk_seg_ctl, tx_word), &ctl->rx_word, 1);
	rsk_rx_init(&s->rx, &l->seg.rail, l->seg.rail.segment + rsk_seg_ring_off(&l->seg.own, 0),
		    l->seg.own.ring_bytes / RSK_CELL_BYTES,
		    rsk_seg_ctl_off(0) + offsetof(struct rsk_seg_ctl, rx_word), &ctl->tx_word, 1);
	s->tx.peer_fell_back = s->tx.gave_up = true;
	s->tx.fin = tx.fin == RSK_FIN_OPEN ? RSK_FIN_OPEN : RSK_FIN_DONE;
	s->tx.ring_bytes = tx.ring_bytes;
	s->rx.fell_back = s->rx.gave_up = true;
	s->rx.ring_bytes = rx.ring_bytes;
	s->rx.tcp.eof = rx.tcp.eof;
	s->rx.tcp.err = rx.tcp.err;
	s->rx.tcp.err_told = rx.tcp.err_told;
	s->link = l;
	s->sid = 0;
	atomic_fetch_add(&l->streams, 1);
	return true;
}

void rsk_stream_inherit(struct rsk_stream *s, bool asleep)
{
	bool torn = atomic_load_explicit(&s->fork.torn, memory_order_relaxed), at_rest = false;

	atomic_store(&s->fork.shared, false);
	atomic_store(&s->fork.anew_due, false);
	atomic_store(&s->apply_due, false);
	atomic_store(&s->credit_due, false);
	atomic_store(&s->repair.due, false);
	s->linger.lock = (struct rsk_lock){ 0 };
	s->linger.resets &= ~RSK_RESETS_OWED; /* its parent repeats */
	s->pairing.posted_nonce = 0;
	s->pairing.mapping = 0;
	switch (rsk_stream_phase(s)) {
	case RSK_PHASE_LOOKUP:
	case RSK_PHASE_PAIRING:
		if (s->link)
			rsk_stream_detach(s);
		rsk_stream_search_anew(s);
		return;
	case RSK_PHASE_PAIRED:
		at_rest = s->tx.state == RSK_TX_TCP && s->tx.fin == RSK_FIN_OPEN && !s->rx.fin &&
			  !atomic_load(&s->fallback_due) && !s->tx.gave_up && !s->rx.gave_up;
		break;
	default:
		s->link = NULL;
		return;
	}
	s->peer.pid = s->link->peer_pid;
	rsk_stream_detach(s);
	if (torn)
		rsk_log(RSK_LOG_ERROR,
			"fd %d: bytes under way stay with the parent, ECONNRESET here",
			atomic_load(&s->fd));
	if (rsk_over_is(s) || torn || asleep || rsk_stream_failed(s) || rsk_epoll_tells(s) ||
	    rsk_zerocopy_unread(&s->zerocopy)) {
		if (attach_hollow(s)) {
			if (torn)
				atomic_store(&s->failed, true);
			else
				atomic_store(&s->fallback_due, RSK_REASON_SHARED_HOLDER);
			return;
		}
		rsk_log(RSK_LOG_ERROR, "fd %d: no memory in the child of a fork",
			atomic_load(&s->fd));
	} else if (at_rest) { /* and once the parent has closed it, paired with the same peer */
		rsk_stream_search_anew(s);
		return;
	}
	atomic_store(&s->phase, RSK_PHASE_UNTRACKED);
}
