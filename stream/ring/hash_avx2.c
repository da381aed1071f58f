// SPDX-License-Identifier: BSD-2-Clause
/* hash_avx2.c - see hash_wide.h; compiled with the options set in stream/CMakeLists.txt. */
#include "hash_wide.h"

#if RSK_HASH_WIDE
#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_AVX2
#include <immintrin.h>
#include <xxhash.h>

#define V __m256i
#define LOAD(p) _mm256_loadu_si256((const V *)(const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((V *)(void *)(p), v)

static inline V accumulate(V acc, V data, V key)
{
	V mixed = _mm256_xor_si256(data, key);
	V product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));

	return _mm256_add_epi64(product, _mm256_add_epi64(acc, _mm256_shuffle_epi32(data, 0x4E)));
}

static inline V scramble(V acc, V key)
{
	V prime = _mm256_set1_epi32((int)0x9E3779B1u);
	V mixed = _mm256_xor_si256(_mm256_xor_si256(acc, _mm256_srli_epi64(acc, 47)), key);
	V high = _mm256_mul_epu32(_mm256_srli_epi64(mixed, 32), prime);

	return _mm256_add_epi64(_mm256_mul_epu32(mixed, prime), _mm256_slli_epi64(high, 32));
}
#define ACCUMULATE accumulate
#define SCRAMBLE scramble
#include "hash_copy.h"

uint64_t rsk_hash_avx2(const uint8_t *secret, const void *p, size_t len)
{
	return XXH3_64bits_withSecret(p, len, secret, RSK_SECRET_BYTES);
}

uint64_t rsk_hash_copy_avx2(const uint8_t *secret, void *dst, const void *src, size_t len)
{
	return hash_copy(secret, dst, 0, dst, src, len);
}

uint64_t rsk_hash_split_avx2(const uint8_t *secret, void *first, size_t split, void *rest,
			     const void *src, size_t len)
{
	return hash_copy(secret, first, split, rest, src, len);
}
#endif
