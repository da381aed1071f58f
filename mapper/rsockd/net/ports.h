/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ports.h - RDMA listen ports that are made when a request arrives, and released when nobody needs them
 * any more. A port is held as iwpmd holds one: by a TCP socket bound to it, so that nobody else is given
 * that number; RDMA and TCP share the number space. One for each service on each address, however many
 * ask. One thread.
 */
#ifndef RSK_PORTS_H
#define RSK_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

struct rsk_port;

/* Owns the sockets. All zero but for the range at first. */
struct rsk_ports {
	uint16_t first, last; /* numbers to be given; 0 and 0: any that the kernel gives */
	size_t max, n;
	struct rsk_port *by_service, *by_number; /* uthash */
	uint16_t next;
};

void rsk_ports_fini(struct rsk_ports *p);

/* The port on address @ip at which service @service is reached, held once more. -EMFILE, -EADDRINUSE, ... */
int rsk_ports_take(struct rsk_ports *p, const struct rsk_pm_addr *service,
		   const uint8_t ip[static 16]);

/* Held once less; at last it is closed. No effect on a port that is none of these. */
void rsk_ports_put(struct rsk_ports *p, uint8_t ipv, const uint8_t ip[static 16], uint16_t port);

#endif
