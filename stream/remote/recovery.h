/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recovery.h - recovery: what happens to the streams of a link to another host when its rail breaks
 * or comes back, when its peer dies, and when streams are closed while their last bytes are in
 * flight. Only the progress thread calls these functions, except where a comment says otherwise.
 */
#ifndef RSK_RECOVERY_H
#define RSK_RECOVERY_H

#include "control_conn.h"
#include "link.h"
#include "txn_tags.h"

/* how long an ending process waits for the bytes that it has put to arrive */
#define RSK_RECOVERY_PATIENCE_NS 5000000000ull

/*
 * The rail broke: no data arrives by it any more. Each stream continues on its TCP socket. @say
 * tells the other end what this end has consumed, which is the position from which the other end
 * must repeat, and what this end may itself have to repeat (rsk_tx_owed_to()), or
 * has put otherwise (rsk_tx_ring_end()).
 */
typedef void rsk_recovery_say_fn(void *arg, uint32_t sid, uint64_t pos, uint64_t cell,
				 uint64_t owed, uint64_t ring_end);
void rsk_recovery_break(struct rsk_link *l, rsk_recovery_say_fn *say, void *arg);

/*
 * rsk_recovery_resume() - the other end has consumed the stream up to @pos, @cell: what it has not
 * consumed is repeated, in order, before anything newer. The stream ends only after the @owed bytes
 * that the other end has to repeat have come; if it has none, and its @ring_end was not found
 * here, the stream is reset. rsk_recovery_resumed() - the other end has now
 * reported all streams that it has; what was put into any other stream had arrived before it was
 * closed there.
 */
void rsk_recovery_resume(struct rsk_link *l, uint32_t sid, uint64_t pos, uint64_t cell,
			 uint64_t owed, uint64_t ring_end);
void rsk_recovery_resumed(struct rsk_link *l);

/* True if some stream has bytes for which the other end has not yet said whether it has them. */
bool rsk_recovery_is_broken(struct rsk_link *l);

/*
 * Another rail is up and the link has its epoch: streams may be promoted again, with keys of that
 * epoch. @each is called for each stream.
 */
void rsk_recovery_renew(struct rsk_link *l, void (*each)(void *arg, uint32_t sid), void *arg);

/*
 * One of several rails is gone (recovery_rails.c). rsk_recovery_gaps() calls @gap for every stream
 * with the ranges of ring indexes that have not come by any rail; the last call for a stream also
 * has the name of what is missing: how many transactions, and the lowest number. At the other end,
 * rsk_recovery_named() says where the sender has put that one, and rsk_recovery_retransmit() puts
 * the slots of a range once more over the remaining rails, if the lost rail @lost had carried
 * them, or if no rail carries them (RSK_RAILS_NOBODY).
 */
typedef void rsk_recovery_gap_fn(void *arg, uint32_t sid, uint64_t from, uint64_t to,
				 const struct rsk_txn_tags_missing *missing);
void rsk_recovery_gaps(struct rsk_link *l, rsk_recovery_gap_fn *gap, void *arg);
void rsk_recovery_named(struct rsk_link *l, uint32_t sid, uint64_t number, uint32_t transactions);
void rsk_recovery_retransmit(struct rsk_link *l, uint32_t sid, uint32_t lost, uint64_t from,
			     uint64_t to);
/* Counts the lost rail in the record of each stream. */
void rsk_recovery_rail_lost(struct rsk_link *l);
/* More than one rail is up: from now on slots of streams on the ring carry transaction tags. */
void rsk_recovery_several(struct rsk_link *l);
/* Writes the fabric that the link uses now into the record of each stream. */
void rsk_recovery_fabric(struct rsk_link *l);
void rsk_recovery_stir_all(struct rsk_link *l);
/* Threads that sleep on the stream wake and check it again. */
void rsk_recovery_stir(struct rsk_stream *s);

/* The stream with that id, paired or about to be, pinned; NULL: there is none. */
struct rsk_stream *rsk_recovery_paired(const struct rsk_link *l, uint32_t sid);

/*
 * Any thread: the progress thread takes over what this stream still has to repeat, or what a child
 * of ours waits for. False: it does not, for want of memory or a descriptor.
 */
bool rsk_recovery_linger_add(struct rsk_stream *s, int fd);

/*
 * True if closing the stream now could lose bytes that may still have to be repeated. Call with
 * tx_lock held.
 */
struct rsk_tx;
bool rsk_recovery_undrained(const struct rsk_tx *tx);

/* Calls @each for all streams of a link; each stream is pinned during its call. */
void rsk_recovery_each(struct rsk_link *l, void (*each)(struct rsk_stream *s, void *arg),
		       void *arg);

/*
 * Before a fork, called by the forking thread (recovery_tcp.c): from now on streams of this
 * process's links to other hosts use their TCP sockets, since a child can use only those. First
 * rsk_recovery_fork(), with no lock held and while the progress thread still works; then
 * rsk_recovery_forks(), with the pairing lock held.
 */
void rsk_recovery_fork(void);
void rsk_recovery_forks(void);
void rsk_recovery_fork_over(bool child);
/*
 * In exit(), where other threads still run: their streams continue on the TCP sockets, because
 * after the exit no end could tell which of the last bytes have arrived. The peers are asked to do
 * the same.
 */
void rsk_recovery_exit(void);
/*
 * True from that point on. Read with tx_lock held: a stream that rsk_recovery_exit() has not
 * reached sees this flag.
 */
bool rsk_recovery_exiting(void);

/* In the child: drops the work that the parent's progress thread has taken over. */
void rsk_recovery_forked(void);

/*
 * The peer is dead, or no end can tell what it has consumed: the bytes in flight are lost, and the
 * streams that had any are reset.
 */
void rsk_recovery_lost(struct rsk_link *l);

/* The peer ends in order: all that it put into stream @sid up to @cell is here. */
void rsk_recovery_ending(struct rsk_link *l, uint32_t sid, uint64_t cell);
void rsk_recovery_say_ending(struct rsk_link *l, struct rsk_control_conn *c);
/* Reports all that was read as consumed: what is not reported counts as left unread. */
void rsk_recovery_say_consumed(struct rsk_link *l);

/*
 * Any thread: the last descriptor of a paired stream is about to be closed. If the bytes that it
 * has put may still be lost, a copy of the descriptor keeps the connection open until they have
 * arrived; the kernel sends its FIN after that.
 */
void rsk_recovery_linger(struct rsk_stream *s, int fd);

/*
 * Any thread: the peer would find our control word about this stream in its program's next call.
 * Instead it must act on it now, whatever its program does: once the control word has arrived, the
 * peer's progress thread is told (APPLY).
 */
void rsk_recovery_call(struct rsk_stream *s);
/*
 * Sends the APPLY messages that are due. Called until it returns true, which means that all of them
 * were sent.
 */
bool rsk_recovery_say_apply(struct rsk_link *l, struct rsk_control_conn *c);
/* The peer has sent APPLY for this stream. */
void rsk_recovery_apply(struct rsk_link *l, uint32_t sid);

/* Continues the work that the progress thread has taken over. */
void rsk_recovery_work(void);
uint64_t rsk_recovery_next_ns(void);
/*
 * True if all these streams have sent their last control word or bytes, which are in flight or in
 * the TCP socket.
 */
bool rsk_recovery_idle(void);
/*
 * Any thread of an ending process, once rsk_recovery_idle() is true: the linger list is in family
 * memory, which stays when the process is gone.
 */
void rsk_recovery_end(void);

#endif
