/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - one end of a TCP connection as the engine sees it. Internal to stream/; every folder
 * above socket/ uses it. What it consists of: stream_state.h.
 */
#ifndef RSK_STREAM_H
#define RSK_STREAM_H

#include <poll.h>

#include "tcp_socket.h"
#include "engine.h"
#include "knobs.h"
#include "process.h"
#include "stamps.h"
#include "stream_state.h"

/* 16 bits each; a call that finds them full is counted in plain.rx, plain.tx. */
#define RSK_PLAIN_RX_SHIFT 32
#define RSK_PLAIN_TX_SHIFT 48

/* Whether a thread is inside a plain kernel wait. seq_cst: called after the phase was set. */
static inline bool rsk_stream_plain(const struct rsk_stream *s, bool tx)
{
	return (uint16_t)(atomic_load(&s->refs) >>
			  (tx ? RSK_PLAIN_TX_SHIFT : RSK_PLAIN_RX_SHIFT)) ||
	       atomic_load(tx ? &s->plain.tx : &s->plain.rx);
}

/* Number of fds and calls under way. */
static inline uint32_t rsk_stream_holders(const struct rsk_stream *s)
{
	return (uint32_t)atomic_load(&s->refs);
}

/*
 * The real TCP socket: the fd of the caller, or of the table. On the stack of the thread that works
 * on the stream.
 */
struct rsk_kernel_tcp {
	struct rsk_tcp c;
	struct rsk_stream *s;
	/* Its recv takes only what precedes the ring, and nothing of the overread file. */
	bool socket_alone;
};

void rsk_kernel_tcp_init(struct rsk_kernel_tcp *k, struct rsk_stream *s, int fd);

/*
 * Bytes ever written to a TCP socket, ours or a copy of the peer's. 0 or -errno; -EAGAIN: the count
 * is changing.
 */
int rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos);

/* Bytes that the peer's kernel has not acknowledged yet; 0: none, or not known. */
uint32_t rsk_kernel_unacked(int fd);

/*
 * Bytes ever received, read or not. Returns 0; 1: and no more come, since the peer has sent its FIN
 * or the connection is over (a shutdown of this end's own is neither); or -errno.
 */
int rsk_kernel_received(int fd, uint64_t *pos);

struct rsk_positions {
	uint64_t tx, rx; /* bytes ever written, and read */
	bool connecting_side;
};

/*
 * The positions of a connection of which the library has seen nothing. 0; -ENOTCONN: it is not
 * established, or has ended in one direction; -EOPNOTSUPP: it cannot be told (a segment was sent
 * twice, TCP Fast Open, Linux before 4.19); another -errno.
 */
int rsk_kernel_positions(int fd, struct rsk_positions *out);

/* True if neither end has closed the connection, as far as this host knows. */
bool rsk_kernel_established(int fd);

/*
 * rsk_kernel_is_tcp - whether @fd is a TCP socket. rsk_kernel_speaks_tcp - whether its protocol is
 * TCP (it may be a raw socket). False where that cannot be determined.
 */
bool rsk_kernel_is_tcp(int fd);
bool rsk_kernel_speaks_tcp(int fd);

/*
 * Checks options that were set before the library knew the stream (on its listener, before exec)
 * and that a ring cannot provide. Returns the reason to stay on TCP, or RSK_REASON_DIRECT.
 */
enum rsk_reason rsk_kernel_refuses(int fd, enum rsk_stamps stamps);
/* The same, and those that a hook would have seen, had the program set them itself. */
bool rsk_kernel_unfit(int fd);
bool rsk_kernel_nonblock(int fd);
bool rsk_kernel_has_zerocopy(int fd); /* SO_ZEROCOPY, without which MSG_ZEROCOPY is ignored */
/* True: the next recv would return an error, and no bytes. The error stays pending. */
bool rsk_kernel_error_next(int fd);

/* The same for a stream. If another process may have changed the flag, the kernel is asked. */
static inline bool rsk_stream_nonblock(const struct rsk_stream *s, int fd)
{
	return rsk_kin_shares(&s->fork.kin) ? rsk_kernel_nonblock(fd) : atomic_load(&s->nonblock);
}

/* Calls that moved bytes, plus one for every RSK_WORK_BYTES: the measure by which steps are due. */
static inline uint64_t rsk_stream_work(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->work.calls, memory_order_relaxed) +
	       atomic_load_explicit(&s->work.more, memory_order_relaxed);
}

static inline uint32_t rsk_stream_phase(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->phase, memory_order_acquire);
}

/* stream.c: objects */
/* @peer: the tuple's other end, NULL: not known. */
struct rsk_stream *rsk_stream_new(int fd, bool connecting_side, bool nonblock,
				  const struct rsk_tuple *peer);
