// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_locked.c - fuzzes locked access to a record as a hostile process leaves it
 * (fabric/locked.h), with any operation. Byte 0: the slots that get a right hash, so that the code
 * behind the check is reached; then the operation; then the record.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "locked_kinds.h"
#include "locked_slots.h"
#include "reserve.h"

#define HOLDERS 2u
#define BYTES RSK_LOCKED_BYTES(HOLDERS)

struct input {
	uint8_t right, kind, me, who, holders, at, n, retries;
	uint64_t value, expected;
	int64_t delta[RSK_LOCKED_SHARES];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rsk_locked_view v;
	struct rsk_locker by;
	struct rsk_locked op;
	struct input in;
	uint64_t was, is;
	uint8_t *record;
	int rc;

	if (size < sizeof(in))
		return 0;
	memcpy(&in, data, sizeof(in));
	data += sizeof(in);
	size -= sizeof(in);
	record = aligned_alloc(64, BYTES); /* not one byte more */
	if (!record)
		abort();
	memset(record, 0, BYTES);
	memcpy(record, data, size < BYTES ? size : BYTES);
	locked_slots_right(record, 2 * HOLDERS, in.right);
	rsk_locker_init(&by, 0, in.holders, in.me, 1);
	op = (struct rsk_locked){ .by = &by,
				  .kind = in.kind,
				  .who = in.who,
				  .at = in.at,
				  .n = in.n,
				  .retries = in.retries,
				  .words = { in.value },
				  .expected = in.expected };
	memcpy(op.delta, in.delta, sizeof(op.delta));
	memcpy(&was, record, sizeof(was));
	rc = rsk_locked_kinds_begin(&op, BYTES);
	if (rc == 0) {
		rc = rsk_locked_kinds_run(record, &op);
		memcpy(&is, record, sizeof(is));
		if (rc < 0 && is != was)
			abort(); /* refused, but something was changed */
		for (uint32_t i = 0;
		     rc == 0 && is != was && op.kind == RSK_LOCKED_SHARE && i < RSK_LOCKED_SHARES;
		     i++)
			if (op.delta[i] > 0 &&
			    by.view.now.shared[i] > by.view.now.shared[RSK_LOCKED_LIMIT + i])
				abort(); /* above the limit */
		if (rc == 0 && rsk_locked_holder(was) && rsk_locked_holder(was) != by.me &&
		    op.kind != RSK_LOCKED_BREAK && is != was)
			abort(); /* another holder had the lock */
	}
	rsk_locked_validate(record, HOLDERS, &v);
	free(record);
	return 0;
}
