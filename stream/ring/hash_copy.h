/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash_copy.h - the body of rsk_hash_copy_<vectors>() and rsk_hash_split_<vectors>(), included by
 * hash_avx2.c and hash_avx512.c. It copies more than 240 bytes, to one destination or to two, and
 * returns the XXH3-64 of the copy, in one pass. Each byte is loaded once: the bytes that are hashed
 * are those that were stored, even if the owner of the source changes it meanwhile. The algorithm
 * is XXH3's for long inputs with a secret (xxHash, doc/xxhash_spec.md, "XXH3 Algorithm for Large
 * Inputs"); the library has no function that also copies.
 *
 * The including file defines V (a vector type), and on vectors LOAD, STORE, ACCUMULATE (acc, data,
 * key) and SCRAMBLE (acc, key).
 */
#include <string.h>

#include "hash.h"

#define STRIPE 64
#define OPAQUE(v) __asm__("" : "+v"(v))
#define LANES (STRIPE / sizeof(V))
#define STRIPES_PER_BLOCK ((RSK_SECRET_BYTES - STRIPE) / 8)
#define BLOCK (STRIPES_PER_BLOCK * STRIPE)

#define P32_1 0x9E3779B1u
#define P32_2 0x85EBCA77u
#define P32_3 0xC2B2AE3Du
#define P64_1 0x9E3779B185EBCA87u
#define P64_2 0xC2B2AE3D27D4EB4Fu
#define P64_3 0x165667B19E3779F9u
#define P64_4 0x85EBCA77C2B2AE63u
#define P64_5 0x27D4EB2F165667C5u

/* Offsets in the secret for the last stripe and for the final merge. */
#define SECRET_LAST (RSK_SECRET_BYTES - STRIPE - 7)
#define SECRET_MERGE 11

/* Each byte is loaded once: OPAQUE keeps the compiler from loading it again for the next use. */
static inline __attribute__((always_inline)) void load_stripe(V *stripe, const uint8_t *data)
{
	for (size_t i = 0; i < LANES; i++) {
		stripe[i] = LOAD(data + i * sizeof(V));
		OPAQUE(stripe[i]);
	}
}

static inline __attribute__((always_inline)) void put_stripe(uint8_t *dst, const V *stripe)
{
	for (size_t i = 0; i < LANES; i++)
		STORE(dst + i * sizeof(V), stripe[i]);
}

static inline __attribute__((always_inline)) void hash_stripe(V *acc, const V *stripe,
							      const uint8_t *key)
{
	for (size_t i = 0; i < LANES; i++)
		acc[i] = ACCUMULATE(acc[i], stripe[i], LOAD(key + i * sizeof(V)));
}

static uint64_t fold(uint64_t a, uint64_t b)
{
	unsigned __int128 p = (unsigned __int128)a * b;

	return (uint64_t)p ^ (uint64_t)(p >> 64);
}

static uint64_t merge(const V *acc, const uint8_t *secret, uint64_t h)
{
	uint64_t a[8], k[8];

	memcpy(a, acc, sizeof(a));
	memcpy(k, secret, sizeof(k));
	for (int i = 0; i < 8; i += 2)
		h += fold(a[i] ^ k[i], a[i + 1] ^ k[i + 1]);
	h ^= h >> 37;
	h *= 0x165667919E3779F9u;
	return h ^ (h >> 32);
}

_Static_assert(RSK_HASH_SPLIT_BYTES == BLOCK, "a copy is split between blocks");

/*
 * Bytes below @split, a multiple of BLOCK and less than @len, go to @first, the others to @dst.
 * Each byte keeps its offset in @src.
 */
static inline __attribute__((always_inline)) uint64_t hash_copy(const uint8_t *secret,
								uint8_t *first, size_t split,
								uint8_t *dst, const uint8_t *src,
								size_t len)
{
	static const uint64_t start[8] = { P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1 };
	size_t blocks = (len - 1) / BLOCK, stripes = (len - 1 - blocks * BLOCK) / STRIPE, done;
	size_t rest;
	uint8_t last[2 * STRIPE];
	V acc[LANES], stripe[LANES];

	memcpy(acc, start, sizeof(acc));
	for (size_t b = 0; b < blocks; b++) {
		uint8_t *to = b * BLOCK < split ? first : dst;

		for (size_t i = 0; i < STRIPES_PER_BLOCK; i++) {
			load_stripe(stripe, src + b * BLOCK + i * STRIPE);
			put_stripe(to + b * BLOCK + i * STRIPE, stripe);
			hash_stripe(acc, stripe, secret + i * 8);
		}
		for (size_t i = 0; i < LANES; i++)
			acc[i] = SCRAMBLE(acc[i],
					  LOAD(secret + RSK_SECRET_BYTES - STRIPE + i * sizeof(V)));
	}
	for (size_t i = 0; i < stripes; i++) {
		load_stripe(stripe, src + blocks * BLOCK + i * STRIPE);
		put_stripe(dst + blocks * BLOCK + i * STRIPE, stripe);
		hash_stripe(acc, stripe, secret + i * 8);
	}
	done = blocks * BLOCK + stripes * STRIPE;
	rest = len - done;
	if (rest == STRIPE) {
		load_stripe(stripe, src + done);
		put_stripe(dst + done, stripe);
	} else {
		/*
		 * The last stripe overlaps the one before. It is put together in a private copy: in
		 * the destination its loads would wait for the stores (hash.c).
		 */
		put_stripe(last, stripe);
		memcpy(last + STRIPE, src + done, rest);
		load_stripe(stripe, last + rest);
		if (done != split)
			put_stripe(dst + len - STRIPE, stripe);
		else
			memcpy(dst + done, last + STRIPE, rest);
	}
	hash_stripe(acc, stripe, secret + SECRET_LAST);
	return merge(acc, secret + SECRET_MERGE, len * P64_1);
}
