// SPDX-License-Identifier: BSD-2-Clause
/* hash_avx512.c - see hash_wide.h; compiled with the options set in stream/CMakeLists.txt. */
#include "hash_wide.h"

#if RSK_HASH_WIDE
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX512
#include <immintrin.h>
#include <xxhash.h>

#define V __m512i
#define LOAD(p) _mm512_loadu_si512(p)
#define STORE(p, v) _mm512_storeu_si512(p, v)

static inline V accumulate(V acc, V data, V key)
{
	V mixed = _mm512_xor_si512(data, key);
	V product = _mm512_mul_epu32(mixed, _mm512_srli_epi64(mixed, 32));

	return _mm512_add_epi64(product,
				_mm512_add_epi64(acc, _mm512_shuffle_epi32(data, _MM_PERM_BADC)));
}

static inline V scramble(V acc, V key)
{
	V prime = _mm512_set1_epi32((int)0x9E3779B1u);
	V mixed = _mm512_xor_si512(_mm512_xor_si512(acc, _mm512_srli_epi64(acc, 47)), key);
	V high = _mm512_mul_epu32(_mm512_srli_epi64(mixed, 32), prime);

	return _mm512_add_epi64(_mm512_mul_epu32(mixed, prime), _mm512_slli_epi64(high, 32));
}
#define ACCUMULATE accumulate
#define SCRAMBLE scramble
#include "hash_copy.h"

uint64_t rsk_hash_avx512(const uint8_t *secret, const void *p, size_t len)
{
	return XXH3_64bits_withSecret(p, len, secret, RSK_SECRET_BYTES);
}

uint64_t rsk_hash_copy_avx512(const uint8_t *secret, void *dst, const void *src, size_t len)
{
	return hash_copy(secret, dst, 0, dst, src, len);
}

uint64_t rsk_hash_split_avx512(const uint8_t *secret, void *first, size_t split, void *rest,
			       const void *src, size_t len)
{
	return hash_copy(secret, first, split, rest, src, len);
}
#endif
