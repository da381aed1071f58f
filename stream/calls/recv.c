// SPDX-License-Identifier: BSD-2-Clause
/*
 * recv.c - receive on a paired stream, with the guarantees of a TCP socket, over two paths. The
 * hooks call it by way of engine.h.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "arena.h"
#include "calls.h"
#include "engine.h"
#include "epoll.h"
#include "family.h"
#include "fallback.h"
#include "links.h"
#include "over.h"
#include "owner.h"
#include "peer_reset.h"
#include "slot_repair.h"
#include "stream.h"
#include "wait.h"
#include "operator_request.h"

#define SCRATCH_BYTES 65536
#define PEEK_BYTES (32u << 20) /* more than a ring and a receive queue hold */

/* ---- one round ---- */

/*
 * Copies what is there to @dst, passes it to @d, and consumes as much as @d has taken; no other
 * thread can read in between. rx_lock is held.
 */
static ssize_t hand_over(struct rsk_rx *rx, struct rsk_tcp *c, struct rsk_iovcur *dst, bool look,
			 struct rsk_drain *d)
{
	struct rsk_iovcur again;
	struct iovec taken;
	uint8_t *buf = NULL;
	ssize_t n;

	rsk_iovcur_run(dst, &buf);
	n = rsk_rx_recv(rx, c, dst, true, look);
	if (n <= 0)
		return n;
	n = d->take(d, buf, (size_t)n);
	if (n <= 0) {
		d->rc = (int)n;
		return -RSK_EDRAIN;
	}
	taken = (struct iovec){ buf, (size_t)n };
	rsk_iovcur_init(&again, &taken, 1);
	/* Bytes that lie on two paths are consumed in two steps. */
	while (again.left && rsk_rx_recv(rx, c, &again, false, false) > 0)
		;
	return n;
}

/* @d: NULL, or the consumer of the bytes put into @dst, which is then one piece of memory. */
static ssize_t recv_now(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, bool peek, bool look,
			struct rsk_drain *d)
{
	struct rsk_kernel_tcp k;
	uint64_t ring0, cells0, retries0;
	uint32_t gen0;
	bool ended, room;
	ssize_t n;

	if (rsk_stream_failed(s))
		return -ECONNRESET;
	rsk_stream_may_be_alone(s, fd);
	rsk_stream_check_request(s, fd);
	rsk_kernel_tcp_init(&k, s, fd);
	rsk_sigdefer_enter();
	rsk_lock(&s->rx_lock);
	ring0 = s->rx.ring_bytes;
	cells0 = s->rx.credit.sent;
	gen0 = s->rx.gen;
	retries0 = s->rx.ring.retries;
	look = look || atomic_load_explicit(&s->tcp_news, memory_order_relaxed);
	if (!look && ++s->empty_looks >= RSK_EMPTY_LOOKS) {
		look = true;
		s->empty_looks = 0;
	}
	n = d ? hand_over(&s->rx, &k.c, dst, look, d) : rsk_rx_recv(&s->rx, &k.c, dst, peek, look);
	if (n > 0)
		s->empty_looks = 0;
	rsk_stream_note(s, false, RSK_REASON_PEER_FELL_BACK);
	if (s->rx.ring_bytes != ring0)
		rsk_stats_add(&s->rec->rx_ring_bytes, s->rx.ring_bytes - ring0);
	if (s->rx.ring.retries != retries0)
		rsk_stats_add(&s->rec->hash_retries, s->rx.ring.retries - retries0);
	s->rec->rx_slots = s->rx.ring.slots;
	if (__builtin_expect(rsk_rx_torn(&s->rx), 0))
		rsk_slot_repair_want(s);
	room = s->rx.credit.sent != cells0 && rsk_stream_enough_room(s);
	gen0 = s->rx.gen - gen0;
	if (n == -EPROTO)
		rsk_stream_fail(s, fd);
	ended = n == 0 && dst->left && !peek && !s->rx.fin && !s->rx.tcp.err_told;
	rsk_unlock(&s->rx_lock);
	if (room || gen0)
		rsk_stream_notify(s, RSK_WAKE_TX);
	rsk_sigdefer_exit();
	if (atomic_load_explicit(&s->fallback_due, memory_order_relaxed))
		rsk_stream_fall_back_late(s, fd);
	if (n == -EPROTO)
		return -ECONNRESET;
	if ((n == -ENOTSOCK || n == -EBADF) && !rsk_stream_is_at(s, fd))
		return -RSK_EKERNEL;
	if (n < 0 && n != -EAGAIN && n != -EINTR && n != -EFAULT && n != -RSK_EDRAIN)
		rsk_stream_ask_end(s, fd);
	/*
	 * A reset that the kernel has seen itself is reported by the kernel, to one of the
	 * processes that hold the socket.
	 */
	if (ended && rsk_peer_left_data(s) &&
	    !rsk_stream_is_aborted(s, rsk_stream_ends_shown(fd)) &&
	    rsk_stream_reset(s, fd, -ECONNRESET, true))
		return -ECONNRESET;
	if (ended && rsk_link_peer_gone(s->link))
		rsk_peer_is_dead(s);
	return n;
}

