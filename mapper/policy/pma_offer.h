/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pma_offer.h - at which addresses of this node a listening socket is reached by RDMA, as policy
 * and resources are at the moment. rsockd's services_self.c calls it, for what this host tells the
 * others of its cluster.
 *
 * The question is that of a peer that is not known yet, in the network of the service's own
 * address. What a given peer gets is decided when it asks.
 */
#ifndef RSK_PMA_OFFER_H
#define RSK_PMA_OFFER_H

#include "pma.h"

/* Strings are borrowed until the next reload. */
struct rsk_pma_offer {
	struct rsk_pm_addr at;	 /* the service's conventional address */
	struct rsk_pm_addr rdma; /* the RNIC's; port 0: one is made on request */
	const char *service, *device;
	/* Policy wants it, but a resource or limit is used up, or the node is overloaded */
	bool is_short;
};

/* Of one socket. An all-zero address: all addresses of the family; IPv6: of both families. */
struct rsk_pma_socket {
	struct rsk_pm_addr at;
	uint32_t uid;
};

/*
 * Calls @each for each address of this node's RNICs, and of aggregates over them, at which the
 * socket is reached, if policy maps it there to an RNIC of this node, or would with more resources
 * (then without a device). Nothing is booked or counted. Returns how many addresses were
 * considered.
 */
size_t rsk_pma_offers(struct rsk_pma *a, const struct rsk_pma_socket *socket, uint64_t now_ns,
		      void (*each)(void *ctx, const struct rsk_pma_offer *offer), void *ctx);

#endif
