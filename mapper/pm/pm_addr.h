/* SPDX-License-Identifier: BSD-2-Clause */
/* pm_addr.h - where a datagram of the port mapper came from, or goes to; as sockets have it, and as text. */
#ifndef RSK_PM_ADDR_H
#define RSK_PM_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* Canonical, as in rsock/tuple.h: an IPv4 address has 12 zeroes behind it. */
struct rsk_pm_addr {
	uint8_t ip[16];
	uint16_t port; /* host order */
	uint8_t ipv;   /* RSK_PM_IPV4 or RSK_PM_IPV6 */
	uint8_t pad;   /* 0: addresses are hashed */
};
_Static_assert(sizeof(struct rsk_pm_addr) == 20, "no hidden padding");

static inline bool rsk_pm_addr_equal(const struct rsk_pm_addr *a, const struct rsk_pm_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* For bind() and sendmsg(). Its length in bytes; what lies behind that is not written. */
socklen_t rsk_pm_addr_to_socket(const struct rsk_pm_addr *a, struct sockaddr_storage *out);

/* Of what the kernel filled in. False: neither IPv4 nor IPv6, and *out is as it was. An IPv6 scope is not kept. */
bool rsk_pm_addr_of_socket(const struct sockaddr_storage *s, struct rsk_pm_addr *out);

/* Where a socket is bound to. 0 or -errno (-EAFNOSUPPORT: of another family). */
int rsk_pm_addr_of_fd(int fd, struct rsk_pm_addr *out);

/* "10.0.0.1", "fe80::1", without a port; returns @text. */
#define RSK_PM_IP_TEXT 46
const char *rsk_pm_ip_text(uint8_t ipv, const uint8_t ip[static 16],
			   char text[static RSK_PM_IP_TEXT]);

#endif
