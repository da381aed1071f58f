/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - one end of a TCP connection as the engine sees it. Internal to stream/.
 *
 * In the arena: each process's own, also of a socket that parent and child have. Streams are type-stable: freed
 * ones go to a list of their own and stay streams, so that a stale table word leads to a stream that says
 * (life == 0, or a table word that changed) that it is not the one any more.
 *
 * Phases: CANDIDATE (counted) -> SEEKING (posted, or looking for the peer) -> JOINING (peer found, being
 * verified) -> JOINED (each direction on the carrier that rx and tx say) | COLD (given up, reason in the record).
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

/* Whether it had one number, with FD_CLOEXEC, when this process was forked, or at its last vfork(). */
enum rsk_closes {
	RSK_CLOSES_NOT,
	RSK_CLOSES_FORKED,
	RSK_CLOSES_VFORKED
};

struct rsk_held_pair_request;
struct rsk_reg; /* epoll registration: epoll.h */

#define RSK_WORK_BYTES 16384u
/* Calls after which the record gets its addresses; `rsock stat` finds those of fewer by itself. */
#define RSK_NAME_CALLS 8u

/* So many receives in a row that found nothing, and the companion is asked as well: its end, its errors. */
#define RSK_EMPTY_LOOKS 8u

struct rsk_noted {
	uint32_t promotions, demotions;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): fields lie by who touches them, and when */
struct rsk_stream {
	/* Written by few, read at every call. */
	_Atomic(uint32_t) phase; /* release when it changes: what the phase promises is in place */
	_Atomic(uint32_t) next_free; /* arena offset, 0: the last; pool.c */
	/*
	 * Low half: fds + calls under way; 0: free. High half: of those calls, those inside plain
	 * kernel waits, receiving and sending (RSK_PLAIN_*_SHIFT): a call counts itself in and out by one operation.
	 */
	_Atomic(uint64_t) refs;
	_Atomic(uint32_t) fds; /* fd table entries */
	_Atomic(int) fd;       /* some fd of it, a hint: check the table */
	_Atomic(uint8_t) nonblock;
	_Atomic(uint8_t) dupped;     /* had more than one fd in a process once */
	_Atomic(uint8_t) tcp_news;   /* the kernel showed an end or an error: ask it when polling */
	_Atomic(uint8_t) hup_behind; /* it showed HUP ahead of the ring's end, and will for good */
	_Atomic(uint8_t) rd_shut, wr_shut;
	_Atomic(uint8_t) closes; /* enum rsk_closes */
	_Atomic(bool) fin_late;	 /* wr_shut, but the kernel may not know of it yet (io.c) */
	_Atomic(uint8_t) rx_no_wait,
		tx_no_wait; /* a negative SO_RCVTIMEO, SO_SNDTIMEO: the kernel does not wait */
	/*
	 * SO_RCVTIMEO, SO_SNDTIMEO in microseconds, and 1; 0: not asked yet. The first waiter asks
	 * and sets it if it is 0 still; a setsockopt(), behind the kernel's, in any case: relaxed,
	 * each is one value.
	 */
	_Atomic(uint64_t) rx_timeout, tx_timeout;
	bool connecting_side;
	_Atomic(uint8_t)
		fallback_due; /* enum rsk_reason: leaves when it can; 0: need not. Relaxed: a hint */
	_Atomic(uint8_t) goodbye_due; /* the last fd was closed while calls were under way */
	/*
	 * The peer broke the rules: ECONNRESET from here on. Set once, by whoever found out
	 * (exchange), never taken back; read at any time, relaxed: nothing is believed on the
	 * strength of it, and who sees it late makes one more round that the shut companion ends.
	 */
	_Atomic(bool) failed;
	_Atomic(bool) apply_due; /* the peer's keeper is to act on our mail: recovery.h */
	_Atomic(bool) named;	 /* the record has the addresses */
	/*
	 * SEEKING, and the other end may come at any moment: waits go on with the pairing. Written
	 * by steps, under the join lock; read without, relaxed: a hint, and who sees it late waits
	 * once more, or once less, in the kernel.
	 */
	_Atomic(bool) soon;
	bool attached; /* to a link, once: what follows regs was used */
	_Atomic(int) rcvlowat;
	/*
	 * Sends that did not take all there was: who gets less may wait for an edge of room. Counted by any sender,
	 * before its call returns; read by who tells of room, and when the stream leaves an epoll set. Relaxed: the
	 * thread that waits for the edge has seen its own call return.
	 */
	_Atomic(uint32_t) short_sends;
	/*
	 * Since a fork: other processes may have it (kin.h). shared: so it is on TCP; under both locks and the join
	 * lock, read without. torn: bytes are under way that a child cannot have, or must not overtake; of the fork
	 * under way, join lock. The overread file (over.h): rx_lock, is there one: also without, relaxed.
	 */
	struct rsk_shared kin;
	_Atomic(bool) shared, torn;
	_Atomic(int) over_fd; /* 0: none */
	uint64_t over_bytes, over_seen;
	struct rsk_lock linger_lock;
	unsigned int resets;	      /* resets.h: why SO_LINGER is ours; linger_lock */
	struct linger own_linger;     /* the program's, then */
	_Atomic(uint64_t) alone_work; /* the next look at whether it is ours alone; relaxed */
	uint32_t fork_stamp;	      /* the last fork that has counted it; join lock */
	int peer_pid;		      /* in the child of a fork: whom the parent's link led to */
	int peer_fd;	      /* the other end, as its process numbered it when it was proven */
	uint64_t peer_cookie; /* SO_COOKIE of the other end */
	uint64_t cookie; /* and of this one; 0: not asked yet. Written before the stream is joined */

