/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load_net.h - pmload's datagrams to one PMSP and back, in batches, in one of three ways, which
 * stand for different clients:
 *
 * 	NET_PLAIN	one PM client, one datagram at a time through the kernel
 * 	NET_HOSTS	many clients: each datagram may come from another address of
 * 			127.0.0.0/8
 * 	NET_SEGMENTS	a busy client (a proxy, a central PM client): a batch passes
 * 			through the kernel as one buffer that is segmented at the end
 * 			(udp(7), UDP_SEGMENT), and answers may come combined (UDP_GRO)
 */
#ifndef LOAD_NET_H
#define LOAD_NET_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>

#define NET_BATCH 64

enum net_way {
	NET_PLAIN,
	NET_HOSTS,
	NET_SEGMENTS
};

struct net;

/* @from: source address, 0: any. Ends the program on an error. */
struct net *net_open(enum net_way way, const struct sockaddr_in *to, uint32_t from);
void net_close(struct net *n);
int net_fd(const struct net *n);

/*
 * net_put() adds a datagram to the batch, and sends the batch when it is full. @host: source
 * address (NET_HOSTS only), in host byte order, as @from.
 */
void net_put(struct net *n, const void *bytes, size_t len, uint32_t host);
void net_flush(struct net *n);

/*
 * Passes each received datagram to @take; @host: its destination address. @take may call net_put().
 * Returns their number.
 */
typedef void net_take(const uint8_t *bytes, size_t len, uint32_t host);
unsigned int net_hear(struct net *n, net_take *take);

#endif
