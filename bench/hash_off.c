// SPDX-License-Identifier: BSD-2-Clause
/*
 * hash_off.c - replaces stream/ring/hash.c by a version without the hash of slots, as for a ring
 * that trusts its index. Linked into librsock-nohash.so, for measurements only: nothing here would
 * detect a slot that is only partly written. Control words keep their hash, by which a new one is
 * recognised.
 */
#include "hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void rsk_key_init(struct rsk_key *key, uint64_t seed)
{
	XXH3_generateSecret_fromSeed(key->secret, seed);
}

uint64_t rsk_hash_payload(const struct rsk_key *key, const void *p, uint32_t len)
{
	(void)key;
	(void)p;
	(void)len;
	return 0;
}

uint64_t rsk_hash_copy(const struct rsk_key *key, void *dst, const void *src, uint32_t len)
{
	(void)key;
	memcpy(dst, src, len);
	return 0;
}

uint64_t rsk_hash_split(const struct rsk_key *key, void *first, uint32_t split, void *rest,
			const void *src, uint32_t len)
{
	(void)key;
	memcpy(first, src, split);
	memcpy((uint8_t *)rest + split, (const uint8_t *)src + split, len - split);
	return 0;
}

uint64_t rsk_hash_slot(const struct rsk_key *key, const struct rsk_slot_head *head,
		       uint64_t payload_hash)
{
	(void)key;
	(void)head;
	return payload_hash;
}

uint64_t rsk_hash_control_word(const struct rsk_key *key, const struct rsk_control_word *m,
			       uint32_t role)
{
	struct rsk_control_word c = *m;

	c.flags = m->flags << 8 | (role + 1);
	return XXH3_64bits_withSecret(&c, offsetof(struct rsk_control_word, hash), key->secret,
				      RSK_SECRET_BYTES);
}
