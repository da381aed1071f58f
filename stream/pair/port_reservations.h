/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_reservations.h - the board that rsockd shares with this process (fabric/port_table.h): may a further rail go by a port of this
 * host, and is there anything left of it? Asked and reserved in shared memory, with no message. Without rsockd, or a
 * board, or for a port that rsockd knows nothing of: whatever is asked may be done, and nothing is reserved.
 *
 * It comes by the local socket (local.c, under the join lock), and is used by the keeper.
 */
#ifndef RSK_PORT_RESERVATIONS_H
#define RSK_PORT_RESERVATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "port_table.h"
#include "verbs.h"

/* Join lock held. @fd stays the caller's; -1: there is none any more. */
void rsk_reservations_came(int fd, uint32_t number);

/* In a child: it has none. No lock is held or needed yet. */
void rsk_reservations_forked(void);

/* ---- keeper ---- */

/*
 * Takes over what came; if it is due, gives back what is owed, and reads the table. True: ports or how they stand are
 * others than they were. Takes the join lock.
 */
bool rsk_reservations_check(uint64_t now_ns);
uint64_t rsk_reservations_next(void); /* when it is due; UINT64_MAX: there is no board */

/* When the keeper has to look although no link minds: something is to be given back. UINT64_MAX: nothing. */
uint64_t rsk_reservations_owed_next(void);

/* The place of a port on the board: of the device of that number. RSK_PORT_TABLE_NOWHERE: it is not there. */
uint32_t rsk_reservations_port(const struct rsk_verbs_device_addr *own, uint32_t n,
			       uint32_t device);

enum rsk_reservation_state {
	RSK_RESERVATION_FREE, /* rsockd has nothing to say about it */
	RSK_RESERVATION_UP,   /* may be used */
	RSK_RESERVATION_SPARE, /* may be used by a link that has no rail by another port than a spare one */
	RSK_RESERVATION_FULL, /* no more rails; those that there are stay */
	RSK_RESERVATION_OUT,  /* none */
};
enum rsk_reservation_state rsk_reservations_state(uint32_t port);
bool rsk_reservations_spare(uint32_t port); /* however it stands */
const char *rsk_reservations_name(uint32_t port);

/* What a rail has reserved. All zero: nothing. */
struct rsk_reservation {
	uint32_t port_table; /* counts them: of another one nothing is left */
	uint32_t port;
	uint32_t generation; /* the board's at that port: of an earlier one nothing is left, too */
	uint64_t need[RSK_PORT_TABLE_MEASURES];
};

/* 0: it has it, or had, or there is nothing to reserve; -ENOSPC, -errno of port_table.h. */
int rsk_reservations_take(struct rsk_reservation *s, uint32_t port);
/* The rail has it no more. What a busy record does not take back now is owed, and given back at the next looks. */
void rsk_reservations_give(struct rsk_reservation *s);

#endif
