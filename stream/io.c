// SPDX-License-Identifier: BSD-2-Clause
/* io.c - receive, send, shutdown on a joined stream: what a TCP socket promises, over two carriers. */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "arena.h"
#include "engine.h"
#include "epoll.h"
#include "owner.h"
#include "stream.h"
#include "wait.h"

#define REPROPOSE_WORK 32
#define WORTH_RINGS 4
#define EMPTY_LOOKS 8
#define SCRATCH_BYTES 65536

static void notify(struct rsk_stream *s, uint32_t what)
{
	s->link->shm.rail.ops->notify(&s->link->shm.rail, s->sid, what);
}

/*
 * The stream's ordinary end goes by way of the companion, which is no demotion. A hint is good enough for the
 * record.
 */
static bool ends(const struct rsk_stream *s, bool tx)
{
	return s->tx.peer_closed || s->tx.answer->what == RSK_RX_CLOSED || (tx && s->tx.fin);
}

/* Tell the record of what changed since the last time, in whatever call that was. The direction's lock is held. */
void rsk_stream_note(struct rsk_stream *s, bool tx, enum rsk_reason cause)
{
	uint32_t p = tx ? s->tx.promotions : s->rx.promotions;
	uint32_t d = tx ? s->tx.demotions : s->rx.demotions;
	struct rsk_noted *noted = &s->noted[tx];
	uint64_t now = p != noted->promotions || d != noted->demotions ? rsk_now_ns() : 0;

	while (noted->promotions != p || noted->demotions != d) {
		if (noted->promotions != p && noted->promotions == noted->demotions) {
			rsk_stats_event(s->rec, now,
					tx ? RSK_EVENT_PROMOTED_TX : RSK_EVENT_PROMOTED_RX,
					RSK_REASON_DIRECT);
			rsk_stats_set_reason(s->rec, RSK_REASON_DIRECT);
			noted->promotions++;
		} else if (noted->demotions != d) {
			if (!ends(s, tx))
				rsk_stats_event(s->rec, now,
						tx ? RSK_EVENT_DEMOTED_TX : RSK_EVENT_DEMOTED_RX,
						cause);
			noted->demotions++;
		} else {
			noted->promotions++; /* cannot be: one follows the other */
		}
	}
}

