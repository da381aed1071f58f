// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_hash.c - tests the payload hash: the same value whatever vector width computes it, and a key
 * for each direction.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"
#include "hash.h"
#include "hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#define BYTES 70000u

static uint8_t bytes[BYTES + 64];

static void each_length(void (*check)(const struct rsk_key *key, const uint8_t *p, uint32_t len))
{
	uint64_t dice = 11;
	struct rsk_key key;

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(dice_roll(&dice) % 256);
	rsk_key_init(&key, 12345);
	for (uint32_t len = 0; len < 3000; len++)
		check(&key, bytes + len % 64, len);
	for (int i = 0; i < 300; i++)
		check(&key, bytes + (dice_roll(&dice) % 64), (uint32_t)(dice_roll(&dice) % BYTES));
}

static void is_xxh3(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	cr_assert_eq(rsk_hash_payload(key, p, len),
		     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES), "length %u",
		     len);
}

Test(hash, payload_is_keyed_xxh3_64)
{
	each_length(is_xxh3);
}

static uint8_t copy[BYTES + 64];

/* Checks the copy, its hash, and that nothing behind it is written. */
static void copies(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	uint8_t *to = copy + len % 61 % 16;

	memset(to, 0xee, len + 1);
	cr_assert_eq(rsk_hash_copy(key, to, p, len),
		     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES), "length %u",
		     len);
	cr_assert_arr_eq(to, p, len);
	cr_assert_eq(to[len], 0xee, "length %u: one byte more", len);
}

Test(hash, copy_is_hashed_as_it_is_made)
{
	each_length(copies);
}

static uint8_t first[BYTES + 64];

static void splits(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	uint8_t *a = first + len % 7, *b = copy + len % 61 % 16;
	uint32_t most = len ? (len - 1) / RSK_HASH_SPLIT_BYTES * RSK_HASH_SPLIT_BYTES : 0;

	for (uint32_t at = 0;;) {
		memset(a, 0xee, len + 1);
		memset(b, 0xee, len + 1);
		cr_assert_eq(rsk_hash_split(key, a, at, b, p, len),
			     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES),
			     "length %u, split at %u", len, at);
		cr_assert_arr_eq(a, p, at);
		cr_assert_arr_eq(b + at, p + at, len - at);
		cr_assert(a[at] == 0xee && b[len] == 0xee, "length %u: one byte more", len);
		if (at == most)
			break;
		/* The first and the last lengths, where the parts meet within a stripe. */
		at = at ? most : RSK_HASH_SPLIT_BYTES;
	}
}

Test(hash, split_copy_is_hashed_as_a_whole)
{
	each_length(splits);
}

#if RSK_HASH_WIDE
static void long_copies(uint64_t (*hash_copy)(const uint8_t *, void *, const void *, size_t),
			const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	if (len <= RSK_SLOT_SHORT_BYTES)
		return;
	memset(copy, 0xee, len + 1);
	cr_assert_eq(hash_copy(key->secret, copy, p, len),
		     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES), "length %u",
		     len);
	cr_assert_arr_eq(copy, p, len);
	cr_assert_eq(copy[len], 0xee, "length %u: one byte more", len);
}

static uint64_t avx2_split(const uint8_t *secret, void *dst, const void *src, size_t len)
{
	size_t split = len / 2 / RSK_HASH_SPLIT_BYTES * RSK_HASH_SPLIT_BYTES;
	uint64_t hash = rsk_hash_split_avx2(secret, first, split, dst, src, len);

	memcpy(dst, first, split);
	return hash;
}

static uint64_t avx512_split(const uint8_t *secret, void *dst, const void *src, size_t len)
{
	size_t split = len / 2 / RSK_HASH_SPLIT_BYTES * RSK_HASH_SPLIT_BYTES;
	uint64_t hash = rsk_hash_split_avx512(secret, first, split, dst, src, len);

	memcpy(dst, first, split);
	return hash;
}

static void avx2_copies(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	long_copies(rsk_hash_copy_avx2, key, p, len);
	long_copies(avx2_split, key, p, len);
}

static void avx512_copies(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	long_copies(rsk_hash_copy_avx512, key, p, len);
	long_copies(avx512_split, key, p, len);
}

static void avx2_is_xxh3(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	cr_assert_eq(rsk_hash_avx2(key->secret, p, len),
		     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES), "length %u",
		     len);
}

static void avx512_is_xxh3(const struct rsk_key *key, const uint8_t *p, uint32_t len)
{
	cr_assert_eq(rsk_hash_avx512(key->secret, p, len),
		     XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES), "length %u",
		     len);
}

/*
 * Each vector width as far as this processor has it. The test above always runs, with what the
 * library chooses here.
 */
Test(hash, wider_vectors_compute_the_same)
{
	if (__builtin_cpu_supports("avx2")) {
		each_length(avx2_is_xxh3);
		each_length(avx2_copies);
	}
	if (__builtin_cpu_supports("avx512bw")) {
		each_length(avx512_is_xxh3);
		each_length(avx512_copies);
	}
}
#endif

Test(hash, another_key_another_value)
{
	struct rsk_key a, b;

	memset(bytes, 0, sizeof(bytes));
	rsk_key_init(&a, 1);
	rsk_key_init(&b, 2);
	for (uint32_t len = 1; len < 2000; len += 37)
		cr_assert_neq(rsk_hash_payload(&a, bytes, len), rsk_hash_payload(&b, bytes, len));
}

Test(hash, one_bit_another_value)
{
	struct rsk_key key;

	memset(bytes, 0x5a, sizeof(bytes));
	rsk_key_init(&key, 3);
	for (uint32_t bit = 0; bit < 4096 * 8; bit += 11) {
		uint64_t before = rsk_hash_payload(&key, bytes, 4096);

		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_neq(rsk_hash_payload(&key, bytes, 4096), before);
	}
}
