/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - a link between two processes: a memory segment at each end, doorbells, a control socket.
 * Streams between the same two processes share it. Internal to stream/; pair/ and remote/ make
 * links.
 *
 * A link belongs to one process: a child of a fork has no mapping of its segments, and closes its
 * copies of the descriptors.
 */
#ifndef RSK_LINK_H
#define RSK_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rsock/splitmix.h>
#include <rsock/stats.h>

#include "lock.h"
#include "news.h"
#include "order.h"
#include "shm.h"
#include "sleep_set.h"

struct rsk_stream;

/*
 * To another host there are as many doorbells as a word of the segment has bits, made as they are
 * taken; on one host the first RSK_SEG_DOORBELLS of them.
 */
#define RSK_LINK_DOORBELLS 64u

enum rsk_link_state {
	RSK_LINK_HANDSHAKING,
	RSK_LINK_UP,
	RSK_LINK_DEAD
};

/* Streams by id, RSK_SEG_REACH at a time; arena memory, allocated at the first one. */
struct rsk_link_part {
	_Atomic(struct rsk_stream *) stream[RSK_SEG_REACH];
};

struct rsk_link {
	struct rsk_seg seg;
	_Atomic(uint32_t) state; /* enum rsk_link_state */
	int maker;		 /* pid */
	int peer_pid;		 /* from SO_PEERCRED, or from rsockd */
	uint32_t peer_uid;
	/* rsockd vouches for a peer whose files in /proc we may not read. */
	bool vouched;
	/*
	 * The endpoint that was connected to, or rsockd's name of the link; 0 on the accepting
	 * side.
	 */
	uint64_t peer_nonce;
	/*
	 * The version of the peer's library, if it is another one: the link stays in the handshake,
	 * and only says so of streams (other_version.c). 0: it is ours, or not known yet.
	 */
	uint32_t other_version;
	/* Its streams have even ids, the other end's have odd ones. */
	bool initiator;
	int control; /* SOCK_SEQPACKET */
	/*
	 * One for each sleeper, from rsk_link_make_doorbells() or rsk_link_hear() on; -1: there is
	 * none. Whoever has taken a doorbell makes what is not there; others read its wake_fd once
	 * it is announced (relaxed: the announcement and the look for it are seq_cst).
	 *
	 * doorbell: on one host, doorbells that the peer holds too: only polled, never read or
	 * written.
	 *
	 * wake_fd: wake eventfds, which no peer holds, to wake sleepers of our own. On one host
	 * there is one for the link; to another host one each, emptied by its sleeper.
	 *
	 * wait_fd: the descriptor to sleep on, polled for POLLIN: an epoll set of the two; to
	 * another host, of the completion channel (news_fd, borrowed) instead of a doorbell.
	 */
	int doorbell[RSK_SEG_DOORBELLS];
	_Atomic(int) wake_fd[RSK_LINK_DOORBELLS];
	int wait_fd[RSK_LINK_DOORBELLS];
	int news_fd;
	struct rsk_sleep_set sleep_set[RSK_SEG_DOORBELLS]; /* each: whoever has the doorbell */
	/*
	 * Generation of its rail; 0: it has none. Changed by the progress thread, under the pairing
	 * lock.
	 */
	_Atomic(uint32_t) epoch;
	/* A stream of it has a control word that cannot wait: recovery.h. */
	_Atomic(bool) apply_due;
	_Atomic(bool) credit_due; /* a sender of it waits on a full ring: credit.h */
	_Atomic(bool) repair_due; /* a slot in a ring of it is not whole: slot_repair.h */
	/* Remote: the progress thread no longer uses it; the link is not freed before. */
	_Atomic(bool) let_go;
	/*
	 * Remote: a rail was lost, and the control connection has not delivered the other end's
	 * report of that yet. The network that failed may be the control connection's, and that of
	 * the TCP sockets too. The progress thread writes it, senders with a full ring read it;
	 * seq_cst.
	 */
	_Atomic(bool) tcp_doubted;
	/*
	 * Leads nowhere: it was this process's parent's, or never had a peer. One thread sets it.
	 */
	bool hollow;
	/* To another host: news arrives by completions as well (rdma.h). */
	bool remote;
	/*
	 * Remote: the form of the peer's transaction tags (txn_tags.h); set before the link is up.
	 */
	struct rsk_order_form order;
	/* One bit each, also of those that can never be taken. */
	_Atomic(uint64_t) doorbells_taken;
	/*
	 * Exclusive doorbells that were given back while signalled; written by the thread that
	 * holds the doorbell's bit in doorbells_taken.
	 */
	_Atomic(uint32_t) doorbells_rung;
	uint32_t number;		     /* for the record */
	char fabric[RSK_STATS_FABRIC_BYTES]; /* also for the record; pairing lock */
	_Atomic(uint32_t) streams;
	_Atomic(uint32_t) messages_seen;
	/*
	 * Requests of ours that are not answered yet: pm_transaction.c, pm_steps.c. Incremented
	 * under the pairing lock, decremented also by the thread that frees the stream; seq_cst. If
	 * a thread reads a value that is too high, the progress thread, which is called after each
	 * decrement, checks again.
	 */
	_Atomic(uint32_t) asking;
	/* Remote: streams wait for their turn to ask; under the pairing lock. */
	bool waits;
	uint32_t next_sid; /* the next id to try; under the pairing lock */
	_Atomic(struct rsk_link_part *) part[RSK_SEG_STREAMS / RSK_SEG_REACH];
};

