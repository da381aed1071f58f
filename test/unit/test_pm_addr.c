// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_pm_addr.c - tests the conversion of addresses between the port mapper's form, sockaddr and
 * text.
 */
#include "pm_addr.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <rsock/pm_wire.h>
#include <sys/un.h>
#include <unistd.h>

#include "conf_value.h"

static const struct rsk_pm_addr four = { .ip = { 10, 1, 2, 3 }, .port = 3935, .ipv = RSK_PM_IPV4 };
static const struct rsk_pm_addr six = { .ip = { 0xfd, 0x77, [15] = 2 },
					.port = 0x1234,
					.ipv = RSK_PM_IPV6 };

Test(pm_addr, as_the_kernel_has_it)
{
	struct sockaddr_storage sa;
	struct rsk_pm_addr back;
	const struct sockaddr_in *sin = (const void *)&sa;
	const struct sockaddr_in6 *sin6 = (const void *)&sa;

	memset(&sa, 0xa5, sizeof(sa)); /* the former contents do not matter */
	cr_assert_eq(rsk_pm_addr_to_socket(&four, &sa), sizeof(*sin));
	cr_assert_eq(sin->sin_family, AF_INET);
	cr_assert_eq(sin->sin_port, htons(3935));
	cr_assert_eq(sin->sin_addr.s_addr, htonl(0x0a010203));
	memset(&back, 0xa5, sizeof(back));
	cr_assert(rsk_pm_addr_of_socket(&sa, &back));
	cr_assert(rsk_pm_addr_equal(&back, &four), "all 20 bytes: addresses are hashed");

	memset(&sa, 0xa5, sizeof(sa));
	cr_assert_eq(rsk_pm_addr_to_socket(&six, &sa), sizeof(*sin6));
	cr_assert_eq(sin6->sin6_family, AF_INET6);
	cr_assert_eq(sin6->sin6_port, htons(0x1234));
	cr_assert_eq(sin6->sin6_scope_id, 0);
	cr_assert_eq(sin6->sin6_flowinfo, 0);
	cr_assert_arr_eq(&sin6->sin6_addr, six.ip, 16);
	memset(&back, 0xa5, sizeof(back));
	cr_assert(rsk_pm_addr_of_socket(&sa, &back));
	cr_assert(rsk_pm_addr_equal(&back, &six));
}

Test(pm_addr, of_another_family)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNIX };
	struct rsk_pm_addr out = four;
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	cr_assert(!rsk_pm_addr_of_socket(&sa, &out));
	cr_assert(rsk_pm_addr_equal(&out, &four), "as it was");
	cr_assert_eq(rsk_pm_addr_of_fd(fd, &out), -EAFNOSUPPORT);
	close(fd);
	cr_assert_eq(rsk_pm_addr_of_fd(fd, &out), -EBADF);
	cr_assert(rsk_pm_addr_equal(&out, &four));
}

Test(pm_addr, of_a_socket_that_is_bound)
{
	struct rsk_pm_addr at = { .ip = { 127, 0, 0, 1 }, .ipv = RSK_PM_IPV4 }, out;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_storage sa;
	socklen_t len = rsk_pm_addr_to_socket(&at, &sa);

	cr_assert_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
	cr_assert_eq(rsk_pm_addr_of_fd(fd, &out), 0);
	cr_assert_neq(out.port, 0);
	at.port = out.port;
	cr_assert(rsk_pm_addr_equal(&out, &at));
	close(fd);
}

/* UDP sockets, connected to an IPv4 address as IPv4 and as a socket for both families. */
Test(pm_addr, of_the_other_end)
{
	struct rsk_pm_addr at = { .ip = { 127, 0, 0, 1 }, .port = 9, .ipv = RSK_PM_IPV4 }, out;
	struct rsk_pm_addr mapped = { .ip = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
				      .port = 9,
				      .ipv = RSK_PM_IPV6 };
	struct sockaddr_storage sa;
	socklen_t len;
	int fd;

	for (int both = 0; both < 2; both++) {
		len = rsk_pm_addr_to_socket(both ? &mapped : &at, &sa);
		fd = socket(both ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
		cr_assert_eq(rsk_pm_addr_of_peer(fd, &out), -ENOTCONN);
		cr_assert_eq(connect(fd, (struct sockaddr *)&sa, len), 0);
		memset(&out, 0xa5, sizeof(out));
		cr_assert_eq(rsk_pm_addr_of_peer(fd, &out), 0);
		cr_assert(rsk_pm_addr_equal(&out, &at), "all 20 bytes: %d", both);
		close(fd);
	}
	cr_assert_eq(rsk_pm_addr_of_peer(-1, &out), -EBADF);
}

Test(pm_addr, text_and_back)
{
	static const char *const rows[] = { "0.0.0.0", "10.1.2.3",    "255.255.255.255", "::",
					    "::1",     "fd77::1:0:2", "fe80::1" };
	char text[RSK_PM_IP_TEXT];
	struct rsk_pm_addr a;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_assert_eq(rsk_conf_ip(rows[i], &a), 0, "%s", rows[i]);
		cr_assert_str_eq(rsk_pm_ip_text(a.ipv, a.ip, text), rows[i]);
	}
}
