/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * port_rate.h - how many bits per second a port carries, from the difference of two readings of its
 * counters. Used by rsockd, which passes the readings and the time. Pure.
 *
 * RDMA traffic bypasses the network link, so the port carries what both kinds of counters say
 * together; the busier of its two directions counts, since a port has its bandwidth in each.
 */
#ifndef RSK_PORT_RATE_H
#define RSK_PORT_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Two counters since some moment in the past, in units that their source defines. */
struct rsk_counted {
	bool known; /* false: they cannot be read, or there are none */
	uint64_t sent, received;
};

struct rsk_port_reading {
	struct rsk_counted rdma; /* units of 4 octets */
	struct rsk_counted link; /* octets */
	uint64_t line_bps;	 /* rate of the RDMA port; 0: unknown */
};

/* All zero initially. */
struct rsk_port_rate {
	struct rsk_port_reading before;
	uint64_t read_ns; /* time of @before; 0: none */
};

#define RSK_PORT_RATE_UNKNOWN (-1)

/*
 * Takes a reading at @now_ns (monotonic, not 0). Returns the bits per second since the reading
 * before, or RSK_PORT_RATE_UNKNOWN: there was none, the readings are of different sources, or a
 * counter went back or made a jump that no traffic makes.
 */
int64_t rsk_port_rate_take(struct rsk_port_rate *r, const struct rsk_port_reading *now,
			   uint64_t now_ns);

#endif
