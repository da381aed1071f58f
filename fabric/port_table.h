/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_table.h - the port table (<rsock/port_table.h>) in rsockd, which owns it, and in a process:
 * the table of ports, and the reservations of rails in each port's record (reserve.h). Neither end
 * trusts the other: what is read is copied and checked first, and each operation ends after a
 * bounded number of tries, whatever others do to the memory meanwhile. Used by one thread at a
 * time. Nothing blocks, waits or allocates, except create() and attach(), which map memory.
 */
#ifndef RSK_PORT_TABLE_H
#define RSK_PORT_TABLE_H

#include <rsock/port_table.h>

#include "reserve.h"

_Static_assert(RSK_PORT_TABLE_HOLDERS == RSK_LOCKED_HOLDERS, "as many as a record can have");
_Static_assert(RSK_PORT_TABLE_MEASURES == (unsigned)RSK_RESERVE_MEASURES, "those of a reservation");

#define RSK_PORT_TABLE_NOWHERE UINT32_MAX

/* One end of a port table. Owned by the caller; all zero: none. */
struct rsk_port_table {
	/* The memory, as a shared memory rail without a link. */
	struct rsk_rail rail;
	uint32_t me; /* 1 .. RSK_PORT_TABLE_HOLDERS */
	/* One bit per port: this end is a holder in that record. */
	uint32_t joined;
	/*
	 * Times that this end was taken for dead there; nothing that it had reserved before is
	 * left.
	 */
	uint32_t generation[RSK_PORT_TABLE_PORTS];
	struct rsk_locker at[RSK_PORT_TABLE_PORTS];
};

/*
 * Owner: creates an empty table without records. Returns the memfd, which the caller closes, or
 * -errno.
 */
int rsk_port_table_create(struct rsk_port_table *b);

/*
 * Process: checks seals, size and head, and maps it. The caller keeps @fd. Returns 0; -EPROTO: not
 * a port table; -errno.
 */
int rsk_port_table_attach(struct rsk_port_table *b, int fd, uint32_t me);

/* Unmaps the table; @b is all zero afterwards. */
void rsk_port_table_detach(struct rsk_port_table *b);
static inline bool rsk_port_table_is(const struct rsk_port_table *b)
{
	return b->rail.window != NULL;
}

/* ---- the table ---- */

/* Owner: replaces the table. */
void rsk_port_table_write(struct rsk_port_table *b, const struct rsk_port_table_data *t);

/*
 * A checked copy of the table. Returns 0; -EAGAIN: it was being written each time; -EBADMSG: rsockd
 * never writes such content.
 */
int rsk_port_table_read(const struct rsk_port_table *b, struct rsk_port_table_data *out);

/* The port that has that address; RSK_PORT_TABLE_NOWHERE: none. Pure. */
uint32_t rsk_port_table_find(const struct rsk_port_table_data *t, uint16_t family,
			     const uint8_t ip[static 16]);

/*
 * Reservations. Errors: -ENOSPC: it does not fit; -ERANGE: more is returned than was taken;
 * -EBADMSG: the record is corrupt; -EBUSY: not done after the maximum number of tries.
 */

/*
 * Owner: creates the record of that port, with no holder but the owner, and limits of 0. If it
 * fails there is no record, and limit() and leave() return -EINVAL until it is called again.
 */
int rsk_port_table_open(struct rsk_port_table *b, uint32_t port);

/* Owner: sets how much there is in total. Reservations above it stay. */
int rsk_port_table_limit(struct rsk_port_table *b, uint32_t port,
			 const uint64_t limit[static RSK_RESERVE_MEASURES]);

/*
 * Owner: the process of that number is known to be gone; releases what it had reserved at that
 * port.
 */
int rsk_port_table_leave(struct rsk_port_table *b, uint32_t port, uint32_t who);

/* Reads what is reserved there. Any holder may have written it. */
int rsk_port_table_figures(struct rsk_port_table *b, uint32_t port,
			   struct rsk_reserve_figures *out);

/*
 * Process: reserve or release all of @need, or nothing. If this end was taken for dead (leave()),
 * what it had before counts as released.
 */
int rsk_port_table_take(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES]);
int rsk_port_table_give(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES]);

#endif
