/* SPDX-License-Identifier: BSD-2-Clause */
/* port_tables_parts.h - what port_tables.c and port_bookings.c share; nobody else includes this. */
#ifndef RSK_PORT_TABLES_PARTS_H
#define RSK_PORT_TABLES_PARTS_H

#include "port_table.h"
#include "port_tables.h"

/* What is booked of a port for a board. */
struct rsk_port_tables_booked {
	uint64_t *ids;
	uint32_t n, room;
	uint32_t limit; /* of rails, that stands at the record */
};

struct rsk_port_tables_one {
	struct rsk_port_table port_table;
	int fd;
	uint32_t uid;
	bool spoiled;
	uint32_t processes;
	uint64_t given; /* a bit for each number */
	uint64_t left_ns[RSK_PORT_TABLE_HOLDERS];
	/*
	 * A bit for each port. By number: where that process' share is to be given back yet; nobody is given the number
	 * until then.
	 */
	uint32_t leaves[RSK_PORT_TABLE_HOLDERS];
	uint32_t opens; /* whose record is to be made yet */
	uint32_t busy; /* whose record was busy: it is let alone until a look half a second later */
	uint32_t busy_looks; /* in a row */
	uint64_t busy_ns;    /* when the last of them was counted */
	struct rsk_port_tables_booked booked[RSK_PORT_TABLE_PORTS];
	struct rsk_port_tables_one *prev, *next;
};

struct rsk_pma_rail_port;

/* ---- port_tables.c ---- */

/* Nobody can be believed who has it. What is booked for it stays until they are gone. */
void rsk_port_tables_spoiled(struct rsk_port_tables *b, struct rsk_port_tables_one *o);
/*
 * What an operation at the record of that port came to: was it done? That it was busy is no harm, unless it stays so
 * (RSK_PORT_TABLES_BUSY_LOOKS); any other failure is.
 */
bool rsk_port_tables_did(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			 int rc);

/* ---- port_bookings.c ---- */

/* Of the port at that place: as many as are reserved are booked, and some more. */
void rsk_port_tables_provide(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			     const struct rsk_pma_rail_port *p);
/* What is booked is given back, but for @keep. */
void rsk_port_tables_unbook(struct rsk_port_tables *b, struct rsk_port_tables_one *o, uint32_t at,
			    uint64_t keep);
/* Rails reserved there: no more than are booked, whatever the board says. 0; -errno: that many are. */
int rsk_port_tables_reserved_at(struct rsk_port_tables_one *o, uint32_t at, uint64_t *out);

#endif
