/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox_kit.h - for tests of the mailbox: a mailbox in memory of exactly its size, and messages
 * that follow from their sequence number.
 */
#ifndef RSK_TEST_MAILBOX_KIT_H
#define RSK_TEST_MAILBOX_KIT_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "dice.h"
#include "mailbox.h"

#define KEY 77u

/* Writes message @sequence of way @way into @message. Returns its length. */
static inline uint32_t said(uint32_t way, uint64_t sequence, uint32_t room, uint8_t *message)
{
	uint64_t state = sequence;
	uint32_t len = (uint32_t)(dice_roll(&state) % (room + 1));

	for (uint32_t i = 0; i < len; i++)
		message[i] = dice_byte(way, sequence * 1000 + i);
	return len;
}

static inline bool is_what_was_said(uint32_t way, uint32_t room,
				    const struct rsk_mailbox_view *view)
{
	uint8_t message[RSK_MAILBOX_MESSAGE];
	uint32_t len = said(way, view->sequence, room, message);

	return view->kind == RSK_MAILBOX_DATA && view->len == len &&
	       memcmp(view->message, message, len) == 0;
}

static inline void say_next(struct rsk_mailbox *box, uint32_t way)
{
	uint32_t room = box->bytes - RSK_MAILBOX_FRAME_BYTES;
	uint8_t message[RSK_MAILBOX_MESSAGE];
	uint32_t len = said(way, box->sequence + 1, room, message);

	if (rsk_mailbox_publish(box, RSK_MAILBOX_DATA, message, len) != 0)
		cr_assert_fail("message %llu", (unsigned long long)box->sequence);
}

#endif
