/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * board.h - what rsockd shares with the processes of a user, by a sealed memfd that comes with RSK_LOCAL_BOARD
 * (local.h): the RDMA ports of this host as it sees them, and a record for each, at which they reserve by locked
 * access what their further rails take (docs/adr/board.md). Owner: rsockd. Whoever has it mapped can write to all of
 * it: nothing is believed before it is checked, at either end.
 *
 *	0	struct rsk_board_head
 *	64	struct rsk_board_table	written by rsockd alone, whole if @seq is even and the same before and after
 *	4096	records			struct rsk_locked_slot and so on, of RSK_BOARD_HOLDERS holders each
 */
#ifndef RSOCK_BOARD_H
#define RSOCK_BOARD_H

#include <stddef.h>
#include <stdint.h>

#define RSK_BOARD_MAGIC UINT64_C(0x31306472616f6272)
#define RSK_BOARD_PORTS 16u
#define RSK_BOARD_IPS 8u		  /* of a port */
#define RSK_BOARD_HOLDERS 64u		  /* of a record: processes, and the last: */
#define RSK_BOARD_OWNER RSK_BOARD_HOLDERS /* rsockd */
#define RSK_BOARD_TABLE 64u		  /* offset */
#define RSK_BOARD_RECORDS 4096u		  /* the same */
#define RSK_BOARD_MEASURES 3u		  /* bits per second, sessions, memory maps */

struct rsk_board_head {
	uint64_t magic;
	uint64_t bytes; /* of all */
	uint64_t seq;	/* odd while the table is written. rsockd: release; processes: acquire */
};

enum rsk_board_state {
	RSK_BOARD_NONE,	      /* no port has this place */
	RSK_BOARD_UP,	      /* further rails may go by it */
	RSK_BOARD_OVERLOADED, /* no more than there are */
	RSK_BOARD_DRAINED,    /* none; what there is ends, where the link has another */
	RSK_BOARD_DOWN,	      /* the same */
	RSK_BOARD_STATES
};

struct rsk_board_port {
	char name[40]; /* for people; ended by 0, cut off */
	uint32_t state;
	uint32_t spare;			/* 1: for links of which no rail is by another */
	uint16_t family[RSK_BOARD_IPS]; /* 0: no more */
	uint8_t ip[RSK_BOARD_IPS][16];	/* IPv4: the first four, rest 0 */
};
_Static_assert(sizeof(struct rsk_board_port) == 192, "no hidden padding");

struct rsk_board_table {
	uint64_t need[RSK_BOARD_MEASURES]; /* of a rail */
	uint64_t pad;
	struct rsk_board_port port[RSK_BOARD_PORTS];
};
_Static_assert(sizeof(struct rsk_board_table) == 32 + 192 * RSK_BOARD_PORTS, "no hidden padding");
_Static_assert(RSK_BOARD_TABLE + sizeof(struct rsk_board_table) <= RSK_BOARD_RECORDS, "it fits");

#endif
