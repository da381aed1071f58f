/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resolve.h - addresses for which policy asks before connect() does (aggregates, mostly): rsockd says which, and for
 * how long connect() may wait.
 */
#ifndef RSK_RESOLVE_H
#define RSK_RESOLVE_H

#include <stdbool.h>
#include <sys/socket.h>

/* Is there any such address? Takes no lock, but to look for rsockd for the first time. */
bool rsk_resolve_any(void);

/*
 * Where a connection to @to is to go: the address that its service is mapped to. False: to @to itself, which is not
 * one of the list, or nothing is known in time. Waits, unless @ahead: then nothing is wanted but that rsockd finds
 * it out. Takes no lock.
 */
bool rsk_resolve(const struct sockaddr *to, socklen_t len, bool ahead,
		 struct sockaddr_storage *redirect);

#endif
