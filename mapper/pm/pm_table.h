/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_table.h - the transactions that a PMSP has open: found by their name, by the connection they are about, and by
 * the link that is expected. So many at most as were allowed at the start; a flood finds the table full.
 *
 * Chains of our own, not uthash: its three handles would be 168 of the 256 bytes that a mapping may cost.
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
	RSK_PM_ASKED,	/* a policy agent is at it */
	RSK_PM_OFFERED, /* PMAccept sent, nothing heard yet */
	RSK_PM_HELD,	/* acknowledged; the port may be used until PmTime is over */
};

enum rsk_pm_index {
	RSK_PM_BY_NAME, /* AssocHandle, CpIPaddr, CpPort */
	RSK_PM_BY_TUPLE, /* CpIPaddr, CpPort, ApIPaddr, service port; not of a service mapping, whose CpPort is 0 */
	RSK_PM_BY_LINK, /* address that the link comes from, RDMA listen port; from PMAccept on */
	RSK_PM_INDICES
};

/* Owned by the table. Numbers in host order. What a search looks at lies together, in front. */
struct rsk_pm_entry {
	struct rsk_pm_entry *next[RSK_PM_INDICES]; /* chains; the first one of free entries, too */
	uint64_t handle;
	uint8_t cp_ip[16];
	uint16_t cp_port, ap_port, rdma_port, link_port;
	uint8_t ipv, state, tries, pm_time_s;
	bool over_link;		 /* its PMAck is all of its use */
	bool own_port;		 /* a process's, not made */
	uint8_t ap_ip[16];	 /* that was asked for */
	uint8_t link_ip[16];	 /* the link comes from: the mapped CpIPaddr, or CpIPaddr */
	uint8_t rdma_ip[16];	 /* that was answered */
	struct rsk_pm_addr from; /* of the newest PMReq */
	struct rsk_deadline timer;
	uint64_t expires_ns;	       /* then all that it holds is released */
	uint64_t grant;		       /* the decider's name of what is held for it; 0: nothing */
	struct rsk_pm_entry **link_at; /* who points to it BY_LINK: many may expect the same */
	struct rsk_pm_entry *older, *newer; /* OFFERED: by the last PMReq */
};

struct rsk_pm_table {
	struct rsk_pm_entry
		*entries; /* so many as there may be; those never used yet cost no memory */
	size_t n, used, max;
	struct rsk_pm_entry *free; /* of the first @used */
	struct rsk_pm_entry **heads[RSK_PM_INDICES];
	size_t mask;
	uint64_t seed;			      /* random: nobody outside can aim at a chain */
	struct rsk_pm_entry *oldest, *newest; /* OFFERED */
};

/* At most @max entries. 0 or -ENOMEM. */
int rsk_pm_table_init(struct rsk_pm_table *t, size_t max, uint64_t seed);
void rsk_pm_table_fini(struct rsk_pm_table *t);

/* A new entry for this PMReq, ASKED, found by name and tuple. NULL: full, or no memory. */
struct rsk_pm_entry *rsk_pm_table_add(struct rsk_pm_table *t, const struct rsk_pm_msg *req,
				      const struct rsk_pm_addr *from);

/* Its timer is cleared already. */
void rsk_pm_table_remove(struct rsk_pm_table *t, struct rsk_pm_entry *e);

/* By the name in any of the four messages. */
struct rsk_pm_entry *rsk_pm_table_named(const struct rsk_pm_table *t, const struct rsk_pm_msg *m);

/*
 * Asks the memory for what a look for this message would touch, so that many such asked for together arrive
 * together: first the chains' heads, then the entries that they lead to, then what hangs on an entry that a PMReq
 * replaces. Only numbers that a search uses need be right in @m; a guess is good enough.
 */
struct rsk_pm_look {
	struct rsk_pm_entry **named, **about; /* NULL: no look by the connection */
};
void rsk_pm_table_prefetch(const struct rsk_pm_table *t, const struct rsk_pm_msg *m,
			   struct rsk_pm_look *look);
void rsk_pm_table_prefetch_entries(const struct rsk_pm_look *look);
void rsk_pm_table_prefetch_replaced(const struct rsk_pm_table *t, const struct rsk_pm_look *look);

/* By the connection that a PMReq is about; NULL for a service mapping. */
struct rsk_pm_entry *rsk_pm_table_about(const struct rsk_pm_table *t, const struct rsk_pm_msg *req);

/*
 * By a link that comes to @rdma from @source: the address, and the port too where the PMReq named one. The newest, if
 * there are several.
 */
struct rsk_pm_entry *rsk_pm_table_expecting(const struct rsk_pm_table *t,
					    const struct rsk_pm_addr *rdma,
					    const struct rsk_pm_addr *source);

/* From ASKED or OFFERED to OFFERED, the newest; the RDMA address is this, perhaps another than before. */
void rsk_pm_table_offer(struct rsk_pm_table *t, struct rsk_pm_entry *e, const uint8_t ip[static 16],
			uint16_t port);

/* From OFFERED to HELD. */
void rsk_pm_table_hold(struct rsk_pm_table *t, struct rsk_pm_entry *e);

/* Bytes that one mapping costs, with its share of the indices, in a full table. */
size_t rsk_pm_table_bytes_each(const struct rsk_pm_table *t);

/* Slow: walks all of it. */
bool rsk_pm_table_validate(const struct rsk_pm_table *t);

#endif
