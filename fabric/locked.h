/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locked.h - locked access: lock, access and unlock of a record in the peer's memory as one operation, for
 * which nobody waits in between. Source: US2016043965 (a lock access over a network, offloaded); how and why:
 * docs/adr/locked-access.md.
 *
 * A record is a lock word and two slots for each of its holders:
 *
 *	0	lock word	who holds the lock (0: nobody), which slot has the content, and its version
 *	64	slots		struct rsk_locked_slot [2 * holders]
 *
 * What is to be the content next is composed in a slot that only its own holder writes, and one compare-and-
 * swap of the lock word from "free, version v" to "free, version v + 1, in that slot" is lock, access and
 * unlock at once. A lock that somebody holds differs in the word, so nothing happens then, neither access nor
 * unlock. The content is whole at any time, whoever dies wherever. One who needs it for longer takes the lock
 * (LOCK), makes accesses under it, and gives it back (UNLOCK); if the word of a held lock has not changed for
 * a while, whoever saw that may break it (BREAK), without knowing whether the holder is alive: what a broken
 * holder does afterwards finds another word than it expects, and is refused.
 *
 * Shared words: the lock word is changed by compare-and-swap only (acquire and release; by whoever has a
 * number), slots are written by the one whose they are while they are not the last that it committed
 * (relaxed, before the word's release), and read by all (relaxed, after the word's acquire). Who reads a slot
 * that is written anew meanwhile sees it by version or hash, and by the word, that has changed. All changes
 * have to come by one way where a device's atomic operations and the processor's do not know of each other
 * (IBV_ATOMIC_HCA).
 */
#ifndef RSK_LOCKED_H
#define RSK_LOCKED_H

#include "fabric.h"

#define RSK_LOCKED_HOLDERS 64u /* of a record, at most; their numbers begin with 1 */
#define RSK_LOCKED_SHARES 3u   /* measures of which each holder has a share */
#define RSK_LOCKED_WORDS 7u    /* of the content: sums of shares, their limits, and one more */
#define RSK_LOCKED_LIMIT RSK_LOCKED_SHARES /* the first limit among them; UINT64_MAX: none */
#define RSK_LOCKED_FREE (2 * RSK_LOCKED_SHARES)
#define RSK_LOCKED_HEAD_BYTES 64u

/*
 * One version of the content, and what was its holder's own at it. Copied from a shared slot before it is looked at;
 * hash = XXH3-64 of the rest.
 */
struct rsk_locked_slot {
	uint64_t hash;
	uint64_t word; /* the lock word of this version, free */
	uint64_t turn; /* a bit per holder: in which of its two slots what it committed last lies */
	uint64_t joined; /* a bit per holder */
	uint64_t number; /* of the operation, as its holder counts them */
	uint64_t result; /* what the operation found (rsk_locked.old) */
	uint64_t own[RSK_LOCKED_SHARES];
	uint64_t shared[RSK_LOCKED_WORDS]; /* sums of own[] of all who have joined; limits; others */
};
_Static_assert(sizeof(struct rsk_locked_slot) == 128, "two cache lines");

#define RSK_LOCKED_BYTES(holders)                                                                  \
	(RSK_LOCKED_HEAD_BYTES + 2ull * (holders) * sizeof(struct rsk_locked_slot))

/* The lock word: bits 0-7 holder, 8-15 slot, 16-63 version. */
static inline uint32_t rsk_locked_holder(uint64_t word)
{
	return word & 0xff;
}
static inline uint32_t rsk_locked_slot_of(uint64_t word)
{
	return word >> 8 & 0xff;
}
static inline uint64_t rsk_locked_version(uint64_t word)
{
	return word >> 16;
}

/* What an initiator has seen of a record, checked: the content, and the last that it (and rsk_locked.who) committed. */
struct rsk_locked_view {
	uint64_t word;
	struct rsk_locked_slot now, mine, whose;
};

/*
 * An initiator at a record: one holder, for which nobody else acts. Owned by the caller, one thread at a time, one
 * operation at a time. @view is what the last one left, also of one that was refused.
 */
struct rsk_locker {
	uint64_t off; /* of the record in the peer's segment; a multiple of 64 */
	uint32_t holders;
	uint32_t me;	 /* 1 .. holders */
	uint64_t number; /* of the last operation */
	bool known;	 /* @view is of this record */
	struct rsk_locked_view view;
};

