/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resolve.h - connect-time resolution: for some addresses (mostly aggregates) policy asks rsockd
 * before connect() connects. rsockd says for which addresses, and how long connect() may wait. The
 * connect() hook calls this.
 */
#ifndef RSK_RESOLVE_H
#define RSK_RESOLVE_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * True if there is any such address. Never waits for a lock; only tries the pairing lock when
 * rsockd has to be looked for.
 */
bool rsk_resolve_any(void);

/*
 * Returns true if a connection to @to is redirected: *instead is the address to which its service
 * is mapped. False: connect to @to itself, which is not in the list, or about which nothing is
 * known in time. Waits for the answer, unless @ahead: then the question only makes rsockd resolve
 * the address, and the result is false. Takes no lock.
 */
bool rsk_resolve(const struct sockaddr *to, socklen_t len, bool ahead,
		 struct sockaddr_storage *redirect);

#endif
