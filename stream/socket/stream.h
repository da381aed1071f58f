/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - one end of a TCP connection as the engine sees it. Internal to stream/; every folder
 * above socket/ uses it.
 *
 * Streams are in the arena: each process has its own, also for a socket that parent and child
 * share. Streams are type-stable: freed ones go to a list of their own and stay streams, so that a
 * stale table word leads to a stream that shows (life == 0, or a table word that changed) that it
 * is no longer the right one.
 *
 * Phases: CANDIDATE (calls and bytes are counted) -> LOOKUP (posted, or looking for the peer) ->
 * PAIRING (peer found, being verified) -> PAIRED (each direction on the path that rx and tx say) |
 * UNTRACKED (given up, reason in the record).
 */
#ifndef RSK_STREAM_H
#define RSK_STREAM_H

#include <poll.h>

#include <rsock/tuple.h>

#include "tcp_socket.h"
#include "engine.h"
#include "kin.h"
#include "knobs.h"
#include "link.h"
#include "lock.h"
#include "policy.h"
#include "process.h"
#include "rx.h"
#include "stats.h"
#include "tx.h"

enum rsk_phase {
	RSK_PHASE_FREE,
	RSK_PHASE_CANDIDATE,
	RSK_PHASE_LOOKUP,
	RSK_PHASE_PAIRING,
	RSK_PHASE_PAIRED,
	RSK_PHASE_UNTRACKED,
};

/*
 * Whether it had a single number, with FD_CLOEXEC, when this process was forked, or at its last
 * vfork().
 */
enum rsk_closes {
	RSK_CLOSES_NOT,
	RSK_CLOSES_FORKED,
	RSK_CLOSES_VFORKED
};

struct rsk_held_pair_request;
struct rsk_reg; /* epoll registration: epoll.h */

#define RSK_WORK_BYTES 16384u
/*
 * Number of calls after which the record gets its addresses; `rsock stat` finds those of younger
 * streams by itself.
 */
#define RSK_NAME_CALLS 8u

/*
 * After this many receives in a row that found nothing, the TCP socket is checked as well, for its
 * end and its errors.
 */
#define RSK_EMPTY_LOOKS 8u

struct rsk_noted {
	uint32_t promotions, demotions;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): fields are grouped by use */
