/* SPDX-License-Identifier: BSD-2-Clause */
/* diag.h - what the kernel says: of listening sockets (sock_diag(7); of connections, owner.h does it), of routes. */
#ifndef RSK_DIAG_H
#define RSK_DIAG_H

#include <stdint.h>
#include <sys/types.h>

#include "pm_addr.h"

/* A TCP socket that listens: its cookie, where, and whose it is. */
typedef void rsk_diag_listens(void *ctx, uint64_t cookie, const struct rsk_pm_addr *at, uid_t uid);

/* All of this network namespace. 0 or -errno: then not all were told. Does not block. */
int rsk_diag_listening(rsk_diag_listens *listens, void *ctx);

/* Our address towards that one, as the routing table has it. 0 or -errno. */
int rsk_diag_source(const struct rsk_pm_addr *to, struct rsk_pm_addr *out);

#endif
