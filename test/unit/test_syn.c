// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn.c - tests what the two ends of a real connection find out about its first segment: the
 * same, over IPv4 and IPv6; nothing where there are no time stamps, or the program keeps segments.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "plain_host.h"
#include "stream.h"
#include "syn.h"

static union {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
} at;

static int listener_of(int family)
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
static void connection(int listener, int fd[2], struct rsk_stream *s[2])
{
	for (int i = 0; i < 2; i++) {
		s[i] = aligned_alloc(64, sizeof(struct rsk_stream));
		memset(s[i], 0, sizeof(struct rsk_stream));
	}
	s[0]->connecting_side = true;
	fd[0] = socket(at.any.sa_family, SOCK_STREAM, 0);
	s[0]->syn.began_ns = rsk_now_ns();
	cr_assert_eq(connect(fd[0], &at.any, sizeof(at)), 0);
	s[0]->syn.ended_ns = rsk_now_ns();
	fd[1] = accept(listener, NULL, NULL);
	cr_assert_geq(fd[1], 0);
}

static void they_agree(int family)
{
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn syn[2], again;

	rsk_engine_init(&plain_host);
	listener = listener_of(family);
	rsk_syn_keep(listener);
	cr_assert(rsk_syn_hidden());
	for (int i = 0; i < 20; i++) {
		connection(listener, fd, s);
		usleep((useconds_t)(i * 700)); /* it is asked later, too */
		/* A busy machine may have stopped the thread within connect() for long. */
		if (!rsk_syn_learn(s[0], fd[0], &syn[0]))
			continue;
		cr_assert(rsk_syn_learn(s[1], fd[1], &syn[1]));
		cr_assert_leq(syn[0].n, RSK_SYN_MOST);
		cr_assert_eq(syn[1].n, 1);
		cr_assert(rsk_syn_match(&syn[0], &syn[1]), "%u of %u, %u", syn[0].n, syn[0].first,
			  syn[1].first);
		cr_assert(rsk_syn_match(&syn[1], &syn[0]));
		/* It can be read once, and stays known. */
		cr_assert(rsk_syn_learn(s[1], fd[1], &again));
		cr_assert_eq(again.first, syn[1].first);
		again.first += 2000;
		cr_assert_not(rsk_syn_match(&syn[0], &again));
		again = (struct rsk_syn){ syn[1].first - 500, RSK_SYN_MOST + 1000 };
		cr_assert_not(rsk_syn_match(&syn[0], &again), "too many at once");
		for (int k = 0; k < 2; k++) {
			close(fd[k]);
			free(s[k]);
		}
	}
}

Test(syn, both_ends_know_the_same)
{
	they_agree(AF_INET);
}

Test(syn, both_ends_know_the_same_by_ipv6)
{
	they_agree(AF_INET6);
}

Test(syn, nothing_was_kept)
{
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn syn;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_not(rsk_syn_hidden());
	connection(listener, fd, s);
	cr_assert_not(rsk_syn_learn(s[1], fd[1], &syn));
	/* Nor does an end know that was not seen to connect. */
	s[0]->syn.ended_ns = 0;
	cr_assert_not(rsk_syn_learn(s[0], fd[0], &syn));
}

Test(syn, the_program_keeps_them_itself)
{
	int listener, on = 1, fd[2];
	struct rsk_stream *s[2];
	uint8_t segment[256];
	socklen_t len = sizeof(segment);
	struct rsk_syn syn;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_eq(setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	rsk_syn_is_the_programs();
	rsk_syn_keep(listener);
	cr_assert_not(rsk_syn_hidden());
	connection(listener, fd, s);
	cr_assert_not(rsk_syn_learn(s[1], fd[1], &syn));
	cr_assert_eq(getsockopt(fd[1], IPPROTO_TCP, TCP_SAVED_SYN, segment, &len), 0);
	cr_assert_gt(len, 40, "it is still there");
}

Test(syn, a_listener_that_keeps_them_already_is_left_alone)
{
	int listener, on = 1;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	cr_assert_eq(setsockopt(listener, IPPROTO_TCP, TCP_SAVE_SYN, &on, sizeof(on)), 0);
	rsk_syn_keep(listener);
	cr_assert_not(rsk_syn_hidden());
}
