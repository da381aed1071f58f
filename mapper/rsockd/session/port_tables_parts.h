/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_tables_parts.h - declarations that port_tables.c and port_bookings.c share. No other file
 * includes it.
 */
#ifndef RSK_PORT_TABLES_PARTS_H
#define RSK_PORT_TABLES_PARTS_H

#include "port_table.h"
#include "port_tables.h"

/* What is booked for a port table on one port. */
struct rsk_port_tables_booked {
	uint64_t *ids;
	uint32_t n, room;
	uint32_t limit; /* limit in rails that was written to the record */
};

struct rsk_port_tables_one {
	struct rsk_port_table port_table;
	int fd;
	uint32_t uid;
	bool spoiled;
	uint32_t processes;
	uint64_t given; /* bit mask of assigned numbers */
	uint64_t left_ns[RSK_PORT_TABLE_HOLDERS];
	/*
	 * Bit masks of ports. For each number: the ports at which its reservations still have to be
	 * released; the number is not assigned until then.
	 */
	uint32_t leaves[RSK_PORT_TABLE_HOLDERS];
	uint32_t opens; /* ports whose record still has to be made */
	/*
	 * Ports whose record was busy; they are not tried again until a check half a second later
	 */
	uint32_t busy;
	uint32_t busy_looks; /* consecutive ones */
	uint64_t busy_ns;    /* time at which the last of them was counted */
	struct rsk_port_tables_booked booked[RSK_PORT_TABLE_PORTS];
	struct rsk_port_tables_one *prev, *next;
};

struct rsk_pma_rail_port;

/* ---- port_tables.c ---- */

/*
 * Marks the table as spoiled: no process that has it can be believed. What is booked for it stays
 * until they have exited.
 */
void rsk_port_tables_spoiled(struct rsk_port_tables *b, struct rsk_port_tables_one *o);
/*
 * Evaluates the result @rc of an operation on the record of port @at. Returns true if it succeeded.
 * -EBUSY is harmless unless it persists (RSK_PORT_TABLES_BUSY_LOOKS); any other error spoils the
 * table.
 */
bool rsk_port_tables_did(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			 int rc);

/* ---- port_bookings.c ---- */

/* Books as many rails on port @at as are reserved, and some more. */
void rsk_port_tables_provide(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			     const struct rsk_pma_rail_port *p);
/* Releases all bookings except @keep of them. */
void rsk_port_tables_unbook(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			    uint64_t keep);
/*
 * Number of rails that are reserved there; at most those that are booked, whatever the port table
 * says. Returns 0; or -errno, then *out is the number of booked ones.
 */
int rsk_port_tables_reserved_at(struct rsk_port_tables_one *o, uint32_t at, uint64_t *out);

#endif
