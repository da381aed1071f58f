/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ifaces.h - the addresses of this host and the links that carry them, from the kernel's messages
 * (rtnetlink(7)). It answers whether an address is on this host, on a link that is up and has a
 * carrier. Called by rsockd, which passes the messages as they came: a complete dump first, then
 * changes. Pure. One thread.
 */
#ifndef RSK_IFACES_H
#define RSK_IFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

struct rsk_iface;
struct rsk_iface_address;

/* Owns its tables. All zero initially. */
struct rsk_ifaces {
	struct rsk_iface *links;	     /* hash table */
	struct rsk_iface_address *addresses; /* hash table */
	uint32_t round;			     /* number of dumps begun */
};

void rsk_ifaces_fini(struct rsk_ifaces *l);

/* A new dump begins. */
void rsk_ifaces_begin(struct rsk_ifaces *l);
/* The dump is complete: removes what it did not contain. Returns true if something was removed. */
bool rsk_ifaces_end(struct rsk_ifaces *l);

#define RSK_IFACES_CHANGED 1u /* the usable addresses may have changed */
/* End of the dump that was requested with @seq */
#define RSK_IFACES_DONE 2u
/* The dump was interrupted by a change, or failed: request it again */
#define RSK_IFACES_AGAIN 4u

/*
 * Takes the messages of one datagram, aligned as struct nlmsghdr is. Returns flags of the above;
 * -EBADMSG: a message is malformed, and the ones after it are not read; -ENOMEM. After an error a
 * new dump is needed.
 */
int rsk_ifaces_take(struct rsk_ifaces *l, const void *messages, size_t bytes, uint32_t seq);

/* True if it is an address of this host that can be used now. Its port is ignored. */
bool rsk_ifaces_carry(const struct rsk_ifaces *l, const struct rsk_pm_addr *ip);

/*
 * Stores the indexes of the links that have this address and can be used now, @most at the most.
 * Returns how many; 0 also if one of them is loopback, since packets do not leave by that. The
 * address's port is ignored.
 */
size_t rsk_ifaces_links_of(const struct rsk_ifaces *l, const struct rsk_pm_addr *ip, int *out,
			   size_t most);

/*
 * Calls @each for every address of the links that can be used now, with the link's name; link-local
 * IPv6 addresses (fe80::/10) and those of loopback are left out. In no order.
 */
void rsk_ifaces_each(const struct rsk_ifaces *l,
		     void (*each)(void *ctx, const char *link, const struct rsk_pm_addr *ip),
		     void *ctx);

bool rsk_ifaces_validate(const struct rsk_ifaces *l);

#endif
