/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rails.h - several rails to the same peer and segment, presented as one rail. Works over any
 * fabric that is RELIABLE. The progress thread (stream/remote) sets it up; the direction machines
 * put through it.
 *
 * Slots of a stream are striped over the rails that are up, by the rate of each and by how much it
 * has under way. They land in any order, and are taken by index. Control words are overwritten in
 * place, so an older one must not land after a newer one: they all go by one rail, the *lead*.
 *
 * When a rail fails it is not known how much of what it carried has arrived. The sequence is:
 *
 *	rsk_rails_lost()	the rail is closed at this end: nothing arrives by it, and nothing
 *				is put by it any more
 *	rsk_rails_closed()	it is closed at the other end too: nothing that was put by it can
 *				land from now on. Another rail becomes the lead, and the current
 *				control words are put again
 *	ops->again()		the other end has named a slot that it is missing: it is put again
 *				by other rails, if the failed one had carried it
 *	rsk_rails_named()	the other end has named all: the rest of what the rail carried has
 *				arrived
 *	rsk_rails_up()		the rail is up again
 *
 * If rails are up, but none reaches the stream's ring yet, a slot is carried by RSK_RAILS_NOBODY;
 * again() puts those slots when one does (rsk_rails_changed()).
 *
 * A slot goes by a second rail only when it is certain that it can never land by the first, or has
 * landed; otherwise it could land after a newer slot has taken its place.
 *
 * A slot that has landed and was damaged in the peer's memory is put again for RSK_RAILS_ASKED, by
 * the lead, or by another rail that writes to the ring itself. Not by an indirect buffer: a copy
 * that waits there counts as arrived, and the peer would move it to its place later, where another
 * rail may have put a newer slot meanwhile.
 *
 * Threads: ring puts of one stream are serialised (its tx lock); those of different streams, and
 * control words, are concurrent. Only the progress thread changes the rails themselves. The memory
 * is private to the process; its fork children cannot put.
 */
#ifndef RSK_RAILS_H
#define RSK_RAILS_H

#include "segment.h"

#define RSK_RAILS_MOST 4u
/* Carries a slot for which there is no rail at the moment. */
#define RSK_RAILS_NOBODY 0xffu
/* Instead of a rail that was lost: the slot has arrived, but the peer cannot use it (again()). */
#define RSK_RAILS_ASKED 0xfeu

enum rsk_rails_state {
	/* Not there, and nothing that it carried is unresolved. */
	RSK_RAILS_DOWN,
	RSK_RAILS_UP,
	/* It broke, and the other end has not named yet what it is missing. */
	RSK_RAILS_LOST
};

/* Offsets in the peer's segment. */
struct rsk_rails_layout {
	/*
	 * Control block of stream 0; distance to the next one. The TX control word is its first
	 * field.
	 */
	uint64_t ctl_off, ctl_step;
	uint64_t rx_word_off; /* offset of the RX control word in it */
	uint64_t ring_off;    /* of stream 0 */
	uint32_t ring_bytes, streams;
};

/*
 * Counters of a stream's record, borrowed. Only the holder of its tx lock writes them (a plain load
 * and store, relaxed); others read them. NULL: nothing is counted.
 */
struct rsk_rails_record {
	/* [RSK_RAILS_MOST]: bytes of slots that were put by each rail. */
	uint64_t *bytes;
	/* Slots that were put again: their rail was lost, or the peer has asked for them. */
	uint64_t *again;
};

/* A stream's assignment to rails. Owned by its rsk_rails; under the stream's tx lock. */
struct rsk_rails_stream {
	uint8_t last; /* rail of the newest slot */
	/* One bit per rail that may have something of it under way, as far as was asked. */
	uint8_t used;
	/* End of the slot that was put again last, in whole cells. */
	uint64_t again_end;
	/* The generation (@lives) in which it has slots that no rail carries; 0: none. */
	uint32_t waiting;
	/* Put by @last since it was chosen. */
	uint32_t run_bytes;
	/* Value of rsk_rails.changes at that time; 0: choose again. */
	uint32_t changes;
	/* Written by the progress thread while nothing is put for the stream. */
	struct rsk_rails_record record;
	/* [cells]: for a slot that begins there, the rail that carried it. */
	uint8_t carried[];
};

