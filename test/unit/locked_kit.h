/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * locked_kit.h - for tests of locked access: a record, its initiators, and a check that each
 * holder's share adds up to a plain sum.
 */
#ifndef RSK_LOCKED_KIT_H
#define RSK_LOCKED_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "dice.h"
#include "locked_kinds.h"
#include "reserve.h"

#define KIT_RETRIES 3u
#define KIT_BREAK_NS 1000u

/* A rail on shm without a link: the window is the record's memory itself. */
static inline void kit_rail(struct rsk_rail *rail, void *record, uint64_t bytes)
{
	memset(rail, 0, sizeof(*rail));
	rail->window = rail->segment = record;
	rail->window_bytes = rail->segment_bytes = bytes;
}

/* Repeats the validation until it sees the record whole at one moment. */
static inline void kit_whole(const void *record, uint32_t holders, struct rsk_locked_view *view)
{
	int rc;

	do
		rc = rsk_locked_validate(record, holders, view);
	while (rc == -EAGAIN);
	cr_assert_eq(rc, 0, "the record is not whole: %d", rc);
}

#endif
