/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_tables.h - the boards (fabric/port_table.h) that rsockd shares with the processes of each user: which ports there are and
 * how they stand, and how many rails may be by each. What is on a board is a process's word: what a user's processes
 * may take in all is what is booked for their board in the policy agent's ledger, looked at once a second, a few more
 * than are reserved; so nobody has to ask for one. One thread.
 *
 * A board has room for 63 processes; those beyond have another one. With the last process it goes, and so does one
 * that somebody has spoiled, which new processes are not given.
 */
#ifndef RSK_PORT_TABLES_H
#define RSK_PORT_TABLES_H

#include <rsock/port_table.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Looks in a row, half a second apart or more, at which records of a board are busy whatever is tried, until it is
 * taken as one that somebody has spoiled. Processes that do with it what they may change a record now and then, within
 * a microsecond, and keep no lock: all 63 that take all they may at once are done with that long before the next look.
 * Eight looks are somebody's who wants it so, or a machine on which nothing goes on; and for no longer do the dead's
 * rails, and a port that has come, wait for him.
 */
#define RSK_PORT_TABLES_BUSY_LOOKS 8u

struct rsk_local_process;
struct rsk_port_tables_one;
struct rsk_pma;

#define RSK_PORT_TABLES_COUNTERS(X)                                                                \
	X(made, "boards that were made for processes of a user")                                   \
	X(refused, "processes that were given no board: too many, or no memory")                   \
	X(left, "processes whose share of a board was given back for them")                        \
	X(spoiled, "boards on which somebody wrote what nobody may, or that somebody kept busy")

struct rsk_port_tables_counters {
#define X(name, text) uint64_t name;
	RSK_PORT_TABLES_COUNTERS(X)
#undef X
};

/* Owns the boards. */
struct rsk_port_tables {
	struct rsk_pma *pma;
	char *name[RSK_PORT_TABLE_PORTS]; /* of the port that has this place; NULL: none */
	struct rsk_port_table_data table; /* as it is on all of them */
	struct rsk_port_tables_one *all;  /* list */
	size_t n;
	bool full; /* there are more ports than a board has places; it was said */
	struct rsk_port_tables_counters count;
};

void rsk_port_tables_open(struct rsk_port_tables *b, struct rsk_pma *pma);
void rsk_port_tables_close(struct rsk_port_tables *b); /* no process has one any more */

/* It may make rails: it is given a number at a board of its user's, and told so. */
void rsk_port_tables_join(struct rsk_port_tables *b, struct rsk_local_process *p);
/* It is gone, for sure. */
void rsk_port_tables_gone(struct rsk_port_tables *b, struct rsk_local_process *p);

/* Once a second, and when a port's state, or what there is of ports, has changed. */
void rsk_port_tables_check(struct rsk_port_tables *b);

/* Rails that are reserved by the port of that name: at most what is booked for them. */
uint64_t rsk_port_tables_reserved(const struct rsk_port_tables *b, const char *port);

#endif
