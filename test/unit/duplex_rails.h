/* SPDX-License-Identifier: BSD-2-Clause */
/* duplex_rails.h - several rails between the two ends of duplex.c, and what their keepers know of them. */
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
	uint32_t rail;	     /* and which rail, */
	uint32_t generation; /* in its how manieth life */
	uint64_t from, to;
	uint64_t owed; /* RESUME */
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
		uint32_t of; /* epoch of the link that it is for */
		uint32_t early_of,
			early_generation; /* LOST was heard of that, for which this end is not up yet */
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
	bool there[RAILS], dead[RAILS]; /* made; and there is no way through it any more */
	uint8_t scratch[RSK_SLOT_MAX_PAYLOAD];
	struct duplex_gaps gaps; /* of who is naming */
};

/* The keeper of end 0 dials a rail that it does not have, whatever it knows of the other one, which takes it or not. */
void duplex_progress_dial(struct duplex *d, uint32_t k);
/* A turn of one keeper: what it notices, reads and hears of rails, and answers. */
void duplex_progress_step(struct duplex *d, uint32_t end);

#endif
