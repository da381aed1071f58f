/* SPDX-License-Identifier: BSD-2-Clause */
/* vouch.h - what rsockd of this host says of a connection: asked as a process asks, at the socket for processes. */
#ifndef RSK_TOOLS_VOUCH_H
#define RSK_TOOLS_VOUCH_H

#include <rsock/reason.h>
#include <stdint.h>

/*
 * Would the connection that is our @fd be taken off TCP by rsockd: DIRECT, its two ends would meet
 * on this host; MAPPED, the other host would be reached by RDMA; else why not, NO_RSOCKD: nobody
 * answers, or not by the deadline (monotonic). Nothing comes of asking. The socket is
 * RSOCK_DAEMON's, as for the library.
 */
enum rsk_reason vouch_ask(int fd, uint64_t deadline_ns);

#endif /* RSK_TOOLS_VOUCH_H */
