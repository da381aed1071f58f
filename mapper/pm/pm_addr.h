/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_addr.h - the address of a port mapper endpoint, and conversions from and to socket addresses
 * and text. Used by rsockd.
 */
#ifndef RSK_PM_ADDR_H
#define RSK_PM_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

/* Canonical, as in rsock/tuple.h: an IPv4 address is followed by 12 zero bytes. */
struct rsk_pm_addr {
	uint8_t ip[16];
	uint16_t port; /* host order */
	uint8_t ipv;   /* RSK_PM_IPV4 or RSK_PM_IPV6 */
	/* Always 0, because addresses are hashed */
	uint8_t pad;
};
_Static_assert(sizeof(struct rsk_pm_addr) == 20, "no hidden padding");

static inline bool rsk_pm_addr_equal(const struct rsk_pm_addr *a, const struct rsk_pm_addr *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/* For bind() and sendmsg(). Returns the length in bytes; only so many bytes of *out are written. */
socklen_t rsk_pm_addr_to_socket(const struct rsk_pm_addr *a, struct sockaddr_storage *out);

/*
 * Converts what the kernel filled in. False: neither IPv4 nor IPv6, and *out is unchanged. An IPv6
 * scope is not kept.
 */
bool rsk_pm_addr_of_socket(const struct sockaddr_storage *s, struct rsk_pm_addr *out);

/*
 * Stores the address that a socket is bound to. Returns 0 or -errno (-EAFNOSUPPORT: another
 * family).
 */
int rsk_pm_addr_of_fd(int fd, struct rsk_pm_addr *out);

/*
 * Stores the address of the other end of a connection. An IPv4 peer of a socket for both families
 * is an IPv4 address. Returns 0 or -errno (-EAFNOSUPPORT: another family).
 */
int rsk_pm_addr_of_peer(int fd, struct rsk_pm_addr *out);

/*
 * True if other hosts can reach the address: not all zero, of the loopback device, of a link only,
 * multicast or broadcast.
 */
bool rsk_pm_addr_is_for_others(const struct rsk_pm_addr *a);

/* "10.0.0.1", "fe80::1", without the port; returns @text. */
#define RSK_PM_IP_TEXT 46
const char *rsk_pm_ip_text(uint8_t ipv, const uint8_t ip[static 16],
			   char text[static RSK_PM_IP_TEXT]);

#endif
