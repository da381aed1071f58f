/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * duplex_rails.h - several rails between the two ends of duplex.c, and the state of their progress
 * threads. For duplex_rails.c and duplex_progress.c.
 */
#ifndef DUPLEX_RAILS_H
#define DUPLEX_RAILS_H

#include "duplex_parts.h"

#define RAILS RSK_RAILS_MOST
#define TALK 4096u

struct talk {
	enum {
		TALK_LOST,
		TALK_GAP,
		TALK_NAMED,
		TALK_RAIL,
		TALK_RING,
		TALK_BREAK,
		TALK_RESUME
	} what;
	uint32_t of;	     /* epoch of the link */
	uint32_t rail;	     /* the rail, */
	uint32_t generation; /* and its generation */
	uint64_t from, to;
	uint64_t owed, ring_end; /* of RESUME */
};

struct keeps {
	bool up;
	uint32_t epoch;
	struct {
		enum {
			IDLE,
			COMING,
			UP,
			LOST
		} state;
		bool established, heard;
		uint32_t generation, told_generation;
		uint32_t of; /* epoch of the link that this rail is for */
		/* RAIL_DOWN was received for this epoch and generation; this end is not up yet */
		uint32_t early_of, early_generation;
	} rail[RAILS];
	struct talk inbox[TALK];
	uint32_t first, n;
};

struct duplex_rails {
	struct rsk_rail one[2];
	struct rsk_rails rs[2];
	struct rsk_chaos chaos[2][RAILS];
	struct keeps progress[2];
	uint64_t bytes[2][RSK_RAILS_MOST],
		again[2];		/* counted by the rails, as into a stream's record */
	bool there[RAILS], dead[RAILS]; /* the rail was made; nothing passes through it any more */
	uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
	struct duplex_gaps gaps; /* of the end that is reporting them */
};

/*
 * The progress thread of end 0 dials a rail that it does not have, whatever it knows of the other
 * end, which takes it or not.
 */
void duplex_progress_dial(struct duplex *d, uint32_t k);
/*
 * One turn of a progress thread: it notices failures, reads the peer's status, receives messages
 * and answers.
 */
void duplex_progress_step(struct duplex *d, uint32_t end);

#endif
