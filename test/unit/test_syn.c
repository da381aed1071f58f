// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_syn.c - tests what the two ends of a real connection find out about its first segment: the
 * same, over IPv4 and IPv6, by a send at any time; nothing where that is not certain, or the
 * program keeps segments itself. Threads that poll meanwhile: test_syn_polls.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine.h"
#include "plain_host.h"
#include "stream.h"
#include "syn.h"
#include "syn_kit.h"

static struct rsk_syn seen; /* by the last send */
static bool late;

static ssize_t show(struct rsk_stream *s, int fd, size_t bytes)
{
	static const uint8_t some[RSK_SYN_SEND_BYTES];
	const struct iovec iov[] = { { (void *)some, bytes / 2 },
				     { (void *)some, bytes - bytes / 2 } };

	return rsk_syn_send(s, fd, iov, 2, MSG_NOSIGNAL, &seen, &late);
}

/* Waits until all is acknowledged: a send is only seen then. */
static void settle(int fd)
{
	int left = 1;

	for (int i = 0; i < 1000 && left; i++) {
		cr_assert_eq(ioctl(fd, SIOCOUTQ, &left), 0);
		usleep(left ? 1000 : 0);
	}
	cr_assert_eq(left, 0);
}

static void they_agree(int family)
{
	static const size_t sizes[] = { 1, 5, 1400, 4096, RSK_SYN_SEND_BYTES };
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn accepted, again;

	rsk_engine_init(&plain_host);
	listener = listener_of(family);
	rsk_syn_keep(listener);
	cr_assert(rsk_syn_hidden());
	for (size_t i = 0; i < 40; i++) {
		size_t bytes = sizes[i % 5];
		struct pollfd p;
		char got[RSK_SYN_SEND_BYTES];

		connection(listener, fd, s);
		/* Whatever was exchanged before. */
		for (size_t k = 0; k < i / 5; k++) {
			transfer(fd[0], fd[1], 1 + k * 2500);
			transfer(fd[1], fd[0], 1 + k * 700);
		}
		settle(fd[0]);
		cr_assert_eq(show(s[0], fd[0], bytes), (ssize_t)bytes);
		cr_assert_not(late);
		p = (struct pollfd){ .fd = fd[0], .events = POLLOUT };
		cr_assert_eq(poll(&p, 1, 0), 1);
		cr_assert_eq(p.revents, POLLOUT, "nothing is left in the error queue");
		cr_assert_eq(recv(fd[1], got, bytes, MSG_WAITALL), (ssize_t)bytes);
		cr_assert(rsk_syn_known(&seen, true), "%zu bytes: %u", bytes, seen.n);
		cr_assert(rsk_syn_learn(s[1], fd[1], &accepted));
		cr_assert(rsk_syn_known(&accepted, false));
		cr_assert(rsk_syn_match(&seen, &accepted), "%zu: %x %x of %u, %x %x", i, seen.seq,
			  seen.mark, seen.n, accepted.seq, accepted.mark);
		cr_assert(rsk_syn_match(&accepted, &seen));
		/* It can be read once, and stays known. */
		cr_assert(rsk_syn_learn(s[1], fd[1], &again));
		cr_assert_eq(rsk_syn_pack(again), rsk_syn_pack(accepted));
		again.mark = (uint16_t)(again.mark + RSK_SYN_MARKS_MOST);
		cr_assert_not(rsk_syn_match(&seen, &again));
		again = accepted;
		again.seq++;
		cr_assert_not(rsk_syn_match(&seen, &again));
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

static int flooded[2];
static _Atomic(bool) flood_over;

/* The peer sends, and what it sends is read: the kernel acknowledges it all the time. */
static void *floods(void *arg)
{
	static char some[4096];

	while (!atomic_load(&flood_over)) {
		send(flooded[1], some, sizeof(some), MSG_DONTWAIT);
		recv(flooded[0], some, sizeof(some), MSG_DONTWAIT);
	}
	return NULL;
}

/* Segments without bytes may have been sent ahead of the one that is shown. */
Test(syn, while_the_peer_sends)
{
	int listener, fd[2];
	struct rsk_stream *s[2];
	struct rsk_syn accepted;
	int known = 0, several = 0;

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	rsk_syn_keep(listener);
	for (int i = 0; i < 2000 && several < 100; i++) {
		pthread_t thread;

		connection(listener, fd, s);
		memcpy(flooded, fd, sizeof(fd));
		atomic_store(&flood_over, false);
		cr_assert_eq(pthread_create(&thread, NULL, floods, NULL), 0);
		usleep(100);
		seen.n = 0;
		show(s[0], fd[0], 4);
		atomic_store(&flood_over, true);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_assert(rsk_syn_learn(s[1], fd[1], &accepted));
		known += seen.n != 0;
		several += seen.n > 1;
		if (seen.n)
			cr_assert(rsk_syn_match(&seen, &accepted), "%d: %x of %u, %x", i, seen.mark,
				  seen.n, accepted.mark);
		for (int k = 0; k < 2; k++) {
			close(fd[k]);
			free(s[k]);
		}
	}
	cr_assert(known, "no segment was seen");
}

/* Then the kernel may hold the segment back, and the packet would come later. */
Test(syn, only_a_segment_that_leaves_at_once)
{
	int listener, on = 1, fd[2];
	struct rsk_stream *s[2];
	char got[16];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	cr_assert_eq(setsockopt(fd[0], IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	on = 0;
	cr_assert_eq(setsockopt(fd[0], IPPROTO_TCP, TCP_CORK, &on, sizeof(on)), 0);
	/* Bytes of other threads that the peer has no room for. */
	on = 1;
	cr_assert_eq(ioctl(fd[0], FIONBIO, &on), 0);
	while (send(fd[0], got, sizeof(got), 0) > 0)
		;
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	cr_assert_eq(recv(fd[1], got, 1, MSG_DONTWAIT), 1, "the connection goes on");
}

/* What is unacknowledged may have to be sent again, ahead of it. The peer acknowledges late. */
Test(syn, only_when_all_is_acknowledged)
{
	int listener, fd[2], late_ack = 0, unacked = 0;
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	for (int i = 0; i < 100 && !unacked; i++) {
		ssize_t n;

		connection(listener, fd, s);
		cr_assert_eq(setsockopt(fd[1], IPPROTO_TCP, TCP_QUICKACK, &late_ack,
					sizeof(late_ack)),
			     0);
		cr_assert_eq(send(fd[0], "some", 4, 0), 4);
		n = show(s[0], fd[0], 4);
		cr_assert_eq(ioctl(fd[0], SIOCOUTQ, &unacked), 0);
		if (n > 0)
			unacked -= (int)n; /* of the first send, if that was acknowledged */
		cr_assert(n == -RSK_EKERNEL || unacked <= 0, "shown with bytes unacknowledged");
	}
	cr_assert_gt(unacked, 0);
}

/* Nor where a rate, or a small buffer, holds it back. */
Test(syn, only_a_socket_that_sends_at_once)
{
	int listener, fd[2], value;
	struct rsk_stream *s[2];

	rsk_engine_init(&plain_host);
	listener = listener_of(AF_INET);
	connection(listener, fd, s);
	value = 4000;
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	connection(listener, fd, s);
	value = 4096;
	cr_assert_eq(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)), 0);
	cr_assert_eq(show(s[0], fd[0], 4), -RSK_EKERNEL);
	connection(listener, fd, s);
	cr_assert_eq(show(s[0], fd[0], 4), 4);
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
	/* Nor does an end know of which no send was seen. */
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
