/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash.h - keyed XXH3-64 of slots, control words and mailboxes (layouts: <rsock/slot.h>,
 * <rsock/mailbox.h>); used by ring.c, control_word.c and mailbox.c. Pure: no system call, no lock,
 * no state but the key.
 */
#ifndef RSK_HASH_H
#define RSK_HASH_H

#include <stdint.h>

#include <rsock/slot.h>

#define RSK_SECRET_BYTES 192

/* The key of one direction of one stream, expanded once from its 64-bit seed. */
struct rsk_key {
	uint8_t secret[RSK_SECRET_BYTES];
};

/* Derives the 192-byte secret from @seed. */
void rsk_key_init(struct rsk_key *key, uint64_t seed);
/* The hash of @len bytes at @p. */
uint64_t rsk_hash_payload(const struct rsk_key *key, const void *p, uint32_t len);

/*
 * Copies @len bytes and returns rsk_hash_payload() of the copy. Payloads of more than 240 bytes
 * take one pass where the processor has AVX2 or AVX-512BW.
 */
uint64_t rsk_hash_copy(const struct rsk_key *key, void *dst, const void *src, uint32_t len);

/*
 * As rsk_hash_copy(), to two destinations: bytes below @split (a multiple of RSK_HASH_SPLIT_BYTES,
 * less than @len) go to @first, the others to @rest. Each byte keeps its offset in @src.
 */
#define RSK_HASH_SPLIT_BYTES 1024u
uint64_t rsk_hash_split(const struct rsk_key *key, void *first, uint32_t split, void *rest,
			const void *src, uint32_t len);
/* The hash that a slot carries: of its head and of its payload's hash. */
uint64_t rsk_hash_slot(const struct rsk_key *key, const struct rsk_slot_head *head,
		       uint64_t payload_hash);

/*
 * @role is the type of the control word, RSK_CONTROL_WORD_TX or RSK_CONTROL_WORD_RX. It is part of
 * the hash, so that one type is not accepted as the other.
 */
uint64_t rsk_hash_control_word(const struct rsk_key *key, const struct rsk_control_word *m,
			       uint32_t role);

#endif
