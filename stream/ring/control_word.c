// SPDX-License-Identifier: BSD-2-Clause
/* control_word.c - reads and writes control words: see control_word.h. */
#include "control_word.h"

#include <string.h>

#include "put.h"

int rsk_control_word_put(struct rsk_rail *rail, uint64_t off, const struct rsk_key *key,
			 uint32_t role, struct rsk_control_word *m)
{
	uint8_t *at = rail->window + off;

	m->hash = rsk_hash_control_word(key, m, role);
	memcpy(at, m, offsetof(struct rsk_control_word, hash));
	/*
	 * Store the hash last, so that in shared memory a reader that sees a new hash usually sees
	 * the rest too.
	 */
	__atomic_store_n((uint64_t *)(void *)(at + offsetof(struct rsk_control_word, hash)),
			 m->hash, __ATOMIC_RELEASE);
	return rsk_put(rail, off, sizeof(*m));
}

bool rsk_control_word_get(const struct rsk_control_word *at, const struct rsk_key *key,
			  uint32_t role, struct rsk_control_word *m)
{
	memcpy(m, at, sizeof(*m));
	return m->flags <= (role == RSK_CONTROL_WORD_RX ? RSK_RX_WORD_STAMPS : 0) &&
	       m->hash == rsk_hash_control_word(key, m, role);
}
