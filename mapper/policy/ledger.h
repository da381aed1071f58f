/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ledger.h - the ledger: what is promised and what is used of each RNIC, port and service, and by
 * each CP and user. Used by the policy agent.
 *
 * A reservation takes all that a session needs or nothing, and releases all of it. Every operation
 * takes constant time; a reservation costs 24 bytes. Each CP and user that holds any has one
 * counter for each service and one for all, of 32 bytes and at most 16 of chains, however many it
 * holds.
 *
 * An account is found by its name, and so outlives a configuration as long as anything is booked on
 * it. No clock. One thread.
 */
#ifndef RSK_LEDGER_H
#define RSK_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "claims.h"
#include "pma.h"

#define RSK_LEDGER_NONE UINT32_MAX

enum rsk_ledger_kind {
	RSK_LEDGER_RNIC,
	RSK_LEDGER_PORT,
	RSK_LEDGER_SERVICE, /* of one side of connections */
};

/* Booked means promised and used. UINT64_MAX: no limit. */
struct rsk_ledger_account {
	struct rsk_ledger_name *entry; /* owned */
	const char *name;	       /* NULL: free */
	enum rsk_ledger_kind kind;
	enum rsk_pma_side side; /* for SERVICE */
	bool current;		/* in the current configuration */
	uint64_t sessions, promised;
	uint64_t bps, memory_maps, connections;
	uint64_t sessions_max, bps_max, memory_maps_max, connections_max;
	/* RNIC, PORT: the part of @sessions that are further rails of links (pma_rails.c) */
	uint64_t rails;
	/* PORT: account of its RNIC; in a free account: the next free one */
	uint32_t rnic;
	/* PORT: bandwidth used by others, as measured or reported */
	uint64_t others_bps;
	/* PORT of this node: what it carries in all; @bps at the last measurement */
	uint64_t carried_bps, booked_before_bps;
	bool measured; /* the former two, and @others_bps, are averages of measurements */
	/* The state that the operator has set */
	enum rsk_pma_device_state state;
	/* The state that its node's own agent reports */
	enum rsk_pma_device_state seen;
	enum rsk_pma_absence gone; /* whether its host reports it as present, and why not */
	bool soft;		   /* its host reports that it is a software device */
	/* RNIC: how it is attached, as its host reports */
	struct rsk_bus bus;
	/* Its load has crossed the limit */
	bool overloaded;
};

/* Combines the operator's state, the node's report and presence: the worst of them counts. */
static inline enum rsk_pma_device_state rsk_ledger_state(const struct rsk_ledger_account *port)
{
	if (port->gone || port->state == RSK_PMA_DOWN || port->seen == RSK_PMA_DOWN)
		return RSK_PMA_DOWN;
	return port->state == RSK_PMA_UP ? port->seen : port->state;
}

/* Whose session it is. Looked up once, for limits and for the reservation. */
struct rsk_ledger_who {
	/* Counters with the service, or NONE: nothing is held */
	uint32_t cp, user;
	uint32_t cp_hash, user_hash;
	uint64_t cp_sessions, user_sessions; /* of the service */
	uint64_t cp_all, user_all;	     /* of all services of this side */
	uint32_t service;		     /* an account */
	uint8_t priority;		     /* of its reservation, 0 to 7; the caller sets it */
	/* The user's is 0 if it is not known */
	uint8_t cp_key[16], user_key[16], ipv;
	bool has_user;
};

enum rsk_ledger_lack {
	RSK_LEDGER_FITS,
	RSK_LEDGER_SESSIONS,
	RSK_LEDGER_CONNECTIONS,
	RSK_LEDGER_MEMORY_MAPS,
	RSK_LEDGER_BANDWIDTH,
	RSK_LEDGER_KEPT, /* what is left is kept free for quotas of other hosts */
};

struct rsk_ledger_reservation;
struct rsk_ledger_counter;
struct rsk_ledger_need_slot;
struct rsk_ledger_name;

/* Owns everything. */
struct rsk_ledger {
	struct rsk_ledger_account *accounts;
	struct rsk_ledger_need_slot *needs;
	struct rsk_ledger_reservation *held;
	struct rsk_ledger_counter *counters;
	uint32_t *heads; /* heads of the counters' hash chains */
	/* Number of slots that were ever in use */
	uint32_t n_accounts, n_needs, n_held, n_counters;
	uint32_t accounts_room, held_room, counters_room, heads_mask;
	uint32_t free_account, free_held, free_counter;
	struct rsk_ledger_name *names;
	uint64_t live, live_counters;
	uint64_t sessions[2]; /* of all services, by side */
	uint64_t seed;
	/* Of RNICs, by other hosts: what is kept free for them */
	struct rsk_claims claims;
};

