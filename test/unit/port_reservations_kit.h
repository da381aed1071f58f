/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_reservations_kit.h - for tests of a process's end of rsockd's port table. The test takes
 * rsockd's place: it makes port tables, real ones of this process, and sets the state of their
 * ports. The clock advances from check to check.
 */
#ifndef RSK_PORT_RESERVATIONS_KIT_H
#define RSK_PORT_RESERVATIONS_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "port_reservations.h"

#define SECOND 1000000000ull
#define ME 3u
#define ROOM 6u

enum {
	UP,
	SPARE,
	FULL,
	DRAINED,
	DOWN,
	OTHER,
	NONE
}; /* indices of the table's ports */

extern struct rsk_port_table owner;
extern int memfd; /* its memfd */
extern uint64_t now;

/* The initial table: a port in each state. */
struct rsk_port_table_data table(void);
/*
 * Creates a port table with room for @room rails at each port. Returns its memfd, which the caller
 * owns.
 */
int port_table(struct rsk_port_table *b, uint64_t room);
/* rsockd has sent the table to this process, whose number there is @number; -1: there is none. */
void came(int fd, uint32_t number);
/*
 * The progress thread's check, a second after the one before. Returns what rsk_reservations_check()
 * returns.
 */
bool look(void);

/* shares_set() makes @owner and announces it; shares_end() ends it. */
void shares_set(void);
void shares_end(void);

/* Sessions reserved at a port of @b; asserts that the other measures match them. */
uint64_t reserved_at(struct rsk_port_table *b, uint32_t port);
uint64_t reserved(uint32_t port); /* of @owner */

#endif
