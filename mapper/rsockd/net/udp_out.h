/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_out.h - datagrams that wait to be sent, as runs: neighbours of one length for one peer are one buffer, which goes
 * through the kernel once and is cut up at its end (udp(7), UDP_SEGMENT). The peer gets datagrams as ever.
 */
#ifndef RSK_UDP_OUT_H
#define RSK_UDP_OUT_H

#include "udp.h"

#define RSK_UDP_RUNS 64	    /* in one system call */
#define RSK_UDP_SEGMENTS 64 /* in a run: what any kernel that knows of them takes */

struct rsk_udp_run {
	struct rsk_pm_addr to;
	uint8_t from[16]; /* where the answer was asked for; all zero: the socket's own */
	uint16_t each;	  /* bytes of a datagram */
	uint16_t n;
};

struct rsk_udp_out; /* of one socket at a time */

struct rsk_udp_out *rsk_udp_out_new(void);
void rsk_udp_out_free(struct rsk_udp_out *o);

/* False: what waits has to go first. */
bool rsk_udp_out_put(struct rsk_udp_out *o, const struct rsk_udp_socket *s,
		     const struct rsk_pm_addr *to, const uint8_t from[static 16],
		     const void *datagram, size_t bytes);

/* All of it, as far as the kernel takes it. */
void rsk_udp_out_flush(struct rsk_udp_out *o, struct rsk_udp_counters *count);

#endif
