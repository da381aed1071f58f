/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * routes.h - whether the kernel's routes lead from an address of this host, by the link that has
 * it, to a target: the request and the answer as messages of rtnetlink(7) (RTM_GETROUTE), and a
 * cache of answers. Called by rsockd, which moves the messages (route_socket.h) and says when
 * routes have changed. Pure. One thread.
 */
#ifndef RSK_ROUTES_H
#define RSK_ROUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pm_addr.h"

/* Number of answers that are kept; the oldest is dropped for another one. */
#define RSK_ROUTES_MOST 1024u

/* Addresses are of one family, and have port 0. */
struct rsk_route_query {
	struct rsk_pm_addr to;
	struct rsk_pm_addr from; /* ipv 0: the kernel selects the source address */
	int link;		 /* index of the link; 0: the kernel selects it */
};
_Static_assert(sizeof(struct rsk_route_query) == 44, "no padding: it is hashed");

/* Values below 0, -errno: there is no answer, and nothing is known. */
enum rsk_route {
	RSK_ROUTE_NONE,	 /* no route, or one that refuses: unreachable, prohibit, blackhole */
	RSK_ROUTE_LEADS, /* a route by that link */
	RSK_ROUTE_OTHER, /* the kernel selects another link */
	RSK_ROUTE_LOCAL, /* the target is an address of this host */
};

/* ---- messages ---- */

#define RSK_ROUTE_REQUEST_BYTES 80

/* Writes the request; @buf is aligned as struct nlmsghdr is. Returns its size in bytes. */
size_t rsk_route_request(const struct rsk_route_query *q, uint32_t seq,
			 char buf[static RSK_ROUTE_REQUEST_BYTES]);

/*
 * Reads one datagram of the kernel, aligned likewise, as the answer to @q. Returns an enum
 * rsk_route; -EAGAIN: it is the answer to another request; -EBADMSG: it is malformed; another
 * error of the kernel.
 */
int rsk_route_answer(const struct rsk_route_query *q, uint32_t seq, const void *datagram,
		     size_t bytes);

/* ---- the cache ---- */

struct rsk_route_known;

/* Owns its table. */
struct rsk_routes {
	/* Asks the kernel, without waiting: an enum rsk_route, or -errno. */
	int (*ask)(void *ctx, const struct rsk_route_query *q);
	void *ctx;
	struct rsk_route_known *known; /* hash table, oldest first */
};

/* Drops all answers: routes, rules, links or addresses have changed. Also frees the table. */
void rsk_routes_forget(struct rsk_routes *r);

/*
 * Returns 1 if the routes lead from the address @from of this host, by its link @link, to @to,
 * or if @to is an address of this host; 0 if they do not; -errno: the kernel does not say. Ports
 * are ignored.
 */
int rsk_routes_lead(struct rsk_routes *r, const struct rsk_pm_addr *from, int link,
		    const struct rsk_pm_addr *to);

bool rsk_routes_validate(const struct rsk_routes *r);

#endif
