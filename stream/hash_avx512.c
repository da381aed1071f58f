// SPDX-License-Identifier: BSD-2-Clause
/* hash_avx512.c - see hash_wide.h; compiled with the options that stream/CMakeLists.txt gives it. */
#include "hash_wide.h"

#if RSK_HASH_WIDE
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <xxhash.h>

#include "hash.h"

uint64_t rsk_hash_avx512(const uint8_t *secret, const void *p, size_t len)
{
	return XXH3_64bits_withSecret(p, len, secret, RSK_SECRET_BYTES);
}
#endif