	/*
	 * Threads inside plain kernel waits on this socket, entered before the stream was joined: while there is
	 * one in receive, the receiver does not answer "watching"; in send, the sender does not fix N. Dekker with
	 * the phase: enter = add, fence, look at the phase again; join = set the phase, fence, look at the count.
	 * Those in poll() and in pieces of a large send, and calls that begin with a step; the others are in life.
	 */
	_Atomic(uint32_t) rx_plain, tx_plain;
	_Atomic(uint64_t) tcp_rx, tcp_tx; /* bytes through the companion, seen by the library */
	/*
	 * When to look at what is due: read and written plainly, relaxed; where two threads count
	 * at once one may be lost, and what is due is done some calls later.
	 */
	_Atomic(uint64_t) calls;	 /* that moved bytes */
	_Atomic(uint64_t) more_work;	 /* RSK_WORK_BYTES within those */
	_Atomic(uint64_t) step_work;	 /* the next step towards joining is due at so much work */
	struct rsk_policy_search search; /* under pairing_lock */
	struct rsk_lock pairing_lock;
	uint32_t pairing_steps;	   /* spent in JOINING; under pairing_lock */
	int found_fd;		   /* the peer's fd, as it posted it */
	uint64_t handle;	   /* AssocHandle of the mapper's transaction; under pairing_lock */
	uint64_t key_up, key_down; /* seeds: connecting side to accepting side, and back */
	uint64_t posted_nonce;	   /* offer in the registry; 0: none */
	bool remote;		   /* found_nonce is a link to another host; under pairing_lock */
	struct rsk_held_pair_request *held; /* pm_transaction.c; under pairing_lock */
	uint64_t mapping; /* AssocHandle by which rsockd let it be mapped, 0: none; under pairing_lock */
	uint64_t found_nonce; /* the peer's door, while we go there; 0: not found; under pairing_lock */
	uint32_t sought;      /* rsockd's number when it was asked about this stream, 0: not yet */
	uint8_t told; /* enum rsk_reason: what it answered, 0: nothing; all three under pairing_lock */
	uint8_t absent; /* the same: what the kernel shows of an end that nobody offers, 0: not asked */
	uint64_t told_ns;	      /* when, or when it was asked last */
	struct rsk_tuple tuple;	      /* from SEEKING on */
	struct rsk_stats_stream *rec; /* may be a record that nobody reads */
	_Atomic(uint64_t)
		request_seen; /* an operator's newest wish: operator_request.h; both locks to change it */
	uint32_t request_generation; /* of the record, while it is ours */
	_Atomic(bool) credit_due;    /* its ring is full: credit.h; seq_cst */
	_Atomic(bool) off;	     /* taken off the ring, by a wish; both locks to change it */
	_Atomic(bool) search_anew;   /* wished for: has earned it, and seeks from the start */
	struct rsk_reg *regs;	     /* epoll registrations; under the epoll lock (epoll.c) */

	/* From JOINED on. */
	struct rsk_link *link;
	uint32_t sid;
	bool asks;		 /* one of those that link->asking counts */
	struct rsk_lock rx_lock; /* both locks live as long as the memory: fast_path.c */
	struct rsk_rx rx;	 /* rx_lock */
	struct rsk_lock tx_lock;
	uint32_t ring_full_fallbacks; /* tx_lock */
	struct rsk_tx tx;	      /* tx_lock */
	struct rsk_noted
		noted[2];    /* what the record knows of rx, of tx; under the direction's lock */
	uint64_t tx_full_ns; /* since when the ring is full without progress, 0: is not; tx_lock */
	uint64_t tx_full_credit; /* credit then */
	uint64_t quiet_ns; /* the kernel had nothing on the companion then; ready.c; rx_lock */
	uint64_t repropose_work; /* not before so much work; tx_lock */
	uint32_t quiet_looks,
		quiet_kernel_calls; /* what the kernel had of late: ready.c; rx_lock */
	uint32_t empty_looks; /* receives that found nothing, since the companion was asked; rx_lock */
	_Atomic(uint32_t) rx_spin_ns, tx_spin_ns; /* budgets that learn: wait.c */
};

