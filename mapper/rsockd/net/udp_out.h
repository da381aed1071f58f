/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp_out.h - the queue of datagrams to be sent, as runs: consecutive datagrams of one length to
 * one peer form one buffer, which passes through the kernel once and is split at the end (udp(7),
 * UDP_SEGMENT). The peer receives ordinary datagrams. Only udp.c uses it.
 */
#ifndef RSK_UDP_OUT_H
#define RSK_UDP_OUT_H

#include "udp.h"

#define RSK_UDP_RUNS 64	    /* in one system call */
#define RSK_UDP_SEGMENTS 64 /* in a run: what every kernel with UDP_SEGMENT accepts */

struct rsk_udp_run {
	struct rsk_pm_addr to;
	uint8_t from[16]; /* source address: the one that was asked; all zero: the socket's own */
	uint16_t each;	  /* length of a datagram in bytes */
	uint16_t n;
};

struct rsk_udp_out; /* holds datagrams of one socket at a time */

struct rsk_udp_out *rsk_udp_out_new(void);
void rsk_udp_out_free(struct rsk_udp_out *o);

/* Adds a datagram. False: the queue has to be flushed first. */
bool rsk_udp_out_put(struct rsk_udp_out *o, const struct rsk_udp_socket *s,
		     const struct rsk_pm_addr *to, const uint8_t from[static 16],
		     const void *datagram, size_t bytes);

/* Sends all of it; what the kernel does not take is counted as lost. */
void rsk_udp_out_flush(struct rsk_udp_out *o, struct rsk_udp_counters *count);

#endif
