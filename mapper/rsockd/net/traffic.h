/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * traffic.h - measures once a second what the ports of this node's RNICs carry, and tells policy
 * (rsk_pma_carried_set() of pma.h). A port is measured if it has a bandwidth, since only then does
 * policy use the result; without such ports nothing is read. daemon_open.c opens it, and daemon.c
 * says when ports or devices have changed. One thread.
 *
 * Counted are the octets of the network link that carries the port's address, and those of the
 * hardware RDMA device on that link, where it has counters (rdma_ports.h). On InfiniBand the latter
 * include the link's (IPoIB). What a software device sends is the link's as well.
 */
#ifndef RSK_TRAFFIC_H
#define RSK_TRAFFIC_H

#include <event2/event.h>
#include <stdio.h>

#include "devices.h"
#include "pma.h"

struct rsk_traffic_port;

struct rsk_traffic {
	struct event *timer;
	FILE *links; /* RSK_LINK_COUNTERS; NULL: it could not be opened, and no link is counted */
	struct rsk_pma *pma;		   /* borrowed */
	const struct rsk_devices *devices; /* borrowed */
	struct rsk_traffic_port *ports;	   /* owned: those that are measured */
	size_t n;
};

/* Opens the file while there are rights to. Returns 0 or -errno. */
int rsk_traffic_open(struct rsk_traffic *t, struct event_base *base, struct rsk_pma *pma,
		     const struct rsk_devices *devices);
void rsk_traffic_close(struct rsk_traffic *t);

/*
 * Selects the ports to measure, and the counters of each. Called when the configuration, links,
 * addresses or devices have changed: a port whose link and device are the same goes on.
 */
void rsk_traffic_check(struct rsk_traffic *t);

#endif
