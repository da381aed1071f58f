/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diag.h - asks the kernel about listening sockets (sock_diag(7)) and about routes. Connections are
 * looked up by owner.h. listener_watches.c, local_rendezvous.c and api.c call it.
 */
#ifndef RSK_DIAG_H
#define RSK_DIAG_H

#include <stdint.h>
#include <sys/types.h>

#include "pm_addr.h"

/* Called for a listening TCP socket: its cookie, its address, and the user that owns it. */
typedef void rsk_diag_listens(void *ctx, uint64_t cookie, const struct rsk_pm_addr *at, uid_t uid);

struct rsk_listening {
	uint64_t cookie;
	struct rsk_pm_addr at;
	uid_t uid;
};

/*
 * Finds the socket to which the kernel would give a connection to address @at. Returns 0; -ENOENT
 * if there is none; or -errno. Does not block.
 */
int rsk_diag_listener(const struct rsk_pm_addr *at, struct rsk_listening *out);

/*
 * Calls @listens for each TCP socket of this network namespace that listens at port @port. The
 * kernel scans all listening sockets but returns only these. Returns 0, or -errno if the list is
 * incomplete. Does not block.
 */
int rsk_diag_listening(uint16_t port, rsk_diag_listens *listens, void *ctx);

/* The source address that the routing table chooses towards @to. Returns 0 or -errno. */
int rsk_diag_source(const struct rsk_pm_addr *to, struct rsk_pm_addr *out);

#endif
