// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_stream_qos.c - tests what policy's QoS (stream/socket/stream_qos.c) sets on a TCP socket,
 * takes back, and leaves alone because the program has set it.
 */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream.h"
#include "stream_qos.h"

#define NO_RATE (~0ul)

static struct rsk_stream *s;
static int fd;

static void begin(int family)
{
	s = calloc(1, sizeof(*s));
	s->tuple.family = (uint16_t)family;
	fd = socket(family, SOCK_STREAM, 0);
	cr_assert_geq(fd, 0);
}

static void end(void)
{
	close(fd);
	free(s);
}

static void serve(uint64_t rate_bps, uint8_t dscp, uint8_t priority)
{
	const struct rsk_qos qos = { rate_bps, dscp, priority, { 0 } };

	rsk_stream_set_qos(s, fd, &qos);
}

static void set(int level, int name, int value)
{
	cr_assert_eq(setsockopt(fd, level, name, &value, sizeof(value)), 0);
}

static int get(int level, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	cr_assert_eq(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

static void is(int tos, int priority)
{
	cr_assert_eq(get(IPPROTO_IP, IP_TOS), tos);
	cr_assert_eq(get(SOL_SOCKET, SO_PRIORITY), priority);
}

static unsigned long rate(void)
{
	unsigned long value = 0;
	socklen_t len = sizeof(value);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &value, &len), 0);
	return value;
}

Test(stream_qos, is_set_and_taken_back)
{
	begin(AF_INET);
	serve(8000001, 46, 3);
	cr_assert_eq(rate(), 1000001, "bytes per second, rounded up");
	is(46 << 2, 3);
	serve(16000000, 10, 5);
	cr_assert_eq(rate(), 2000000);
	is(10 << 2, 5);
	serve(0, 0, 0);
	cr_assert_eq(rate(), NO_RATE);
	is(0, 0);
	end();
}

Test(stream_qos, over_ipv6)
{
	begin(AF_INET6);
	set(IPPROTO_IPV6, IPV6_TCLASS, 0);
	serve(0, 46, 0);
	cr_assert_eq(get(IPPROTO_IPV6, IPV6_TCLASS), 46 << 2);
	serve(0, 0, 0);
	cr_assert_eq(get(IPPROTO_IPV6, IPV6_TCLASS), 0);
	end();
}

Test(stream_qos, what_the_program_has_set_stays)
{
	unsigned long own = 5000;

	begin(AF_INET);
	set(IPPROTO_IP, IP_TOS, 8 << 2);
	set(SOL_SOCKET, SO_PRIORITY, 2); /* behind the TOS, which sets a priority of its own */
	cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &own, sizeof(own)), 0);
	serve(8000000, 46, 5);
	cr_assert_eq(rate(), own);
	is(8 << 2, 2);
	serve(0, 0, 0);
	cr_assert_eq(rate(), own);
	is(8 << 2, 2);
	end();
}

/* The program sets it while the stream is served: what is taken back is not the program's. */
Test(stream_qos, what_the_program_sets_later_stays)
{
	begin(AF_INET);
	serve(0, 0, 5);
	cr_assert_eq(get(SOL_SOCKET, SO_PRIORITY), 5);
	set(SOL_SOCKET, SO_PRIORITY, 1);
	serve(0, 0, 0);
	cr_assert_eq(get(SOL_SOCKET, SO_PRIORITY), 1);
	end();
}

/* Setting the TOS sets a priority as well. */
Test(stream_qos, a_priority_of_the_program_stays_with_another_dscp)
{
	begin(AF_INET);
	set(SOL_SOCKET, SO_PRIORITY, 2);
	serve(0, 46, 5);
	is(46 << 2, 2);
	serve(0, 0, 0);
	is(0, 2);
	end();
}