/* 16 bits each; who finds them full is counted in rx_plain, tx_plain. */
#define RSK_PLAIN_RX_SHIFT 32
#define RSK_PLAIN_TX_SHIFT 48

/* Is a thread inside a plain wait? seq_cst: after the phase was set. */
static inline bool rsk_stream_plain(const struct rsk_stream *s, bool tx)
{
	return (uint16_t)(atomic_load(&s->refs) >>
			  (tx ? RSK_PLAIN_TX_SHIFT : RSK_PLAIN_RX_SHIFT)) ||
	       atomic_load(tx ? &s->tx_plain : &s->rx_plain);
}

/* Fds and calls under way. */
static inline uint32_t rsk_stream_holders(const struct rsk_stream *s)
{
	return (uint32_t)atomic_load(&s->refs);
}

/* The real companion: the fd of the caller, or of the table. On the stack of whoever works. */
struct rsk_kernel_tcp {
	struct rsk_tcp c;
	struct rsk_stream *s;
	bool socket_alone; /* its recv takes what is before the ring, and nothing of the overread file */
};

void rsk_kernel_tcp_init(struct rsk_kernel_tcp *k, struct rsk_stream *s, int fd);

/* Bytes ever written to a TCP socket, ours or a copy of the peer's. 0 or -errno; -EAGAIN: in motion. */
int rsk_kernel_written(int fd, bool connecting_side, uint64_t *pos);

/* Bytes that have ever come, read or not. 0 or -errno. */
int rsk_kernel_received(int fd, uint64_t *pos);

/* A TCP socket? (One of the protocol may be a raw one.) Is O_NONBLOCK set? False where that cannot be told. */
bool rsk_kernel_is_tcp(int fd);
bool rsk_kernel_speaks_tcp(int fd);

/*
 * What was set before it was a stream that we know (of its listener, before exec) and no ring can do: the reason to
 * stay on TCP, or RSK_REASON_DIRECT.
 */
enum rsk_reason rsk_kernel_refuses(int fd);
bool rsk_kernel_nonblock(int fd);
/* Its next recv would take an error, and no bytes; the error stays where it is. */
bool rsk_kernel_error_next(int fd);

/* The same of a stream; what another process may have changed is asked for. */
static inline bool rsk_stream_nonblock(const struct rsk_stream *s, int fd)
{
	return rsk_kin_shares(&s->kin) ? rsk_kernel_nonblock(fd) : atomic_load(&s->nonblock);
}

/* Calls that moved bytes, where every RSK_WORK_BYTES count as one more: what steps are due by. */
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
void rsk_stream_name(struct rsk_stream *s, int fd); /* its addresses into its record, once */
int rsk_stream_learn(struct rsk_stream *s, int fd); /* 0, -EOPNOTSUPP: no TCP socket, -errno */
void rsk_stream_free(struct rsk_stream *s);	    /* nobody has it any more: rsk_stream_unpin() */

/* False: it is dead. */
static inline bool rsk_stream_pin(struct rsk_stream *s)
{
	uint64_t n = atomic_load_explicit(&s->refs, memory_order_relaxed);

	while ((uint32_t)n)
		if (atomic_compare_exchange_weak_explicit(&s->refs, &n, n + 1, memory_order_acquire,
							  memory_order_relaxed))
			return true;
	return false;
}

/* @by: 1, and the one of its plain count if the pin counted as such. */
static inline void rsk_stream_unpin_by(struct rsk_stream *s, uint64_t by)
{
	if (atomic_fetch_sub_explicit(&s->refs, by, memory_order_acq_rel) == by)
		rsk_stream_free(s);
}

static inline void rsk_stream_unpin(struct rsk_stream *s)
{
	rsk_stream_unpin_by(s, 1);
}

/* No entry leads to it any more: whoever found one before (fast_path.c) is done with it. */
void rsk_stream_quiesce(struct rsk_stream *s);
struct rsk_stream *rsk_stream_of(int fd); /* pinned, hot or cold; NULL */
/*
 * Does @fd, whose entry leads to @s (pinned), lead the kernel to its socket still? If not, the entry is gone, and the
 * call is the kernel's: -RSK_EKERNEL. A system call: for where one is made anyway.
 */
