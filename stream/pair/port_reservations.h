/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_reservations.h - port reservations, in the port table that rsockd shares with this process
 * (fabric/port_table.h): whether a further rail may use a port of this host, and whether the port
 * has capacity left. Both are decided in shared memory, without a message. Without rsockd, or a
 * port table, or for a port that rsockd does not know: everything is allowed, and nothing is
 * reserved.
 *
 * The table comes by the daemon inbox (local.c, under the pairing lock); the progress thread uses
 * it.
 */
#ifndef RSK_PORT_RESERVATIONS_H
#define RSK_PORT_RESERVATIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "port_table.h"
#include "verbs.h"

/* Pairing lock held. @fd of the new table stays the caller's; -1: there is no table any more. */
void rsk_reservations_came(int fd, uint32_t number);

/* In a child: it has no table. No lock is held or needed yet. */
void rsk_reservations_forked(void);

/* ---- for the progress thread ---- */

/*
 * Takes over a new table; if the next check is due, gives back the reservations that are still
 * owed, and reads the table. Returns true if the ports or their states have changed. Takes the
 * pairing lock.
 */
bool rsk_reservations_check(uint64_t now_ns);
uint64_t
rsk_reservations_next(void); /* when the next check is due; UINT64_MAX: there is no port table */

/*
 * When a check is due although no link needs one, to give back a reservation. UINT64_MAX: none is
 * owed.
 */
uint64_t rsk_reservations_owed_next(void);

/*
 * The index, in the port table, of the port of device number @device; @own[@n]: our device
 * addresses. RSK_PORT_TABLE_NOWHERE: it is not in the table.
 */
uint32_t rsk_reservations_port(const struct rsk_verbs_device_addr *own, uint32_t n,
			       uint32_t device);

enum rsk_reservation_state {
	RSK_RESERVATION_FREE, /* rsockd has no rule for it */
	RSK_RESERVATION_UP,   /* may be used */
	/* may be used by a link whose rails all use spare ports */
	RSK_RESERVATION_SPARE,
	RSK_RESERVATION_FULL, /* no more rails; existing ones stay */
	RSK_RESERVATION_OUT,  /* no rails */
};
enum rsk_reservation_state rsk_reservations_state(uint32_t port);
bool rsk_reservations_spare(uint32_t port); /* whatever its state */
const char *rsk_reservations_name(uint32_t port);

/* What a rail has reserved. All zero: nothing. */
struct rsk_reservation {
	/* number of the port table: on another table this reservation is void */
	uint32_t port_table;
	uint32_t port;
	/* generation of the port's entry: on a later one this reservation is void, too */
	uint32_t generation;
	uint64_t need[RSK_PORT_TABLE_MEASURES];
};

/*
 * Reserves what a rail takes of @port. Returns 0 if the rail has the reservation, or none is
 * needed; -ENOSPC, or -errno of port_table.h.
 */
int rsk_reservations_take(struct rsk_reservation *s, uint32_t port);
/*
 * The rail needs the reservation no more. If the record is busy now, the reservation is given back
 * at one of the next checks.
 */
void rsk_reservations_give(struct rsk_reservation *s);

#endif
