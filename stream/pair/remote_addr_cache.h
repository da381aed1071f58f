/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_addr_cache.h - addresses that rsockd has said are not this host's: for who goes there, or comes from there, it is not
 * worth looking on this one first. A hint, of which some are forgotten. Private to the process, under the join lock.
 */
#ifndef RSK_REMOTE_ADDR_CACHE_H
#define RSK_REMOTE_ADDR_CACHE_H

#include <rsock/tuple.h>
#include <stdbool.h>

/* The peer's address. */
void rsk_remote_addr_cache_add(const struct rsk_tuple *t);
bool rsk_remote_addr_cache_has(const struct rsk_tuple *t);

#endif
