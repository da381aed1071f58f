/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * canary.h - completion canaries: they detect an RDMA READ that the device
 * reports as done although no response was written. Used by post.c and fetch.c. Pure.
 *
 * Before a request is posted, its response buffer is filled with a pattern (a number of splitmix.h)
 * that differs from request to request. If some of the pattern is still there when the request
 * completes, there was no response (seen with rxe and lost packets). Remote content that equals the
 * pattern by chance, 1 in 2^64 for a word, is taken for a missing response.
 */
#ifndef RSK_CANARY_H
#define RSK_CANARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How often a READ is posted before it fails: a short response may equal the pattern by chance */
#define RSK_CANARY_ASKS 8u

static inline void rsk_canary_prepare(uint8_t *at, size_t len, uint64_t pattern)
{
	for (size_t i = 0; i < len; i += sizeof(pattern))
		memcpy(at + i, &pattern, len - i < sizeof(pattern) ? len - i : sizeof(pattern));
}

/*
 * True if part of the buffer still holds the pattern: one whole word of it or, if @len is less than
 * a word, all of it.
 */
static inline bool rsk_canary_missing(const uint8_t *at, size_t len, uint64_t pattern)
{
	if (len < sizeof(pattern))
		return memcmp(at, &pattern, len) == 0;
	for (size_t i = 0; i + sizeof(pattern) <= len; i += sizeof(pattern))
		if (memcmp(at + i, &pattern, sizeof(pattern)) == 0)
			return true;
	return false;
}

#endif
