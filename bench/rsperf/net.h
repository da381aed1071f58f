/* SPDX-License-Identifier: BSD-2-Clause */
/* net.h - addresses and sockets. Functions return 0 or -errno, and print errors on stderr. */
#ifndef RSK_NET_H
#define RSK_NET_H

#include <sys/socket.h>

#include "rsperf.h"

#define RSK_ADDRS_MAX 8
#define RSK_ADDR_TEXT 160

/* The addresses of an address argument, resolved once and tried in this order. */
struct rsk_addrs {
	struct sockaddr_storage addr[RSK_ADDRS_MAX];
	socklen_t len[RSK_ADDRS_MAX];
	unsigned int count;
};

int rsk_net_resolve(struct rsk_addrs *addrs, const struct rsk_opts *opts, bool passive);

/* *fd: a listening socket; text: its address in readable form. */
int rsk_net_listen(const struct rsk_addrs *addrs, bool nonblock, int *fd,
		   char text[static RSK_ADDR_TEXT]);

/* *fd: a connected socket, blocking. Prints no error; the caller does. */
int rsk_net_connect(const struct rsk_addrs *addrs, int *fd);

/* Raises the limit of descriptors to the hard limit. */
void rsk_net_raise_fds(void);

/* Sets the socket options that a test needs; Unix sockets are left unchanged. */
int rsk_net_tune(int fd, enum rsk_test test, bool nonblock);

#endif
