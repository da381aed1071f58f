/* SPDX-License-Identifier: BSD-2-Clause */
/* hash.h - keyed XXH3-64 of slots and mails; layouts in <rsock/slot.h>. Pure. */
#ifndef RSK_HASH_H
#define RSK_HASH_H

#include <stdint.h>

#include <rsock/slot.h>

#define RSK_SECRET_BYTES 192

/* The key of one direction of one stream, expanded once. */
struct rsk_key {
	uint8_t secret[RSK_SECRET_BYTES];
};

void rsk_key_init(struct rsk_key *key, uint64_t seed);
uint64_t rsk_hash_payload(const struct rsk_key *key, const void *p, uint32_t len);

/* Copies @len bytes and returns rsk_hash_payload() of the copy: one pass over long ones, where there are vectors. */
uint64_t rsk_hash_copy(const struct rsk_key *key, void *dst, const void *src, uint32_t len);

/*
 * The same to two places: bytes below @split (a multiple of RSK_HASH_SPLIT_BYTES, less than @len) to @first, the others
 * to @rest, both as far in as they are in @src.
 */
#define RSK_HASH_SPLIT_BYTES 1024u
uint64_t rsk_hash_split(const struct rsk_key *key, void *first, uint32_t split, void *rest,
			const void *src, uint32_t len);
uint64_t rsk_hash_slot(const struct rsk_key *key, const struct rsk_slot_head *head,
		       uint64_t payload_hash);

/* @role tells tx_word (0) from rx_word (1): one cannot stand in for the other. */
uint64_t rsk_hash_control_word(const struct rsk_key *key, const struct rsk_control_word *m,
			       uint32_t role);

#endif
