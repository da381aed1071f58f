// SPDX-License-Identifier: BSD-2-Clause
/*
 * fast_path.c - the fast path of send and receive: a call that finds everything as the last one
 * left it. The stream is paired and on the ring, no control word is new, and there is room for all
 * bytes in one slot, or bytes are there. It takes one lock, the direction's, and pins nothing. All
 * other cases return RSK_SLOW_PATH or less, and the call starts again in send.c or recv.c. The
 * hooks call it by way of engine.h.
 *
 * Why no pin is needed: a thread that frees a stream takes both of its locks after the last table
 * entry is removed (rsk_stream_quiesce()). The fast path reads its entry once more with the lock
 * held: if it got the lock first, the other thread waits for it; otherwise it synchronises with
 * that thread and sees that the entry has changed. The lock itself is always there, since streams
 * are type-stable and their locks are never initialised again (stream_alloc()).
 */
#include <errno.h>
#include <sys/socket.h>

#include "calls.h"
#include "engine.h"
#include "spin.h"
#include "stream.h"
#include "touch.h"
#include "wait.h"
#include "operator_request.h"

#define SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE)
#define RECV_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC)

/* The stream of a table word if it is paired, or was; otherwise NULL. */
static inline struct rsk_stream *paired_at(uintptr_t w)
{
	struct rsk_stream *s = rsk_fd_object(w);

	if ((w & RSK_FD_MASK) != RSK_FD_TRACKED || w == RSK_FD_OWN ||
	    rsk_stream_phase(s) != RSK_PHASE_PAIRED)
		return NULL;
	return s;
}

/* One of its direction locks is held. */
static inline bool is_here(const struct rsk_stream *s, int fd, uintptr_t w)
{
	return rsk_fd_word(fd) == w && rsk_stream_phase(s) == RSK_PHASE_PAIRED &&
	       !rsk_stream_failed(s) &&
	       !atomic_load_explicit(&s->fallback_due, memory_order_relaxed);
}

/*
 * @lock is held, and released here: before a sleeper is woken, before the receiver's control word
 * that was written after our slot is processed (@fresh; it may have fallen back), and before an
 * operator request is read. If the stream is closed at this moment, only the lock keeps it: its
 * sleepers are woken with the lock held, and goodbye processes the control word.
 */
static __attribute__((noinline)) void
unlock_and_tell(struct rsk_stream *s, int fd, struct rsk_lock *lock, uint64_t doorbells, bool fresh)
{
	bool pinned = rsk_stream_pin(s);
	bool asks = lock == &s->tx_lock && !(s->tx.ring.slots % RSK_REQUEST_SLOTS);

	rsk_sigdefer_enter();
	if (pinned)
		rsk_unlock(lock);
	if (doorbells)
		rsk_stream_ring_doorbells(s, doorbells);
	if (!pinned)
		rsk_unlock(lock);
	rsk_sigdefer_exit();
	if (!pinned)
		return;
	if (fresh)
		rsk_stream_serve(s, fd);
	rsk_stream_check_request(s, fd);
	if (asks && rsk_stream_is_at(s, fd))
		rsk_stream_ask_end(s, fd);
	rsk_stream_unpin(s);
}

ssize_t rsk_fast_path_send(int fd, const struct iovec *iov, int n, int flags)
{
	uintptr_t w = rsk_fd_word(fd);
	struct rsk_stream *s = paired_at(w);
	struct rsk_iovcur src;
	uint64_t doorbells;
	ssize_t sent;
	bool fresh;

	if (!s || (flags & ~SEND_FLAGS) || !rsk_trylock(&s->tx_lock))
		return RSK_SLOW_PATH;
	rsk_iovcur_init(&src, iov, n);
	if (!is_here(s, fd, w) || atomic_load_explicit(&s->wr_shut, memory_order_relaxed) ||
	    (sent = rsk_tx_send_whole(&s->tx, &src)) <= 0) {
		rsk_unlock(&s->tx_lock);
		return RSK_SLOW_PATH;
	}
	s->full.since_ns = 0;
	rsk_stats_add(&s->rec->tx_ring_bytes, (uint64_t)sent);
	s->rec->tx_slots = s->tx.ring.slots;
	rsk_stream_publish_cpu(s);
	/* Has a fence: orders our slot before this read of the receiver's control word. */
	doorbells = rsk_stream_due(s, RSK_WAKE_RX);
	fresh = rsk_control_word_fresh(s->tx.answer.at, rsk_tx_answer_seen(&s->tx));
	if (__builtin_expect(doorbells || fresh || !(s->tx.ring.slots % RSK_REQUEST_SLOTS), 0))
		unlock_and_tell(s, fd, &s->tx_lock, doorbells, fresh);
	else
		rsk_unlock(&s->tx_lock);
	return sent;
}

/*
 * The ring is empty: -EAGAIN if that may be returned without a check of the TCP socket. rx_lock is
 * held.
 */