ssize_t rsk_stream_recv_now(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, bool peek,
			    bool look)
{
	return recv_now(s, fd, dst, peek, look, NULL);
}

/* ---- a call ---- */

/* MSG_TRUNC: the bytes are discarded, but counted; with MSG_PEEK, all there can be, at once. */
static ssize_t discard(struct rsk_stream *s, int fd, size_t want, bool peek, bool look)
{
	size_t most = peek ? PEEK_BYTES : SCRATCH_BYTES, len = want < most ? want : most;
	uint8_t *scratch = rsk_arena_alloc_raw(len);
	struct iovec iov = { scratch, len };
	struct rsk_iovcur cur;
	ssize_t n;

	if (!scratch)
		return -ENOMEM;
	rsk_iovcur_init(&cur, &iov, 1);
	n = rsk_stream_recv_now(s, fd, &cur, peek, look);
	rsk_arena_free(scratch);
	return n;
}

static size_t recv_target(struct rsk_stream *s, size_t len, int flags)
{
	size_t low = (size_t)atomic_load_explicit(&s->rcvlowat, memory_order_relaxed);

	if (flags & MSG_WAITALL)
		return len;
	return low < len ? low : len;
}

static ssize_t peek_now(struct rsk_stream *s, int fd, struct rsk_iovcur from, bool look)
{
	return rsk_stream_recv_now(s, fd, &from, true, look);
}

/*
 * The kernel knows of the end, or an error: all bytes before it are here, unless some are still to
 * come by the ring.
 */
static bool shows_end(struct rsk_stream *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	bool behind;

	if (rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) <= 0)
		return false;
	rsk_lock(&s->rx_lock);
	behind = s->link->remote && rsk_rx_end(&s->rx) == RSK_RX_END_BEHIND;
	rsk_unlock(&s->rx_lock);
	return !behind || (p.revents & POLLERR);
}

/*
 * Several processes hold the socket, and its next result is an error: the kernel reports it to one
 * call of one of them, and never to a call that has got bytes. If this call took it after its
 * bytes, this process alone would see it.
 */
static bool error_is_others(struct rsk_stream *s, int fd)
{
	bool unread;

	if ((!atomic_load_explicit(&s->fork.shared, memory_order_relaxed) && !rsk_over_is(s)) ||
	    !rsk_kernel_error_next(fd))
		return false;
	rsk_lock(&s->rx_lock);
	unread = rsk_over_unread(s);
	rsk_unlock(&s->rx_lock);
	return !unread;
}

/*
 * Waits as tcp_recvmsg() does: until @target bytes are there, or the end, an error, a signal, the
 * timeout; bytes received before those are returned first. @nothing_here: the fast path has just
 * found nothing, so a call that blocks waits before it looks again.
 */
