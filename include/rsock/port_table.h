/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_table.h - layout of the port table that rsockd shares with the processes of a user, through
 * a sealed memfd that comes with RSK_LOCAL_PORT_TABLE (local.h): the RDMA ports of this host as
 * rsockd sees them, and a record for each, in which processes reserve by locked access what their
 * further rails take (docs/adr/port-table.md). fabric/port_table.c reads and writes it. Owner:
 * rsockd. Every process that has mapped it can write to all of it, so each end checks everything
 * before using it.
 *
 *	0	struct rsk_port_table_head
 *	64	struct rsk_port_table_data	written by rsockd only; consistent if @seq is even,
 *				and the same before and after the copy
 *	4096	records		struct rsk_locked_slot etc., of RSK_PORT_TABLE_HOLDERS holders each
 */
#ifndef RSOCK_PORT_TABLE_H
#define RSOCK_PORT_TABLE_H

#include <rsock/version.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_PORT_TABLE_MAGIC RSK_MAGIC(0x6472616f6272, RSK_PORT_TABLE_VERSION)
#define RSK_PORT_TABLE_PORTS 16u
#define RSK_PORT_TABLE_IPS 8u			    /* addresses of a port */
#define RSK_PORT_TABLE_HOLDERS 64u		    /* holders of a record: the processes, */
#define RSK_PORT_TABLE_OWNER RSK_PORT_TABLE_HOLDERS /* and, as the last one, rsockd */
#define RSK_PORT_TABLE_DATA 64u			    /* offset */
#define RSK_PORT_TABLE_RECORDS 4096u		    /* offset */
#define RSK_PORT_TABLE_MEASURES 3u		    /* bits per second, sessions, memory maps */

struct rsk_port_table_head {
	uint64_t magic;
	uint64_t bytes; /* of the whole segment */
	/* Odd while the table is written. rsockd: release; processes: acquire. */
	uint64_t seq;
};

enum rsk_port_table_state {
	RSK_PORT_TABLE_NONE,	   /* there is no port at this place */
	RSK_PORT_TABLE_UP,	   /* it may take further rails */
	RSK_PORT_TABLE_OVERLOADED, /* it may take no more rails */
	/* No rails; existing ones are closed if the link has another. */
	RSK_PORT_TABLE_DRAINED,
	RSK_PORT_TABLE_DOWN, /* as RSK_PORT_TABLE_DRAINED */
	RSK_PORT_TABLE_STATES
};

struct rsk_port_table_port {
	char name[40]; /* for display; zero-terminated, truncated */
	uint32_t state;
	/* 1: only for links that have no rail by another port. */
	uint32_t spare;
	uint16_t family[RSK_PORT_TABLE_IPS]; /* 0: no more addresses */
	uint8_t ip[RSK_PORT_TABLE_IPS][16];  /* IPv4: the first 4 bytes, the rest 0 */
};
_Static_assert(sizeof(struct rsk_port_table_port) == 192, "no hidden padding");

struct rsk_port_table_data {
	uint64_t need[RSK_PORT_TABLE_MEASURES]; /* what one rail takes */
	uint64_t pad;
	struct rsk_port_table_port port[RSK_PORT_TABLE_PORTS];
};
_Static_assert(sizeof(struct rsk_port_table_data) == 32 + 192 * RSK_PORT_TABLE_PORTS,
	       "no hidden padding");
_Static_assert(RSK_PORT_TABLE_DATA + sizeof(struct rsk_port_table_data) <= RSK_PORT_TABLE_RECORDS,
	       "it fits");

#endif
