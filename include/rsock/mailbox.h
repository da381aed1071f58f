/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h - layout of the read path: a message in its owner's segment, with its hash, that the
 * peer obtains by the fabric's get(). stream/ring/mailbox.c implements it. Source: CN102165739 (the
 * owner updates in place; the end that obtained a copy checks it).
 *
 *	| sequence 8 | len 4 | kind 2 | zero 2 | hash 8 | message len |	little-endian, host = wire
 *
 * hash = XXH3-64(sequence, len, kind, zero, XXH3-64(message; secret); secret), as a slot's
 * (slot.h), with kinds that no slot has, so that neither is accepted as the other. Sequences count
 * from 1; memory in which nothing was published has sequence 0. Bytes after the message, up to the
 * mailbox's end, have no meaning.
 *
 * The owner writes all of it, in place, one update at a time, and reads nothing back. The peer
 * reads it by an operation that may see any part before and any other part after an update.
 */
#ifndef RSOCK_MAILBOX_H
#define RSOCK_MAILBOX_H

#include <stdint.h>

#define RSK_MAILBOX_FRAME_BYTES 24u
/* Maximum size of a mailbox: one get fetches that much on every fabric. */
#define RSK_MAILBOX_BYTES 256u
#define RSK_MAILBOX_MESSAGE (RSK_MAILBOX_BYTES - RSK_MAILBOX_FRAME_BYTES)

/* Greater than the kinds of slots. */
enum rsk_mailbox_kind {
	RSK_MAILBOX_DATA = 16,	 /* bytes that only the two ends interpret */
	RSK_MAILBOX_LINK = 17,	 /* struct rsk_mailbox_link */
	RSK_MAILBOX_CREDIT = 18, /* struct rsk_mailbox_credit */
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

/* State of the link as its owner sees it: the rails by which nothing can come to it any more. */
#define RSK_MAILBOX_RAILS 4u
struct rsk_mailbox_link {
	uint32_t epoch; /* of the rails that it is about; from 1 */
	/* Newest generation of the rail whose queue pair is closed there; 0: none. */
	uint32_t closed[RSK_MAILBOX_RAILS];
	uint32_t zero;
};
_Static_assert(sizeof(struct rsk_mailbox_link) == 24, "mailbox: link");

/*
 * How far a receiver has read, and where a sender would continue. The RX control word says the
 * same, less often.
 */
struct rsk_mailbox_credit {
	uint64_t pos;	/* next byte of the stream; also within a slot */
	uint64_t cells; /* cells below this index are free again */
	uint32_t gen;	/* of the promotion, from 1 */
	uint32_t zero;
};
_Static_assert(sizeof(struct rsk_mailbox_credit) == 24, "mailbox: credit");

#endif
