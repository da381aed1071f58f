/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_tables.h - the port tables (fabric/port_table.h) that rsockd shares with the processes of
 * each user: the state of each port, and how many rails may be reserved on it. The content of a
 * port table may be forged by a process. Therefore what a user's processes can take in total is
 * limited to what is booked for their port table in the policy agent's ledger. That is adjusted
 * once a second, to a few more than are reserved, so that a process need not ask for each rail.
 * local.c and daemon.c call this. One thread.
 *
 * A port table has room for 63 processes; further ones get another table. It is freed with its last
 * process. A table with content that rsockd never writes is spoiled, and is not given to new
 * processes.
 */
#ifndef RSK_PORT_TABLES_H
#define RSK_PORT_TABLES_H

#include <rsock/port_table.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * After so many consecutive checks, half a second or more apart, at which a record of a port table
 * was busy through all tries, the table counts as spoiled. A well-behaved process changes a record
 * now and then, within a microsecond, and keeps no lock; 63 of them that take all they may at once
 * are done long before the next check. Eight busy checks mean that a process does it on purpose, or
 * that the machine does not run anything. During that time the rails of dead processes and a new
 * port have to wait.
 */
#define RSK_PORT_TABLES_BUSY_LOOKS 8u

struct rsk_local_process;
struct rsk_port_tables_one;
struct rsk_pma;

#define RSK_PORT_TABLES_COUNTERS(X)                                                                \
	X(made, "port tables that were created for a user's processes")                            \
	X(refused, "processes that got no port table: too many, or no memory")                     \
	X(left, "processes whose port reservations rsockd returned")                               \
	X(spoiled, "port tables that a process filled with invalid data or kept locked")

struct rsk_port_tables_counters {
#define X(name, text) uint64_t name;
	RSK_PORT_TABLES_COUNTERS(X)
#undef X
};

/* Owns the port tables. */
struct rsk_port_tables {
	struct rsk_pma *pma;
	char *name[RSK_PORT_TABLE_PORTS]; /* name of the port at this index; NULL: none */
	struct rsk_port_table_data table; /* content of all of them */
	struct rsk_port_tables_one *all;  /* list */
	size_t n;
	bool full; /* there are more ports than a table has room for; this was logged */
	struct rsk_port_tables_counters count;
};

void rsk_port_tables_open(struct rsk_port_tables *b, struct rsk_pma *pma);
void rsk_port_tables_close(struct rsk_port_tables *b); /* called when no process has one any more */

/*
 * The process may make rails: gives it a number in a port table of its user, and sends it both. No
 * effect if it has one.
 */
void rsk_port_tables_join(struct rsk_port_tables *b, struct rsk_local_process *p);
/* The process is known to have exited. */
void rsk_port_tables_gone(struct rsk_port_tables *b, struct rsk_local_process *p);

/* Called once a second, and when a port was added, removed or has changed its state. */
void rsk_port_tables_check(struct rsk_port_tables *b);

/* Rails that are reserved on the port of that name; at most what is booked for them. */
uint64_t rsk_port_tables_reserved(const struct rsk_port_tables *b, const char *port);

#endif
