/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * devices.h - the RDMA devices of this host, kept up to date: looked at anew when links or addresses change (hotplug.h)
 * and when the kernel tells of a device that comes or goes (its uevents), and a second after, since GIDs follow
 * addresses with some delay. One thread.
 */
#ifndef RSK_DEVICES_H
#define RSK_DEVICES_H

#include <event2/event.h>

#include "discover.h"

struct rsk_devices {
	struct mnl_socket *socket; /* of uevents; NULL: none */
	struct event *readable, *later;
	const struct rsk_ifaces *links; /* borrowed */
	struct rsk_rdma_ports *ports;	/* owned, as the next two */
	struct rsk_discovered *found;	/* NULL: no memory, and nothing is found */
	struct rsk_discovered *before;
	void (*changed)(void *ctx, bool found);
	void *ctx;
};

/*
 * Looks. changed() comes from the loop, @found: other RNICs than before. 0 or -errno: no uevents are heard; it is open
 * all the same, but for -ENOMEM.
 */
int rsk_devices_open(struct rsk_devices *d, struct event_base *base, const struct rsk_ifaces *links,
		     void (*changed)(void *ctx, bool found), void *ctx);
void rsk_devices_close(struct rsk_devices *d);

/* Looks now, and once more later. True: other RNICs are found than before. */
bool rsk_devices_check(struct rsk_devices *d);

/* Is that address on a link that only software RDMA devices are on? */
bool rsk_devices_soft(void *devices, const struct rsk_pm_addr *ip);

#endif
