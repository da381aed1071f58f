/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_ports.h - the ports of this host's RDMA devices, as the kernel shows them (sysfs, class infiniband): on which
 * network link each is, how fast, whether it works, and whether its device is one that the CPU plays (Soft-RoCE, siw).
 * A directory is read; nothing is kept. Source: Documentation/ABI/stable/sysfs-class-infiniband of the kernel.
 */
#ifndef RSK_RDMA_PORTS_H
#define RSK_RDMA_PORTS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_RDMA_CLASS "/sys/class/infiniband"
#define RSK_RDMA_PORTS_MOST 256u

/* One port on one network link; a port whose links are several is there for each, one that has none is not. */
struct rsk_rdma_port {
	char device[64]; /* as the kernel names it */
	unsigned int number;
	unsigned int ports;	/* of its device */
	char link[IF_NAMESIZE]; /* network interface */
	bool works;		/* its state is ACTIVE */
	bool soft;
	uint64_t bps; /* 0: not known */
};

struct rsk_rdma_ports {
	struct rsk_rdma_port at[RSK_RDMA_PORTS_MOST]; /* by device, number, link */
	size_t n;
};

/* What is in that directory. 0, also if it is not there: no device; -errno. */
int rsk_rdma_ports_read(const char *path, struct rsk_rdma_ports *out);

/* Is there an RDMA device on that network link, and is none of them a real one? */
bool rsk_rdma_ports_soft(const struct rsk_rdma_ports *p, const char *link);

#endif
