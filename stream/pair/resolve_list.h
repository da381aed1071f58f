/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resolve_list.h - rsockd's list of addresses for which it is asked before connect()
 * (<rsock/local.h>), as read last. resolve.c and local.c use it.
 */
#ifndef RSK_RESOLVE_LIST_H
#define RSK_RESOLVE_LIST_H

#include <stdbool.h>

#include <rsock/local.h>
#include <rsock/tuple.h>

/* Reads the list again if it has changed. Call with the pairing lock held. */
void rsk_resolve_list_check(void);

/* The list as read last; it never changes or goes away. NULL: there is none. Takes no lock. */
const struct rsk_local_first_contact *rsk_resolve_list(void);
/* rsockd looks for ends in other network namespaces. */
bool rsk_resolve_list_between(void);
bool rsk_resolve_list_has(const struct rsk_local_first_contact *l, const struct rsk_tuple *to);

#endif
