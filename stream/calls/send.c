// SPDX-License-Identifier: BSD-2-Clause
/*
 * send.c - send on a paired stream, with the guarantees of a TCP socket, over two paths; decides
 * when a sender moves to the ring, or falls back from a full one. The hooks call it by way of
 * engine.h.
 */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#include "calls.h"
#include "engine.h"
#include "family.h"
#include "full.h"
#include "fallback.h"
#include "links.h"
#include "recovery.h"
#include "remote.h"
#include "spin.h"
#include "stream.h"
#include "upcall.h"
#include "wait.h"
#include "operator_request.h"

/* ---- promotion ---- */

/* True: the receiver has to be notified. tx_lock is held. */
static bool maybe_propose(struct rsk_stream *s)
{
	uint64_t work = rsk_stream_work(s);

	/* When the request to stay on TCP is taken back the sender may propose at once. */
	if (s->tx.stay_off) {
		s->full.repropose_work = 0;
		s->full.fallbacks = 0;
		if (rsk_stream_peer_left(s))
			atomic_store_explicit(&s->fork.anew_due, true, memory_order_relaxed);
		return false;
	}
	if (s->tx.state != RSK_TX_TCP || s->tx.peer_fell_back || s->tx.gave_up ||
	    work < s->full.repropose_work ||
	    atomic_load_explicit(&rsk_stopped, memory_order_relaxed) ||
	    !rsk_remote_may_put(s->link, s->sid) || (s->link->remote && rsk_recovery_exiting()) ||
	    !rsk_stream_sole_process(s))
		return false;
	s->full.repropose_work = work + RSK_REPROPOSE_WORK;
	return rsk_tx_propose(&s->tx) == 0;
}

/* ---- one round ---- */

/*
 * The socket's error is reported once, by the call that comes first; the check of the TCP socket
 * has taken it from the kernel.
 */
static ssize_t pending_error(struct rsk_stream *s, ssize_t n)
{
	rsk_lock(&s->rx_lock);
	if (s->rx.tcp.err)
		n = rsk_rx_take_error(&s->rx);
	else if (n != -EPIPE) /* which may also come from the end of our own direction */
		rsk_rx_told(&s->rx, (int)n);
	rsk_unlock(&s->rx_lock);
	return n;
}

ssize_t rsk_stream_send_now(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags)
{
	struct rsk_kernel_tcp k;
	bool on_ring, proposed = false, ask = false, left = false;
	uint64_t ring0, slots0;
	ssize_t n;

	if (rsk_stream_failed(s))
		return -ECONNRESET;
	rsk_stream_may_be_alone(s, fd);
	rsk_stream_check_request(s, fd);
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	if (rsk_lock(&s->tx_lock))
		rsk_tx_recover(&s->tx);
	/* A hint: whether the word that asks for it is right is seen in there. */
	if (__builtin_expect(__atomic_load_n(&s->tx.answer.at->flags, __ATOMIC_RELAXED), 0))
		s->tx.ring.stamp_ns = rsk_time_ns(CLOCK_REALTIME);
	ring0 = s->tx.ring_bytes;
	slots0 = s->tx.ring.slots / RSK_REQUEST_SLOTS;
	n = rsk_tx_send(&s->tx, &k.c, src, flags);
	if (n == -EAGAIN && rsk_tx_pace(&s->tx, rsk_now_ns()))
		n = rsk_tx_send(&s->tx, &k.c, src, flags);
	on_ring = s->tx.state == RSK_TX_ONRING;
	if (n == -EAGAIN && on_ring) {
		rsk_full_want_room(s);
		left = rsk_full_fell_back(s, &k.c);
		if (left) {
			n = rsk_tx_send(&s->tx, &k.c, src, flags);
			on_ring = false;
		}
	} else if (on_ring) {
		s->full.since_ns = 0;
	}
	rsk_stream_note(s, true, RSK_REASON_PEER_FELL_BACK);
	if (s->tx.ring_bytes != ring0)
		rsk_stats_add(&s->rec->tx_ring_bytes, s->tx.ring_bytes - ring0);
	s->rec->tx_slots = s->tx.ring.slots;
	ask = on_ring && s->tx.ring.slots / RSK_REQUEST_SLOTS != slots0;
	if (n > 0 && s->tx.state == RSK_TX_TCP) {
		rsk_op_moved(s, fd, (uint64_t)n);
		proposed = maybe_propose(s);
	}
	if (n == -EPROTO)
		rsk_stream_fail(s, fd);
	rsk_unlock(&s->tx_lock);
	/*
	 * A peer that receives this and waits for more has to know whether it would keep our CPU
	 * busy.
	 */
	if (on_ring)
		rsk_stream_publish_cpu(s);
	if (on_ring || proposed)
		rsk_stream_notify(s, RSK_WAKE_RX);
	if (left)
		rsk_upcalls->changed(s); /* other threads may wait for room, which TCP has */
	rsk_sigdefer_exit();
	if (ask)
		rsk_stream_ask_end(s, fd);
	if (n == -EPIPE || n == -ECONNRESET || n == -ECONNABORTED || n == -ETIMEDOUT)
		n = pending_error(s, n);
	/*
	 * The fence in notify orders our slot before this read: did the peer request a fallback
	 * meanwhile?
	 */
	if (on_ring && rsk_control_word_fresh(s->tx.answer.at, rsk_tx_answer_seen(&s->tx)))
		rsk_stream_serve(s, fd);
	if (atomic_load_explicit(&s->fallback_due, memory_order_relaxed))
		rsk_stream_fall_back_late(s, fd);
	if ((n == -ENOTSOCK || n == -EBADF) && !rsk_stream_is_at(s, fd))
		return -RSK_EKERNEL;
	return n == -EPROTO ? -ECONNRESET : n;
}

