/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h - the UDP sockets of the port mapper's protocol. Datagrams are received and sent in batches
 * (recvmmsg, sendmmsg), and those of one busy peer in one buffer (UDP_GRO, UDP_SEGMENT). An answer
 * leaves from the address to which the request came, also if the socket is bound to several.
 * Nothing here blocks: a datagram that the kernel does not take is lost, as it could be on the
 * network, and counted. daemon_open.c opens it; agent.c and map.c send by it. One thread.
 */
#ifndef RSK_UDP_H
#define RSK_UDP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_UDP_SOCKETS 16
#define RSK_UDP_BATCH 64  /* datagrams for which prepare() is called together */
#define RSK_UDP_BYTES 128 /* longest datagram that is sent; those of the protocol have 64 */

struct rsk_udp_in;
struct rsk_udp_out;

struct rsk_udp_socket {
	struct rsk_udp *udp;
	struct event *readable;
	int fd;
	uint8_t ipv;
	bool segments;	       /* the kernel splits a run into datagrams (UDP_SEGMENT) */
	struct rsk_pm_addr at; /* local address as bound; its port is never 0 */
};

/* prepare() gets datagrams that arrived together, before take() gets each of them. */
struct rsk_pmsp_coming;
typedef void rsk_udp_prepare(void *ctx, const struct rsk_pmsp_coming *coming, size_t n);
typedef void rsk_udp_take(void *ctx, const struct rsk_pm_addr *from, const void *datagram,
			  size_t bytes, uint64_t now_ns);

struct rsk_udp_counters {
	uint64_t received, sent, lost;
};

/* Owns sockets, events and batches. */
struct rsk_udp {
	struct event_base *base;
	rsk_udp_prepare *prepare;
	rsk_udp_take *take;
	void (*after)(void *ctx); /* called after each batch */
	void *ctx;
	struct rsk_udp_socket sockets[RSK_UDP_SOCKETS];
	size_t n;
	struct rsk_udp_in *in;
	struct rsk_udp_out *out;
	/* the socket whose datagram is being processed; NULL: none */
	const struct rsk_udp_socket *hearing;
	uint8_t asked_at[16]; /* address to which that datagram came; all zero: the socket's own */
	struct rsk_udp_counters count;
};

/*
 * Calls @prepare (or NULL) before and @after after each batch of datagrams, and @take for each of
 * them, all with @ctx. Returns 0 or -ENOMEM.
 */
int rsk_udp_init(struct rsk_udp *u, struct event_base *base, rsk_udp_prepare *prepare,
		 rsk_udp_take *take, void (*after)(void *ctx), void *ctx);
void rsk_udp_fini(struct rsk_udp *u);

/*
 * Opens another socket, bound to @at (port 0: any; an all zero address: all addresses). Returns 0
 * or -errno; -ENOSPC after RSK_UDP_SOCKETS.
 */
int rsk_udp_open(struct rsk_udp *u, const struct rsk_pm_addr *at);

/*
 * Adds a datagram to the batch. It is sent by the socket whose datagram is being processed, else by
 * the first socket of that address family.
 */
void rsk_udp_send(struct rsk_udp *u, const struct rsk_pm_addr *to, const void *datagram,
		  size_t bytes);

/*
 * The socket and address to which the datagram came that is being processed: a later answer has to
 * be sent from there.
 */
struct rsk_udp_place {
	const struct rsk_udp_socket *hearing; /* NULL: no datagram is being processed */
	uint8_t asked_at[16];
};
struct rsk_udp_place rsk_udp_place(const struct rsk_udp *u);
/*
 * Makes @place the current one. The caller saves the one before by rsk_udp_place() and restores it
 * afterwards.
 */
void rsk_udp_set_place(struct rsk_udp *u, const struct rsk_udp_place *place);

/* Sends the batch. After take() this happens without a call. */
void rsk_udp_flush(struct rsk_udp *u);

#endif
