/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link_refusals.h - the services of other hosts whose RDMA address has refused a link of one user's
 * processes. Used by rsockd, which keeps one of these for each user: what one user claims is not
 * remembered for another one. Bounded: the oldest entry is replaced. The caller passes the time.
 * One thread.
 */
#ifndef RSK_LINK_REFUSALS_H
#define RSK_LINK_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_LINK_REFUSALS_MOST 64u

/* All zero initially. */
struct rsk_link_refusals {
	struct rsk_link_refusal {
		struct rsk_pm_addr service; /* conventional address */
		uint64_t until_ns;	    /* 0: unused */
	} at[RSK_LINK_REFUSALS_MOST];
};

/* A link to the RDMA address of @service was refused; this is remembered until @until_ns. */
void rsk_link_refusals_add(struct rsk_link_refusals *r, const struct rsk_pm_addr *service,
			   uint64_t until_ns);

/* True if a refusal by that service is remembered. */
bool rsk_link_refusals_has(const struct rsk_link_refusals *r, const struct rsk_pm_addr *service,
			   uint64_t now_ns);

/* True if any is. */
bool rsk_link_refusals_any(const struct rsk_link_refusals *r, uint64_t now_ns);

#endif