enum rsk_locked_kind {
	RSK_LOCKED_READ,  /* the content, to by->view.now */
	RSK_LOCKED_WRITE, /* words[0 .. n) to shared[at ..), which are no sums */
	RSK_LOCKED_ADD,	  /* @value to shared[at], no sum; what it was in @old */
	RSK_LOCKED_SWAP, /* @value to shared[at], no sum, if it is @expected; what it was in @old */
	RSK_LOCKED_SHARE, /* @delta to own[] and the sums: all of it, or nothing: -ENOSPC, -ERANGE */
	RSK_LOCKED_LOCK,  /* keep the lock */
	RSK_LOCKED_UNLOCK, /* give it back; -ESTALE: it was broken */
	RSK_LOCKED_BREAK,  /* free the lock if the word is still @expected, else -ESTALE */
	RSK_LOCKED_JOIN,   /* own[] is 0 from here on; what a former life has left is given back */
	RSK_LOCKED_LEAVE,  /* the holder @who is no more, and its share is given back */
	RSK_LOCKED_KINDS
};

/*
 * One operation. Owned by the caller, borrowed from locked() until it is done.
 *
 * Results, of locked() or of its completion: 0 (locked(): 1) done. -EBUSY: refused, somebody held the lock, or it was
 * changed by others, at each of 1 + @retries tries; by->view.word says who. -ENOSPC: a sum would be above its limit;
 * -ERANGE: a share would be below 0; -ESTALE: not joined (any more), not one's lock (any more). -EBADMSG: no record, or
 * one that was harmed. Whenever it is not 0, nothing was changed, but with what says that the rail broke (-ENETDOWN,
 * -EIO ...): then it may have been done. Issued again as it is (@number is kept), at the same record, it is done once.
 */
struct rsk_locked {
	struct rsk_locker *by;
	enum rsk_locked_kind kind;
	uint32_t retries;
	uint32_t at, n;
	uint32_t who; /* LEAVE */
	uint64_t value, expected;
	uint64_t words[RSK_LOCKED_WORDS - RSK_LOCKED_LIMIT];
	int64_t delta[RSK_LOCKED_SHARES];
	uint64_t number; /* 0: it is new */
	/* out */
	uint64_t old;
	uint32_t tries;
};

/* How an operation changes a record. */
struct rsk_locked_next {
	uint64_t from, to; /* the lock word */
	bool staged;	   /* @slot is to hold @content before that */
	uint32_t slot;
	struct rsk_locked_slot content;
};

/* A record without anybody, at memory of RSK_LOCKED_BYTES, aligned to 64. @limit: of sums. Nobody uses it yet. */
void rsk_locked_init(void *record, uint32_t holders,
		     const uint64_t limit[static RSK_LOCKED_SHARES]);

/*
 * An initiator. @number: from where its operations are counted; of two lives of one holder no two numbers may be the
 * same (a clock in ns will do).
 */
void rsk_locker_init(struct rsk_locker *l, uint64_t off, uint32_t holders, uint32_t me,
		     uint64_t number);

/*
 * For fabrics. begin(): checks and numbers it; the record has to lie in @bytes of segment. 0 or -EINVAL.
 * load(): a checked view of the record at @record (shared memory, or an image of it) as seen by op->by; 0,
 * -EAGAIN: it was changed meanwhile, -EBADMSG. plan(): what the operation does to what was seen: 1: @next; 0:
 * it is done; -errno as above. took(): that was done, op->by has seen it. run(): all of it, by this
 * processor. Never block, allocate nothing, signal-safe as far as no handler uses the same locker.
 */
int rsk_locked_begin(struct rsk_locked *op, uint64_t bytes);
int rsk_locked_load(const void *record, const struct rsk_locked *op, struct rsk_locked_view *view);
int rsk_locked_plan(struct rsk_locked *op, const struct rsk_locked_view *view,
		    struct rsk_locked_next *next);
void rsk_locked_took(struct rsk_locked *op, const struct rsk_locked_next *next);
int rsk_locked_run(void *record, struct rsk_locked *op);

/* The op locked() where the window is the peer's memory (shm). */
int rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op, uint64_t token);

/*
 * A lock that is held and does not change. @word: as last seen (by->view.word); true: it has been the same
 * for @limit_ns at least, as far as this watch was asked: BREAK it, @expected is @word. Zeroed to begin with.
 */
struct rsk_locked_watch {
	uint64_t word, since_ns;
};
bool rsk_locked_overdue(struct rsk_locked_watch *w, uint64_t word, uint64_t now_ns,
			uint64_t limit_ns);

/*
 * Adds up what all have: the sums must be of it, each slot that counts be whole. While others change it: -EAGAIN. 0 or
 * -EBADMSG. @view: as of a holder that has not joined; may be NULL.
 */
int rsk_locked_validate(const void *record, uint32_t holders, struct rsk_locked_view *view);

#endif
