/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * load_net.h - pmload's datagrams, to one PMSP and back, in batches, in one of three ways that stand for who asks:
 *
 *	NET_PLAIN	one PM client, a datagram at a time through the kernel
 *	NET_HOSTS	many of them: each datagram may come from another address of 127.0.0.0/8
 *	NET_SEGMENTS	one that is busy (a proxy, a central PM client): a batch goes through the kernel as one buffer
 *			that is cut up at its end (udp(7), UDP_SEGMENT), and answers may come as one (UDP_GRO)
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

/* @from: source address, 0: any. Ends the program where it cannot. */
struct net *net_open(enum net_way way, const struct sockaddr_in *to, uint32_t from);
void net_close(struct net *n);
int net_fd(const struct net *n);

/* Into the batch; one that is full goes out. @host: source address (NET_HOSTS alone). Both in host order. */
void net_put(struct net *n, const void *bytes, size_t len, uint32_t host);
void net_flush(struct net *n);

/* Takes what is there, one by one; @host: the address it came to. It may put. How many. */
typedef void net_take(const uint8_t *bytes, size_t len, uint32_t host);
unsigned int net_hear(struct net *n, net_take *take);

#endif
