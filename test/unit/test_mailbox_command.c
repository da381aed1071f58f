// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_mailbox_command.c - tests conditional commands in mailboxes (mechanisms/mailbox_command.h):
 * a command waits for its condition, and is executed once.
 */
#include "mailbox_command.h"
#include "mailbox_kit.h"

/* A mailbox, and the copy of it that a reader has obtained. */
struct bed {
	_Alignas(8) uint8_t at[128], copy[128];
	struct rsk_key key;
	struct rsk_mailbox box;
};

static void bed_open(struct bed *b)
{
	memset(b, 0, sizeof(*b));
	rsk_key_init(&b->key, KEY);
	rsk_mailbox_init(&b->box, b->at, sizeof(b->at), &b->key);
}

static int obtain(struct bed *b, struct rsk_mailbox_view *view)
{
	memcpy(b->copy, b->at, sizeof(b->copy));
	return rsk_mailbox_check(b->copy, sizeof(b->copy), &b->key, view) == RSK_MAILBOX_WHOLE;
}

struct order {
	struct rsk_mailbox_command c;
	uint64_t word[3];
};

/* Publishes, obtains and accepts a command. */
static int command(struct bed *b, struct rsk_mailbox_pending *p, const struct order *o)
{
	struct rsk_mailbox_view view;
	int rc;

	cr_assert_eq(rsk_mailbox_publish(&b->box, RSK_MAILBOX_DATA, o, sizeof(*o)), 0);
	rc = obtain(b, &view);
	return rc == 1 ? rsk_mailbox_command_accept(p, &view) : rc;
}

Test(mailbox_command, a_command_is_due_at_its_position_once)
{
	struct rsk_mailbox_pending p = { .armed = false };
	struct order o = { .c = { 1, 42, RSK_MAILBOX_POSITION, 0, 0, 1000 } };
	struct bed b;

	bed_open(&b);
	cr_assert_eq(rsk_mailbox_command_due(&p, UINT64_MAX), 0, "there is none");
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 999), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 1000), 42);
	cr_assert_eq(rsk_mailbox_command_due(&p, 1001), 0, "twice");
	/* The same command in a newer message is already done. */
	cr_assert_eq(command(&b, &p, &o), -EALREADY);
	cr_assert_eq(rsk_mailbox_command_due(&p, 1002), 0);
	o.c = (struct rsk_mailbox_command){ 2, 43, RSK_MAILBOX_ALWAYS, 0, 0, 0 };
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 43);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 0);
	o.c.number = 1;
	cr_assert_eq(command(&b, &p, &o), -EALREADY, "an older one");
}

Test(mailbox_command, a_command_is_due_by_the_data_beside_it)
{
	struct rsk_mailbox_pending p = { .armed = false };
	struct order o = { .c = { 1, 5, RSK_MAILBOX_EXCEEDS, 2, 0, 10 }, .word = { 99, 99, 10 } };
	struct bed b;

	bed_open(&b);
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, UINT64_MAX), 0);
	o.word[2] = 11; /* the owner's data change, the command does not */
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 5);
	o.word[2] = 12;
	cr_assert_eq(command(&b, &p, &o), -EALREADY);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 0);
	o = (struct order){ .c = { 2, 6, RSK_MAILBOX_EQUALS, 0, 0, 7 }, .word = { 8 } };
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 0);
	o.c.value = 8;
	cr_assert_eq(command(&b, &p, &o), -EBADMSG, "changed under its number");
	o.c.value = 7;
	o.word[0] = 7;
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 0), 6);
}

Test(mailbox_command, a_newer_command_takes_the_place_of_an_older_one)
{
	struct rsk_mailbox_pending p = { .armed = false };
	struct order o = { .c = { 1, 5, RSK_MAILBOX_POSITION, 0, 0, 10 } };
	struct bed b;

	bed_open(&b);
	cr_assert_eq(command(&b, &p, &o), 0);
	o.c = (struct rsk_mailbox_command){ 2, 6, RSK_MAILBOX_POSITION, 0, 0, 20 };
	cr_assert_eq(command(&b, &p, &o), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 15), 0);
	cr_assert_eq(rsk_mailbox_command_due(&p, 20), 6);
}

Test(mailbox_command, commands_that_cannot_be)
{
	static const struct rsk_mailbox_command none[] = {
		{ 0, 1, RSK_MAILBOX_ALWAYS, 0, 0, 0 },
		{ 1, 0, RSK_MAILBOX_ALWAYS, 0, 0, 0 },
		{ 1, 1, 0, 0, 0, 0 },
		{ 1, 1, RSK_MAILBOX_WHENS, 0, 0, 0 },
		{ 1, 1, RSK_MAILBOX_ALWAYS, 0, 1, 0 },
		{ 1, 1, RSK_MAILBOX_ALWAYS, 0, 0, 1 },
		{ 1, 1, RSK_MAILBOX_POSITION, 1, 0, 0 },
		{ 1, 1, RSK_MAILBOX_EQUALS, 3, 0, 0 },
		{ 1, 1, RSK_MAILBOX_EXCEEDS, 3, 0, 0 },
		{ 1, 1, RSK_MAILBOX_EXCEEDS, 65535, 0, 0 },
		{ 1, 1, RSK_MAILBOX_POSITION, 0, 9, 1 },
	};
	struct rsk_mailbox_pending p = { .armed = false };
	struct rsk_mailbox_view view;
	struct order o = { .word = { 0 } };
	struct bed b;

	bed_open(&b);
	for (uint32_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		o.c = none[i];
		cr_assert_eq(command(&b, &p, &o), -EBADMSG, "%u", i);
		cr_assert_eq(rsk_mailbox_command_due(&p, UINT64_MAX), 0);
	}
	o.c = (struct rsk_mailbox_command){ 1, 1, RSK_MAILBOX_ALWAYS, 0, 0, 0 };
	for (uint32_t len = 0; len <= sizeof(o); len++) {
		bool can = len >= sizeof(o.c) && len % 8 == 0;

		o.c.number = len + 1;
		cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_DATA, &o, len), 0);
		cr_assert_eq(obtain(&b, &view), 1);
		cr_assert_eq(rsk_mailbox_command_accept(&p, &view), can ? 0 : -EBADMSG, "length %u",
			     len);
		cr_assert_eq(rsk_mailbox_command_due(&p, 0), can ? 1 : 0);
	}
	o.c.number = 100;
	cr_assert_eq(rsk_mailbox_publish(&b.box, RSK_MAILBOX_LINK, &o, sizeof(o)), 0);
	cr_assert_eq(obtain(&b, &view), 1);
	cr_assert_eq(rsk_mailbox_command_accept(&p, &view), -EBADMSG, "of another kind");
}
