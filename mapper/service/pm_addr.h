/* SPDX-License-Identifier: BSD-2-Clause */
/* pm_addr.h - where a datagram of the port mapper came from, or goes to. */
#ifndef RSK_PM_ADDR_H
#define RSK_PM_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

#endif