static void publish_cpu(struct rsk_stream *s)
{
	struct rsk_shm_ctl *ctl = rsk_shm_own_ctl(&s->link->shm, s->sid);
	uint32_t cpu = (uint32_t)sched_getcpu() + 1;

	if (atomic_load_explicit(&ctl->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&ctl->cpu, cpu, memory_order_relaxed);
}

/* The peer may only have shut its sending half: does any process still hold its socket? */
static bool peer_is_gone(const struct rsk_stream *s)
{
	struct rsk_tuple end = rsk_tuple_mirror(&s->tuple);
	struct rsk_owner owner;
	int rc = rsk_owner_lookup(&end, &owner);

	return rc == -ENOENT || (rc == 0 && !owner.inode);
}

/* Our data slots that the peer's reader never took: it reset the stream (RFC 1122 4.2.2.13). */
static bool peer_left_data(struct rsk_stream *s)
{
	struct rsk_rail *rail = &s->link->shm.rail;
	uint64_t consumed = 0, owed;
	bool had;

	rsk_lock(&s->tx_lock);
	owed = s->tx.ring.data_end;
	had = s->tx.promotions && (s->tx.state == RSK_TX_ONRING || !s->tx.peer_left);
	rsk_unlock(&s->tx_lock);
	if (!had)
		return false;
	rail->ops->get(rail, rsk_shm_ctl_off(s->sid) + offsetof(struct rsk_shm_ctl, consumed),
		       &consumed, sizeof(consumed), 0);
	return consumed < owed && peer_is_gone(s);
}

/* ---- receive ---- */

ssize_t rsk_stream_recv_now(struct rsk_stream *s, int fd, struct rsk_iovcur *dst, bool peek,
			    bool look)
{
	struct rsk_kernel_companion k;
	uint64_t ring0, cells0, retries0;
	uint32_t gen0;
	ssize_t n;

	if (s->failed)
		return -ECONNRESET;
	rsk_companion_init(&k, s, fd);
	rsk_lock(&s->rx_lock);
	ring0 = s->rx.ring_bytes;
	cells0 = s->rx.credit_sent;
	gen0 = s->rx.gen;
	retries0 = s->rx.ring.retries;
	look = look || atomic_load_explicit(&s->companion_news, memory_order_relaxed);
	if (!look && ++s->empty_looks >= EMPTY_LOOKS) {
		look = true;
		s->empty_looks = 0;
	}
	n = rsk_rx_recv(&s->rx, &k.c, dst, peek, look);
	if (n > 0)
		s->empty_looks = 0;
	rsk_stream_note(s, false, RSK_REASON_PEER_LEFT);
	if (s->rx.ring_bytes != ring0)
		rsk_stats_add(&s->rec->rx_ring_bytes, s->rx.ring_bytes - ring0);
	if (s->rx.ring.retries != retries0)
		rsk_stats_add(&s->rec->hash_retries, s->rx.ring.retries - retries0);
	s->rec->rx_slots = s->rx.ring.slots;
	cells0 = s->rx.credit_sent - cells0;
	gen0 = s->rx.gen - gen0;
	if (n == -EPROTO)
		rsk_stream_fail(s, fd);
	if (n == -ECONNRESET)
		s->reset_told = true;
	rsk_unlock(&s->rx_lock);
	if (cells0 || gen0)
		notify(s, RSK_WAKE_TX);
	if (n == -EPROTO)
		return -ECONNRESET;
	if (n == 0 && dst->left && !peek && !s->rx.fin && !s->reset_told && peer_left_data(s)) {
		/* Once, as the kernel tells a reset; after that it is the end, and EPIPE. */
		s->reset_told = true;
		rsk_lock(&s->tx_lock);
		s->tx.peer_closed = true;
		s->tx.state = RSK_TX_TCP;
		rsk_unlock(&s->tx_lock);
		atomic_store(&s->wr_shut, 1);
		rsk_epoll_stream_event(s); /* who waits for room need not any longer */
		return -ECONNRESET;
	}
	return n;
}

/* MSG_TRUNC: the bytes are thrown away, but counted. */
static ssize_t discard(struct rsk_stream *s, int fd, size_t want, bool peek, bool look)
{
	uint8_t *scratch = rsk_arena_alloc(SCRATCH_BYTES);
	struct iovec iov = { scratch, want < SCRATCH_BYTES ? want : SCRATCH_BYTES };
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

/*
 * Waits as tcp_recvmsg() does: until @target bytes are there, or the end, an error, a signal, the timeout; what
 * was received before those is returned first.
 */
static ssize_t recv_loop(struct rsk_stream *s, int fd, struct rsk_iovcur *cur, int flags)
{
	bool peek = flags & MSG_PEEK, trunc = flags & MSG_TRUNC;
	bool dontwait = (flags & MSG_DONTWAIT) || atomic_load(&s->nonblock);
	size_t len = cur->left, target = recv_target(s, len, flags), total = 0;
	struct rsk_wait w __attribute__((cleanup(rsk_wait_end))) = { 0 };
	bool look = false;
	ssize_t n;

	for (;;) {
		if (trunc) {
			n = discard(s, fd, peek ? len : len - total, peek, look);
		} else {
			struct rsk_iovcur from = *cur;

			n = rsk_stream_recv_now(s, fd, peek ? &from : cur, peek, look);
		}
		look = false;
		if (n > 0) {
			if (peek)
				total = (size_t)n;
			else
				total += (size_t)n;
			if (total >= target || total == len)
				break;
			if (peek && !(flags & MSG_WAITALL))
				break;
			if (trunc && !peek)
				continue; /* a scratch full at a time: there may be more */
		} else if (n != -EAGAIN && n != -EINTR) {
			break; /* the end, an error */
		} else if (atomic_load(&s->rd_shut)) {
			n = 0;
			break;
		}
		if (dontwait || (n > 0 && total >= target)) {
			n = n > 0 ? n : -EAGAIN;
			break;
		}
		if (rsk_stream_phase(s) == RSK_PHASE_COLD && !total && !s->rx.hold_len)
			return -RSK_EKERNEL;
		if (!w.active) {
			rsk_wait_begin(&w, s, fd, RSK_WAKE_RX);
			fd = w.fd;
		}
		n = rsk_wait_more(&w);
		if (n == -ERESTART && !total)
			continue;
		if (n < 0)
			break;
		look = n > 0; /* the companion stirred */
	}
	return total ? (ssize_t)total : n;
}

/* recv() of no bytes waits like any other and takes nothing. */
static ssize_t recv_nothing(struct rsk_stream *s, int fd, int flags)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };
	struct rsk_iovcur cur;
	ssize_t n;

	rsk_iovcur_init(&cur, &iov, 1);
	n = recv_loop(s, fd, &cur, (flags & ~MSG_TRUNC) | MSG_PEEK);
	return n > 0 ? 0 : n;
}

