/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_reservations_kit.h - a process's end of rsockd's board, and the test in rsockd's place: it makes boards, real ones of this
 * process, and says how their ports stand; time goes on from look to look.
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
}; /* ports of the table */

extern struct rsk_port_table owner;
extern int memfd; /* its */
extern uint64_t now;

/* The table of a board as it begins: a port in each state. */
struct rsk_port_table_data table(void);
/* With room for @room rails at each port. Returns its memfd, the caller's. */
int port_table(struct rsk_port_table *b, uint64_t room);
/* rsockd has sent it to this process, whose number there is @number; -1: there is none. */
void came(int fd, uint32_t number);
/* The keeper's look, a second after the one before: what rsk_reservations_check() returns. */
bool look(void);

/* @owner comes, and is known; and it ends. */
void shares_set(void);
void shares_end(void);

/* Sessions that are reserved at a port, and as much of everything else as they need. */
uint64_t reserved_at(struct rsk_port_table *b, uint32_t port);
uint64_t reserved(uint32_t port); /* of @owner */

#endif
