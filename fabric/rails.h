/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rails.h - several rails to the same peer and segment that look like one. Over any fabric that is RELIABLE.
 *
 * Slots of a stream are striped over the rails that are up, by how fast each goes and how much it has under way; they
 * land in any order, and are taken by their index. Mails are overwritten in place, so that an older one must not land
 * behind a newer one: they go by one rail, the *lead*.
 *
 * A rail that dies takes with it what it carried and nobody knows how much of that has come. So:
 *
 *   rsk_rails_lost()    here it is closed: nothing comes in by it, nothing is put by it any more
 *   rsk_rails_closed()  at the other end, too: nothing that was put by it can land from now on. Another one leads,
 *                       and what the mails say now is put once more
 *   ops->again()        the other end names a slot that it misses: by others, if this one had carried it
 *   rsk_rails_named()   it has named all: the rest of what it carried has come
 *   rsk_rails_up()      it is there again
 *
 * Where rails are up, but none reaches the stream's ring yet, a slot is carried by RSK_RAILS_NOBODY: again() for that,
 * when one does (rsk_rails_changed()).
 *
 * A slot goes by a second rail only once it is certain that it can never land by the first: else it might do so when
 * its place has been taken by a newer one.
 *
 * Threads: ring puts of one stream come one at a time (its tx lock); those of different streams, and mails, at once.
 * What changes the rails themselves is the keeper's. Private memory of the process; a child of its cannot put.
 */
#ifndef RSK_RAILS_H
#define RSK_RAILS_H

#include "segment.h"

#define RSK_RAILS_MOST 4u
#define RSK_RAILS_NOBODY 0xffu /* carries a slot for which there is no rail for the moment */

enum rsk_rails_state {
	RSK_RAILS_DOWN, /* it is not there, and nothing that it carried is open */
	RSK_RAILS_UP,
	RSK_RAILS_LOST /* it broke; what the other end misses of it is not named yet */
};

/* Where what lies in the peer's segment. */
struct rsk_rails_layout {
	uint64_t ctl_off,
		ctl_step; /* control block of stream 0; to the next one's. The tx_word comes first in it, */
	uint64_t rx_word_off; /* and the rx_word there */
	uint64_t ring_off;    /* of stream 0 */
	uint32_t ring_bytes, streams;
};

/*
 * Counters of a stream's record, borrowed: a word each, that the holder of its tx lock alone writes (a plain load and
 * store, relaxed), and others read. No pointer: nobody counts.
 */
struct rsk_rails_record {
	uint64_t *bytes; /* [RSK_RAILS_MOST]: of slots, that were put by each */
	uint64_t *again; /* slots that were put again by others, as the rail that had carried them was lost */
};

/* What a stream has where. Owned by its rsk_rails; under the stream's tx lock. */
struct rsk_rails_stream {
	uint8_t last; /* rail of the newest slot */
	uint8_t used; /* a bit for each rail that may have something of it under way, as far as was asked */
	uint64_t again_end; /* where the next slot lies behind the one that was put again last */
	uint32_t waiting; /* it has slots that nobody carries, of the life of that number; 0: none */
	uint32_t run_bytes; /* by @last since it was chosen, */
	uint32_t changes;   /* at that time; 0: it has to be chosen */
	/* Keeper writes, while nothing is put for the stream, or what is there already. */
	struct rsk_rails_record record;
	uint8_t carried[]; /* [cells]: of a slot that begins there, the rail */
};

struct rsk_rails {
	struct rsk_rail *one; /* borrowed: what streams see; its ops and priv are ours */
	struct rsk_rails_layout at;
	/* Borrowed; window and segment are @one's. Keeper writes, before it is up; the first one is always there. */
	struct rsk_rail *_Atomic rail[RSK_RAILS_MOST];
	/* enum rsk_rails_state. Keeper writes, release; who puts reads, acquire. */
	_Atomic(uint8_t) state[RSK_RAILS_MOST];
	/*
	 * Keeper writes, seq_cst, before it puts all mails anew; who puts a mail reads it, seq_cst, behind what it has
	 * composed: so one of the two puts what is newest. -1: mails wait for one.
	 */
	_Atomic(int) lead;
	/*
	 * Keeper writes, seq_cst: before a lead is none any more, and behind the last mail that the next one has put
	 * anew. Who asks what has arrived reads it, seq_cst, behind @lead: so a lead that it has seen has had them all.
	 */
	_Atomic(bool) words_open;
	_Atomic(bool) several; /* more than one is up; keeper writes, release */
	/* Counts what makes those who put choose anew; never 0. Keeper writes, release. */
	_Atomic(uint32_t) changes;
	/* Counts rsk_rails_down(). Keeper writes, relaxed: streams have broken since. */
	_Atomic(uint32_t) lives;
	bool mute;    /* this process is a child, which cannot put; written before it has threads */
	bool fresh;   /* keeper: no rail has led since the whole of it was down */
	uint8_t open; /* keeper: rails that led, and by which a mail may still land */
	/* [at.streams]; stored by the keeper (release) before the stream may be put for, never taken away. */
	_Atomic(struct rsk_rails_stream *) *stream;
};

/* All of @one's links: 0 or -ENOMEM. None is up. */
int rsk_rails_init(struct rsk_rails *rs, struct rsk_rail *one, const struct rsk_rails_layout *at);
void rsk_rails_fini(struct rsk_rails *rs);

/* The layout of @seg's peer. */
struct rsk_rails_layout rsk_rails_layout_of(const struct rsk_seg *seg);

/*
 * Keeper, before anything is put for @sid, and again whenever the link has another epoch: 0, -EINVAL, -ENOMEM. @record:
 * what its stream counts into, for as long as it has that id.
 */
int rsk_rails_reach(struct rsk_rails *rs, uint32_t sid, const struct rsk_rails_record *record);

void rsk_rails_up(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_lost(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_closed(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_named(struct rsk_rails *rs, uint32_t rail);
/* A rail reaches what it did not before: who puts chooses anew. */
void rsk_rails_changed(struct rsk_rails *rs);
/* The whole of it broke: nobody asks for what was carried any more. */
void rsk_rails_down(struct rsk_rails *rs);

static inline enum rsk_rails_state rsk_rails_state(const struct rsk_rails *rs, uint32_t rail)
{
	return (enum rsk_rails_state)atomic_load_explicit(&rs->state[rail], memory_order_acquire);
}

/* How many are up. */
uint32_t rsk_rails_count(const struct rsk_rails *rs);

bool rsk_rails_validate(const struct rsk_rails *rs);

#endif