static inline ssize_t nothing_here(struct rsk_stream *s, int flags)
{
	if (!rsk_rx_on_fast_path(&s->rx) || s->rx.tcp.eof || s->rx.tcp.err ||
	    atomic_load_explicit(&s->rd_shut, memory_order_relaxed) ||
	    atomic_load_explicit(&s->tcp_news, memory_order_relaxed))
		return RSK_SLOW_PATH;
	if (!(flags & MSG_DONTWAIT) && !atomic_load_explicit(&s->nonblock, memory_order_relaxed))
		return RSK_NOTHING_HERE;
	return ++s->empty_looks < RSK_EMPTY_LOOKS ? -EAGAIN : RSK_SLOW_PATH;
}

/*
 * The sender has moved to TCP after @got bytes: what is on the TCP socket counts as here as well.
 * rx_lock is held.
 */
static __attribute__((noinline)) ssize_t recv_rest(struct rsk_stream *s, int fd,
						   struct rsk_iovcur *dst, size_t got)
{
	struct rsk_kernel_tcp k;
	ssize_t all;

	rsk_kernel_tcp_init(&k, s, fd);
	all = rsk_rx_recv_rest(&s->rx, &k.c, dst, got);
	rsk_stream_note(s, false, RSK_REASON_PEER_FELL_BACK);
	return all;
}

static inline ssize_t result(ssize_t got)
{
	if (__builtin_expect(got > 0, 1))
		return got;
	return got == -EAGAIN || got == RSK_NOTHING_HERE ? got : RSK_SLOW_PATH;
}

/* @w: the table's word of @fd, which leads to @s, or led. */
static inline __attribute__((always_inline)) ssize_t
recv_at(struct rsk_stream *s, int fd, uintptr_t w, const struct iovec *iov, int n, int flags)
{
	struct rsk_iovcur dst;
	uint64_t bytes, credit, retries, doorbells = 0;
	size_t round = SIZE_MAX; /* of so many bytes, with room for more, it ended early */
	uint32_t lap;
	ssize_t got;

	if (!s || (flags & ~RECV_FLAGS) || !rsk_trylock(&s->rx_lock))
		return RSK_SLOW_PATH;
	rsk_iovcur_init(&dst, iov, n);
	if (!is_here(s, fd, w) || !rsk_rx_on_fast_path(&s->rx) || !dst.left ||
	    atomic_load_explicit(&s->rcvlowat, memory_order_relaxed) > 1) {
		rsk_unlock(&s->rx_lock);
		return RSK_SLOW_PATH;
	}
	bytes = s->rx.ring_bytes;
	credit = s->rx.credit.sent;
	retries = s->rx.ring.retries;
	lap = s->rx.ring.lap_cells;
	got = rsk_rx_recv_ring(&s->rx, &dst);
	if (__builtin_expect(got > 0 && dst.left && s->rx.state != RSK_RX_ONRING, 0)) {
		got = recv_rest(s, fd, &dst, (size_t)got);
		doorbells = rsk_stream_due(s, RSK_WAKE_TX);
	}
	if (s->rx.ring.retries != retries)
		rsk_stats_add(&s->rec->hash_retries, s->rx.ring.retries - retries);
	if (got > 0) {
		s->empty_looks = 0;
		rsk_stats_add(&s->rec->rx_ring_bytes, s->rx.ring_bytes - bytes);
		s->rec->rx_slots = s->rx.ring.slots;
		if (dst.left)
			round = rsk_rx_round_bytes_of(lap, &s->rx);
	} else if (!got && !rsk_touch_never(iov->iov_base)) {
		got = nothing_here(s, flags);
	} else if (got == -EPROTO) {
		rsk_stream_fail(s, fd);
	}
	if (s->rx.credit.sent != credit) {
		if (rsk_stream_enough_room(s))
			doorbells |= rsk_stream_due(s, RSK_WAKE_TX);
		if (rsk_stream_requested(s)) {
			unlock_and_tell(s, fd, &s->rx_lock, doorbells, false);
			return result(got);
		}
	}
	if (__builtin_expect(doorbells != 0, 0))
		unlock_and_tell(s, fd, &s->rx_lock, doorbells, false);
	else
		rsk_unlock(&s->rx_lock);
	if (__builtin_expect(got > 0 && (size_t)got >= round, 0))
		return rsk_stream_recv_more(s, fd, &dst, got, round);
	return result(got);
}

ssize_t rsk_fast_path_recv(int fd, const struct iovec *iov, int n, int flags)
{
	uintptr_t w = rsk_fd_word(fd);

	return recv_at(paired_at(w), fd, w, iov, n, flags);
}

ssize_t rsk_stream_recv_fast(struct rsk_stream *s, int fd, const struct iovec *iov, int n,
			     int flags)
{
	uintptr_t w = rsk_fd_word(fd);

	return recv_at(paired_at(w) == s ? s : NULL, fd, w, iov, n, flags);
}
