/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locked.h - locked access: lock, access and unlock of a record in the peer's memory as one
 * operation, during which nothing waits. The port table (port_table.c) uses it.
 * Source: US2016043965 (a lock access over a network, offloaded); how and why:
 * docs/adr/locked-access.md.
 *
 * A record is a lock word and two slots for each of its holders:
 *
 *	0	lock word	who holds the lock (0: nobody), which slot has the content, version
 *	64	slots		struct rsk_locked_slot [2 * holders]
 *
 * The next content is composed in a slot that only its own holder writes. One compare-and-swap of
 * the lock word, from "free, version v" to "free, version v + 1, in that slot", is lock, access and
 * unlock at once. If the lock is held the word differs, so neither access nor unlock happens. The
 * content is consistent at any time, wherever a process dies. A holder can also keep the lock, by
 * its number in the word, and make accesses under it; no initiator of the library does
 * (mechanisms/locked/ has these operations). If the word of a held lock has not changed for
 * a while, another initiator may break the lock (BREAK), without knowing whether the holder is
 * alive: a later operation of that holder finds another word than it expects, and is refused.
 *
 * Shared words: the lock word is changed by compare-and-swap only (acquire and release; by any
 * holder). A slot is written by its holder, while it is not the last one that it committed
 * (relaxed, before the word's release), and read by all (relaxed, after the word's acquire). A
 * reader whose slot is overwritten meanwhile detects it by version or hash, and by the word, which
 * has changed.
 */
#ifndef RSK_LOCKED_H
#define RSK_LOCKED_H

#include "fabric.h"

/* Maximum number of holders of a record; numbers begin with 1. */
#define RSK_LOCKED_HOLDERS 64u
/* Measures of which each holder has an amount of its own. */
#define RSK_LOCKED_SHARES 3u
/* Words of the content: sums of the holders' amounts, their limits, and one more. */
#define RSK_LOCKED_WORDS 7u
/* Index of the first limit; UINT64_MAX: no limit. */
#define RSK_LOCKED_LIMIT RSK_LOCKED_SHARES
#define RSK_LOCKED_FREE (2 * RSK_LOCKED_SHARES)
#define RSK_LOCKED_HEAD_BYTES 64u

/*
 * One version of the content, and its holder's own amounts at that version. It is copied from the
 * shared slot before it is checked; hash = XXH3-64 of the rest.
 */
