/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ifaces.h - the addresses of this host and the links that carry them, from the kernel's messages (rtnetlink(7)): is an
 * address here, on a link that is up and has a carrier? Messages are handed in, as they came: a dump of everything, and
 * then whatever changes. Pure. One thread.
 */
#ifndef RSK_IFACES_H
#define RSK_IFACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

struct rsk_iface;
struct rsk_iface_address;

/* Owns its tables. All zero at first. */
struct rsk_ifaces {
	struct rsk_iface *links;	     /* uthash */
	struct rsk_iface_address *addresses; /* uthash */
	uint32_t round;			     /* of dumps */
};

void rsk_ifaces_fini(struct rsk_ifaces *l);

/* From here on everything is told once more. */
void rsk_ifaces_begin(struct rsk_ifaces *l);
/* It was: what was not told again is gone. True: something was. */
bool rsk_ifaces_end(struct rsk_ifaces *l);

#define RSK_IFACES_CHANGED 1u /* who is here may be another now */
#define RSK_IFACES_DONE 2u    /* the end of what was asked for with @seq */
#define RSK_IFACES_AGAIN 4u   /* it changed while it was told, or could not be: ask again */

/*
 * Messages of one datagram, aligned as struct nlmsghdr is. Flags of the above; -EBADMSG: they are not well-formed, and
 * those behind are not looked at; -ENOMEM. After an error only a dump helps.
 */
int rsk_ifaces_take(struct rsk_ifaces *l, const void *messages, size_t bytes, uint32_t seq);

/* Is it an address of this host that can be used now? Its port does not count. */
bool rsk_ifaces_carry(const struct rsk_ifaces *l, const struct rsk_pm_addr *ip);

/*
 * Tells of the addresses of the links that can be used now, with the link's name, those of IPv6 that hold on one link
 * only (fe80::/10) and loopback's left out. In no order.
 */
void rsk_ifaces_each(const struct rsk_ifaces *l,
		     void (*each)(void *ctx, const char *link, const struct rsk_pm_addr *ip),
		     void *ctx);

bool rsk_ifaces_validate(const struct rsk_ifaces *l);

#endif
