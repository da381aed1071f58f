/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vouch.h - asks rsockd of this host about a connection of ours, over the socket and with the
 * messages that the library uses. For rsock check.
 */
#ifndef RSK_TOOLS_VOUCH_H
#define RSK_TOOLS_VOUCH_H

#include <rsock/reason.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Asks whether rsockd would help the connection @fd to leave TCP. DIRECT: its two ends would be
 * introduced to each other on this host. MAPPED: the other host can be reached by RDMA. Any other
 * value is the reason why not; NO_RSOCKD: no answer by the deadline (monotonic). The question is a
 * dry run and changes nothing. The socket is the one that RSOCK_DAEMON names, as for the library.
 * *by_syn, if not NULL: the connection is not in rsockd's network namespace, and its ends would be
 * brought together by its first segment, which a dry run does not know.
 */
enum rsk_reason vouch_ask(int fd, uint64_t deadline_ns, bool *by_syn);

#endif /* RSK_TOOLS_VOUCH_H */
