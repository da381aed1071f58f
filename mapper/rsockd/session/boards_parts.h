/* SPDX-License-Identifier: BSD-2-Clause */
/* boards_parts.h - what boards.c and boards_book.c share; nobody else includes this. */
#ifndef RSK_BOARDS_PARTS_H
#define RSK_BOARDS_PARTS_H

#include "board.h"
#include "boards.h"

/* What is booked of a port for a board. */
struct rsk_boards_booked {
	uint64_t *ids;
	uint32_t n, room;
	uint32_t limit; /* of rails, that stands at the record */
};

struct rsk_boards_one {
	struct rsk_board board;
	int fd;
	uint32_t uid;
	bool spoiled;
	uint32_t processes;
	uint64_t given; /* a bit for each number */
	uint64_t left_ns[RSK_BOARD_HOLDERS];
	/*
	 * A bit for each port. By number: where that process' share is to be given back yet; nobody is given the number
	 * until then.
	 */
	uint32_t leaves[RSK_BOARD_HOLDERS];
	uint32_t opens; /* whose record is to be made yet */
	uint32_t busy; /* whose record was busy: it is let alone until a look half a second later */
	uint32_t busy_looks; /* in a row */
	uint64_t busy_ns;    /* when the last of them was counted */
	struct rsk_boards_booked booked[RSK_BOARD_PORTS];
	struct rsk_boards_one *prev, *next;
};

struct rsk_pma_rail_port;

/* ---- boards.c ---- */

/* Nobody can be believed who has it. What is booked for it stays until they are gone. */
void rsk_boards_spoiled(struct rsk_boards *b, struct rsk_boards_one *o);
/*
 * What an operation at the record of that port came to: was it done? That it was busy is no harm, unless it stays so
 * (RSK_BOARDS_BUSY_LOOKS); any other failure is.
 */
bool rsk_boards_did(struct rsk_boards *b, struct rsk_boards_one *o, uint32_t at, int rc);

/* ---- boards_book.c ---- */

/* Of the port at that place: as many as are reserved are booked, and some more. */
void rsk_boards_provide(struct rsk_boards *b, struct rsk_boards_one *o, uint32_t at,
			const struct rsk_pma_rail_port *p);
/* What is booked is given back, but for @keep. */
void rsk_boards_unbook(struct rsk_boards *b, struct rsk_boards_one *o, uint32_t at, uint64_t keep);
/* Rails reserved there: no more than are booked, whatever the board says. 0; -errno: that many are. */
int rsk_boards_reserved_at(struct rsk_boards_one *o, uint32_t at, uint64_t *out);

#endif
