/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pm_hash.h - uthash with XXH3 as its hash function. Included instead of uthash.h by files of
 * rsockd.
 */
#ifndef RSK_PM_HASH_H
#define RSK_PM_HASH_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASH_FUNCTION(key, bytes, out) ((out) = (unsigned int)XXH3_64bits(key, bytes))
#include <uthash.h>

#endif
