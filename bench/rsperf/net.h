/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and sockets. Functions return 0 or -errno, and say on stderr what went wrong. */
#ifndef RSK_NET_H
#define RSK_NET_H

#include <sys/socket.h>

#include "rsperf.h"

#define RSK_ADDRS_MAX 8
#define RSK_ADDR_TEXT 160

/* The addresses an address argument stands for, resolved once, tried in this order. */
struct rsk_addrs {
	struct sockaddr_storage addr[RSK_ADDRS_MAX];
	socklen_t len[RSK_ADDRS_MAX];
	unsigned int count;
};

int rsk_net_resolve(struct rsk_addrs *addrs, const struct rsk_opts *opts, bool passive);

/* *fd: a listening socket; text: its address as a person writes it. */
int rsk_net_listen(const struct rsk_addrs *addrs, bool nonblock, int *fd,
		   char text[static RSK_ADDR_TEXT]);

/* *fd: a connected socket, blocking. Quiet; the caller says what failed. */
int rsk_net_connect(const struct rsk_addrs *addrs, int *fd);

/* As many fds as the hard limit permits. */
void rsk_net_raise_fds(void);

/* Applies what a test needs; Unix sockets need nothing and are left alone. */
int rsk_net_tune(int fd, enum rsk_test test, bool nonblock);

#endif
