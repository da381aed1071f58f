/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bus.h - reads how an RDMA device is attached to its host, from sysfs: the bandwidth that the PCI
 * Express link to it leaves for data, and the NUMA node that it is on; and which processors each
 * NUMA node has. rdma_ports.c and rsockd call it; nothing is kept. Source:
 * Documentation/ABI/testing/sysfs-bus-pci and stable/sysfs-devices-node of the kernel.
 */
#ifndef RSK_BUS_H
#define RSK_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_NUMA_NODES "/sys/devices/system/node"
#define RSK_NUMA_NODES_MOST 64u
#define RSK_NUMA_CPUS_MOST 4096u

struct rsk_bus {
	uint64_t bps;  /* for data, in each direction; 0: unknown */
	uint32_t numa; /* its NUMA node + 1, at most RSK_NUMA_NODES_MOST; 0: unknown */
};

/*
 * Reads them for the device whose directory in sysfs @device is open at. What is missing or cannot
 * be parsed is unknown, as it is for a device that is on no bus.
 */
struct rsk_bus rsk_bus_read(int device);

/*
 * The bandwidth for data of a PCI Express link: @speed, "8.0 GT/s PCIe"; @width, lanes, "16". It is
 * what the encoding leaves (8b/10b, 128b/130b, or flits), less 24 bytes of header, sequence number
 * and checksums for each 256 bytes of data, as in a large transfer. 0: one of them is not known.
 */
uint64_t rsk_bus_bps(const char *speed, const char *width);

/* The processors of each NUMA node. */
struct rsk_numa {
	uint8_t node[RSK_NUMA_CPUS_MOST]; /* of each processor + 1; 0: unknown */
	unsigned int n;			  /* number of nodes that have processors */
};

/* Reads the directory; nodes and processors beyond the bounds are left out. */
void rsk_numa_read(const char *path, struct rsk_numa *out);

/*
 * Converts a set of processors, as sched_getaffinity(2) returns it, to a set of NUMA nodes: bit i
 * is node i. 0: all nodes, or one of the processors is not known.
 */
uint64_t rsk_numa_nodes_of(const struct rsk_numa *numa, const void *cpus, size_t bytes);

#endif