ssize_t rsk_op_recv(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_iovcur cur;

	if (!op->s)
		return -EBADF; /* one of our own fds */
	/* Urgent bytes and error messages never travel in the ring: they are the companion's. */
	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		return -RSK_EKERNEL;
	rsk_iovcur_init(&cur, iov, iovcnt);
	publish_cpu(op->s);
	if (!cur.left)
		return recv_nothing(op->s, op->fd, flags);
	return recv_loop(op->s, op->fd, &cur, flags);
}

/* ---- send ---- */

static void maybe_propose(struct rsk_stream *s)
{
	uint64_t work = atomic_load_explicit(&s->work, memory_order_relaxed);

	if (s->tx.state != RSK_TX_TCP || s->tx.peer_left || s->tx.gave_up ||
	    work < s->repropose_work || atomic_load_explicit(&rsk_stopped, memory_order_relaxed) ||
	    !rsk_stream_sole_process(s))
		return;
	if (rsk_tx_propose(&s->tx) == 0)
		notify(s, RSK_WAKE_RX);
	s->repropose_work = work + REPROPOSE_WORK;
}

/* tx_lock held. The ring is full: since when without progress? */
static bool full_too_long(struct rsk_stream *s)
{
	uint64_t now = rsk_now_ns();

	if (!s->tx_full_ns || s->tx_full_credit != s->tx.ring.credit) {
		s->tx_full_ns = now;
		s->tx_full_credit = s->tx.ring.credit;
		return false;
	}
	return now >= rsk_stream_full_until(s);
}

/* tx_lock held. */
static void move_because_full(struct rsk_stream *s, struct rsk_companion *c)
{
	if (rsk_tx_move(&s->tx, c) < 0)
		return;
	s->tx_full_ns = 0;
	/* A promotion that carried much was worth it: the next one does not wait long. */
	if (s->tx.pos - s->tx.start_pos >=
	    WORTH_RINGS * (uint64_t)s->tx.ring.cells * RSK_CELL_BYTES)
		s->ring_full_moves = 0;
	s->ring_full_moves += s->ring_full_moves < 10;
	s->repropose_work =
		atomic_load(&s->work) + ((uint64_t)REPROPOSE_WORK << s->ring_full_moves);
	rsk_stream_note(s, true, RSK_REASON_RING_FULL);
}

/* The socket's error is told once, to whichever call comes first; looking at the companion has taken it. */
static ssize_t pending_error(struct rsk_stream *s, ssize_t n)
{
	rsk_lock(&s->rx_lock);
	if (s->rx.tcp_err) {
		n = s->rx.tcp_err;
		s->rx.tcp_err = 0;
		s->rx.tcp_eof = true;
	}
	if (n == -ECONNRESET)
		s->reset_told = true;
	rsk_unlock(&s->rx_lock);
	return n;
}

