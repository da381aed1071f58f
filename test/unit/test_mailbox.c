// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_mailbox.c - tests the read path: a reader obtains each published message whole, the newest
 * one, once.
 */
#include "chaos.h"
#include "mailbox_kit.h"

#define BYTES 4096u
#define OFF 512u

/* Two segments, and a rail from @here to @there, where the owner is. */
struct bed {
	_Alignas(8) uint8_t here[BYTES], there[BYTES];
	struct rsk_chaos chaos;
	struct rsk_key key;
	struct rsk_mailbox box;
	struct rsk_mailbox_reader reader;
};

static const struct rsk_chaos_config tame;
static const struct rsk_chaos_config slow = { .ppm = { [RSK_CHAOS_DELAY] = 1000000 },
					      .delay_steps = 5 };

static void bed_open(struct bed *b, const struct rsk_chaos_config *config)
{
	memset(b, 0, sizeof(*b));
	memset(b->there, 0x5a, sizeof(b->there));
	cr_assert_eq(rsk_chaos_open(&b->chaos, config, 1, b->here, b->there, BYTES), 0);
	rsk_key_init(&b->key, KEY);
	rsk_mailbox_init(&b->box, b->there + OFF, 128, &b->key);
	rsk_mailbox_reader_init(&b->reader, &b->chaos.rail, OFF, 128, &b->key, 7);
	cr_assert(rsk_mailbox_validate(&b->box));
	cr_assert(rsk_mailbox_reader_validate(&b->reader));
}

static int poll_it(struct bed *b)
{
	struct rsk_mailbox_reader *all[] = { &b->reader };

	return rsk_mailbox_poll(&b->chaos.rail, all, 1);
}

/* Starts a read and drives it to its end. */
static int obtain(struct bed *b, struct rsk_mailbox_view *view)
{
	int rc = rsk_mailbox_start(&b->reader);

	while (rc == 0) {
		rsk_chaos_step(&b->chaos);
		poll_it(b);
		rc = rsk_mailbox_take(&b->reader, view);
		cr_assert(rsk_mailbox_reader_validate(&b->reader));
	}
	return rc;
}

Test(mailbox, nothing_was_published)
{
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &tame);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), -EINVAL);
	cr_assert_eq(obtain(&b, &view), -EAGAIN);
	cr_assert_eq(b.reader.empty, 1);
	cr_assert_eq(b.reader.torn, 0);
	rsk_chaos_close(&b.chaos);
}

Test(mailbox, the_newest_is_obtained_once)
{
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &slow);
	for (uint32_t i = 1; i <= 200; i++) {
		say_next(&b.box, 1);
		if (i % 3)
			continue; /* overwritten before it was read */
		cr_assert_eq(obtain(&b, &view), 1);
		cr_assert_eq(view.sequence, i);
		cr_assert(is_what_was_said(1, 128 - RSK_MAILBOX_FRAME_BYTES, &view));
		cr_assert_eq(obtain(&b, &view), -EAGAIN);
	}
	cr_assert_eq(b.reader.whole, 66);
	cr_assert_eq(b.reader.old, 66);
	rsk_chaos_close(&b.chaos);
}

/* start, take and poll return at once, whatever is under way. */
Test(mailbox, nothing_waits)
{
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &slow);
	say_next(&b.box, 1);
	cr_assert_eq(rsk_mailbox_start(&b.reader), 0);
	cr_assert_eq(rsk_mailbox_start(&b.reader), -EBUSY);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), 0);
	cr_assert_eq(poll_it(&b), 0);
	rsk_chaos_settle(&b.chaos);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), 0, "before its completion was taken");
	cr_assert_eq(poll_it(&b), 1);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), 1);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), -EINVAL);
	rsk_chaos_close(&b.chaos);
}

