/* SPDX-License-Identifier: BSD-2-Clause */
/* diag.h - what the kernel says: of listening sockets (sock_diag(7); of connections, owner.h does it), of routes. */
#ifndef RSK_DIAG_H
#define RSK_DIAG_H

#include <stdint.h>
#include <sys/types.h>

#include "pm_addr.h"

/* A TCP socket that listens: its cookie, where, and whose it is. */
typedef void rsk_diag_listens(void *ctx, uint64_t cookie, const struct rsk_pm_addr *at, uid_t uid);

struct rsk_listening {
	uint64_t cookie;
	struct rsk_pm_addr at;
	uid_t uid;
};

/* The socket that the kernel has for connections to that address. 0; -ENOENT: none; -errno. Does not block. */
int rsk_diag_listener(const struct rsk_pm_addr *at, struct rsk_listening *out);

/*
 * Those at that port, in this network namespace; the kernel goes through all that listen, but tells of these alone. 0
 * or -errno: then not all were told. Does not block.
 */
int rsk_diag_listening(uint16_t port, rsk_diag_listens *listens, void *ctx);

/* Our address towards that one, as the routing table has it. 0 or -errno. */
int rsk_diag_source(const struct rsk_pm_addr *to, struct rsk_pm_addr *out);

#endif
