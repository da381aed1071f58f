/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * udp.h - the protocol's sockets: datagrams come and go in batches (recvmmsg, sendmmsg), those of one busy peer in one
 * buffer (UDP_GRO, UDP_SEGMENT), and an answer leaves from the address that was asked, also where a socket hears
 * several. Nothing here blocks: what the kernel does not take is lost, as on the way, and counted. One thread.
 */
#ifndef RSK_UDP_H
#define RSK_UDP_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

#define RSK_UDP_SOCKETS 16
#define RSK_UDP_BATCH 64  /* datagrams that are prepared for together */
#define RSK_UDP_BYTES 128 /* longest one sent; the protocol's have 64 */

struct rsk_udp_in;
struct rsk_udp_out;

struct rsk_udp_socket {
	struct rsk_udp *udp;
	struct event *readable;
	int fd;
	uint8_t ipv;
	bool segments;	       /* the kernel cuts up a run */
	struct rsk_pm_addr at; /* as bound; its port is never 0 */
};

/* Datagrams that came together, before each is taken. */
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
	void (*after)(void *ctx); /* each batch */
	void *ctx;
	struct rsk_udp_socket sockets[RSK_UDP_SOCKETS];
	size_t n;
	struct rsk_udp_in *in;
	struct rsk_udp_out *out;
	const struct rsk_udp_socket *hearing; /* whose datagram is being taken in, */
	uint8_t asked_at[16]; /* and at which address it came; all zero: at the socket's own */
	struct rsk_udp_counters count;
};

/* @prepare (or NULL) and @after for each batch of datagrams, @take for each of them, all with @ctx. 0 or -ENOMEM. */
int rsk_udp_init(struct rsk_udp *u, struct event_base *base, rsk_udp_prepare *prepare,
		 rsk_udp_take *take, void (*after)(void *ctx), void *ctx);
void rsk_udp_fini(struct rsk_udp *u);

/* One more socket, bound there (port 0: any; an all zero address: all). 0 or -errno. */
int rsk_udp_open(struct rsk_udp *u, const struct rsk_pm_addr *at);

/* Puts it into the batch: of the socket whose datagram is being taken in, else of the first of that family. */
void rsk_udp_send(struct rsk_udp *u, const struct rsk_pm_addr *to, const void *datagram,
		  size_t bytes);

/* Where the datagram that is being taken in came: for an answer that comes later, which has to leave from there. */
struct rsk_udp_place {
	const struct rsk_udp_socket *hearing; /* NULL: none is */
	uint8_t asked_at[16];
};
struct rsk_udp_place rsk_udp_place(const struct rsk_udp *u);
/* As if it were being taken in; with what was before, to be put back. */
void rsk_udp_set_place(struct rsk_udp *u, const struct rsk_udp_place *place);

/* What is in the batch goes out. After take() this is done anyway. */
void rsk_udp_flush(struct rsk_udp *u);

#endif
