/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guests.h - limits the connections to an HTTP socket: of one user (on a TCP socket: of one user of
 * this host, or of one other address), and in total. The last places are for root and the daemon's
 * own user. A connection beyond the limits is closed. Connections are accepted a few at a time, and
 * none while the daemon is out of descriptors. libevent's HTTP server has no such limits; this is
 * attached to its listener. api.c calls it. One thread.
 */
#ifndef RSK_GUESTS_H
#define RSK_GUESTS_H

#include <event2/http.h>
#include <stddef.h>
#include <stdint.h>

#define RSK_GUESTS_MOST 128u
#define RSK_GUESTS_OF_ONE 8u
#define RSK_GUESTS_RESERVE 16u /* of RSK_GUESTS_MOST, for root and the daemon's own user */
#define RSK_GUESTS_AT_ONCE 16u

struct rsk_guests;

/*
 * Limits the connections that @bound accepts for @http, which has to live at least as long as the
 * result. NULL: out of memory. Connections close by themselves; the caller sets the server's
 * timeouts.
 */
struct rsk_guests *rsk_guests_new(struct evhttp *http, struct evhttp_bound_socket *bound);
void rsk_guests_free(struct rsk_guests *g);

struct rsk_guests_figures {
	uint64_t n;	  /* open connections */
	uint64_t refused; /* connections beyond the limits */
	/* times that accepting was paused, for lack of descriptors or memory */
	uint64_t paused;
};
/* @g NULL: all zero. */
struct rsk_guests_figures rsk_guests_figures(struct rsk_guests *g);

#endif
