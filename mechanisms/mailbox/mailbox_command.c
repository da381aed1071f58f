// SPDX-License-Identifier: BSD-2-Clause
/* mailbox_command.c - accepts conditional commands, and evaluates them: see mailbox_command.h. */
#include "mailbox_command.h"

#include <errno.h>
#include <string.h>

static bool command_ok(const struct rsk_mailbox_command *c, uint32_t words)
{
	if (!c->number || !c->what || c->zero)
		return false;
	switch (c->when) {
	case RSK_MAILBOX_ALWAYS:
		return !c->word && !c->value;
	case RSK_MAILBOX_POSITION:
		return !c->word;
	case RSK_MAILBOX_EQUALS:
	case RSK_MAILBOX_EXCEEDS:
		return c->word < words;
	default:
		return false;
	}
}

int rsk_mailbox_command_accept(struct rsk_mailbox_pending *p, const struct rsk_mailbox_view *view)
{
	struct rsk_mailbox_command c;
	uint32_t bytes;

	if (view->kind != RSK_MAILBOX_DATA || view->len < sizeof(c))
		return -EBADMSG;
	bytes = view->len - (uint32_t)sizeof(c);
	memcpy(&c, view->message, sizeof(c));
	if (bytes % 8 || bytes > sizeof(p->word) || !command_ok(&c, bytes / 8))
		return -EBADMSG;
	if (c.number < p->command.number || (c.number == p->command.number && !p->armed))
		return -EALREADY;
	/* The meaning of a command number is fixed once it was accepted. */
	if (c.number == p->command.number && memcmp(&c, &p->command, sizeof(c)) != 0)
		return -EBADMSG;
	p->command = c;
	p->words = bytes / 8;
	memcpy(p->word, view->message + sizeof(c), bytes);
	p->armed = true;
	return 0;
}

uint32_t rsk_mailbox_command_due(struct rsk_mailbox_pending *p, uint64_t position)
{
	const struct rsk_mailbox_command *c = &p->command;
	bool so = false;

	if (!p->armed)
		return 0;
	if (c->when == RSK_MAILBOX_ALWAYS)
		so = true;
	else if (c->when == RSK_MAILBOX_POSITION)
		so = position >= c->value;
	else if (c->word < p->words && c->when == RSK_MAILBOX_EQUALS)
		so = p->word[c->word] == c->value;
	else if (c->word < p->words && c->when == RSK_MAILBOX_EXCEEDS)
		so = p->word[c->word] > c->value;
	if (!so)
		return 0;
	p->armed = false;
	return c->what;
}
