/* SPDX-License-Identifier: BSD-2-Clause */
/* resolve_list.h - rsockd's list of addresses for which it is asked before connect() (<rsock/local.h>), as read last. */
#ifndef RSK_RESOLVE_LIST_H
#define RSK_RESOLVE_LIST_H

#include <stdbool.h>

#include <rsock/local.h>
#include <rsock/tuple.h>

/* Takes it in, if it has changed. Under the join lock. */
void rsk_resolve_list_check(void);

/* What was read last, which never changes; NULL: there is none. Takes no lock. */
const struct rsk_local_first_contact *rsk_resolve_list(void);
bool rsk_resolve_list_has(const struct rsk_local_first_contact *l, const struct rsk_tuple *to);

#endif
