/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * discover.h - finds the RNICs of this host that the configuration does not name: RDMA ports that
 * work, with the addresses of the network links that they are on. Called by rsockd. Pure.
 *
 * An address belongs to one port; hardware devices come before software ones.
 */
#ifndef RSK_DISCOVER_H
#define RSK_DISCOVER_H

#include "ifaces.h"
#include "rdma_ports.h"

#define RSK_DISCOVER_PORTS_MOST 64u
#define RSK_DISCOVER_IPS_MOST 16u

struct rsk_discovered_port {
	char device[64];
	unsigned int number;			       /* 0: the only port of its device */
	uint64_t bps;				       /* 0: unknown */
	struct rsk_pm_addr ips[RSK_DISCOVER_IPS_MOST]; /* sorted */
	size_t n_ips;				       /* at least 1 */
};

/* Ports of a device are adjacent. Ports and addresses beyond the bounds are left out. */
struct rsk_discovered {
	struct rsk_discovered_port ports[RSK_DISCOVER_PORTS_MOST];
	size_t n;
};

void rsk_discover(const struct rsk_rdma_ports *ports, const struct rsk_ifaces *links,
		  struct rsk_discovered *out);
bool rsk_discovered_equal(const struct rsk_discovered *a, const struct rsk_discovered *b);

#endif
