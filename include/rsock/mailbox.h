/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h - the read path: a message that lies in its owner's segment, hash beside it, and that the other side
 * obtains (fabric op get). Source: CN102165739 (the owner updates in place; who obtained a copy checks that).
 *
 *	| sequence 8 | len 4 | kind 2 | zero 2 | hash 8 | message len |	little-endian, host = wire
 *
 * hash = XXH3-64(sequence, len, kind, zero, XXH3-64(message; secret); secret), as a slot's (slot.h), with kinds that
 * no slot has: one cannot stand in for the other. Sequences count from 1: memory that nobody published in has
 * sequence 0. Whatever lies behind the message up to the mailbox's end means nothing.
 *
 * Owner: writes all of it, in place, one update at a time, and reads nothing back. The other side: reads, by an
 * operation that may see any part of it before and any other after an update.
 */
#ifndef RSOCK_MAILBOX_H
#define RSOCK_MAILBOX_H

#include <stdint.h>

#define RSK_MAILBOX_FRAME_BYTES 24u
#define RSK_MAILBOX_BYTES 256u /* of a mailbox at most: what one get fetches on every fabric */
#define RSK_MAILBOX_MESSAGE (RSK_MAILBOX_BYTES - RSK_MAILBOX_FRAME_BYTES)

/* Above those of slots. */
enum rsk_mailbox_kind {
	RSK_MAILBOX_DATA = 16,	  /* bytes: the two ends know what they mean */
	RSK_MAILBOX_LINK = 17,	  /* struct rsk_mailbox_link */
	RSK_MAILBOX_CREDIT = 18,  /* struct rsk_mailbox_credit */
	RSK_MAILBOX_COMMAND = 19, /* struct rsk_mailbox_command, then 64-bit words */
	RSK_MAILBOX_KINDS
};

struct rsk_mailbox_head {
	uint64_t sequence;
	uint32_t len;
	uint16_t kind; /* enum rsk_mailbox_kind */
	uint16_t zero;
	uint64_t hash;
};
_Static_assert(sizeof(struct rsk_mailbox_head) == RSK_MAILBOX_FRAME_BYTES, "mailbox head");

/* How the owner finds the link: by which of its rails nothing can come to it any more. */
#define RSK_MAILBOX_RAILS 4u
struct rsk_mailbox_link {
	uint32_t epoch;			    /* of the rails that it speaks of; from 1 */
	uint32_t closed[RSK_MAILBOX_RAILS]; /* newest life whose queue pair is closed there; 0: none */
	uint32_t zero;
};
_Static_assert(sizeof(struct rsk_mailbox_link) == 24, "mailbox: link");

/* How far a receiver has read: what it says in its rx_word as well, more seldom; and from where a sender would go on. */
struct rsk_mailbox_credit {
	uint64_t pos;	/* of the stream, next byte; also within a slot */
	uint64_t cells; /* below this index the ring is free again */
	uint32_t gen;	/* of the promotion, from 1 */
	uint32_t zero;
};
_Static_assert(sizeof(struct rsk_mailbox_credit) == 24, "mailbox: credit");

/* Conditional commands: "when this is so, do what". */
enum rsk_mailbox_when {
	RSK_MAILBOX_ALWAYS = 1,
	RSK_MAILBOX_POSITION = 2, /* the stream has reached position `value` */
	RSK_MAILBOX_EQUALS = 3,	  /* word `word` of the message is `value` */
	RSK_MAILBOX_EXCEEDS = 4,  /* is more than `value` */
	RSK_MAILBOX_WHENS
};

/* The words that conditions are about follow; the owner may change them under the same number. */
struct rsk_mailbox_command {
	uint32_t number; /* from 1; newer is more: takes the place of older ones */
	uint32_t what;	 /* not 0; the two ends know what it means */
	uint16_t when;	 /* enum rsk_mailbox_when */
	uint16_t word;	 /* EQUALS, EXCEEDS: which one; else 0 */
	uint32_t zero;
	uint64_t value; /* ALWAYS: 0 */
};
_Static_assert(sizeof(struct rsk_mailbox_command) == 24, "mailbox: command");

#define RSK_MAILBOX_WORDS ((RSK_MAILBOX_MESSAGE - (uint32_t)sizeof(struct rsk_mailbox_command)) / 8)

#endif