struct rsk_stream {
	/*
	 * The first fields are written rarely, and read at every call. A change of phase is a
	 * release: what the phase promises is in place.
	 */
	_Atomic(uint32_t) phase;
	_Atomic(uint32_t) next_free; /* arena offset; 0: the last; pool.c */
	/*
	 * Low half: references (fds + calls under way); 0: free. High half: of those calls, those
	 * inside plain kernel waits, receiving and sending (RSK_PLAIN_*_SHIFT). A call counts
	 * itself in and out with one operation.
	 */
	_Atomic(uint64_t) refs;
	_Atomic(uint32_t) fds; /* fd table entries */
	_Atomic(int) fd;       /* one of its fds, a hint: check the table */
	_Atomic(uint8_t) nonblock;
	_Atomic(uint8_t) dupped; /* once had more than one fd in a process */
	/* The kernel showed an end or an error: ask it when polling. */
	_Atomic(uint8_t) tcp_news;
	/* The kernel showed HUP ahead of the ring's end, and keeps showing it. */
	_Atomic(uint8_t) hup_behind;
	_Atomic(uint8_t) rd_shut, wr_shut;
	_Atomic(uint8_t) closes; /* enum rsk_closes */
	_Atomic(bool) fin_late;	 /* wr_shut, but the kernel may not know of it yet (io.c) */
	/* A negative SO_RCVTIMEO, SO_SNDTIMEO was set: the kernel does not wait. */
	_Atomic(uint8_t) rx_no_wait, tx_no_wait;
	/*
	 * SO_RCVTIMEO, SO_SNDTIMEO in microseconds, plus 1; 0: not read yet. The first waiter reads
	 * the kernel's value and stores it if it still finds 0; setsockopt() always stores, after
	 * the kernel has changed. Relaxed: each is one value.
	 */
	_Atomic(uint64_t) rx_timeout, tx_timeout;
	bool connecting_side;
	/* enum rsk_reason: the stream falls back when it can; 0: it need not. Relaxed: a hint. */
	_Atomic(uint8_t) fallback_due;
	/* The last fd was closed while calls were under way. */
	_Atomic(uint8_t) goodbye_due;
	/*
	 * The peer violated the protocol: ECONNRESET from here on. Set once, by the thread that
	 * found out (exchange), never taken back. Relaxed: no decision depends on it, and a thread
	 * that reads the old value makes one more round, which the TCP socket, shut by then, ends.
	 */
	_Atomic(bool) failed;
	/* the peer's progress thread is to act on our control word: recovery.h */
	_Atomic(bool) apply_due;
	_Atomic(bool) named; /* the record has the addresses */
	/*
	 * In LOOKUP, the other end may come at any moment: waits continue the pairing. Written by
	 * pairing steps, under the pairing lock; read without, relaxed: a hint. A thread that reads
	 * an old value waits once more, or once less, in the kernel.
	 */
	_Atomic(bool) soon;
	bool attached; /* was attached to a link once: the fields after regs were used */
	_Atomic(int) rcvlowat;
	/*
	 * Counts sends that did not take all bytes: their callers may wait for an EPOLLOUT edge.
	 * Any sender counts, before its call returns; read when room is reported, and when the
	 * stream leaves an epoll set. Relaxed: the thread that waits for the edge has seen its own
	 * call return.
	 */
	_Atomic(uint32_t) short_sends;
	/*
	 * Other processes may hold the socket since a fork (kin.h). shared: for that reason the
	 * stream is on TCP; changed under both direction locks and the pairing lock, read without.
	 * torn: for the fork under way, bytes are in flight that a child cannot have, or must not
	 * overtake; pairing lock. The overread file (over.h) is protected by rx_lock; whether there
	 * is one is also read without, relaxed.
	 */
	struct rsk_shared kin;
	_Atomic(bool) shared, torn;
	_Atomic(int) over_fd; /* 0: none */
	uint64_t over_bytes, over_seen;
	struct rsk_lock linger_lock;
	/* Reasons why SO_LINGER is set by the library (resets.h); linger_lock. */
	unsigned int resets;
	struct linger own_linger; /* the program's value meanwhile */
	/* When to check next whether the socket is this process's alone; relaxed. */
	_Atomic(uint64_t) alone_work;
	/* The last fork that has counted it; pairing lock. */
	uint32_t fork_stamp;
	/* In the child of a fork: the peer of the parent's link. */
	int peer_pid;
	/* The other end's fd number in its process when that was proven. */
	int peer_fd;
	uint64_t peer_cookie; /* SO_COOKIE of the other end */
	/* SO_COOKIE of this end; 0: not asked yet. Written before the stream is paired. */
	uint64_t cookie;

	/*
	 * Threads inside plain kernel waits on this socket, entered before the stream was paired.
	 * While there is one in receive, the receiver does not answer WATCHING; while there is one
	 * in send, the sender does not fix the switch position N. Dekker's pattern with the phase:
	 * enter = add, fence, read the phase again; pair = set the phase, fence, read the count.
	 * Counted here: threads in poll() and in chunks of a large send, and calls that begin with
	 * a pairing step; the others are in life.
	 */
	_Atomic(uint32_t) rx_plain, tx_plain;
	/* bytes through the TCP socket that the library saw */
	_Atomic(uint64_t) tcp_rx, tcp_tx;
	/*
	 * Work counters that say when checks are due. Read and written plainly, relaxed: where two
	 * threads count at once one count may be lost, and a check is made some calls later.
	 */
	_Atomic(uint64_t) calls;	 /* that moved bytes */
	_Atomic(uint64_t) more_work;	 /* units of RSK_WORK_BYTES within those */
	_Atomic(uint64_t) step_work;	 /* amount of work at which the next pairing step is due */
	struct rsk_policy_search search; /* under pairing_lock */
	struct rsk_lock pairing_lock;
	uint32_t pairing_steps;	   /* pairing steps spent in PAIRING; under pairing_lock */
	int found_fd;		   /* the peer's fd, as it posted it */
	uint64_t handle;	   /* AssocHandle of the mapper's transaction; under pairing_lock */
	uint64_t key_up, key_down; /* seeds: connecting side to accepting side, and back */
	uint64_t posted_nonce;	   /* offer in the registry; 0: none */
	bool remote; /* found_nonce names a link to another host; under pairing_lock */
	struct rsk_held_pair_request *held; /* pm_transaction.c; under pairing_lock */
	/* AssocHandle with which rsockd allowed the mapping, 0: none; under pairing_lock. */
	uint64_t mapping;
	/* The peer's listener, while we connect to it; 0: not found; under pairing_lock. */
	uint64_t found_nonce;
	/*
	 * rsockd's number at the time it was asked about this stream, 0: not yet; under
	 * pairing_lock.
	 */
	uint32_t asked_daemon;
	/* enum rsk_reason: what it answered, 0: nothing; under pairing_lock. */
	uint8_t told;
	/* enum rsk_reason: what the kernel shows of an end that no process offers, 0: not asked. */
	uint8_t absent;
	/* When it answered, or when it was asked last; under pairing_lock. */
	uint64_t told_ns;
	struct rsk_tuple tuple;	      /* from LOOKUP on */
	struct rsk_stats_stream *rec; /* may be a record that no process reads */
	/* The newest operator request: operator_request.h. Both direction locks to change it. */
	_Atomic(uint64_t) request_seen;
	uint32_t request_generation; /* generation of the record while it is ours */
	_Atomic(bool) credit_due;    /* its ring is full: credit.h; seq_cst */
	/* Taken off the ring by an operator request; both direction locks to change it. */
	_Atomic(bool) off;
	/*
	 * By operator request: counts as having earned promotion, and starts the peer lookup anew.
	 */
	_Atomic(bool) search_anew;
	struct rsk_reg *regs; /* epoll registrations; under the epoll lock (epoll.c) */