ssize_t rsk_stream_send_now(struct rsk_stream *s, int fd, struct rsk_iovcur *src, int flags)
{
	struct rsk_kernel_companion k;
	uint64_t ring0;
	bool on_ring;
	ssize_t n;

	if (s->failed)
		return -ECONNRESET;
	rsk_companion_init(&k, s, fd);
	if (rsk_lock(&s->tx_lock))
		rsk_tx_recover(&s->tx);
	ring0 = s->tx.ring_bytes;
	n = rsk_tx_send(&s->tx, &k.c, src, flags);
	on_ring = s->tx.state == RSK_TX_ONRING;
	if (n == -EAGAIN && on_ring) {
		if (full_too_long(s)) {
			move_because_full(s, &k.c);
			n = rsk_tx_send(&s->tx, &k.c, src, flags);
			on_ring = false;
		}
	} else if (on_ring) {
		s->tx_full_ns = 0;
	}
	rsk_stream_note(s, true, RSK_REASON_PEER_LEFT);
	if (s->tx.ring_bytes != ring0)
		rsk_stats_add(&s->rec->tx_ring_bytes, s->tx.ring_bytes - ring0);
	s->rec->tx_slots = s->tx.ring.slots;
	if (n > 0 && s->tx.state == RSK_TX_TCP)
		maybe_propose(s);
	if (n == -EPROTO)
		rsk_stream_fail(s, fd);
	rsk_unlock(&s->tx_lock);
	if (n == -EPIPE || n == -ECONNRESET)
		n = pending_error(s, n);
	if (on_ring) {
		notify(s, RSK_WAKE_RX);
		/* The fence in notify() orders our slot before this look: was "leave" said meanwhile? */
		if (rsk_mail_fresh(s->tx.answer, s->tx.answer_seen))
			rsk_stream_serve(s, fd);
	}
	return n == -EPROTO ? -ECONNRESET : n;
}

/* Some bytes were taken before the error: it is told at the next call. */
static void keep_error(struct rsk_stream *s, ssize_t n)
{
	if (n != -ECONNRESET && n != -ETIMEDOUT)
		return;
	rsk_lock(&s->rx_lock);
	s->rx.tcp_err = (int)n;
	s->reset_told = false;
	rsk_unlock(&s->rx_lock);
}

static ssize_t send_failed(ssize_t n, int flags)
{
	if (n == -EPIPE && !(flags & MSG_NOSIGNAL))
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), SIGPIPE);
	return n;
}

ssize_t rsk_op_send(struct rsk_op *op, const struct iovec *iov, int iovcnt, int flags)
{
	struct rsk_stream *s = op->s;
	struct rsk_iovcur cur;
	struct rsk_wait w __attribute__((cleanup(rsk_wait_end))) = { 0 };
	bool dontwait;
	size_t total = 0;
	ssize_t n = 0;
	int fd = op->fd;

	if (!s)
		return -EBADF;
	if (flags & (MSG_OOB | MSG_ZEROCOPY | MSG_FASTOPEN)) {
		rsk_fd_leave(op->fd, flags & MSG_OOB ? RSK_REASON_OOB : RSK_REASON_ZEROCOPY);
		return -RSK_EKERNEL;
	}
	rsk_iovcur_init(&cur, iov, iovcnt);
	if (!cur.left)
		return -RSK_EKERNEL; /* TCP sends nothing, but tells a pending error */
	publish_cpu(s);
	dontwait = (flags & MSG_DONTWAIT) || atomic_load(&s->nonblock);
	for (;;) {
		if (atomic_load_explicit(&s->wr_shut, memory_order_relaxed)) {
			n = -EPIPE;
			break;
		}
		n = rsk_stream_send_now(s, fd, &cur,
					flags & (MSG_MORE | MSG_DONTROUTE | MSG_CONFIRM));
		if (n > 0) {
			total += (size_t)n;
			if (!cur.left)
				break;
			continue;
		}
		if (n != -EAGAIN && n != -EINTR)
			break;
		if (dontwait) {
			rsk_stream_want_room(s);
			/* Room may have come between the try and the wish. */
			n = rsk_stream_send_now(s, fd, &cur, flags & MSG_MORE);
			if (n <= 0)
				break;
			total += (size_t)n;
			if (!cur.left)
				break;
			continue;
		}
		if (!w.active) {
			rsk_wait_begin(&w, s, fd, RSK_WAKE_TX);
			fd = w.fd;
		}
		n = rsk_wait_more(&w);
		if (n == -ERESTART && !total)
			continue;
		if (n < 0)
			break;
	}
	if (total) {
		keep_error(s, n);
		return (ssize_t)total;
	}
	return send_failed(n, flags);
}

/* ---- the rest ---- */