static ssize_t recv_loop(struct rsk_stream *s, int fd, struct rsk_iovcur *cur, int flags,
			 bool nothing_here)
{
	bool peek = flags & MSG_PEEK, trunc = flags & MSG_TRUNC;
	bool dontwait = (flags & MSG_DONTWAIT) || rsk_stream_nonblock(s, fd);
	size_t len = cur->left, target = recv_target(s, len, flags), total = 0;
	struct rsk_wait w __attribute__((cleanup(rsk_wait_end)));
	bool look = false, ended = false, fast = nothing_here, skip;
	size_t round;
	ssize_t n = 0;

	w.active = false;

	for (;;) {
		if (total && !peek && error_is_others(s, fd))
			break;
		skip = nothing_here && !dontwait;
		round = rsk_rx_round_bytes(&s->rx); /* the lap may grow meanwhile */
		if (skip)
			n = -EAGAIN;
		else if (trunc)
			n = discard(s, fd, peek ? len : len - total, peek, look);
		else if (peek)
			n = peek_now(s, fd, *cur, look);
		else
			n = rsk_stream_recv_now(s, fd, cur, false, look);
		look = nothing_here = false;
		if (n > 0) {
			w.spins = 0;
			if (peek)
				total = (size_t)n;
			else
				total += (size_t)n;
			/* The round ended early, so that the sender gets credit: there is more. */
			if (total < len && (size_t)n >= round && !peek && !trunc &&
			    rsk_stream_stirs(s, RSK_WAKE_RX))
				continue;
			if (trunc && !peek && total < len)
				continue; /* one scratch buffer at a time: there may be more */
			if (total >= target || total == len)
				break;
			if (peek && (ended || !(flags & MSG_WAITALL)))
				break;
			/*
			 * The end is behind those bytes: peek once more, with all bytes that came
			 * before it.
			 */
			ended = peek && shows_end(s, fd);
			if (ended)
				continue;
		} else if ((n != -EAGAIN && n != -EINTR) || total >= target) {
			break; /* the end, an error; or all there was */
		} else if (!skip && atomic_load(&s->rd_shut)) {
			n = 0;
			break;
		}
		if (dontwait || (n > 0 && total >= target)) {
			n = n > 0 ? n : -EAGAIN;
			break;
		}
		if (rsk_stream_phase(s) == RSK_PHASE_UNTRACKED && !total && !s->rx.overread.len)
			return -RSK_EKERNEL;
		if (!w.active)
			rsk_wait_begin(&w, s, fd, RSK_WAKE_RX);
		w.peeked = peek ? total : 0;
		n = rsk_wait_more(&w);
		fd = w.fd;
		if (n == -ERESTART && !total)
			continue;
		if (n < 0)
			break;
		look = n > 0; /* the TCP socket changed */
		/* The ring has news; the way to the caller is short, and reads no request. */
		if (fast && !n && !total && !rsk_stream_requested(s)) {
			n = rsk_stream_recv_fast(s, fd, cur->v, cur->n, flags);
			if (n > 0)
				return n;
		}
	}
	if (!total)
		return n;
	rsk_stream_keep_error(s, n); /* for the next call: bytes came before it */
	return (ssize_t)total;
}

ssize_t rsk_stream_recv_more(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, ssize_t got,
			     size_t round)
{
	ssize_t n = got;

	if (!rsk_stream_pin(s))
		return got;
	while (dst->left && (size_t)n >= round && rsk_fd_names(fd, s) &&
	       rsk_stream_stirs(s, RSK_WAKE_RX) && !error_is_others(s, fd)) {
		n = rsk_stream_recv_now(s, fd, dst, false, false);
		if (n <= 0) {
			rsk_stream_keep_error(s, n);
			break;
		}
		got += n;
	}
	rsk_stream_unpin(s);
	return got;
}

/* A recv() of 0 bytes waits like any other and consumes nothing. */
static ssize_t recv_nothing(struct rsk_stream *s, int fd, int flags)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = recv_loop(s, fd, &cur, (flags & ~MSG_TRUNC) | MSG_PEEK, false);
	return n > 0 ? 0 : n;
}

ssize_t rsk_op_recv(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;

	if (!op->s)
		return -EBADF; /* one of the library's own fds */
	/* Urgent bytes and error messages never travel in the ring: they are on the TCP socket. */
	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		return -RSK_EKERNEL;
	rsk_iovcur_init(&cur, iov, iovcnt);
	if (!cur.left)
		return recv_nothing(op->s, op->fd, flags);
	return recv_loop(op->s, op->fd, &cur, flags, op->nothing_here);
}

ssize_t rsk_op_drain(struct rsk_op *op, struct rsk_drain *d, void *buf, size_t len)
{
	struct rsk_wait w __attribute__((cleanup(rsk_wait_end)));
	struct iovec iov = { buf, len };
	struct rsk_stream *s = op->s;
	struct rsk_iovcur cur;
	bool look = false, dontwait;
	int fd = op->fd;
	ssize_t n;

	if (!s)
		return -EBADF;
	dontwait = rsk_stream_nonblock(s, fd);
	w.active = false;
	for (;;) {
		rsk_iovcur_init(&cur, &iov, 1);
		n = recv_now(s, fd, &cur, false, look, d);
		if (n != -EAGAIN && n != -EINTR)
			return n;
		if (atomic_load(&s->rd_shut))
			return 0;
		if (dontwait)
			return -EAGAIN;
		if (rsk_stream_phase(s) == RSK_PHASE_UNTRACKED && !s->rx.overread.len)
			return -RSK_EKERNEL;
		if (!w.active)
			rsk_wait_begin(&w, s, fd, RSK_WAKE_RX);
		w.peeked = 0;
		n = rsk_wait_more(&w);
		fd = w.fd;
		if (n < 0 && n != -ERESTART)
			return n;
		look = n > 0; /* the TCP socket changed */
	}
}