struct rsk_rails {
	/* Borrowed: the rail that streams see; its ops and priv are set here. */
	struct rsk_rail *one;
	struct rsk_rails_layout at;
	/*
	 * Borrowed; the rails have the window and segment of @one. The progress thread writes each
	 * before it is up; rail[0] is always there.
	 */
	struct rsk_rail *_Atomic rail[RSK_RAILS_MOST];
	/*
	 * enum rsk_rails_state. Written by the progress thread, release; read by threads that put,
	 * acquire.
	 */
	_Atomic(uint8_t) state[RSK_RAILS_MOST];
	/*
	 * The lead, or -1: control words wait for one. Written by the progress thread, seq_cst,
	 * before it puts all control words again; read by a thread that puts one, seq_cst, after it
	 * has composed it. So one of the two puts the newest content.
	 */
	_Atomic(int) lead;
	/*
	 * Control words may be lost with the former lead. Written by the progress thread, seq_cst:
	 * set before a lead ceases to be one, cleared after the next one has put the last control
	 * word again. Read by rails_arrived(), seq_cst, after @lead: so a lead that it has seen has
	 * put them all.
	 */
	_Atomic(bool) words_open;
	/*
	 * A bit for each rail whose state is up. Written by the progress thread, release: a bit is
	 * set before that state and cleared after it, so a thread that has put something by a rail
	 * sees its bit, and makes it due there. Read acquire.
	 */
	_Atomic(uint32_t) up;
	/*
	 * Incremented when threads that put have to choose again; never 0. Written by the progress
	 * thread, release.
	 */
	_Atomic(uint32_t) changes;
	/*
	 * Generation: counts rsk_rails_down(). Written by the progress thread, relaxed: streams
	 * have broken since then.
	 */
	_Atomic(uint32_t) lives;
	/* This process is a fork child, which cannot put; written before it has threads. */
	bool mute;
	/* Progress thread: no rail has been the lead since all of them were down. */
	bool fresh;
	/* Progress thread: former leads by which a control word may still land. */
	uint8_t open;
	/*
	 * [at.streams]; stored by the progress thread (release) before anything is put for the
	 * stream, never removed.
	 */
	_Atomic(struct rsk_rails_stream *) *stream;
};

/* Makes @one the rail of several; no rail is up. Returns 0 or -ENOMEM. */
int rsk_rails_init(struct rsk_rails *rs, struct rsk_rail *one, const struct rsk_rails_layout *at);
void rsk_rails_fini(struct rsk_rails *rs);

/* The layout of the segment of @seg's peer. */
struct rsk_rails_layout rsk_rails_layout_of(const struct rsk_seg *seg);

/*
 * Progress thread: called before anything is put for @sid, and again when the link has a new epoch.
 * @record: the counters of its stream, valid for as long as the stream has that id. Returns 0,
 * -EINVAL, -ENOMEM.
 */
int rsk_rails_reach(struct rsk_rails *rs, uint32_t sid, const struct rsk_rails_record *record);

/* Progress thread: the events of rail @rail, as described above. */
void rsk_rails_up(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_lost(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_closed(struct rsk_rails *rs, uint32_t rail);
void rsk_rails_named(struct rsk_rails *rs, uint32_t rail);
/* A rail reaches a ring that it did not reach before: threads that put choose again. */
void rsk_rails_changed(struct rsk_rails *rs);
/* All rails broke: what was carried will not be asked for any more. */
void rsk_rails_down(struct rsk_rails *rs);

static inline enum rsk_rails_state rsk_rails_state(const struct rsk_rails *rs, uint32_t rail)
{
	return (enum rsk_rails_state)atomic_load_explicit(&rs->state[rail], memory_order_acquire);
}

/* The number of rails that are up. */
uint32_t rsk_rails_count(const struct rsk_rails *rs);

bool rsk_rails_validate(const struct rsk_rails *rs);

#endif
