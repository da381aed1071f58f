/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recovery.h - what becomes of the streams of a link to another host when its rail breaks, comes back, or its peer
 * dies; and of those that are closed while their last bytes are still on the way. Keeper only, but what says so.
 */
#ifndef RSK_RECOVERY_H
#define RSK_RECOVERY_H

#include "control_conn.h"
#include "link.h"
#include "txn_tags.h"

#define RSK_RECOVERY_PATIENCE_NS                                                                   \
	5000000000ull /* how long an ending process waits for what it has put */

/*
 * The rail broke: nothing comes in any more. Each stream goes on by its companion; @say tells the other end what
 * this one has consumed, from where it is to repeat, and what it may have to repeat itself (rsk_tx_owed_to()).
 */
typedef void rsk_recovery_say_fn(void *arg, uint32_t sid, uint64_t pos, uint64_t cell,
				 uint64_t owed);
void rsk_recovery_break(struct rsk_link *l, rsk_recovery_say_fn *say, void *arg);

/*
 * The other end has consumed so much: what it has not is repeated, in order, before anything newer. And @owed bytes
 * are to come from there before an end. rsk_recovery_resumed(): that was said of all streams that it has; what it put into
 * others had arrived when they were closed.
 */
void rsk_recovery_resume(struct rsk_link *l, uint32_t sid, uint64_t pos, uint64_t cell,
			 uint64_t owed);
void rsk_recovery_resumed(struct rsk_link *l);

/* One has bytes of which the other end has not said yet whether it has them. */
bool rsk_recovery_is_broken(struct rsk_link *l);

/* Another rail is up, the link has its epoch: streams may be promoted again, under keys of it. @each: of them. */
void rsk_recovery_renew(struct rsk_link *l, void (*each)(void *arg, uint32_t sid), void *arg);

/*
 * One of several rails is gone (recovery_rails.c). Of every stream, what has not come by any of them: ranges of its ring's
 * indexes, @gap is called with, the last one of a stream also with the transactions that this makes. Then, at the other
 * end: what it had carried of these is put once more, by the others; or what nobody carries (RSK_RAILS_NOBODY).
 */
typedef void rsk_recovery_gap_fn(void *arg, uint32_t sid, uint64_t from, uint64_t to,
				 const struct rsk_txn_tags_missing *missing);
void rsk_recovery_gaps(struct rsk_link *l, rsk_recovery_gap_fn *gap, void *arg);
void rsk_recovery_retransmit(struct rsk_link *l, uint32_t sid, uint32_t lost, uint64_t from,
			     uint64_t to);
void rsk_recovery_rail_lost(struct rsk_link *l); /* for the record of each */
void rsk_recovery_several(
	struct rsk_link
		*l); /* more than one is up: slots of what is on the ring have marks from now on */
void rsk_recovery_fabric(struct rsk_link *l); /* the record of each says what the link has now */
void rsk_recovery_stir_all(struct rsk_link *l);
void rsk_recovery_stir(struct rsk_stream *s); /* whoever sleeps on it looks again */

/* The stream of an id, joined or about to be, pinned; NULL: none. */
struct rsk_stream *rsk_recovery_paired(const struct rsk_link *l, uint32_t sid);

/*
 * Any thread: the keeper looks after what this stream still has to repeat, or what a child of ours waits for. False: it
 * does not, for want of memory or a descriptor.
 */
bool rsk_recovery_linger_add(struct rsk_stream *s, int fd);

/* Closed now, would it take with it what may still have to be repeated? tx_lock held. */
struct rsk_tx;
bool rsk_recovery_undrained(const struct rsk_tx *tx);

/* All streams of a link, pinned meanwhile. */
void rsk_recovery_each(struct rsk_link *l, void (*each)(struct rsk_stream *s, void *arg),
		       void *arg);

/*
 * Before a fork, by its thread (recovery_tcp.c): streams of this process's links to other hosts go by their companions
 * from now on, since a child could use them there only. First with no lock in hand, while the keeper works; then
 * rsk_recovery_forks(), with the join lock.
 */
void rsk_recovery_fork(void);
void rsk_recovery_forks(void);
void rsk_recovery_fork_over(bool child);
/*
 * In exit(), where other threads go on: so do the streams, by their companions, for nobody could say later what of
 * their last bytes has come. Peers are called to do the same.
 */
void rsk_recovery_exit(void);
bool rsk_recovery_exiting(void); /* since then; tx_lock held: who is not told by it sees this */

void rsk_recovery_forked(
	void); /* in the child: what its parent looks after is none of its business */

/* The peer is dead, or nobody can say what it has consumed: what was under way is lost, and its streams are reset. */
void rsk_recovery_lost(struct rsk_link *l);

/* The peer ends in order: all that its stream @sid put is here, up to @cell. */
void rsk_recovery_ending(struct rsk_link *l, uint32_t sid, uint64_t cell);
void rsk_recovery_say_ending(struct rsk_link *l, struct rsk_control_conn *c);
/* All that was read is told of as consumed: what is not then counts as left unread. */
void rsk_recovery_say_consumed(struct rsk_link *l);

/*
 * Any thread: the last descriptor of a joined stream is about to be closed. Where what it has put may still be
 * lost, the connection is kept open, by a copy of the descriptor, until it has arrived: the kernel's FIN follows
 * then.
 */
void rsk_recovery_linger(struct rsk_stream *s, int fd);

/*
 * Any thread: the peer finds our mail about this stream in its program's next call. It is to act on it now, whatever
 * its program does: its keeper is told, as soon as the mail is there.
 */
void rsk_recovery_call(struct rsk_stream *s);
/* To be told; called until it returns true: all that there were. */
bool rsk_recovery_say_apply(struct rsk_link *l, struct rsk_control_conn *c);
/* So we have been told. */
void rsk_recovery_apply(struct rsk_link *l, uint32_t sid);

void rsk_recovery_work(void); /* looks after those */
uint64_t rsk_recovery_next_ns(void);
bool rsk_recovery_idle(
	void); /* they have all said their last word: it is on its way, or in the companion */
/* Any thread of a process that ends, once that is so: they are family memory, which stays when the process is gone. */
void rsk_recovery_end(void);

#endif
