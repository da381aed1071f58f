/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guests.h - who is connected to an HTTP socket, so many and no more: of one user (on a TCP socket: of one user of this
 * host, or of one other address), and of all; the last places are for root and the daemon's own user. Who is one too
 * many is hung up on. Connections are taken a few at a time, and none while the daemon has no descriptor left for
 * them. libevent's HTTP server has no such limits: this stands at its listener. One thread.
 */
#ifndef RSK_GUESTS_H
#define RSK_GUESTS_H

#include <event2/http.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_GUESTS_MOST 128u
#define RSK_GUESTS_OF_ONE 8u
#define RSK_GUESTS_RESERVE 16u /* of MOST, for root and the daemon's own user */
#define RSK_GUESTS_AT_ONCE 16u

struct rsk_guests;

/*
 * From now on for connections that come by @bound, of @http, which lives at least as long as this. NULL: no memory.
 * Connections close by themselves; the server's timeouts are the caller's.
 */
struct rsk_guests *rsk_guests_new(struct evhttp *http, struct evhttp_bound_socket *bound);
void rsk_guests_free(struct rsk_guests *g);

struct rsk_guests_figures {
	uint64_t n;	  /* connections that are there */
	uint64_t refused; /* one too many */
	uint64_t paused; /* times that none were taken for a while, for want of descriptors or memory */
};
/* NULL: all zero. */
struct rsk_guests_figures rsk_guests_figures(struct rsk_guests *g);

#endif