/* @seed: random, so that no outside party can choose a chain. Returns 0 or -ENOMEM. */
int rsk_ledger_init(struct rsk_ledger *l, uint64_t seed);
void rsk_ledger_fini(struct rsk_ledger *l);

/* ---- applying a configuration ---- */

/*
 * Returns the account of that name; makes it if there is none: not current, with limits of 0.
 * RSK_LEDGER_NONE: no memory.
 */
uint32_t rsk_ledger_account(struct rsk_ledger *l, enum rsk_ledger_kind kind, enum rsk_pma_side side,
			    const char *name);
/*
 * Returns the number of a need, which is kept while it is current or used by a reservation.
 * RSK_LEDGER_NONE: no memory.
 */
uint32_t rsk_ledger_need(struct rsk_ledger *l, const struct rsk_ledger_need *need);
/*
 * The same, but kept only while a reservation uses it: other agents may have any number of needs.
 */
uint32_t rsk_ledger_need_for(struct rsk_ledger *l, const struct rsk_ledger_need *need);
/* Makes nothing current: accounts get limits of 0, and only reservations keep needs. */
void rsk_ledger_retire(struct rsk_ledger *l);
void rsk_ledger_keep_need(struct rsk_ledger *l, uint32_t need);
/* Frees accounts that are neither current nor in use. */
void rsk_ledger_sweep(struct rsk_ledger *l);

/* ---- sessions ---- */

/* Looks up whose session it is. @uid: RSK_PMA_NOBODY is not counted. */
void rsk_ledger_who(const struct rsk_ledger *l, uint32_t service, uint8_t ipv,
		    const uint8_t cp_ip[static 16], uint32_t uid, struct rsk_ledger_who *out);

/*
 * Checks whether there is room on a port and its RNIC. for(): for a session that the CP of that
 * address has asked for (NULL: nobody else has); its host may have a claim.
 */
enum rsk_ledger_lack rsk_ledger_lacks_for(const struct rsk_ledger *l, uint32_t port, uint32_t need,
					  uint8_t ipv, const uint8_t *cp_ip);

/* Replaces the claims (claims.h), and counts what is in use of them. 0, -ENOMEM or -EINVAL. */
int rsk_ledger_claims_set(struct rsk_ledger *l, const struct rsk_claims_set *set);
/* The accounts are others now: finds those of the claims, and counts again. */
void rsk_ledger_claims_bind(struct rsk_ledger *l);

/*
 * Returns the load, 0 to 1: the fullest of sessions, connections and memory maps of the RNIC and
 * bandwidth of the port. @need: with one more session of that need; RSK_LEDGER_NONE: as it is.
 */
double rsk_ledger_load(const struct rsk_ledger *l, uint32_t port, uint32_t need);

/*
 * Books a session as promised. There must be room, and @who must be up to date; NULL: no user's and
 * no service's: it counts on the port and its RNIC only. Returns an id that is never 0, and never
 * one that is held or was held recently; 0: no memory.
 */
uint64_t rsk_ledger_reserve(struct rsk_ledger *l, const struct rsk_ledger_who *who, uint32_t port,
			    uint32_t need);

struct rsk_ledger_view {
	uint32_t port, service, need; /* service: RSK_LEDGER_NONE if it belongs to none */
	bool used;
	uint8_t priority, ipv, cp_ip[16];
	uint32_t uid; /* or RSK_PMA_NOBODY */
};
/* Returns false if there is no such reservation. */
bool rsk_ledger_find(const struct rsk_ledger *l, uint64_t id, struct rsk_ledger_view *out);

void rsk_ledger_confirm(struct rsk_ledger *l, uint64_t id);
bool rsk_ledger_release(struct rsk_ledger *l, uint64_t id);

/*
 * Lift: removes the reservation from all sums, to decide anew. Then it is put back or dropped. In
 * between only rsk_ledger_reserve() may be called.
 */
void rsk_ledger_lift(struct rsk_ledger *l, uint64_t id);
void rsk_ledger_put_back(struct rsk_ledger *l, uint64_t id);
void rsk_ledger_drop_lifted(struct rsk_ledger *l, uint64_t id);

/* Recomputes all sums: takes time in proportion to what is held. */
bool rsk_ledger_validate(const struct rsk_ledger *l);

#endif
