/* SPDX-License-Identifier: BSD-2-Clause */
/* ledger_parts.h - what the ledger's two sources share. Only ledger*.c include this. */
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
 * Of a CP (by its address) or a user, with a service or with all; of 1 session or more, or free. Two to a cache line:
 * with many held, a decision takes as long as the lines that it must fetch.
 */
struct rsk_ledger_counter {
	uint8_t key[16];
	uint32_t scope : 30; /* a service's account, or ALL and the side */
	uint32_t kind : 2;
	uint32_t parent; /* the same one's of all services; NONE: this is it */
	uint32_t sessions;
	uint32_t next; /* in its chain, or in the list of free ones */
};

#define RSK_LEDGER_ALL 0x3ffffff0u
#define RSK_LEDGER_NO_SERVICE 0x7fffffffu /* of a reservation that is nobody's */

struct rsk_ledger_reservation {
	uint32_t generation;
	uint32_t port; /* an account; NONE: free */
	uint32_t service : 31;
	uint32_t used : 1;
	uint32_t need;
	uint32_t cp; /* a counter; NONE: nobody's; free: the next one */
	uint32_t user;
};

struct rsk_ledger_need_slot {
	struct rsk_ledger_need need;
	uint64_t held; /* by so many reservations */
	bool current;
};

void rsk_ledger_free_names(struct rsk_ledger *l);

#endif
