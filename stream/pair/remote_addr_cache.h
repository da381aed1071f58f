/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remote_addr_cache.h - remote address cache: addresses that, as rsockd has said, are not this
 * host's. For streams with such a peer it is not worth looking on this host first. A hint: entries
 * may be overwritten. Private to the process, under the pairing lock.
 */
#ifndef RSK_REMOTE_ADDR_CACHE_H
#define RSK_REMOTE_ADDR_CACHE_H

#include <rsock/tuple.h>
#include <stdbool.h>

/* Both use the peer's address. */
void rsk_remote_addr_cache_add(const struct rsk_tuple *t);
bool rsk_remote_addr_cache_has(const struct rsk_tuple *t);

#endif
