// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_indirect.c - fuzzes the indirect buffer: a peer fills it as it likes, and reports any number
 * of units; nothing outside a ring or a control message is written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control_msgs.h"

#define STREAMS 4u
#define RING (16u << 10)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *buf = calloc(1, RSK_INDIRECT_BYTES), *rings = malloc((size_t)STREAMS * RING);
	struct rsk_control_msgs_in *heard = calloc(1, sizeof(*heard));
	uint8_t word[RSK_INDIRECT_WORD_BYTES];
	struct rsk_indirect_entry e;
	uint32_t avail = 0;
	uint64_t at = 0;

	/* First the start and the reported number of units, then the buffer's content. */
	if (buf && rings && heard && size >= 2) {
		at = data[0];
		avail = data[1];
		memcpy(buf, data + 2,
		       size - 2 < RSK_INDIRECT_BYTES ? size - 2 : RSK_INDIRECT_BYTES);
	}
	while (buf && rings && heard && avail) {
		int units = rsk_indirect_take(buf, at, avail, STREAMS, RING, &e);

		if (units < 0)
			break;
		if (units == 0 || (uint32_t)units > avail)
			abort();
		/* As move_entry() does; the sanitizer checks source and destination. */
		if (e.sid == RSK_INDIRECT_WORDS) {
			const uint8_t *cells = buf + rsk_indirect_place(at + 1);
			int rc = rsk_control_msgs_put(heard, e.off, cells, e.bytes);

			if (rc == -EPROTO)
				break;
			if (rc < 0 && !rsk_control_msgs_take(heard, word))
				abort();
			if (rc < 0)
				continue; /* there is room now */
			at += (uint32_t)units;
			avail -= (uint32_t)units;
			continue;
		}
		memcpy(rings + (size_t)e.sid * RING + e.off, buf + rsk_indirect_place(at + 1),
		       e.bytes);
		if (e.bytes > RING - e.off)
			abort();
		at += (uint32_t)units;
		avail -= (uint32_t)units;
	}
	free(buf);
	free(rings);
	free(heard);
	return 0;
}
