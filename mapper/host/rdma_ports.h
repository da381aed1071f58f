/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_ports.h - reads the ports of this host's RDMA devices from sysfs (class infiniband): on
 * which network link each port is, how fast it is, whether it works, how its device is attached to
 * the host, and whether it is software (Soft-RoCE, siw). Called by rsockd; nothing is kept. Source:
 * Documentation/ABI/stable/sysfs-class-infiniband of the kernel.
 */
#ifndef RSK_RDMA_PORTS_H
#define RSK_RDMA_PORTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bus.h"
#include "port_rate.h"

#define RSK_RDMA_CLASS "/sys/class/infiniband"
#define RSK_RDMA_PORTS_MOST 256u

/*
 * One port on one network link. A port with several links has an entry for each; a port without a
 * link has none.
 */
struct rsk_rdma_port {
	char device[64]; /* kernel name */
	unsigned int number;
	unsigned int ports;	/* number of ports of its device */
	char link[IF_NAMESIZE]; /* network interface */
	bool works;		/* its state is ACTIVE */
	bool soft;
	bool infiniband;    /* its link layer; otherwise Ethernet */
	uint64_t bps;	    /* 0: unknown */
	struct rsk_bus bus; /* of its device; unknown for software */
};

struct rsk_rdma_ports {
	struct rsk_rdma_port at[RSK_RDMA_PORTS_MOST]; /* sorted by device, number, link */
	size_t n;
	size_t unplaced; /* 0: these are all ports that there are, and each has a link */
};

/* Reads the directory. Returns 0, also if it does not exist (no device), or -errno. */
int rsk_rdma_ports_read(const char *path, struct rsk_rdma_ports *out);

/*
 * Reads what the port has sent and received, in units of 4 octets, by all programs. Not known where
 * the device has no such counters, as siw and some of hardware.
 */
struct rsk_counted rsk_rdma_port_counters(const char *path, const struct rsk_rdma_port *port);

/* Names of network links that have had an RDMA port. All zero initially. */
struct rsk_rdma_links {
	char name[RSK_RDMA_PORTS_MOST][IF_NAMESIZE];
	size_t n;
};

/* Adds the links of these ports, as far as there is room. */
void rsk_rdma_links_add(struct rsk_rdma_links *l, const struct rsk_rdma_ports *p);

/*
 * True if that network link has no RDMA port and should have one: it has had one, or any link of
 * this host has and no port is unplaced. Where no link has ever had one, only if @required: /sys
 * may not show what a container uses, and most hosts have no RDMA.
 */
bool rsk_rdma_links_lack(const struct rsk_rdma_links *l, const struct rsk_rdma_ports *p,
			 const char *link, bool required);

/* True if there are RDMA devices on that network link and all of them are software. */
bool rsk_rdma_ports_soft(const struct rsk_rdma_ports *p, const char *link);

/* How the RDMA device on that network link is attached: the first that is hardware, if any. */
struct rsk_bus rsk_rdma_ports_bus(const struct rsk_rdma_ports *p, const char *link);

#endif