/* ---- a call ---- */

static ssize_t send_failed(ssize_t n, int flags)
{
	if (n == -EPIPE && !(flags & MSG_NOSIGNAL))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), SIGPIPE);
	return n;
}

/*
 * For a stream that is not paired. @fd: the call's; pairing is to know the program's own number, if
 * that is still the stream's.
 */
static ssize_t send_chunk(struct rsk_op *op, int fd, struct rsk_iovcur *cur, int flags, int pid)
{
	if (rsk_iovcur_fills(cur))
		return cur->fill->rc = -ENOSYS;
	rsk_pairing_due(op->s, rsk_fd_names(op->fd, op->s) ? op->fd : fd);
	return rsk_chunked_send(op->s, fd, cur, flags & MSG_MORE, pid);
}

/* The result of a send: a pending error is reported first (sk_stream_error() of the kernel). */
static ssize_t after_shutdown(int fd)
{
	ssize_t n = rsk_fd_pending_error(fd);

	return n ? n : -EPIPE;
}

static ssize_t send_loop(struct rsk_op *op, struct rsk_iovcur *cur, int flags)
{
	struct rsk_stream *s = op->s;
	struct rsk_wait w __attribute__((cleanup(rsk_wait_end)));
	bool dontwait;
	size_t total = 0;
	ssize_t n = 0;
	int fd = op->fd, pid = rsk_pid;

	w.active = false;
	if (op->copy && rsk_wait_keep(&w, s, op->copy, RSK_WAKE_TX))
		fd = op->copy;
	dontwait = (flags & MSG_DONTWAIT) || rsk_stream_nonblock(s, fd);
	for (;;) {
		/*
		 * A stream that is given up but has a link was paired, and fell back during this
		 * call.
		 */
		bool paired = rsk_stream_phase(s) >= RSK_PHASE_PAIRED && s->link;

		if (atomic_load_explicit(&s->wr_shut, memory_order_relaxed)) {
			n = after_shutdown(fd);
			break;
		}
		if (total && __builtin_expect(rsk_pid != pid, 0))
			n = -ECHILD;
		else if (paired)
			n = rsk_stream_send_now(s, fd, cur,
						flags & (MSG_MORE | MSG_DONTROUTE | MSG_CONFIRM));
		else
			n = send_chunk(op, fd, cur, flags, total ? pid : 0);
		if (n > 0) {
			w.spins = 0;
			total += (size_t)n;
			if (!cur->left)
				break;
			continue;
		}
		if (n == -ESTALE)
			continue;
		if (n == -ECHILD) {
			/*
			 * The kernel's one call would have taken all before the handler ran. How
			 * much a source that is read has, the parent alone finds out.
			 */
			if (!rsk_iovcur_fills(cur))
				total += cur->left;
			cur->left = 0;
			n = 0;
			break;
		}
		if ((n != -EAGAIN && n != -EINTR) || (dontwait && !paired))
			break;
		if (dontwait) {
			rsk_stream_want_room(s);
			/* Room may have come between the attempt and the request. */
			n = rsk_stream_send_now(s, fd, cur, flags & MSG_MORE);
			if (n <= 0)
				break;
			total += (size_t)n;
			if (!cur->left)
				break;
			continue;
		}
		if (!w.active)
			rsk_wait_begin(&w, s, fd, RSK_WAKE_TX);
		n = paired ? rsk_wait_more(&w) : rsk_wait_tcp(&w);
		fd = w.fd;
		if (n == 1 && paired)
			rsk_stream_ask_end(s, fd);
		if (n == -ERESTART && !total)
			continue;
		if (n < 0)
			break;
	}
	if (cur->left)
		atomic_fetch_add_explicit(&s->short_sends, 1, memory_order_relaxed);
	if (total) {
		rsk_stream_keep_error(s, n);
		return (ssize_t)total;
	}
	return send_failed(n, flags);
}

