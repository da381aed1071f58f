/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - what joins two processes: a segment at each end, bells, a control socket. Streams between the same
 * two processes share it. Internal to stream/.
 *
 * Of one process: a child of a fork has no mapping of its segments, and closes its copies of the descriptors.
 */
#ifndef RSK_LINK_H
#define RSK_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <rsock/stats.h>

#include "lock.h"
#include "order.h"
#include "shm.h"

struct rsk_stream;

enum rsk_link_state {
	RSK_LINK_HANDSHAKING,
	RSK_LINK_UP,
	RSK_LINK_DEAD
};

/* Streams by id, so many at once; arena memory, made at the first one. */
struct rsk_link_part {
	_Atomic(struct rsk_stream *) stream[RSK_SEG_REACH];
};

struct rsk_link {
	struct rsk_seg seg;
	_Atomic(uint32_t) state; /* enum rsk_link_state */
	int maker;		 /* pid */
	int peer_pid;		 /* as SO_PEERCRED says, or rsockd */
	uint32_t peer_uid;
	bool vouched;	     /* rsockd says who is there, whose files in /proc we may not see */
	uint64_t peer_nonce; /* endpoint met, or rsockd's name of the link; 0 on the accepting side */
	bool initiator;	     /* its streams have even ids, the other end's odd ones */
	int control;	     /* SOCK_SEQPACKET */
	/*
	 * One for each sleeper, from rsk_link_make_doorbells() or rsk_link_hear() on; -1: there is none.
	 * ring: on one host, doorbells that the peer has too: only waited for, never read or written.
	 * gong: eventfds that no peer has, to wake sleepers of our own: on one host there is one for
	 * the link, to another host one each, emptied by its sleeper.
	 * bell: to sleep on, poll for POLLIN: an epoll set of the two, and to another host of the
	 * completion channel instead of a doorbell.
	 */
	int doorbell[RSK_SEG_DOORBELLS];
	int wake_fd[RSK_SEG_DOORBELLS];
	int wait_fd[RSK_SEG_DOORBELLS];
	_Atomic(uint32_t)
		epoch; /* of its rail; 0: it has none. Changed by the keeper, under the join lock */
	_Atomic(bool) apply_due;  /* a stream of it has a word that cannot wait: recovery.h */
	_Atomic(bool) credit_due; /* a stream of it stands before a full ring: credit.h */
	_Atomic(bool) let_go;	  /* remote: the keeper has done with it; until then it stays */
	/*
	 * Remote: a rail was lost, and the control connection has not brought the other end's word of
	 * that yet. Its network may be the one that is gone, and that of the companions with it. The
	 * keeper writes, senders before a full ring read; seq_cst.
	 */
	_Atomic(bool) tcp_doubted;
	bool hollow; /* leads nowhere: it was the parent's of this process, or is none; one thread sets it */
	bool remote; /* to another host: its news come by completions as well (rdma.h) */
	struct rsk_order_form order; /* remote: of the peer's marks (txn_tags.h); before it is up */
	_Atomic(uint32_t) doorbells_taken;
	/* Exclusive ones that were given back as they rang; written by who has the bell's bit in doorbells_taken. */
	_Atomic(uint32_t) doorbells_rung;
	uint32_t number;		     /* for the record */
	char fabric[RSK_STATS_FABRIC_BYTES]; /* so is this; join lock */
	_Atomic(uint32_t) streams;
	_Atomic(uint32_t) messages_seen;
	/*
	 * Requests of ours that are not answered yet: pm_transaction.c. Up under the lock of pairing.c, down
	 * also by whoever frees the stream; seq_cst. Who reads it too high is looked for again by the
	 * keeper, which is called after it went down.
	 */
	_Atomic(uint32_t) asking;
	bool waits; /* remote: streams wait for their turn to ask; under the lock of pairing.c */
	uint32_t next_sid; /* to try; under the lock of pairing.c */
	_Atomic(struct rsk_link_part *) part[RSK_SEG_STREAMS / RSK_SEG_REACH];
};

struct rsk_link *rsk_link_new(bool initiator);
/* One that leads nowhere, with room for one stream, whose rings nobody uses; NULL: no memory. Kept for good. */
struct rsk_link *rsk_link_hollow(void);
/* In the child of a fork: nothing that leads to the peer is left. @asleep: memory without effect is in its place. */
void rsk_link_forked(struct rsk_link *l, bool asleep);
int rsk_link_reach(struct rsk_link *l, uint32_t sid); /* before set_stream(): 0 or -errno */
bool rsk_link_useless(const struct rsk_link *l); /* no stream, and none will come: worth a sweep */

/* Nobody uses it any more: mappings, fds, and memory go. */
void rsk_link_drop(struct rsk_link *l);

/*
 * Threads of this process that use links they found without a stream's pin (epoll_wait.c): none is freed meanwhile.
 */
extern _Atomic(uint32_t) rsk_link_users;

/*
 * The key of a stream over this link's rail of now: what an old one left in ring and mail cannot pass. Join lock
 * held, or the keeper.
 */
static inline uint64_t rsk_link_key(const struct rsk_link *l, uint64_t key)
{
	uint64_t z = key + atomic_load(&l->epoch) * 0x9e3779b97f4a7c15ull;

	if (!atomic_load(&l->epoch))
		return key;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* On one host: its doorbells. Before it is known to anybody. 0 or -errno, and what was made is the link's. */
int rsk_link_make_doorbells(struct rsk_link *l);

/*
 * Enters what rings bell @i into the epoll set @set, whose owner hears edges: each ring is one. It may ring at
 * once. 0 or -errno. rsk_link_unwatch() takes it out, as long as the link is there.
 */
int rsk_link_watch(const struct rsk_link *l, uint32_t i, int set, uint64_t data);
void rsk_link_unwatch(const struct rsk_link *l, uint32_t i, int set);

/* The sleepers of those bells are woken; on one host those of the link's others, too. No peer can undo that. */
void rsk_link_strike(const struct rsk_link *l, uint64_t doorbells);

/* To another host: its bells also ring for completions. As rsk_link_make_doorbells(). */
int rsk_link_hear(struct rsk_link *l, int news_fd);

/* The stream of an id, NULL: none. Not pinned. */
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
 * A bell to sleep on. Exclusive while one is free: its one sleeper takes the edges out of its epoll set. Else the
 * shared one, whose edges each sleeper hears through an epoll set of its own.
 *
 * take; loop { ready; announce; look; sleep; if it rang: rang }; give. What has rung stays so until ready(), which is
 * behind the work that the ring was for: a sleeper's peer does not wait for it. To another host rang() takes
 * the completions.
 */
struct rsk_doorbell {
	struct rsk_link *l; /* NULL: none taken */
	uint32_t index;
	int fd; /* poll it for POLLIN */
	bool rung;
};

int rsk_doorbell_take(struct rsk_doorbell *b, struct rsk_link *l); /* 0 or -errno: no fd left */
void rsk_doorbell_rang(struct rsk_doorbell *b);
void rsk_doorbell_ready(struct rsk_doorbell *b); /* before an announcement, and the look behind it */
void rsk_doorbell_give(struct rsk_doorbell *b);

#endif
