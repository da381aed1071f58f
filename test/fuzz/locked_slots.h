/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locked_slots.h - for fuzz targets: a record of locked access that a hostile process has written.
 * A process that can write the record can hash it, too.
 */
#ifndef RSK_LOCKED_SLOTS_H
#define RSK_LOCKED_SLOTS_H

#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "locked.h"

/* Of the first @slots slots, at most 8, those whose bit is set in @right get a right hash. */
static inline void locked_slots_right(uint8_t *record, uint32_t slots, uint8_t right)
{
	for (uint32_t i = 0; i < slots; i++) {
		uint8_t *slot = record + RSK_LOCKED_HEAD_BYTES + i * sizeof(struct rsk_locked_slot);
		XXH64_hash_t hash = XXH3_64bits(slot + 8, sizeof(struct rsk_locked_slot) - 8);

		if (right & 1u << i)
			memcpy(slot, &hash, sizeof(hash));
	}
}

#endif