static void busy_no_more(struct rsk_zerocopy **z)
{
	atomic_fetch_sub(&(*z)->busy, 1);
}

/*
 * MSG_ZEROCOPY: the bytes are copied, by either path, and the completion is there at once. Who else
 * has the socket, or had it, may make the kernel number sends that are not known here: then all
 * further ones are the kernel's.
 */
static ssize_t send_zerocopy(struct rsk_op *op, struct rsk_iovcur *cur, int flags)
{
	struct rsk_stream *s = op->s;
	struct rsk_zerocopy *z = &s->zerocopy;
	ssize_t n;
	int rc;

	if (s->fork.kin.serial || rsk_stream_plain(s, true) ||
	    atomic_load_explicit(&z->by_tcp, memory_order_relaxed)) {
		rsk_fd_zerocopy_by_tcp(op->fd);
		rc = rsk_fd_fall_back(op->fd, RSK_REASON_ZEROCOPY) < 0 ?
			     0 :
			     rsk_fd_fall_back_tx(op->fd, RSK_REASON_ZEROCOPY);
		return rc < 0 ? rc : -RSK_EKERNEL;
	}
	struct rsk_zerocopy *busy __attribute__((cleanup(busy_no_more))) = z;

	atomic_fetch_add(&busy->busy, 1);
	n = send_loop(op, cur, flags);
	if (n > 0) {
		rsk_sigdefer_enter();
		rsk_zerocopy_done(z);
		rsk_recovery_stir(s); /* threads of ours that wait for it */
		rsk_sigdefer_exit();
	}
	return n;
}

ssize_t rsk_op_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;

	if (!op->s)
		return -EBADF;
	if (__builtin_expect(op->counted, 0)) {
		ssize_t n = rsk_shown_send(op, iov, iovcnt, flags);

		if (op->counted)
			return n;
	}
	if (flags & (MSG_OOB | MSG_FASTOPEN)) {
		enum rsk_reason why = flags & MSG_OOB ? RSK_REASON_OOB : RSK_REASON_FASTOPEN;
		int rc = rsk_fd_fall_back(op->fd, why) < 0 ? 0 : rsk_fd_fall_back_tx(op->fd, why);

		return rc < 0 ? rc : -RSK_EKERNEL;
	}
	rsk_iovcur_init(&cur, iov, iovcnt);
	/* TCP sends nothing, but reports an error. Its FIN may come only when the ring is read. */
	if (!cur.left)
		return atomic_load_explicit(&op->s->wr_shut, memory_order_relaxed) ?
			       send_failed(after_shutdown(op->fd), flags) :
			       -RSK_EKERNEL;
	if (__builtin_expect(flags & MSG_ZEROCOPY, 0) && rsk_kernel_has_zerocopy(op->fd))
		return send_zerocopy(op, &cur, flags);
	return send_loop(op, &cur, flags);
}

ssize_t rsk_op_fill(struct rsk_op *op, struct rsk_fill *f, size_t len)
{
	struct rsk_iovcur cur;

	if (!op->s)
		return -EBADF;
	if (__builtin_expect(op->counted, 0))
		return -RSK_EKERNEL;
	rsk_iovcur_init_fill(&cur, f, len);
	return send_loop(op, &cur, 0);
}
