/* SPDX-License-Identifier: BSD-2-Clause */
/* ledger_parts.h - what the ledger's two sources share. Only ledger*.c include this. */
#ifndef RSK_LEDGER_PARTS_H
#define RSK_LEDGER_PARTS_H

#include "ledger.h"

/* Of a CP (kind: its address's family) or a user, with a service or with all. Of 1 session or more, or free. */
struct rsk_ledger_counter {
	uint8_t key[16];
	uint32_t scope;	 /* a service's account, or ALL and the side */
	uint32_t parent; /* the same one's of all services; NONE: this is it */
	uint32_t sessions;
	uint32_t next; /* in its chain, or in the list of free ones */
	uint8_t kind;
};

#define RSK_LEDGER_FREE 0u
#define RSK_LEDGER_USER 1u /* beside 4 and 6 */
#define RSK_LEDGER_ALL 0xfffffff0u

struct rsk_ledger_reservation {
	uint32_t generation;
	uint32_t port; /* an account; NONE: free */
	uint32_t service : 31;
	uint32_t used : 1;
	uint32_t need;
	uint32_t cp; /* a counter; free: the next one */
	uint32_t user;
};

struct rsk_ledger_need_slot {
	struct rsk_ledger_need need;
	uint64_t held; /* by so many reservations */
	bool current;
};

void rsk_ledger_free_names(struct rsk_ledger *l);

#endif
