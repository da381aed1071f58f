/* SPDX-License-Identifier: BSD-2-Clause */
/* ledger_parts.h - shared by the two source files of the ledger. Only ledger*.c include this. */
#ifndef RSK_LEDGER_PARTS_H
#define RSK_LEDGER_PARTS_H

#include "ledger.h"

enum rsk_ledger_counted {
	RSK_LEDGER_FREE,
	RSK_LEDGER_USER,
	RSK_LEDGER_CP4,
	RSK_LEDGER_CP6
};

/*
 * The sessions of a CP (by its address) or a user, with one service or with all; 1 or more, or the
 * counter is free. Two fit in a cache line: with many held, the time of a decision is that of the
 * cache lines it fetches.
 */
struct rsk_ledger_counter {
	uint8_t key[16];
	uint32_t scope : 30; /* a service's account, or ALL + side */
	uint32_t kind : 2;
	/* Counter of the same CP or user for all services; NONE: this is it */
	uint32_t parent;
	uint32_t sessions;
	/* In its hash chain, or in the list of free ones */
	uint32_t next;
};

#define RSK_LEDGER_ALL 0x3ffffff0u
#define RSK_LEDGER_NO_SERVICE 0x0fffffffu /* of a reservation without a user */

struct rsk_ledger_reservation {
	uint32_t generation;
	uint32_t port; /* an account; NONE: free */
	uint32_t service : 28;
	uint32_t priority : 3;
	uint32_t used : 1;
	uint32_t need;
	/* A counter; NONE: no user's; in a free slot: the next free one */
	uint32_t cp;
	uint32_t user;
};

struct rsk_ledger_need_slot {
	struct rsk_ledger_need need;
	uint64_t held; /* number of reservations that use it */
	bool current;
};

void rsk_ledger_free_names(struct rsk_ledger *l);

#endif