/* writes its addresses into its record, once */
void rsk_stream_name(struct rsk_stream *s, int fd);
int rsk_stream_learn(struct rsk_stream *s, int fd); /* 0, -EOPNOTSUPP: no TCP socket, -errno */
/* called when no reference is left: rsk_stream_unpin() */
void rsk_stream_free(struct rsk_stream *s);

/* Takes a reference. False: the stream is dead. */
/*
 * A load (acquire) behind it is not executed before it: seq_cst (anew.c).
 */
static inline bool rsk_stream_pin(struct rsk_stream *s)
{
	uint64_t n = atomic_load_explicit(&s->refs, memory_order_relaxed);

	while ((uint32_t)n)
		if (atomic_compare_exchange_weak_explicit(&s->refs, &n, n + 1, memory_order_seq_cst,
							  memory_order_relaxed))
			return true;
	return false;
}

/* @by: 1, plus the unit of its plain count if the pin counted as a plain wait. */
static inline void rsk_stream_unpin_by(struct rsk_stream *s, uint64_t by)
{
	if (atomic_fetch_sub_explicit(&s->refs, by, memory_order_acq_rel) == by)
		rsk_stream_free(s);
}

static inline void rsk_stream_unpin(struct rsk_stream *s)
{
	rsk_stream_unpin_by(s, 1);
}

/*
 * Waits until every thread that found an entry of the stream before (fast_path.c) is done with it;
 * no entry leads to it any more.
 */
void rsk_stream_quiesce(struct rsk_stream *s);
struct rsk_stream *rsk_stream_of(int fd); /* pinned, tracked or untracked; NULL: none */
/*
 * Whether @fd, whose entry leads to @s (pinned), still leads to its socket in the kernel. If not,
 * the entry is removed, and the call is the kernel's: -RSK_EKERNEL. Makes a system call: use it
 * where one is made anyway.
 */
bool rsk_stream_is_at(struct rsk_stream *s, int fd);
/*
 * Whether no other process holds it; takes in their messages if one may. Of a socket that came
 * through exec it is not known before rsk_inherited_look(). Its locks may be held.
 */
bool rsk_stream_sole_process(struct rsk_stream *s);
void rsk_fd_name_all(void);    /* writes the addresses of all open streams into the statistics */
void rsk_streams_forked(void); /* in the child: resets the process-wide state of streams */
/*
 * In the child: gives the stream a record of its own; @why it goes by TCP for good, or
 * RSK_REASON_DIRECT.
 */
void rsk_stream_record_anew(struct rsk_stream *s, enum rsk_reason why);
uint32_t rsk_stream_count_fds(struct rsk_stream *s); /* of this process */
/* checks that every entry leads to a stream that counts it; for the property tests */
bool rsk_fdtab_validate(void);
int rsk_stream_find_fd(struct rsk_stream *s); /* an fd of this process; -1: none */
/* Gives the stream up: its calls go to the kernel. */
void rsk_stream_untrack(struct rsk_stream *s, enum rsk_reason why);
/* Another process has the peer's end by now (segment.h; between hosts: handshake.h, LEFT). */
static inline bool rsk_stream_peer_left(const struct rsk_stream *s)
{
	if (!s->link || s->link->remote)
		return s->link && atomic_load(&s->fork.peer_left);
	return atomic_load_explicit(&rsk_seg_peer_ctl(&s->link->seg, s->sid)->left,
				    memory_order_acquire);
}

/* Takes a stream that nobody uses out of its link, whose sid is free then. */
void rsk_stream_unpair(struct rsk_stream *s);

static inline bool rsk_stream_failed(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->failed, memory_order_relaxed);
}

/* abort.c */
void rsk_stream_fail(struct rsk_stream *s, int fd); /* the peer violated the protocol */
/*
 * The same for all processes that hold the socket, also where only the kernel is seen: the
 * connection is reset, and what is unread is discarded.
 */
void rsk_stream_abort(struct rsk_stream *s, int fd);
/*
 * Records a reset with error @err (-errno) that the kernel has not seen: it is reported once; after
 * that receives find the end, and sends get EPIPE. Shuts the TCP socket both ways, so that the
 * kernel shows it like a socket whose reset was reported: POLLHUP, and edges of it.
 *
 * @told: the call under way reports the error; otherwise it is kept for the next call that asks.
 * Returns false if another thread has reported an error already.
 */
bool rsk_stream_reset(struct rsk_stream *s, int fd, int err, bool told);
/* The peer is dead, and has not taken all bytes: reset, behind the bytes that arrived. */
void rsk_stream_lose(struct rsk_stream *s, int fd);