struct rsk_locked_slot {
	uint64_t hash;
	uint64_t word; /* the lock word of this version, when free */
	/* One bit per holder: which of its two slots it committed last. */
	uint64_t turn;
	uint64_t joined; /* one bit per holder: it has joined */
	uint64_t number; /* number of the operation, counted by its holder */
	uint64_t zero;
	uint64_t own[RSK_LOCKED_SHARES];
	/* Sums of own[] of all holders that have joined; limits; others. */
	uint64_t shared[RSK_LOCKED_WORDS];
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

/*
 * What an initiator has read of a record and checked: the content, and the last slots that it (and
 * rsk_locked.who) committed.
 */
struct rsk_locked_view {
	uint64_t word;
	struct rsk_locked_slot now, mine, whose;
};

/*
 * An initiator at a record: one holder, with one owner. Owned by the caller; one thread and one
 * operation at a time. @view is what the last operation left, including one that was refused.
 */
struct rsk_locker {
	uint64_t off; /* of the record in the peer's segment; a multiple of 64 */
	uint32_t holders;
	uint32_t me;	 /* 1 .. holders */
	uint64_t number; /* of the last operation */
	/* @view is of this record: the next operation can be planned without a read. */
	bool known;
	struct rsk_locked_view view;
};

enum rsk_locked_kind {
	RSK_LOCKED_READ, /* reads the content into by->view.now */
	/* Stores words[0 .. n) to shared[at ..), which must not be sums. */
	RSK_LOCKED_WRITE,
	/* Adds @delta to own[] and the sums: all of it, or nothing: -ENOSPC, -ERANGE. */
	RSK_LOCKED_SHARE,
	/* Frees the lock if the word is still @expected, else -ESTALE. */
	RSK_LOCKED_BREAK,
	/* Joins with own[] of 0; releases what the same holder had before. */
	RSK_LOCKED_JOIN,
	/* The holder @who is gone, and its amounts are released. */
	RSK_LOCKED_LEAVE,
	RSK_LOCKED_KINDS
};

/*
 * One operation. Owned by the caller, borrowed until it is done.
 *
 * Results: 0 (rsk_shm_locked(): 1): done. -EBUSY: refused, another holder
 * had the lock or changed it at each of 1 + @retries tries; by->view.word tells which. -ENOSPC: a
 * sum would be above its limit; -ERANGE: an amount would be below 0; -ESTALE: this holder has not
 * joined (any more), or does not have the lock (any more). -EBADMSG: not a record, or a corrupt
 * one. On an error nothing was changed, unless it says that the rail broke (-ENETDOWN, -EIO ...):
 * then the operation may have been executed. Issued again unchanged (@number is kept), at the same
 * record, it is executed once.
 */
struct rsk_locked {
	struct rsk_locker *by;
	uint32_t kind; /* enum rsk_locked_kind */
	uint32_t retries;
	uint32_t at, n;
	uint32_t who;	   /* LEAVE */
	uint64_t expected; /* BREAK */
	uint64_t words[RSK_LOCKED_WORDS - RSK_LOCKED_LIMIT];
	int64_t delta[RSK_LOCKED_SHARES];
	uint64_t number; /* 0: it is new */
	/* Result: */
	uint32_t tries;
};

/* How an operation changes a record. */
struct rsk_locked_next {
	uint64_t from, to; /* the lock word */
	bool staged;	   /* @slot has to contain @content before that */
	uint32_t slot;
	struct rsk_locked_slot content;
};

/*
 * Initialises a record without holders, in memory of RSK_LOCKED_BYTES, aligned to 64, that is not
 * in use yet. @limit: of the sums.
 */
void rsk_locked_init(void *record, uint32_t holders,
		     const uint64_t limit[static RSK_LOCKED_SHARES]);

/*
 * Initialises an initiator. @number: where its operation numbers start; two incarnations of one
 * holder must not use the same number (a clock in ns is suitable).
 */
void rsk_locker_init(struct rsk_locker *l, uint64_t off, uint32_t holders, uint32_t me,
		     uint64_t number);

/*
 * The steps of an operation. begin(): checks and numbers the operation; the record has to be within
 * @bytes of segment. Returns 0 or -EINVAL. load(): a checked view of the record at @record (shared
 * memory, or an image of it) as seen by op->by. Returns 0; -EAGAIN: it was changed meanwhile;
 * -EBADMSG. plan(): what the operation does to that view. Returns 1: @next; 0: it is done; -errno
 * as above. commit(): executes @next at a record in memory of this host. Returns 0, or -EAGAIN: it
 * was changed meanwhile. took(): @next was executed, and op->by updates its view. run(): all of it,
 * by this processor. None blocks or allocates; signal-safe if no handler uses the same locker.
 */
int rsk_locked_begin(struct rsk_locked *op, uint64_t bytes);
int rsk_locked_load(const void *record, const struct rsk_locked *op, struct rsk_locked_view *view);
int rsk_locked_plan(const struct rsk_locked *op, const struct rsk_locked_view *view,
		    struct rsk_locked_next *next);
void rsk_locked_took(struct rsk_locked *op, const struct rsk_locked_next *next);
int rsk_locked_commit(void *record, struct rsk_locked *op, const struct rsk_locked_next *next);
int rsk_locked_run(void *record, struct rsk_locked *op);

/* begin() and run() at a record in the window of a rail of shm. Returns 1, or -errno. */
int rsk_shm_locked(struct rsk_rail *rail, struct rsk_locked *op);

/*
 * Watches a lock that is held and does not change. @word: as last seen (by->view.word). Returns
 * true if it has been the same for at least @limit_ns, as far as this watch was asked: then BREAK
 * it, with @word as @expected. Zeroed at first.
 */
struct rsk_locked_watch {
	uint64_t word, since_ns;
};
bool rsk_locked_overdue(struct rsk_locked_watch *w, uint64_t word, uint64_t now_ns,
			uint64_t limit_ns);

/*
 * Adds up the amounts of all holders: the sums must match, and each current slot must be whole.
 * Returns 0; -EAGAIN: others change it; -EBADMSG. @view: as seen by a holder that has not joined;
 * may be NULL.
 */
int rsk_locked_validate(const void *record, uint32_t holders, struct rsk_locked_view *view);

#endif