	/* Valid once PAIRED. */
	struct rsk_link *link;
	uint32_t sid;
	bool asks; /* one of the streams that link->asking counts */
	/* Both direction locks live as long as the memory: fast_path.c. */
	struct rsk_lock rx_lock;
	struct rsk_rx rx; /* rx_lock */
	struct rsk_lock tx_lock;
	uint32_t ring_full_fallbacks; /* tx_lock */
	struct rsk_tx tx;	      /* tx_lock */
	/* The counts that the record has of rx, of tx; under the direction's lock. */
	struct rsk_noted noted[2];
	/* Since when the ring has been full without progress, 0: it is not; tx_lock. */
	uint64_t tx_full_ns;
	uint64_t tx_full_credit; /* the credit at that time */
	/* When the kernel last had nothing for the TCP socket; ready.c; rx_lock. */
	uint64_t quiet_ns;
	uint64_t repropose_work; /* no proposal before this amount of work; tx_lock */
	/* results of recent kernel checks: ready.c; rx_lock */
	uint32_t quiet_looks, quiet_kernel_calls;
	/* Receives that found nothing since the TCP socket was checked; rx_lock. */
	uint32_t empty_looks;
	_Atomic(uint32_t) rx_spin_ns, tx_spin_ns; /* adaptive spin budgets: wait.c */
};

/* 16 bits each; a call that finds them full is counted in rx_plain, tx_plain. */
#define RSK_PLAIN_RX_SHIFT 32
#define RSK_PLAIN_TX_SHIFT 48

/* Whether a thread is inside a plain kernel wait. seq_cst: called after the phase was set. */
static inline bool rsk_stream_plain(const struct rsk_stream *s, bool tx)
{
	return (uint16_t)(atomic_load(&s->refs) >>
			  (tx ? RSK_PLAIN_TX_SHIFT : RSK_PLAIN_RX_SHIFT)) ||
	       atomic_load(tx ? &s->tx_plain : &s->rx_plain);
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

/* Bytes ever received, read or not. 0 or -errno. */
int rsk_kernel_received(int fd, uint64_t *pos);

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
enum rsk_reason rsk_kernel_refuses(int fd);
bool rsk_kernel_nonblock(int fd);
/* True: the next recv would return an error, and no bytes. The error stays pending. */
bool rsk_kernel_error_next(int fd);

/* The same for a stream. If another process may have changed the flag, the kernel is asked. */
static inline bool rsk_stream_nonblock(const struct rsk_stream *s, int fd)
{
	return rsk_kin_shares(&s->kin) ? rsk_kernel_nonblock(fd) : atomic_load(&s->nonblock);
}

/* Calls that moved bytes, plus one for every RSK_WORK_BYTES: the measure by which steps are due. */
static inline uint64_t rsk_stream_work(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->calls, memory_order_relaxed) +
	       atomic_load_explicit(&s->more_work, memory_order_relaxed);
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
static inline bool rsk_stream_pin(struct rsk_stream *s)
{
	uint64_t n = atomic_load_explicit(&s->refs, memory_order_relaxed);

	while ((uint32_t)n)
		if (atomic_compare_exchange_weak_explicit(&s->refs, &n, n + 1, memory_order_acquire,
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
/* Whether no other process holds it; takes in their messages if one may. Its locks may be held. */
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

static inline bool rsk_stream_failed(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->failed, memory_order_relaxed);
}

/* abort.c */
void rsk_stream_fail(struct rsk_stream *s, int fd); /* the peer violated the protocol */
/* The peer is dead, and has not taken all bytes. */
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

/* This thread has woken a peer since its last wait: spin.h. */
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
