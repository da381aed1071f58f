/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * route_socket.h - asks the kernel for routes (routes.h), and notices when they change. The daemon
 * opens it, and the policy agent asks it about RNICs and targets. One thread.
 *
 * The kernel answers a request for a route within sendto(), so nothing waits. Its notifications of
 * changes are read before each use of the cache: a decision that begins after a change never uses
 * an answer from before it. Their content does not matter.
 */
#ifndef RSK_ROUTE_SOCKET_H
#define RSK_ROUTE_SOCKET_H

#include "ifaces.h"
#include "routes.h"

#define RSK_ROUTE_SOCKET_COUNTERS(X)                                                               \
	X(asked, "questions to the kernel whether its routes lead by an RNIC to a target")         \
	X(unanswered, "of these, questions that the kernel did not answer")                        \
	X(changes, "times that the answers were dropped: routes, rules, links or addresses "       \
		   "changed")

struct rsk_route_socket_counters {
#define RSK_ROUTE_SOCKET_FIELD(name, text) uint64_t name;
	RSK_ROUTE_SOCKET_COUNTERS(RSK_ROUTE_SOCKET_FIELD)
#undef RSK_ROUTE_SOCKET_FIELD
};

/* Owns its sockets and the cache. */
struct rsk_route_socket {
	struct mnl_socket *requests, *changes; /* NULL: not open */
	const struct rsk_ifaces *links;	       /* borrowed */
	struct rsk_routes routes;
	uint32_t seq;
	bool silent; /* that the kernel does not answer has been logged */
	struct rsk_route_socket_counters count;
};

/*
 * On failure it logs that; @s is closed then, and nothing is known of routes. @links: borrowed
 * until close().
 */
void rsk_route_socket_open(struct rsk_route_socket *s, const struct rsk_ifaces *links);
void rsk_route_socket_close(struct rsk_route_socket *s);

/*
 * Returns 1 if the kernel's routes lead from the address @from of this host to @to, by a link that
 * has @from (NULL: from whatever address, by whatever link), and 0 if they do not. -errno: that is
 * not known: @from is on no link that works, or on the loopback device, or the kernel does not
 * answer. Does not block. @socket is a struct rsk_route_socket.
 */
int rsk_route_socket_leads(void *socket, const struct rsk_pm_addr *from,
			   const struct rsk_pm_addr *to);

#endif