bool rsk_stream_is_at(struct rsk_stream *s, int fd);
/* Has no other process it? Asks them, if one may. Its locks may be held. */
bool rsk_stream_sole_process(struct rsk_stream *s);
void rsk_fd_name_all(void);    /* all streams that are open, in the statistics */
void rsk_streams_forked(void); /* in the child: what streams have in common */
/* In the child: a record of its own; @why it goes by TCP for good, or RSK_REASON_DIRECT. */
void rsk_stream_record_anew(struct rsk_stream *s, enum rsk_reason why);
uint32_t rsk_stream_count_fds(struct rsk_stream *s); /* of this process */
bool rsk_fdtab_validate(void); /* every entry leads to what counts it; for the property tests */
int rsk_stream_find_fd(struct rsk_stream *s); /* an fd of this process, -1 */
void rsk_stream_untrack(struct rsk_stream *s,
			enum rsk_reason why); /* give up: calls go to the kernel */

static inline bool rsk_stream_failed(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->failed, memory_order_relaxed);
}

/* abort.c */
void rsk_stream_fail(struct rsk_stream *s, int fd); /* the peer broke the rules */
void rsk_stream_lose(struct rsk_stream *s, int fd); /* it is dead, and has not taken all */

/*
 * The changes of carrier of a direction since the last time, in whatever call they were, to the record; its lock is
 * held. @cause: of a demotion.
 */
void rsk_stream_note_change(struct rsk_stream *s, bool tx, enum rsk_reason cause);

static inline void rsk_stream_note(struct rsk_stream *s, bool tx, enum rsk_reason cause)
{
	uint32_t p = tx ? s->tx.promotions : s->rx.promotions;
	uint32_t d = tx ? s->tx.demotions : s->rx.demotions;

	if (__builtin_expect(p != s->noted[tx].promotions || d != s->noted[tx].demotions, 0))
		rsk_stream_note_change(s, tx, cause);
}

/* Take in what the peer said, both directions; finish what is owed (RESEND). */
void rsk_stream_serve(struct rsk_stream *s, int fd);

/* Some bytes were moved before the error @n (-errno): it is told at the next call, if it is the connection's. */
void rsk_stream_keep_error(struct rsk_stream *s, ssize_t n);

static inline uint32_t rsk_stream_short_sends(const struct rsk_stream *s)
{
	return atomic_load_explicit(&s->short_sends, memory_order_relaxed);
}

/* Asks the peer's sender to stay on TCP, or takes that back, as the stream's state is now. Both locks are held. */
void rsk_stream_stay_off(struct rsk_stream *s);

/* This thread has woken a peer since its last wait: spin.h. */
extern __thread bool rsk_spin_rang;

/* The bells of the peer's sleepers on this stream, for rsk_stream_ring_doorbells(): RSK_WAKE_*. Has a full fence. */
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
 * Wake them, if there are any. No lock of the stream is held, but the guarded section still is
 * that the slot was put in (sigdefer.h): a signal handler that jumps away between the two would leave
 * a sleeper behind.
 */
static inline void rsk_stream_notify(struct rsk_stream *s, uint32_t what)
{
	uint64_t doorbells = rsk_stream_due(s, what);

	if (doorbells)
		rsk_stream_ring_doorbells(s, doorbells);
}

/* rx_lock held. Is the credit that was just given what a sender that found no room waits for? */
static inline bool rsk_stream_enough_room(const struct rsk_stream *s)
{
	uint64_t at = atomic_load_explicit(&rsk_seg_peer_ctl(&s->link->seg, s->sid)->room_at,
					   memory_order_relaxed);

	return s->rx.credit_sent >= at || s->rx.state != RSK_RX_ONRING;
}

/* abort.c: what the kernel shows of a connection that was aborted. No lock of the stream is held. */
short rsk_stream_ends_shown(int fd); /* POLLHUP, POLLERR, POLLNVAL: as the kernel says */
/*
 * It says POLLHUP, and this end has not shut its own direction: an end in order of the peer's does not hang up, so the
 * connection was reset, or given up, whether that has been told or not.
 */
bool rsk_stream_is_aborted(struct rsk_stream *s, int kernel);
/* It is, or may be: the sender leaves the ring, unless both ends were shut in order. */
void rsk_stream_hung_up(struct rsk_stream *s);
void rsk_stream_ask_end(struct rsk_stream *s, int fd);

/* Shut both ways: whatever came by TCP, also what the peer repeats, would be answered by a reset. */
static inline bool rsk_stream_takes_nothing(const struct rsk_stream *s)
{
	return atomic_load(&s->rd_shut) && atomic_load(&s->wr_shut);
}

#endif
