// SPDX-License-Identifier: BSD-2-Clause
/*
 * hash.c - keyed XXH3-64: see hash.h. Long payloads go to the AVX2 or AVX-512 version (hash_wide.h)
 * where the processor has it.
 */
#include "hash.h"

#include <string.h>

#include "hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Inputs of up to this length are hashed without vector instructions. */
#define LONG_BYTES XXH3_MIDSIZE_MAX
_Static_assert(LONG_BYTES == RSK_SLOT_SHORT_BYTES,
	       "what is aligned in a slot is what vectors copy");

_Static_assert(RSK_SECRET_BYTES == XXH3_SECRET_DEFAULT_SIZE, "XXH3 secret size");
_Static_assert(RSK_SECRET_BYTES >= XXH3_SECRET_SIZE_MIN, "XXH3 secret size");

void rsk_key_init(struct rsk_key *key, uint64_t seed)
{
	XXH3_generateSecret_fromSeed(key->secret, seed);
}

uint64_t rsk_hash_payload(const struct rsk_key *key, const void *p, uint32_t len)
{
#if RSK_HASH_WIDE
	/*
	 * __builtin_cpu_supports() reads what libgcc's constructor found. Before that has run it
	 * returns false, and the hash is the same.
	 */
	if (len > LONG_BYTES) {
		if (__builtin_cpu_supports("avx512bw"))
			return rsk_hash_avx512(key->secret, p, len);
		if (__builtin_cpu_supports("avx2"))
			return rsk_hash_avx2(key->secret, p, len);
	}
#endif
	return XXH3_64bits_withSecret(p, len, key->secret, RSK_SECRET_BYTES);
}

#if defined(__x86_64__)
#define IN_VECTOR "+x"
#elif defined(__aarch64__)
#define IN_VECTOR "+w"
#else
#define IN_VECTOR "+m"
#endif

/*
 * Loads from @src once, stores at both. The empty statement keeps the compiler from loading once
 * more; @where is where the value is (a constraint of asm).
 */
#define MOVE(type, where, off)                                                                     \
	do {                                                                                       \
		type v_;                                                                           \
		memcpy(&v_, src + (off), sizeof(v_));                                              \
		__asm__("" : where(v_));                                                           \
		memcpy(own + (off), &v_, sizeof(v_));                                              \
		memcpy(dst + (off), &v_, sizeof(v_));                                              \
	} while (0)

typedef uint64_t vec16 __attribute__((vector_size(16)));

/*
 * Copies up to LONG_BYTES to @own and to @dst: the same, even if the owner of the source changes it
 * meanwhile, since the stores at both are the same in the same order.
 */
static inline void copy_to_two(uint8_t *own, uint8_t *dst, const uint8_t *src, uint32_t len)
{
	uint32_t at = 0;

	if (len >= sizeof(vec16)) {
		for (; at + sizeof(vec16) < len; at += (uint32_t)sizeof(vec16))
			MOVE(vec16, IN_VECTOR, at);
		MOVE(vec16, IN_VECTOR, len - sizeof(vec16));
	} else if (len >= sizeof(uint64_t)) {
		MOVE(uint64_t, "+r", 0);
		MOVE(uint64_t, "+r", len - sizeof(uint64_t));
	} else if (len >= sizeof(uint32_t)) {
		MOVE(uint32_t, "+r", 0);
		MOVE(uint32_t, "+r", len - sizeof(uint32_t));
	} else {
		for (; at < len; at++)
			MOVE(uint8_t, "+r", at);
	}
}

/*
 * The bytes are hashed in a private copy. In a line that the other processor still has, the loads
 * of the hash would meet stores of other widths that have not got there yet, and wait for them.
 */
static uint64_t hash_copy_short(const struct rsk_key *key, void *dst, const void *src, uint32_t len)
{
	uint8_t own[LONG_BYTES];

	copy_to_two(own, dst, src, len);
	return XXH3_64bits_withSecret(own, len, key->secret, RSK_SECRET_BYTES);
}

static __attribute__((noinline)) uint64_t hash_copy_long(const struct rsk_key *key, void *dst,
							 const void *src, uint32_t len)
{
#if RSK_HASH_WIDE
	if (__builtin_cpu_supports("avx512bw"))
		return rsk_hash_copy_avx512(key->secret, dst, src, len);
	if (__builtin_cpu_supports("avx2"))
		return rsk_hash_copy_avx2(key->secret, dst, src, len);
#endif
	memcpy(dst, src, len);
	return XXH3_64bits_withSecret(dst, len, key->secret, RSK_SECRET_BYTES);
}

uint64_t rsk_hash_copy(const struct rsk_key *key, void *dst, const void *src, uint32_t len)
{
	return len <= LONG_BYTES ? hash_copy_short(key, dst, src, len) :
				   hash_copy_long(key, dst, src, len);
}

uint64_t rsk_hash_split(const struct rsk_key *key, void *first, uint32_t split, void *rest,
			const void *src, uint32_t len)
{
	XXH3_state_t state;

	if (!split)
		return rsk_hash_copy(key, rest, src, len);
#if RSK_HASH_WIDE
	if (len > LONG_BYTES) {
		if (__builtin_cpu_supports("avx512bw"))
			return rsk_hash_split_avx512(key->secret, first, split, rest, src, len);
		if (__builtin_cpu_supports("avx2"))
			return rsk_hash_split_avx2(key->secret, first, split, rest, src, len);
	}
#endif
	memcpy(first, src, split);
	memcpy((uint8_t *)rest + split, (const uint8_t *)src + split, len - split);
	XXH3_64bits_reset_withSecret(&state, key->secret, RSK_SECRET_BYTES);
	XXH3_64bits_update(&state, first, split);
	XXH3_64bits_update(&state, (const uint8_t *)rest + split, len - split);
	return XXH3_64bits_digest(&state);
}

uint64_t rsk_hash_slot(const struct rsk_key *key, const struct rsk_slot_head *head,
		       uint64_t payload_hash)
{
	struct {
		struct rsk_slot_head head;
		uint64_t payload_hash;
	} m = { *head, payload_hash };

	_Static_assert(sizeof(m) == 24, "no padding in what is hashed");
	return XXH3_64bits_withSecret(&m, sizeof(m), key->secret, RSK_SECRET_BYTES);
}

uint64_t rsk_hash_control_word(const struct rsk_key *key, const struct rsk_control_word *m,
			       uint32_t role)
{
	struct rsk_control_word c = *m;

	c.flags = m->flags << 8 | (role + 1);
	return XXH3_64bits_withSecret(&c, offsetof(struct rsk_control_word, hash), key->secret,
				      RSK_SECRET_BYTES);
}