struct rsk_link *rsk_link_new(bool initiator);
/*
 * A link that leads nowhere, with room for one stream, whose rings stay unused. NULL: no memory. It
 * is never freed.
 */
struct rsk_link *rsk_link_hollow(void);
/*
 * In the child of a fork: removes everything that leads to the peer. @asleep: puts private memory
 * without effect in the place of the segments.
 */
void rsk_link_forked(struct rsk_link *l, bool asleep);
/* call it before set_stream(): 0 or -errno */
int rsk_link_reach(struct rsk_link *l, uint32_t sid);
/* No stream, and none will come: a sweep is worthwhile. */
bool rsk_link_useless(const struct rsk_link *l);

/* Frees an unused link: its mappings, fds, and memory. */
void rsk_link_drop(struct rsk_link *l);

/*
 * rsk_links_use, rsk_links_let_go - In between, this thread may use links which it has found
 * without a stream's pin (epoll_wait.c): none is freed. Signals are deferred in between, so that no
 * handler leaves by a jump.
 *
 * rsk_links_used - Whether a thread of this process is in between. A thread that begins later does
 * not find what was removed from the lists before: all of it seq_cst.
 *
 * Threads count themselves in different words, each in its cache line, so that waits of threads
 * that have nothing to do with each other do not slow each other down.
 */
#define RSK_LINK_USERS 16
extern struct rsk_link_users {
	_Alignas(64) _Atomic(uint32_t) n;
} rsk_link_users[RSK_LINK_USERS];
extern __thread struct rsk_link_users *rsk_link_users_mine; /* NULL: not chosen yet */
void rsk_link_users_choose(void);

static inline void rsk_links_use(void)
{
	rsk_sigdefer_enter();
	if (__builtin_expect(!rsk_link_users_mine, 0))
		rsk_link_users_choose();
	atomic_fetch_add(&rsk_link_users_mine->n, 1);
}

static inline void rsk_links_let_go(void)
{
	atomic_fetch_sub(&rsk_link_users_mine->n, 1);
	rsk_sigdefer_exit();
}

bool rsk_links_used(void);
void rsk_links_used_by_none(void); /* in the child of a fork */

/*
 * The key of a stream over this link's present rail: bytes that an earlier rail left in ring and
 * control words do not pass the check with it. The pairing lock is held, or the caller is the
 * progress thread.
 */
