/* SPDX-License-Identifier: BSD-2-Clause */
/* syn_kit.h - connections whose first segment test_syn.c and test_syn_polls.c look at. */
#ifndef RSK_TEST_SYN_KIT_H
#define RSK_TEST_SYN_KIT_H

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"

/* Where the listener of this test is. */
static union {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} at;

static inline int listener_of(int family)
{
	int fd = socket(family, SOCK_STREAM, 0);

	memset(&at, 0, sizeof(at));
	at.any.sa_family = (sa_family_t)family;
	if (family == AF_INET)
		at.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else
		at.in6.sin6_addr = in6addr_loopback;
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, &at.any, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(getsockname(fd, &at.any, &(socklen_t){ sizeof(at) }), 0);
	return fd;
}

/* A connection, and two streams that know of it what the library's do. */
static inline void connection(int listener, int fd[2], struct rsk_stream *s[2])
{
	for (int i = 0; i < 2; i++) {
		s[i] = aligned_alloc(64, sizeof(struct rsk_stream));
		memset(s[i], 0, sizeof(struct rsk_stream));
	}
	s[0]->connecting_side = true;
	fd[0] = socket(at.any.sa_family, SOCK_STREAM, 0);
	cr_assert_eq(connect(fd[0], &at.any, sizeof(at)), 0);
	fd[1] = accept(listener, NULL, NULL);
	cr_assert_geq(fd[1], 0);
}

static inline void transfer(int from, int to, size_t bytes)
{
	char some[20000] = { 0 };

	cr_assert_eq(send(from, some, bytes, 0), (ssize_t)bytes);
	cr_assert_eq(recv(to, some, bytes, MSG_WAITALL), (ssize_t)bytes);
}

#endif