/*
 * Records the path changes of a direction since the last time, in any call; the direction's lock is
 * held. @cause: of a demotion.
 */
void rsk_stream_note_change(struct rsk_stream *s, bool tx, enum rsk_reason cause);

static inline void rsk_stream_note(struct rsk_stream *s, bool tx, enum rsk_reason cause)
{
	uint32_t p = tx ? s->tx.counts.promotions : s->rx.counts.promotions;
	uint32_t d = tx ? s->tx.counts.demotions : s->rx.counts.demotions;

	if (__builtin_expect(p != s->noted[tx].promotions || d != s->noted[tx].demotions, 0))
		rsk_stream_note_change(s, tx, cause);
}

/* Processes the peer's control words of both directions, and continues a retransmission. */
void rsk_stream_serve(struct rsk_stream *s, int fd);

/*
 * Some bytes were moved before the error @n (-errno): the next call reports it, if it is the
 * connection's.
 */
void rsk_stream_keep_error(struct rsk_stream *s, ssize_t n);

static inline uint32_t rsk_stream_short_sends(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->short_sends, memory_order_relaxed);
}

/*
 * Asks the peer's sender to stay on TCP, or takes that back, according to the stream's state. Both
 * direction locks are held.
 */
void rsk_stream_stay_off(struct rsk_stream *s);

/* This thread has woken a peer since its last timed spin: spin.h. */
extern __thread bool rsk_spin_rang;

/*
 * Returns the doorbells of the peer's sleepers on this stream, for rsk_stream_ring_doorbells():
 * RSK_WAKE_*. Has a full fence.
 */
static inline uint64_t rsk_stream_due(struct rsk_stream *s, uint32_t what)
{
	return s->link->seg.rail.ops->due(&s->link->seg.rail, s->sid, what);
}

static inline void rsk_stream_ring_doorbells(struct rsk_stream *s, uint64_t doorbells)
{
	s->link->seg.rail.ops->notify(&s->link->seg.rail, doorbells);
	rsk_spin_rang = true;
}

/*
 * Wakes the peer's sleepers, if there are any. No lock of the stream is held, but the
 * signal-deferred section in which the slot was put (sigdefer.h) still is: a signal handler that
 * jumps away between the two would leave a sleeper behind.
 */
static inline void rsk_stream_notify(struct rsk_stream *s, uint32_t what)
{
	uint64_t doorbells = rsk_stream_due(s, what);

	if (doorbells)
		rsk_stream_ring_doorbells(s, doorbells);
}

/*
 * Whether the credit that was just given is what a sender that found no room waits for. rx_lock is
 * held.
 */
static inline bool rsk_stream_enough_room(const struct rsk_stream *s)
{
	uint64_t at = atomic_load_explicit(&rsk_seg_peer_ctl(&s->link->seg, s->sid)->room_at,
					   memory_order_relaxed);

	return s->rx.credit.sent >= at || s->rx.state != RSK_RX_ONRING;
}

/*
 * Whether the ring has room for a sender that waits for it, with what pacing adds until now.
 * tx_lock is held.
 */
static inline bool rsk_stream_writable(struct rsk_stream *s)
{
	if (__builtin_expect(s->tx.pace.bps != 0, 0))
		rsk_tx_pace(&s->tx, rsk_now_ns());
	return rsk_tx_writable(&s->tx);
}

/*
 * stamps.c: a paired stream asks its sender for timestamps; to another host, whose clock is another
 * one, what is received stays on TCP. None of its locks is held.
 */
void rsk_stream_want_stamps(struct rsk_stream *s);

/* abort.c: the kernel's view of a connection that was aborted. No lock of the stream is held. */
short rsk_stream_ends_shown(int fd); /* POLLHUP, POLLERR, POLLNVAL as the kernel reports them */
/*
 * True: the kernel shows POLLHUP, and this end has not shut its own direction. An orderly end of
 * the peer does not hang up, so the connection was reset, or timed out, whether that was reported
 * or not.
 */
bool rsk_stream_is_aborted(struct rsk_stream *s, int kernel);
/*
 * The connection is aborted, or may be: the sender falls back, unless both ends were shut in order.
 */
void rsk_stream_hung_up(struct rsk_stream *s);
void rsk_stream_ask_end(struct rsk_stream *s, int fd);

/* Shut both ways: bytes that came by TCP, also retransmitted ones, would be answered by a reset. */
static inline bool rsk_stream_takes_nothing(const struct rsk_stream *s)
{
	return atomic_load(&s->rd_shut) && atomic_load(&s->wr_shut);
}

#endif
