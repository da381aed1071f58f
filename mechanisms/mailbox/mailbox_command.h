/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox_command.h - conditional commands in mailboxes (stream/ring/mailbox.h): the owner
 * publishes a command as a message of kind RSK_MAILBOX_DATA, and the end that obtains it executes
 * it when its condition holds. Source: CN102165739. No code of the library calls this:
 * docs/adr/mechanisms.md.
 */
#ifndef RSK_MAILBOX_COMMAND_H
#define RSK_MAILBOX_COMMAND_H

#include "mailbox.h"

/* Conditional commands: "when this holds, do what". */
enum rsk_mailbox_when {
	RSK_MAILBOX_ALWAYS = 1,
	RSK_MAILBOX_POSITION = 2, /* the stream has reached position @value */
	RSK_MAILBOX_EQUALS = 3,	  /* word @word of the message equals @value */
	RSK_MAILBOX_EXCEEDS = 4,  /* it is greater than @value */
	RSK_MAILBOX_WHENS
};

/*
 * A command; the words that its condition refers to follow. The owner may change the words under
 * the same number.
 */
struct rsk_mailbox_command {
	uint32_t number; /* from 1; a greater number replaces older commands */
	uint32_t what;	 /* not 0; only the two ends interpret it */
	uint16_t when;	 /* enum rsk_mailbox_when */
	uint16_t word;	 /* EQUALS, EXCEEDS: index of the word; else 0 */
	uint32_t zero;
	uint64_t value; /* ALWAYS: 0 */
};
_Static_assert(sizeof(struct rsk_mailbox_command) == 24, "mailbox: command");

#define RSK_MAILBOX_WORDS ((RSK_MAILBOX_MESSAGE - (uint32_t)sizeof(struct rsk_mailbox_command)) / 8)

/*
 * The newest command that was accepted, and the words that came with it. Private to the process
 * that executes it; zeroed: none.
 */
struct rsk_mailbox_pending {
	struct rsk_mailbox_command command;
	uint32_t words;
	bool armed; /* accepted and not yet executed */
	uint64_t word[RSK_MAILBOX_WORDS];
};

/*
 * rsk_mailbox_command_accept - stores the command of a validated message, or newer words for the
 * command that is already stored. Returns 0; -EALREADY: it was executed, or is older than the
 * stored one; -EBADMSG: not a valid command.
 */
int rsk_mailbox_command_accept(struct rsk_mailbox_pending *p, const struct rsk_mailbox_view *view);

/*
 * Evaluates the command's condition, with the stream at @position. Returns what to do, once; 0:
 * nothing. Pure, except that it disarms the command.
 */
uint32_t rsk_mailbox_command_due(struct rsk_mailbox_pending *p, uint64_t position);

#endif
