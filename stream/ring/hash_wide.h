/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hash_wide.h - XXH3-64 of long payloads with AVX2 and AVX-512: the same value as the generic code,
 * several times faster. hash.c chooses among them. Each version is a source file of its own,
 * compiled for that processor, and must only be called on a processor that has the instructions.
 */
#ifndef RSK_HASH_WIDE_H
#define RSK_HASH_WIDE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define RSK_HASH_WIDE 1
uint64_t rsk_hash_avx2(const uint8_t *secret, const void *p, size_t len);
uint64_t rsk_hash_avx512(const uint8_t *secret, const void *p, size_t len);

/* Copy @len (more than 240) bytes and hash the copy, in one pass: see hash_copy.h. */
uint64_t rsk_hash_copy_avx2(const uint8_t *secret, void *dst, const void *src, size_t len);
uint64_t rsk_hash_copy_avx512(const uint8_t *secret, void *dst, const void *src, size_t len);

/* The same to two destinations: see rsk_hash_split(). */
uint64_t rsk_hash_split_avx2(const uint8_t *secret, void *first, size_t split, void *rest,
			     const void *src, size_t len);
uint64_t rsk_hash_split_avx512(const uint8_t *secret, void *first, size_t split, void *rest,
			       const void *src, size_t len);
#else
#define RSK_HASH_WIDE 0
#endif

#endif