Test(mailbox, readers_of_one_rail_are_told_apart)
{
	enum {
		READERS = 20
	};
	struct rsk_mailbox_reader reader[READERS], *all[READERS];
	struct rsk_mailbox box[READERS];
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &slow);
	for (uint32_t i = 0; i < READERS; i++) {
		rsk_mailbox_init(&box[i], b.there + 128ul * i, 128, &b.key);
		rsk_mailbox_reader_init(&reader[i], &b.chaos.rail, 128ul * i, 128, &b.key, i);
		all[i] = &reader[i];
		say_next(&box[i], i);
		cr_assert_eq(rsk_mailbox_start(&reader[i]), 0);
	}
	rsk_chaos_settle(&b.chaos);
	cr_assert_eq(rsk_mailbox_poll(&b.chaos.rail, all, READERS), READERS);
	for (uint32_t i = 0; i < READERS; i++) {
		cr_assert_eq(rsk_mailbox_take(&reader[i], &view), 1);
		cr_assert(is_what_was_said(i, 128 - RSK_MAILBOX_FRAME_BYTES, &view));
	}
	rsk_chaos_close(&b.chaos);
}

Test(mailbox, what_does_not_go_in)
{
	uint8_t message[RSK_MAILBOX_BYTES] = { 1 };
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &tame);
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_DATA, message, 105), -EMSGSIZE);
	cr_assert_eq(rsk_mailbox_publish(&b.box, (enum rsk_mailbox_kind)RSK_SLOT_DATA, message, 8),
		     -EINVAL);
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_KINDS, message, 8), -EINVAL);
	cr_assert_eq(obtain(&b, &view), -EAGAIN);
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_DATA, message, 104), 0);
	for (uint32_t i = 0; i < BYTES; i++)
		if (i < OFF || i >= OFF + 128)
			cr_assert_eq(b.there[i], 0x5a, "beyond the mailbox: %u", i);
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_DATA, NULL, 0), 0);
	cr_assert_eq(obtain(&b, &view), 1);
	cr_assert_eq(view.len, 0);
	rsk_chaos_close(&b.chaos);
}

/*
 * The rail breaks: every get ends with its error, and none that completes later is taken for a new
 * one.
 */
Test(mailbox, a_broken_rail_ends_it)
{
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &slow);
	say_next(&b.box, 1);
	cr_assert_eq(rsk_mailbox_start(&b.reader), 0);
	rsk_chaos_break(&b.chaos);
	cr_assert_eq(poll_it(&b), -ENETDOWN);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), -ENETDOWN);
	cr_assert_eq(rsk_mailbox_start(&b.reader), -ENETDOWN);
	cr_assert_eq(b.reader.failed, 1);
	rsk_chaos_repair(&b.chaos);
	cr_assert_eq(rsk_mailbox_start(&b.reader), 0);
	cr_assert_not(rsk_mailbox_heard(&b.reader,
					&(struct rsk_completion){ .token = 7ull << 32 | 1 }),
		      "the broken rail's");
	rsk_chaos_settle(&b.chaos);
	cr_assert_eq(poll_it(&b), 1);
	cr_assert_eq(rsk_mailbox_take(&b.reader, &view), 1);
	rsk_chaos_close(&b.chaos);
}

Test(mailbox, contents)
{
	const struct rsk_mailbox_link link = { .epoch = 3, .closed = { 1, 0, UINT32_MAX, 9 } };
	const struct rsk_mailbox_credit credit = { .pos = 5, .cells = 1ull << 40, .gen = 2 };
	struct rsk_mailbox_link l;
	struct rsk_mailbox_credit c;
	struct rsk_mailbox_view view;
	struct bed b;

	bed_open(&b, &tame);
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_LINK, &link, sizeof(link)), 0);
	cr_assert_eq(obtain(&b, &view), 1);
	cr_assert_eq(rsk_mailbox_link(&view, &l), 0);
	cr_assert_eq(memcmp(&l, &link, sizeof(l)), 0);
	cr_assert_eq(rsk_mailbox_credit(&view, &c), -EBADMSG, "of the same length");
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_CREDIT, &credit, sizeof(credit)), 0);
	cr_assert_eq(obtain(&b, &view), 1);
	cr_assert_eq(rsk_mailbox_credit(&view, &c), 0);
	cr_assert_eq(memcmp(&c, &credit, sizeof(c)), 0);
	cr_assert_eq(rsk_mailbox_link(&view, &l), -EBADMSG);
	rsk_chaos_close(&b.chaos);
}
