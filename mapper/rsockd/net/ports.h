/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ports.h - RDMA listen ports, which are made when a request arrives and released when they are not
 * needed any more. As in iwpmd, a TCP socket that is bound to the number reserves it, so that no
 * other program gets it: RDMA and TCP share the number space. There is one port for each service on
 * each address, however many requests name it. agent.c calls this. One thread.
 */
#ifndef RSK_PORTS_H
#define RSK_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

struct rsk_port;

/* Owns the sockets. Initially all zero except for the range and max. */
struct rsk_ports {
	uint16_t first, last; /* range of port numbers; 0 and 0: any that the kernel assigns */
	size_t max, n;
	struct rsk_port *by_service, *by_number; /* uthash */
	uint16_t next;
};

void rsk_ports_fini(struct rsk_ports *p);

/*
 * Takes a reference to the port on address @ip at which service @service is reached; makes the port
 * if there is none. Returns its number, or -errno: -EMFILE if there are max of them, -EADDRINUSE if
 * the range is used up.
 */
int rsk_ports_take(struct rsk_ports *p, const struct rsk_pm_addr *service,
		   const uint8_t ip[static 16]);

/*
 * Drops a reference; the last one closes the port. No effect on a port that is not in the tables.
 */
void rsk_ports_put(struct rsk_ports *p, uint8_t ipv, const uint8_t ip[static 16], uint16_t port);

#endif