void rsk_stream_serve(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_companion k;
	uint32_t p0, gen0, rc = 0;

	if (fd < 0 || s->failed)
		return;
	rsk_companion_init(&k, s, fd);
	if (rsk_trylock(&s->tx_lock)) {
		p0 = s->tx.promotions;
		if (rsk_tx_serve(&s->tx, &k.c) == -EPROTO)
			rsk_stream_fail(s, fd);
		rsk_stream_note(s, true, RSK_REASON_PEER_LEFT);
		rc |= s->tx.promotions != p0 ? RSK_WAKE_RX : 0;
		rsk_unlock(&s->tx_lock);
	}
	if (rsk_trylock(&s->rx_lock)) {
		gen0 = s->rx.gen;
		if (rsk_rx_serve(&s->rx, &k.c) == -EPROTO)
			rsk_stream_fail(s, fd);
		rsk_stream_note(s, false, RSK_REASON_PEER_LEFT);
		rc |= s->rx.gen != gen0 ? RSK_WAKE_TX : 0;
		rsk_unlock(&s->rx_lock);
	}
	if (rc)
		notify(s, rc);
}

bool rsk_stream_relieve(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_companion k;
	bool moved = false;

	rsk_companion_init(&k, s, fd);
	rsk_lock(&s->tx_lock);
	rsk_tx_serve(&s->tx, &k.c);
	if (s->tx.state == RSK_TX_ONRING && !rsk_tx_writable(&s->tx) && full_too_long(s)) {
		move_because_full(s, &k.c);
		moved = true;
	}
	rsk_unlock(&s->tx_lock);
	if (moved)
		notify(s, RSK_WAKE_RX);
	return moved;
}

int rsk_op_shutdown(struct rsk_op *op, int how)
{
	struct rsk_stream *s = op->s;
	struct rsk_kernel_companion k;
	int rc;

	if (!s)
		return -EBADF;
	rsk_companion_init(&k, s, op->fd);
	rsk_lock(&s->tx_lock);
	if (how != SHUT_RD)
		rsk_tx_serve(&s->tx, &k.c);
	/* The kernel's FIN first: who is told of the end by the ring finds the socket in that state. */
	rc = rsk_sys_shutdown(op->fd, how);
	if (rc == 0 && how != SHUT_RD) {
		atomic_store(&s->wr_shut, 1);
		rsk_tx_fin(&s->tx, &k.c);
	}
	rsk_unlock(&s->tx_lock);
	if (rc == 0 && how != SHUT_WR)
		atomic_store(&s->rd_shut, 1);
	notify(s, RSK_WAKE_RX);
	return rc;
}

void rsk_op_inq(struct rsk_op *op, int *value)
{
	struct rsk_stream *s = op->s;
	uint64_t n;

	if (!s)
		return;
	rsk_stream_serve(s, op->fd); /* a ring that was announced counts from now on */
	rsk_lock(&s->rx_lock);
	n = rsk_rx_pending(&s->rx);
	rsk_unlock(&s->rx_lock);
	*value = (int)(n + (uint64_t)*value < INT32_MAX ? n + (uint64_t)*value : INT32_MAX);
}

/*
 * SIOCOUTQ counts what the peer's kernel has not got yet, read or not: on a fabric where a put has landed when it
 * returns that is nothing.
 */
void rsk_op_outq(struct rsk_op *op, int *value)
{
	struct rsk_stream *s = op->s;
	uint64_t n = 0;

	if (!s || (s->link->shm.rail.ops->caps & RSK_FABRIC_SYNC))
		return;
	rsk_lock(&s->tx_lock);
	if (s->tx.state == RSK_TX_ONRING && s->tx.ring.data_end > s->tx.ring.credit)
		n = (s->tx.ring.data_end - s->tx.ring.credit) * RSK_CELL_BYTES;
	if (n > s->tx.pos - s->tx.start_pos)
		n = s->tx.pos - s->tx.start_pos;
	rsk_unlock(&s->tx_lock);
	*value += (int)n;
}

void rsk_op_tcp_info(struct rsk_op *op, struct tcp_info *ti, unsigned int len)
{
	rsk_tcp_info_add(ti, len, op->s);
}
