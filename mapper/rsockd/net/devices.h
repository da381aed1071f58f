/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * devices.h - the list of RDMA devices of this host, kept up to date. It is read again when links
 * or addresses change (hotplug.h), when a kernel uevent says that a device was added or removed,
 * and one second after each of these, since GIDs follow addresses with some delay. daemon_open.c
 * opens it, and policy asks it through daemon.c. One thread.
 */
#ifndef RSK_DEVICES_H
#define RSK_DEVICES_H

#include <event2/event.h>

#include "discover.h"

struct rsk_devices {
	struct mnl_socket *socket; /* for uevents; NULL: none */
	struct event *readable, *later;
	const struct rsk_ifaces *links; /* borrowed */
	struct rsk_rdma_ports *ports;	/* owned, as the next three are */
	struct rsk_rdma_links *had;	/* links that have had a device since the start */
	struct rsk_discovered *found;	/* NULL: out of memory; no device is found */
	struct rsk_discovered *before;
	void (*changed)(void *ctx, bool found);
	void *ctx;
};

/*
 * Reads the devices and begins to watch them. The event loop calls changed() after each later read;
 * @found is true if the RNICs differ from those before. Returns 0 or -errno. After -ENOMEM @d is
 * closed; after any other error it is open, but receives no uevents.
 */
int rsk_devices_open(struct rsk_devices *d, struct event_base *base, const struct rsk_ifaces *links,
		     void (*changed)(void *ctx, bool found), void *ctx);
void rsk_devices_close(struct rsk_devices *d);

/* Reads the devices now, and again in a second. True if the RNICs differ from those before. */
bool rsk_devices_check(struct rsk_devices *d);

/*
 * True if address @ip is on a link that has a software RDMA device. @devices is a struct
 * rsk_devices.
 */
bool rsk_devices_soft(void *devices, const struct rsk_pm_addr *ip);

/* How the RDMA device at address @ip is attached. @devices is a struct rsk_devices. */
struct rsk_bus rsk_devices_bus(void *devices, const struct rsk_pm_addr *ip);

/*
 * True if address @ip is on this host, and on no link but such as lack an RDMA device
 * (rsk_rdma_links_lack(), to which @required goes).
 */
bool rsk_devices_lack(const struct rsk_devices *d, const struct rsk_pm_addr *ip, bool required);

#endif
