/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream_state.h - the state of one end of a TCP connection: see stream.h, which includes it.
 *
 * Streams are in the arena: each process has its own, also for a socket that parent and child
 * share. Streams are type-stable: freed ones go to a list of their own and stay streams, so that a
 * stale table word leads to a stream that shows (refs == 0, or a table word that changed) that it
 * is no longer the right one.
 *
 * Phases: CANDIDATE (calls and bytes are counted) -> LOOKUP (posted, or looking for the peer) ->
 * PAIRING (peer found, being verified) -> PAIRED (each direction on the path that rx and tx say) |
 * UNTRACKED (given up, reason in the record).
 */
#ifndef RSK_STREAM_STATE_H
#define RSK_STREAM_STATE_H

#include <assert.h>
#include <stddef.h>
#include <sys/types.h>

#include <rsock/qos.h>
#include <rsock/tuple.h>

#include "kin.h"
#include "link.h"
#include "lock.h"
#include "policy.h"
#include "rx.h"
#include "stats.h"
#include "syn.h"
#include "tx.h"
#include "zerocopy.h"

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

/* What a thread in poll() counts as in rsk_stream.plain.rx: one of 16 bits, and of the upper 16. */
#define RSK_PLAIN_POLL 0x10001u

/*
 * Members are grouped by what owns them, and when they are valid; a group's comment names its lock.
 * "The pairing lock" is the process's (place.h). Where fields lie: the asserts below.
 */
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
	struct {
		/* A negative SO_RCVTIMEO, SO_SNDTIMEO was set: the kernel does not wait. */
		_Atomic(uint8_t) rx_none, tx_none;
		/*
		 * SO_RCVTIMEO, SO_SNDTIMEO in microseconds, plus 1; 0: not read yet. The first
		 * waiter reads the kernel's value and stores it if it still finds 0; setsockopt()
		 * always stores, after the kernel has changed. Relaxed: each is one value.
		 */
		_Atomic(uint64_t) rx, tx;
	} timeouts;
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
	struct rsk_zerocopy zerocopy; /* the line of short_sends: every poll reads it */
	/* Other processes may hold the socket since a fork. */
	struct {
		struct rsk_shared kin; /* kin.h */
		/*
		 * For that reason the stream is on TCP; changed under both direction locks and the
		 * pairing lock, read without.
		 */
		_Atomic(bool) shared;
		/*
		 * For the fork under way, bytes are in flight that a child cannot have, or must not
		 * overtake; pairing lock.
		 */
		_Atomic(bool) torn;
		/*
		 * Another process has the peer's end by now: anew.h. Set by a sender, taken back
		 * when the stream has begun anew. Relaxed: a hint.
		 */
		_Atomic(bool) anew_due;
		/*
		 * Between hosts: the peer has said LEFT of this pairing. Written with the pairing
		 * lock, read without: a hint.
		 */
		_Atomic(bool) peer_left;
		uint32_t stamp; /* the last fork that has counted it; pairing lock */
		/* When to check next whether the socket is this process's alone; relaxed. */
		_Atomic(uint64_t) alone_work;
	} fork;
	/* The overread file (over.h); rx_lock. */
	struct {
		_Atomic(int) fd; /* 0: none; also read without the lock, relaxed */
		uint64_t bytes, seen;
	} over;
	struct {
		struct rsk_lock lock; /* guards the group */
		/* Reasons why SO_LINGER is set by the library (resets.h). */
		unsigned int resets;
		struct linger own; /* the program's value meanwhile */
	} linger;
	/*
	 * Threads inside plain kernel waits on this socket, entered before the stream was paired.
	 * While there is one in receive, the receiver does not answer WATCHING; while there is one
	 * in send, the sender does not fix the switch position N. Dekker's pattern with the phase:
	 * enter = add, fence, read the phase again; pair = set the phase, fence, read the count.
	 * Counted here: threads in poll() and in chunks of a large send, and calls that begin with
	 * a pairing step; the others are in refs. Those in poll() count as RSK_PLAIN_POLL, so that
	 * they are known from the others: syn.h.
	 */
	struct {
		_Atomic(uint32_t) rx, tx;
	} plain;
	/* bytes through the TCP socket that the library saw */
	struct {
		_Atomic(uint64_t) rx, tx;
	} tcp_bytes;
	/*
	 * Work counters that say when checks are due. Read and written plainly, relaxed: where two
	 * threads count at once one count may be lost, and a check is made some calls later.
	 */
	struct {
		_Atomic(uint64_t) calls; /* that moved bytes */
		_Atomic(uint64_t) more;	 /* units of RSK_WORK_BYTES within those */
		_Atomic(uint64_t) step;	 /* amount of work at which the next pairing step is due */
	} work;
	/* Valid in LOOKUP and PAIRING, and what is kept of it when PAIRED; the pairing lock. */
	struct {
		struct rsk_policy_search search;
		uint32_t steps;		   /* pairing steps spent in PAIRING */
		uint64_t handle;	   /* AssocHandle of the mapper's transaction */
		uint64_t key_up, key_down; /* seeds: connecting side to accepting side, and back */
		uint64_t posted_nonce;	   /* offer in the registry; 0: none */
		struct rsk_held_pair_request *held; /* pm_transaction.c */
		uint64_t mapping; /* AssocHandle with which rsockd allowed it; 0: none */
		struct {
			/* The peer's listener, while we connect to it; 0: not found. */
			uint64_t nonce;
			int fd;	     /* the peer's fd, as it posted it */
			bool remote; /* @nonce names a link to another host */
		} found;
		/* What rsockd said of a stream in peer lookup. */
		struct {
			uint64_t ns; /* when it answered, or when it was asked last */
			/* rsockd's number at the time it was asked; 0: not yet. */
			uint32_t asked_daemon;
			uint8_t told; /* enum rsk_reason: what it answered, 0: nothing */
			/*
			 * enum rsk_reason: what the kernel shows of an end that no process offers,
			 * 0: not asked.
			 */
			uint8_t absent;
		} answer;
	} pairing;
	_Atomic(bool) credit_due;     /* its ring is full: credit.h; seq_cst */
	struct rsk_tuple tuple;	      /* from LOOKUP on */
	struct rsk_stats_stream *rec; /* may be a record that no process reads */
	/* Operator requests: operator_request.h. */
	struct {
		_Atomic(uint64_t) seen; /* the newest one; both direction locks to change it */
		uint32_t generation;	/* of the record while it is ours */
		/* Taken off the ring by a request; both direction locks to change it. */
		_Atomic(bool) off;
		/* By request: counts as having earned promotion, and starts the lookup anew. */
		_Atomic(bool) search_anew;
	} request;
	struct rsk_reg *regs; /* epoll registrations; under the epoll lock (epoll.c) */

	/* Valid once PAIRED. */
	struct rsk_link *link;
	uint32_t sid;
	bool asks; /* one of the streams that link->asking counts */
	/* Both direction locks live as long as the memory: fast_path.c. */
	struct rsk_lock rx_lock;
	struct rsk_rx rx; /* rx_lock */
	/* When the kernel last had nothing for the TCP socket: ready.c; rx_lock. */
	struct {
		uint64_t ns;
		uint32_t looks, kernel_calls; /* results of recent kernel checks */
	} quiet;
	/* Receives that found nothing since the TCP socket was checked; rx_lock. */
	uint32_t empty_looks;
	/* Of slot_repair.h. */
	struct {
		_Atomic(bool) due; /* its next slot shows and is not whole; seq_cst */
		/* Number of the newest request with APPLY; 0: none on this rail; progress thread */
		uint32_t called;
		uint64_t called_ns; /* when that was */
	} repair;
	/*
	 * Of a full ring: full.h; tx_lock. In another line than what a receiver writes: the two may
	 * be two threads.
	 */
	_Alignas(64) struct {
		uint64_t since_ns;	 /* full without progress since; 0: it is not */
		uint64_t credit;	 /* the credit at that time */
		uint32_t unacked;	 /* bytes that TCP had yet to deliver when it was looked */
		uint64_t repropose_work; /* no proposal before this amount of work */
		uint32_t fallbacks;
	} full;
	struct rsk_lock tx_lock;
	struct rsk_tx tx; /* tx_lock */
	/* While rx is quiesced, of slot_repair.c; progress thread. */
	struct {
		uint64_t since_ns; /* seen so since then; 0: it was not quiesced */
		uint64_t again_ns; /* when the sender is asked for its answer once more */
		uint32_t gen;	   /* of rx, at @since_ns */
		uint32_t times;	   /* how often it was asked so */
	} quiesced;
	/* The counts that the record has of rx, of tx; under the direction's lock. */
	struct rsk_noted noted[2];
	struct {
		_Atomic(uint32_t) rx_ns, tx_ns; /* adaptive budgets: wait.c */
	} spin;
	/* Of a ring that may become wider: ring_width.h; tx_lock. */
	struct {
		uint32_t wants;	    /* bytes of the ring; 0: no more than it has */
		uint64_t since_pos; /* position at which it became as wide as it is */
		uint64_t again_ns;  /* the peer is not asked before */
		uint64_t rest_pos;  /* position when it was looked at last */
		uint64_t told;	    /* credit when the receiver was asked for more last */
	} wide;
	/* The pairing lock. */
	struct rsk_qos qos; /* as rsockd has told */
	int qos_priority;   /* SO_PRIORITY as it has left it; another value is the program's */
	/* The other end; written before the stream is paired. */
	struct {
		int pid;	 /* in the child of a fork: the peer of the parent's link */
		int fd;		 /* its number in its process when that was proven */
		uint64_t cookie; /* SO_COOKIE */
	} peer;
	/* SO_COOKIE of this end; 0: not asked yet. Written before the stream is paired. */
	uint64_t cookie;
	/* The first segment: syn.h. Fields that do not say otherwise: the pairing lock. */
	struct {
		/*
		 * enum rsk_syn_asked. Changed with the reading lock; from NOT_ASKED with the
		 * pairing lock, by compare-and-exchange. Read relaxed by sends: one that sees it
		 * late leaves it to the next.
		 */
		_Atomic(uint8_t) asked;
		uint8_t shows; /* tries; the reading lock */
		/* A segment was to be shown: the kernel may show it again. Never taken back. */
		_Atomic(bool) shown;
		bool looked;
		struct rsk_syn is;
		/*
		 * The name of the link over which rsockd has brought the two ends together by it;
		 * 0: it has not.
		 */
		uint64_t met;
	} syn;
	/*
	 * Type of the control message by which the program wants receive timestamps (stamps.h); 0:
	 * it does not. Written by setsockopt() and by pairing steps, read relaxed by receives: one
	 * that reads the old value counts as before the change.
	 */
	_Atomic(uint8_t) stamps;
	/*
	 * rsockd has brought its ends together by their first segment: no kernel interface shows
	 * whose the other end is. Before PAIRED.
	 */
	bool apart;
	/* The socket came through exec: inherited.h. */
	struct {
		/*
		 * Its inode; 0: the process has made it, or no other one has it. Written before an
		 * entry leads to the stream, and set to 0 under the pairing lock; a thread that
		 * reads the old value takes one more step on TCP. seq_cst.
		 */
		_Atomic(uint32_t) inode;
		uid_t uid; /* whose process made it */
		/* The process that had it last, and as which number; 0: none. The pairing lock. */
		int pid, fd;
		uint32_t looks; /* over all processes; the pairing lock */
	} inherited;
};

/*
 * The lines that each call reads: the first, and what follows of it; the link, and the receiving
 * lock with what comes after it; the states of both machines, each in one line.
 */
static_assert(offsetof(struct rsk_stream, short_sends) == 68, "read at every call");
static_assert(offsetof(struct rsk_stream, zerocopy.ours) / 64 == 1, "the same line");
static_assert(offsetof(struct rsk_stream, rec) / 64 == offsetof(struct rsk_stream, sid) / 64,
	      "one line");
static_assert(offsetof(struct rsk_stream, rx_lock) % 64 == 0 &&
		      offsetof(struct rsk_stream, full) % 64 == 0,
	      "begin a line");
static_assert(offsetof(struct rsk_stream, full) / 64 == offsetof(struct rsk_stream, tx_lock) / 64,
	      "one line");
static_assert(offsetof(struct rsk_stream, rx.state) / 64 ==
		      offsetof(struct rsk_stream, rx.rail_loss.limit) / 64,
	      "one line");
static_assert(offsetof(struct rsk_stream, tx.state) / 64 ==
		      offsetof(struct rsk_stream, tx.read_pos) / 64,
	      "one line");

#endif