static inline uint64_t rsk_link_key(const struct rsk_link *l, uint64_t key)
{
	uint64_t z = key + atomic_load(&l->epoch) * RSK_SPLITMIX_STEP;

	if (!atomic_load(&l->epoch))
		return key;
	return rsk_splitmix_mix(z);
}

/*
 * For a link on one host: makes its doorbells, before other threads know the link. 0 or -errno; on
 * an error the link owns what was made.
 */
int rsk_link_make_doorbells(struct rsk_link *l);
void rsk_link_no_doorbells(struct rsk_link *l); /* a new link, or one that leads nowhere */
void rsk_link_close_doorbells(struct rsk_link *l);

/*
 * An exclusive doorbell: number @like, if it is free, or any; RSK_SEG_SHARED_DOORBELL if none is
 * free, or no descriptor. Signal-safe.
 */
uint32_t rsk_link_take_doorbell(struct rsk_link *l, uint32_t like);
void rsk_link_give_doorbell(struct rsk_link *l, uint32_t i); /* no effect on the shared one */

/*
 * Adds the peer end of doorbell @i to the epoll set @set, edge-triggered: each ringing is an event.
 * One may be reported at once. 0 or -errno. rsk_link_unwatch() removes it, as long as the link
 * exists.
 */
int rsk_link_watch(const struct rsk_link *l, uint32_t i, int set, uint64_t data);
void rsk_link_unwatch(const struct rsk_link *l, uint32_t i, int set);

/*
 * Wakes the sleepers on those doorbells by the wake eventfd; on one host also those on the link's
 * other doorbells. No peer can undo that.
 */
void rsk_link_strike(const struct rsk_link *l, uint64_t doorbells);

/*
 * For a link to another host: its doorbells also signal completions (@news_fd, borrowed). Otherwise
 * as rsk_link_make_doorbells().
 */
int rsk_link_hear(struct rsk_link *l, int news_fd);

/* The stream with an id; NULL: none. Not pinned. */
static inline struct rsk_stream *rsk_link_stream(const struct rsk_link *l, uint32_t sid)
{
	struct rsk_link_part *part = atomic_load(&l->part[sid / RSK_SEG_REACH]);

	return part ? atomic_load(&part->stream[sid % RSK_SEG_REACH]) : NULL;
}

static inline void rsk_link_set_stream(struct rsk_link *l, uint32_t sid, struct rsk_stream *s)
{
	atomic_store(&atomic_load(&l->part[sid / RSK_SEG_REACH])->stream[sid % RSK_SEG_REACH], s);
}

/*
 * A doorbell to sleep on. Exclusive while one is free: its one sleeper takes the edges out of its
 * epoll set. Otherwise the shared one, whose edges each sleeper gets through an epoll set of its
 * own.
 *
 * take; loop { ready; announce; check; sleep; if it was rung: rang }; give. A signalled doorbell
 * stays so until ready(), which runs after the work that it announced, so that the peer does not
 * wait for it. To another host rang() takes the completions, unless the progress thread does
 * (@news, of the sleep; rsk_news_sleep_begin(rsk_doorbell_needs_progress()) before it).
 */
struct rsk_doorbell {
	struct rsk_link *l; /* NULL: none taken */
	uint32_t index;
	int fd; /* of any sleep */
	bool rung;
};

int rsk_doorbell_take(struct rsk_doorbell *b, struct rsk_link *l); /* 0 or -errno: no fd left */
bool rsk_doorbell_needs_progress(const struct rsk_doorbell *b);
int rsk_doorbell_fd(const struct rsk_doorbell *b, enum rsk_news news); /* poll it for POLLIN */
void rsk_doorbell_rang(struct rsk_doorbell *b, enum rsk_news news);
/* Call it before an announcement, and the check after it. */
void rsk_doorbell_ready(struct rsk_doorbell *b);
void rsk_doorbell_give(struct rsk_doorbell *b);

#endif
