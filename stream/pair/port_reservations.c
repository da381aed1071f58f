// SPDX-License-Identifier: BSD-2-Clause
/* port_reservations.c - see port_reservations.h. */
#include "port_reservations.h"

#include <errno.h>
#include <string.h>

#include "pairing.h"
#include "log.h"
#include "stream.h"

#define LOOK_NS 1000000000ull

/*
 * The table that the daemon inbox brought and the progress thread has not taken over yet. Under the
 * pairing lock.
 */
static struct {
	struct rsk_port_table port_table;
	bool is_new;
} came;

/*
 * Per port: reservations that could not be given back at once. Those of an earlier generation are
 * void.
 */
struct owed {
	bool is;
	uint32_t generation;
	uint64_t need[RSK_PORT_TABLE_MEASURES]; /* the sum */
};

/* Only for the progress thread. */
static struct {
	struct rsk_port_table port_table;
	struct rsk_port_table_data table; /* as it was read last; all zero: no information */
	uint32_t number;		  /* counts port tables */
	uint64_t look_ns;
	struct owed owed[RSK_PORT_TABLE_PORTS];
} reservations;

void rsk_reservations_came(int fd, uint32_t number)
{
	struct rsk_port_table b = { 0 };
	int rc = fd < 0 ? 0 : rsk_port_table_attach(&b, fd, number);

	if (rc < 0)
		rsk_log(RSK_LOG_INFO, "rsockd's port table cannot be used: %d", rc);
	rsk_port_table_detach(&came.port_table); /* one that was never taken over */
	came.port_table = b;
	came.is_new = true;
}

void rsk_reservations_forked(void)
{
	rsk_port_table_detach(&came.port_table);
	rsk_port_table_detach(&reservations.port_table);
	memset(&reservations.table, 0, sizeof(reservations.table));
	memset(&reservations.owed, 0, sizeof(reservations.owed));
	came.is_new = false;
}

/* ---- for the progress thread ---- */

static bool take_over(void)
{
	bool is_new;

	rsk_pairing_take();
	is_new = came.is_new;
	if (is_new) {
		rsk_port_table_detach(&reservations.port_table);
		reservations.port_table = came.port_table;
		memset(&came, 0, sizeof(came));
	}
	rsk_pairing_give();
	if (!is_new)
		return false;
	memset(&reservations.table, 0, sizeof(reservations.table));
	memset(&reservations.owed, 0, sizeof(reservations.owed));
	reservations.number++;
	reservations.look_ns = 0;
	rsk_log(RSK_LOG_DEBUG, "rsockd's port table: %s",
		rsk_port_table_is(&reservations.port_table) ? "it is there" : "none");
	return true;
}

/* Other processes were changing the record, or one keeps it busy: it is tried again. */
static bool is_busy(int rc)
{
	return rc == -EBUSY || rc == -EAGAIN;
}

static void give_owed(void)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++) {
		struct owed *o = &reservations.owed[i];

		if (o->is && o->generation == reservations.port_table.generation[i])
			o->is = is_busy(rsk_port_table_give(&reservations.port_table, i, o->need));
		else
			o->is = false;
	}
}

/*
 * The reservations of rails are small, so the sum fits; if another process has written to the table
 * so that it does not, nothing is kept for giving back.
 */
static void owe(const struct rsk_reservation *s)
{
	struct owed *o = &reservations.owed[s->port],
		    more = { .is = true, .generation = s->generation };

	for (uint32_t i = 0; i < RSK_PORT_TABLE_MEASURES; i++)
		if (__builtin_add_overflow(s->need[i],
					   o->is && o->generation == s->generation ? o->need[i] : 0,
					   &more.need[i]) ||
		    more.need[i] > RSK_RESERVE_MOST)
			return;
	*o = more;
}

bool rsk_reservations_check(uint64_t now_ns)
{
	struct rsk_port_table_data t;
	bool changed = take_over();
	int rc;

	if (!rsk_port_table_is(&reservations.port_table) || now_ns < reservations.look_ns)
		return changed;
	reservations.look_ns = now_ns + LOOK_NS;
	give_owed();
	rc = rsk_port_table_read(&reservations.port_table, &t);
	if (rc < 0) {
		/*
		 * Being written: it stays as it was. Damaged by another process: it may be whole
		 * again later.
		 */
		rsk_log(RSK_LOG_DEBUG, "rsockd's port table: %d", rc);
		return changed;
	}
	changed |= memcmp(&t, &reservations.table, sizeof(t)) != 0;
	reservations.table = t;
	return changed;
}

uint64_t rsk_reservations_next(void)
{
	return rsk_port_table_is(&reservations.port_table) ? reservations.look_ns : UINT64_MAX;
}

uint64_t rsk_reservations_owed_next(void)
{
	for (uint32_t i = 0; i < RSK_PORT_TABLE_PORTS; i++)
		if (reservations.owed[i].is)
			return reservations.look_ns;
	return UINT64_MAX;
}

uint32_t rsk_reservations_port(const struct rsk_verbs_device_addr *own, uint32_t n, uint32_t device)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t port = own[i].device != device ?
					RSK_PORT_TABLE_NOWHERE :
					rsk_port_table_find(&reservations.table, own[i].addr.family,
							    own[i].addr.ip);

		if (port != RSK_PORT_TABLE_NOWHERE)
			return port;
	}
	return RSK_PORT_TABLE_NOWHERE;
}

enum rsk_reservation_state rsk_reservations_state(uint32_t port)
{
	if (port >= RSK_PORT_TABLE_PORTS)
		return RSK_RESERVATION_FREE;
	switch (reservations.table.port[port].state) {
	case RSK_PORT_TABLE_NONE:
		return RSK_RESERVATION_FREE;
	case RSK_PORT_TABLE_UP:
		return reservations.table.port[port].spare ? RSK_RESERVATION_SPARE :
							     RSK_RESERVATION_UP;
	case RSK_PORT_TABLE_OVERLOADED:
		return RSK_RESERVATION_FULL;
	default:
		return RSK_RESERVATION_OUT;
	}
}

bool rsk_reservations_spare(uint32_t port)
{
	return port < RSK_PORT_TABLE_PORTS && reservations.table.port[port].spare;
}

const char *rsk_reservations_name(uint32_t port)
{
	return port < RSK_PORT_TABLE_PORTS ? reservations.table.port[port].name : "?";
}

static bool has(const struct rsk_reservation *s)
{
	return s->port_table && s->port_table == reservations.number &&
	       s->generation == reservations.port_table.generation[s->port];
}

int rsk_reservations_take(struct rsk_reservation *s, uint32_t port)
{
	int rc;

	if (has(s) && s->port == port)
		return 0;
	rsk_reservations_give(s);
	if (rsk_reservations_state(port) == RSK_RESERVATION_FREE)
		return 0;
	rc = rsk_port_table_take(&reservations.port_table, port, reservations.table.need);
	if (rc < 0)
		return rc;
	*s = (struct rsk_reservation){ .port_table = reservations.number,
				       .port = port,
				       .generation = reservations.port_table.generation[port] };
	memcpy(s->need, reservations.table.need, sizeof(s->need));
	return 0;
}

void rsk_reservations_give(struct rsk_reservation *s)
{
	if (has(s) && rsk_port_table_is(&reservations.port_table) &&
	    is_busy(rsk_port_table_give(&reservations.port_table, s->port, s->need)))
		owe(s);
	*s = (struct rsk_reservation){ 0 };
}
