/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_table.h - a board (<rsock/port_table.h>) as its owner, rsockd, and a process hold it: the table of ports, and what
 * rails reserve at each port's record (reserve.h). Neither believes the other: what is read is checked and copied
 * first, and each operation ends after a bounded number of tries, whatever the others do to the memory meanwhile.
 * One thread at a time; nothing here blocks, waits or allocates but create() and attach(), which map memory.
 */
#ifndef RSK_PORT_TABLE_H
#define RSK_PORT_TABLE_H

#include <rsock/port_table.h>

#include "reserve.h"

_Static_assert(RSK_PORT_TABLE_HOLDERS == RSK_LOCKED_HOLDERS, "as many as a record can have");
_Static_assert(RSK_PORT_TABLE_MEASURES == (unsigned)RSK_RESERVE_MEASURES, "those of a reservation");

#define RSK_PORT_TABLE_NOWHERE UINT32_MAX

/* One end of it. Owned by the caller; all zero: none. */
struct rsk_port_table {
	struct rsk_rail rail; /* the memory, as of a rail of shared memory without a link */
	uint32_t me;	      /* 1 .. RSK_PORT_TABLE_HOLDERS */
	uint32_t joined;      /* a bit for each port: it is a holder of that record */
	uint32_t generation
		[RSK_PORT_TABLE_PORTS]; /* how often it was taken for dead there: nothing is left of what was before */
	struct rsk_locker at[RSK_PORT_TABLE_PORTS];
};

/* The owner's: with an empty table and no record. The memfd, for the caller to close, or -errno. */
int rsk_port_table_create(struct rsk_port_table *b);

/* A process's: checks seals, size and head. @fd stays the caller's. 0; -EPROTO: it is no board; -errno. */
int rsk_port_table_attach(struct rsk_port_table *b, int fd, uint32_t me);

void rsk_port_table_detach(struct rsk_port_table *b);
static inline bool rsk_port_table_is(const struct rsk_port_table *b)
{
	return b->rail.window != NULL;
}

/* ---- the table ---- */

/* Owner. */
void rsk_port_table_write(struct rsk_port_table *b, const struct rsk_port_table_data *t);

/* A checked copy. 0; -EAGAIN: it was being written each time; -EBADMSG: it says what rsockd never does. */
int rsk_port_table_read(const struct rsk_port_table *b, struct rsk_port_table_data *out);

/* Which port has that address; RSK_PORT_TABLE_NOWHERE: none. Pure. */
uint32_t rsk_port_table_find(const struct rsk_port_table_data *t, uint16_t family,
			     const uint8_t ip[static 16]);

/* ---- reservations ----
 *
 * -ENOSPC: it does not fit; -ERANGE: more is given back than was taken; -EBADMSG: somebody has spoiled the record;
 * -EBUSY: after all those tries it was still not done.
 */

/*
 * Owner: the record of that port is new, with no holder but the owner, and no room. If it fails there is none, and
 * limit() and leave() are -EINVAL, until it is called again.
 */
int rsk_port_table_open(struct rsk_port_table *b, uint32_t port);

/* Owner: how much there is in all. What is reserved above it stays so. */
int rsk_port_table_limit(struct rsk_port_table *b, uint32_t port,
			 const uint64_t limit[static RSK_RESERVE_MEASURES]);

/* Owner: the process of that number is gone, for sure; what it had at that port is given back. */
int rsk_port_table_leave(struct rsk_port_table *b, uint32_t port, uint32_t who);

/* What is reserved there; a process's word. */
int rsk_port_table_figures(struct rsk_port_table *b, uint32_t port,
			   struct rsk_reserve_figures *out);

/*
 * A process: all of it or nothing. If it was taken for dead (leave()) what it had before counts as given back.
 */
int rsk_port_table_take(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES]);
int rsk_port_table_give(struct rsk_port_table *b, uint32_t port,
			const uint64_t need[static RSK_RESERVE_MEASURES]);

#endif
