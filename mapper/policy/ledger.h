/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger.h - what is promised and what is used: of each RNIC, port and service, and by each CP and user. A reservation
 * takes all that a session needs or nothing, and gives all of it back. Every operation takes the same time however many
 * are held; one of them costs 24 bytes. Each CP and user that holds any has a counter for each service and one for all,
 * of 32 bytes and 16 at the most of chains, however many it holds.
 *
 * An account is found by its name, and so outlives a configuration as long as anything is booked on it. No clock. One
 * thread.
 */
#ifndef RSK_LEDGER_H
#define RSK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pma.h"

#define RSK_LEDGER_NONE UINT32_MAX

enum rsk_ledger_kind {
	RSK_LEDGER_RNIC,
	RSK_LEDGER_PORT,
	RSK_LEDGER_SERVICE, /* of one side of connections */
};

/* Booked: promised and used. UINT64_MAX: no limit. */
struct rsk_ledger_account {
	struct rsk_ledger_name *entry; /* owned */
	const char *name;	       /* NULL: free */
	enum rsk_ledger_kind kind;
	enum rsk_pma_side side; /* SERVICE */
	bool current;		/* in the configuration */
	uint64_t sessions, promised;
	uint64_t bps, memory_maps, connections;
	uint64_t sessions_max, bps_max, memory_maps_max, connections_max;
	uint64_t rails; /* RNIC, PORT: of the sessions, those for further rails of links (pma_rails.c) */
	uint32_t rnic; /* PORT: its RNIC's account; free: the next one */
	/* PORT: as measured or said */
	uint64_t others_bps;
	enum rsk_pma_device_state state; /* as an operator wants it */
	enum rsk_pma_device_state seen;	 /* by its node's own agent */
	bool gone;			 /* its host says so */
	bool soft;			 /* the same */
	bool overloaded;		 /* since its load crossed the limit */
};

/* What is said of a port, here and by its node, and what is measured: the worst of it. */
static inline enum rsk_pma_device_state rsk_ledger_state(const struct rsk_ledger_account *port)
{
	if (port->gone || port->state == RSK_PMA_DOWN || port->seen == RSK_PMA_DOWN)
		return RSK_PMA_DOWN;
	return port->state == RSK_PMA_UP ? port->seen : port->state;
}

/* Whose session it is; found once, for limits and for the reservation. */
struct rsk_ledger_who {
	uint32_t cp, user; /* counters with the service, or NONE: nothing is held */
	uint32_t cp_hash, user_hash;
	uint64_t cp_sessions, user_sessions;   /* of the service */
	uint64_t cp_all, user_all;	       /* and of all on this side */
	uint32_t service;		       /* an account */
	uint8_t cp_key[16], user_key[16], ipv; /* the user's is 0 where it is not known */
	bool has_user;
};

enum rsk_ledger_lack {
	RSK_LEDGER_FITS,
	RSK_LEDGER_SESSIONS,
	RSK_LEDGER_CONNECTIONS,
	RSK_LEDGER_MEMORY_MAPS,
	RSK_LEDGER_BANDWIDTH,
};

struct rsk_ledger_reservation;
struct rsk_ledger_counter;
struct rsk_ledger_need_slot;
struct rsk_ledger_name;

/* Owns all of it. */
struct rsk_ledger {
	struct rsk_ledger_account *accounts;
	struct rsk_ledger_need_slot *needs;
	struct rsk_ledger_reservation *held;
	struct rsk_ledger_counter *counters;
	uint32_t *heads;				  /* of the counters' chains */
	uint32_t n_accounts, n_needs, n_held, n_counters; /* slots that were ever in use */
	uint32_t accounts_room, held_room, counters_room, heads_mask;
	uint32_t free_account, free_held, free_counter;
	struct rsk_ledger_name *names;
	uint64_t live, live_counters;
	uint64_t sessions[2]; /* of all, by side */
	uint64_t seed;
};

/* @seed: random, so that nobody outside can aim at a chain. 0 or -ENOMEM. */
int rsk_ledger_init(struct rsk_ledger *l, uint64_t seed);
void rsk_ledger_fini(struct rsk_ledger *l);

/* ---- when a configuration is taken ---- */

/* The account of that name, made if there is none: not current, and without room. RSK_LEDGER_NONE: no memory. */
uint32_t rsk_ledger_account(struct rsk_ledger *l, enum rsk_ledger_kind kind, enum rsk_pma_side side,
			    const char *name);
/* A need, kept while it is current or reserved by. RSK_LEDGER_NONE: no memory. */
uint32_t rsk_ledger_need(struct rsk_ledger *l, const struct rsk_ledger_need *need);
/* The same, but kept only while it is reserved by: there may be any number of others' needs. */
uint32_t rsk_ledger_need_for(struct rsk_ledger *l, const struct rsk_ledger_need *need);
/* Nothing is current any more: accounts have no room, needs are held by reservations only. */
void rsk_ledger_retire(struct rsk_ledger *l);
void rsk_ledger_keep_need(struct rsk_ledger *l, uint32_t need);
/* What is neither current nor held goes. */
void rsk_ledger_sweep(struct rsk_ledger *l);

/* ---- a session ---- */

/* @uid: RSK_PMA_NOBODY is not counted. */
void rsk_ledger_who(const struct rsk_ledger *l, uint32_t service, uint8_t ipv,
		    const uint8_t cp_ip[static 16], uint32_t uid, struct rsk_ledger_who *out);

/* Is there room on a port and its RNIC? */
enum rsk_ledger_lack rsk_ledger_lacks(const struct rsk_ledger *l, uint32_t port, uint32_t need);

/*
 * The fullest of its measures, 0 to 1: sessions, connections, memory maps of the RNIC, bandwidth of the port. With one
 * session more of that need, or RSK_LEDGER_NONE.
 */
double rsk_ledger_load(const struct rsk_ledger *l, uint32_t port, uint32_t need);

/*
 * Books it, as promised. There must be room, and @who is as of now; NULL: nobody's, and of no service: it counts on
 * the port and its RNIC alone. Never 0, and never a number that is held, or was a short while ago; 0: no memory.
 */
uint64_t rsk_ledger_reserve(struct rsk_ledger *l, const struct rsk_ledger_who *who, uint32_t port,
			    uint32_t need);

struct rsk_ledger_view {
	uint32_t port, service, need; /* service: RSK_LEDGER_NONE where it is nobody's */
	bool used;
	uint8_t ipv, cp_ip[16];
	uint32_t uid; /* or RSK_PMA_NOBODY */
};
/* False: nothing is held under that number. */
bool rsk_ledger_find(const struct rsk_ledger *l, uint64_t id, struct rsk_ledger_view *out);

void rsk_ledger_confirm(struct rsk_ledger *l, uint64_t id);
bool rsk_ledger_release(struct rsk_ledger *l, uint64_t id);

/* As if it were not held, to judge anew; then back, or for good. Nothing else is done in between but to reserve. */
void rsk_ledger_lift(struct rsk_ledger *l, uint64_t id);
void rsk_ledger_put_back(struct rsk_ledger *l, uint64_t id);
void rsk_ledger_drop_lifted(struct rsk_ledger *l, uint64_t id);

/* Counts everything again: as slow as much is held. */
bool rsk_ledger_validate(const struct rsk_ledger *l);

#endif
