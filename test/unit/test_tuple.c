// SPDX-License-Identifier: BSD-2-Clause
/* test_tuple.c - tests canonical names of connection ends, and addresses as text. */
#include "tuple.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dice.h"

static struct sockaddr_storage v4(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	cr_assert_eq(inet_pton(AF_INET, text, &sin.sin_addr), 1);
	memcpy(&ss, &sin, sizeof(sin));
	return ss;
}

static struct sockaddr_storage v6(const char *text, uint16_t port, uint32_t scope)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in6 sin6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_scope_id = scope,
	};

	cr_assert_eq(inet_pton(AF_INET6, text, &sin6.sin6_addr), 1);
	memcpy(&ss, &sin6, sizeof(sin6));
	return ss;
}

#define LEN4 sizeof(struct sockaddr_in)
#define LEN6 sizeof(struct sockaddr_in6)

Test(tuple, v4_and_mapped_are_one)
{
	struct sockaddr_storage a4 = v4("10.0.0.1", 80), b4 = v4("10.0.0.2", 1234);
	struct sockaddr_storage a6 = v6("::ffff:10.0.0.1", 80, 5),
				b6 = v6("::ffff:10.0.0.2", 1234, 0);
	struct rsk_tuple x, y, m;

	cr_assert_eq(rsk_tuple_from_addrs(&a4, LEN4, &b4, LEN4, &x), 0);
	cr_assert_eq(rsk_tuple_from_addrs(&a6, LEN6, &b6, LEN6, &y), 0);
	cr_assert(rsk_tuple_equal(&x, &y));
	cr_assert_eq(x.family, AF_INET);
	cr_assert_eq(x.local_port, 80);
	cr_assert_eq(x.peer_port, 1234);
	cr_assert_eq(y.scope, 0);
	cr_assert_eq(rsk_tuple_from_addrs(&b4, LEN4, &a6, LEN6, &y), 0);
	m = rsk_tuple_mirror(&x);
	cr_assert(rsk_tuple_equal(&m, &y));
	cr_assert(!rsk_tuple_equal(&x, &y));
	m = rsk_tuple_mirror(&m);
	cr_assert_arr_eq(&m, &x, sizeof(x), "mirroring twice changes nothing");
}

Test(tuple, v6)
{
	struct sockaddr_storage a = v6("fe80::1", 80, 7), b = v6("fe80::2", 81, 0);
	struct rsk_tuple t;

	cr_assert_eq(rsk_tuple_from_addrs(&b, LEN6, &a, LEN6, &t), 0);
	cr_assert_eq(t.family, AF_INET6);
	cr_assert_eq(t.scope, 7);
	cr_assert_eq(t.local[15], 2);
	cr_assert_eq(t.peer[0], 0xfe);
}

Test(tuple, what_is_no_tuple)
{
	struct sockaddr_storage a = v4("10.0.0.1", 80), b = v6("2001:db8::1", 81, 0), u = { 0 };
	struct rsk_tuple t;

	u.ss_family = AF_UNIX;
	cr_assert_eq(rsk_tuple_from_addrs(&a, LEN4, &b, LEN6, &t), -EAFNOSUPPORT);
	cr_assert_eq(rsk_tuple_from_addrs(&u, 2, &u, 2, &t), -EAFNOSUPPORT);
	cr_assert_eq(rsk_tuple_from_addrs(&a, LEN4, &a, 0, &t), -EAFNOSUPPORT);
	cr_assert_eq(rsk_tuple_from_addrs(&a, LEN4, &a, LEN4 - 1, &t), -EAFNOSUPPORT);
	cr_assert_eq(rsk_tuple_from_addrs(&b, LEN6, &b, LEN6 - 1, &t), -EAFNOSUPPORT);
}

Test(tuple, fds_that_have_none)
{
	struct rsk_tuple t;
	int fd = socket(AF_INET, SOCK_STREAM, 0), pair[2];

	cr_assert_eq(rsk_tuple_from_fd(fd, &t), -ENOTCONN);
	cr_assert_neq(rsk_netns_of_fd(fd), 0);
	close(fd);
	cr_assert_eq(rsk_tuple_from_fd(fd, &t), -EBADF);
	cr_assert_eq(rsk_netns_of_fd(fd), 0);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	cr_assert_eq(rsk_tuple_from_fd(pair[0], &t), -EAFNOSUPPORT);
	close(pair[0]);
	close(pair[1]);
}

Test(tuple, the_peer_alone)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(80) };
	struct rsk_tuple t, u;

	inet_pton(AF_INET, "192.0.2.7", &in.sin_addr);
	inet_pton(AF_INET6, "::ffff:192.0.2.7", &mapped.sin6_addr);
	cr_assert_eq(rsk_tuple_peer((struct sockaddr *)&in, sizeof(in), &t), 0);
	cr_assert_eq(rsk_tuple_peer((struct sockaddr *)&mapped, sizeof(mapped), &u), 0);
	cr_assert_eq(memcmp(&t, &u, sizeof(t)), 0);
	cr_assert_eq(t.peer_port, 80);
	cr_assert_eq(t.local_port, 0);
	cr_assert_eq(rsk_tuple_peer((struct sockaddr *)&in, sizeof(in) - 1, &t), -EAFNOSUPPORT);
	cr_assert_eq(rsk_tuple_peer(NULL, sizeof(in), &t), -EAFNOSUPPORT);
}

static void expect_text(uint16_t family, const uint8_t addr[static 16], uint16_t port)
{
	char got[RSK_ADDR_TEXT], ip[INET6_ADDRSTRLEN], want[RSK_ADDR_TEXT];

	cr_assert(inet_ntop(family, addr, ip, sizeof(ip)));
	snprintf(want, sizeof(want), family == AF_INET ? "%s:%u" : "[%s]:%u", ip, port);
	cr_assert_eq(rsk_addr_text(family, addr, port, got), strlen(want), "%s", want);
	cr_assert_str_eq(got, want);
}

Test(tuple, addresses_as_text)
{
	uint64_t dice = 1, x = 0;
	char text[RSK_ADDR_TEXT];

	cr_assert_eq(rsk_addr_text(AF_INET, (const uint8_t[16]){ 127, 0, 0, 1 }, 80, text), 12);
	cr_assert_str_eq(text, "127.0.0.1:80");
	cr_assert_eq(rsk_addr_text(AF_INET, (const uint8_t[16]){ 127, 0, 0, 1 }, 0, text), 1);
	cr_assert_str_eq(text, "-");
	rsk_addr_text(AF_INET6, (const uint8_t[16]){ [15] = 1 }, 5201, text);
	cr_assert_str_eq(text, "[::1]:5201");
	/* Compared with libc, with groups that are often zero so that every "::" occurs. */
	for (int i = 0; i < 20000; i++) {
		uint8_t addr[16] = { 0 };

		for (int k = 0; k < 16; k += 2) {
			x = dice_roll(&dice);
			if (x & 0x30000) {
				addr[k] = (uint8_t)(x & 0x40000 ? 0 : x >> 8);
				addr[k + 1] = (uint8_t)x;
			}
			if (x & 0x80000)
				addr[k] = addr[k + 1] = 0;
		}
		expect_text(AF_INET, addr, (uint16_t)(x | 1));
		/* libc writes IPv4-compatible and mapped ones in another notation. */
		addr[0] |= 0x20;
		expect_text(AF_INET6, addr, (uint16_t)(x | 1));
	}
}
