/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_table.h - the open transactions of a PMSP. They are found by their name, and by the connection
 * that they are about. Used by pmsp.c. The maximum is set at the start; a flood of requests finds
 * the table full.
 *
 * It has its own hash chains instead of uthash, whose two handles would take 112 of the 256 bytes
 * that a mapping may cost.
 */
#ifndef RSK_PM_TABLE_H
#define RSK_PM_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "deadline.h"
#include "pm_addr.h"
#include "pm_msg.h"

enum rsk_pm_state {
	RSK_PM_FREE,
	RSK_PM_ASKED,	/* a policy agent is deciding */
	RSK_PM_OFFERED, /* PMAccept sent, not acknowledged yet */
	RSK_PM_HELD,	/* acknowledged; the port may be used until PmTime is over */
};

enum rsk_pm_index {
	RSK_PM_BY_NAME, /* AssocHandle, CpIPaddr, CpPort */
	/* CpIPaddr, CpPort, ApIPaddr, service port; not for service mappings, whose CpPort is 0 */
	RSK_PM_BY_TUPLE,
	RSK_PM_INDICES
};

/*
 * Owned by the table. Numbers in host order. The fields that a search reads are together, at the
 * front.
 */
struct rsk_pm_entry {
	/* Hash chains; next[0] also links free entries */
	struct rsk_pm_entry *next[RSK_PM_INDICES];
	uint64_t handle;
	uint8_t cp_ip[16];
	uint16_t cp_port, ap_port, rdma_port;
	uint8_t ipv, state, tries, pm_time_s;
	/* The port is that of a process, not made for this mapping */
	bool own_port;
	uint8_t ap_ip[16]; /* requested address */
	/* Source address of the link: the mapped CpIPaddr, or CpIPaddr */
	uint8_t link_ip[16];
	uint8_t rdma_ip[16];	 /* address in the answer */
	struct rsk_pm_addr from; /* sender of the newest PMReq */
	struct rsk_deadline timer;
	uint64_t expires_ns; /* then everything that it holds is released */
	/* The decider's id of what is held for it; 0: nothing */
	uint64_t grant;
	/* List of OFFERED entries, in order of the last PMReq */
	struct rsk_pm_entry *older, *newer;
};

struct rsk_pm_table {
	/* Array of @max; entries that were never used take no memory */
	struct rsk_pm_entry *entries;
	size_t n, used, max;
	struct rsk_pm_entry *free; /* among the first @used entries */
	struct rsk_pm_entry **heads[RSK_PM_INDICES];
	size_t mask;
	/* Random, so that no outside party can choose a chain */
	uint64_t seed;
	struct rsk_pm_entry *oldest, *newest; /* list of OFFERED entries */
};

/* At most @max entries. Returns 0 or -ENOMEM. */
int rsk_pm_table_init(struct rsk_pm_table *t, size_t max, uint64_t seed);
void rsk_pm_table_fini(struct rsk_pm_table *t);

/*
 * Adds an entry for this PMReq, in state ASKED, found by name and tuple. NULL: full, or no memory.
 */
struct rsk_pm_entry *rsk_pm_table_add(struct rsk_pm_table *t, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from);

/* Removes the entry. Its timer must have been cleared. */
void rsk_pm_table_remove(struct rsk_pm_table *t, struct rsk_pm_entry *e);

/* Finds the entry by the name in any of the four messages. */
struct rsk_pm_entry *rsk_pm_table_named(const struct rsk_pm_table *t, const struct rsk_pm_msg *m);

/*
 * Prefetch what a search for this message would read, so that the memory accesses of many searches
 * overlap: first the heads of the chains, then the entries that they point to, then what is linked
 * with an entry that a PMReq replaces. Only the numbers that a search uses must be right in @m; a
 * wrong guess does no harm.
 */
struct rsk_pm_look {
	struct rsk_pm_entry **named, **about; /* @about NULL: no search by the connection */
};
void rsk_pm_table_prefetch(const struct rsk_pm_table *t, const struct rsk_pm_msg *m,
			   struct rsk_pm_look *look);
void rsk_pm_table_prefetch_entries(const struct rsk_pm_look *look);
void rsk_pm_table_prefetch_replaced(const struct rsk_pm_table *t, const struct rsk_pm_look *look);

/* Finds the entry by the connection that a PMReq is about; NULL for a service mapping. */
struct rsk_pm_entry *rsk_pm_table_about(const struct rsk_pm_table *t, const struct rsk_pm_msg *req);

/*
 * From ASKED or OFFERED to OFFERED, as the newest; stores the RDMA address, which may differ from
 * the one before.
 */
void rsk_pm_table_offer(struct rsk_pm_table *t, struct rsk_pm_entry *e, const uint8_t ip[static 16],
			uint16_t port);

/* From OFFERED to HELD. */
void rsk_pm_table_hold(struct rsk_pm_table *t, struct rsk_pm_entry *e);

/* Bytes that one mapping costs in a full table, including its share of the indices. */
size_t rsk_pm_table_bytes_each(const struct rsk_pm_table *t);

/* Slow: walks the whole table. */
bool rsk_pm_table_validate(const struct rsk_pm_table *t);

#endif
