/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_table.h - what rsockd shares with the processes of a user, by a sealed memfd that comes with RSK_LOCAL_PORT_TABLE
 * (local.h): the RDMA ports of this host as it sees them, and a record for each, at which they reserve by locked
 * access what their further rails take (docs/adr/board.md). Owner: rsockd. Whoever has it mapped can write to all of
 * it: nothing is believed before it is checked, at either end.
 *
 *	0	struct rsk_port_table_head
 *	64	struct rsk_port_table_data	written by rsockd alone, whole if @seq is even and the same before and after
 *	4096	records			struct rsk_locked_slot and so on, of RSK_PORT_TABLE_HOLDERS holders each
 */
#ifndef RSOCK_PORT_TABLE_H
#define RSOCK_PORT_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define RSK_PORT_TABLE_MAGIC UINT64_C(0x31306472616f6272)
#define RSK_PORT_TABLE_PORTS 16u
#define RSK_PORT_TABLE_IPS 8u			    /* of a port */
#define RSK_PORT_TABLE_HOLDERS 64u		    /* of a record: processes, and the last: */
#define RSK_PORT_TABLE_OWNER RSK_PORT_TABLE_HOLDERS /* rsockd */
#define RSK_PORT_TABLE_DATA 64u			    /* offset */
#define RSK_PORT_TABLE_RECORDS 4096u		    /* the same */
#define RSK_PORT_TABLE_MEASURES 3u		    /* bits per second, sessions, memory maps */

struct rsk_port_table_head {
	uint64_t magic;
	uint64_t bytes; /* of all */
	uint64_t seq;	/* odd while the table is written. rsockd: release; processes: acquire */
};

enum rsk_port_table_state {
	RSK_PORT_TABLE_NONE,	   /* no port has this place */
	RSK_PORT_TABLE_UP,	   /* further rails may go by it */
	RSK_PORT_TABLE_OVERLOADED, /* no more than there are */
	RSK_PORT_TABLE_DRAINED,	   /* none; what there is ends, where the link has another */
	RSK_PORT_TABLE_DOWN,	   /* the same */
	RSK_PORT_TABLE_STATES
};

struct rsk_port_table_port {
	char name[40]; /* for people; ended by 0, cut off */
	uint32_t state;
	uint32_t spare;			     /* 1: for links of which no rail is by another */
	uint16_t family[RSK_PORT_TABLE_IPS]; /* 0: no more */
	uint8_t ip[RSK_PORT_TABLE_IPS][16];  /* IPv4: the first four, rest 0 */
};
_Static_assert(sizeof(struct rsk_port_table_port) == 192, "no hidden padding");

struct rsk_port_table_data {
	uint64_t need[RSK_PORT_TABLE_MEASURES]; /* of a rail */
	uint64_t pad;
	struct rsk_port_table_port port[RSK_PORT_TABLE_PORTS];
};
_Static_assert(sizeof(struct rsk_port_table_data) == 32 + 192 * RSK_PORT_TABLE_PORTS,
	       "no hidden padding");
_Static_assert(RSK_PORT_TABLE_DATA + sizeof(struct rsk_port_table_data) <= RSK_PORT_TABLE_RECORDS,
	       "it fits");

#endif
