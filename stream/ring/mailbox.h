/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h - both ends of a mailbox (layout and contents: <rsock/mailbox.h>): the owner publishes in its own memory
 * and tells nobody; the other side gets a copy, by RDMA READ or memcpy, and believes it when its hash is right.
 *
 *	start --get--> under way --completion--> take: empty -> nothing yet
 *						       torn  -> got again, RSK_MAILBOX_TRIES times, then -EBADMSG
 *						       old   -> nothing new
 *						       whole -> the message, once
 *
 * Nothing here waits, and nothing here allocates or calls the system but through the rail's ops.
 */
#ifndef RSK_MAILBOX_STATE_H
#define RSK_MAILBOX_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rsock/mailbox.h>

#include "fabric.h"
#include "hash.h"

#define RSK_MAILBOX_TRIES 8u /* gets for one start */

/* The owner's. One writer at a time, by the caller's lock; what it last said it knows from here, not from @at. */
struct rsk_mailbox {
	uint64_t *at; /* borrowed; of the segment */
	uint32_t bytes;
	uint64_t sequence; /* last published */
	const struct rsk_key *key;
};

/*
 * rsk_mailbox_init - a mailbox of @bytes (a multiple of 8, more than the frame, RSK_MAILBOX_BYTES at the most) at @at,
 * aligned to 8; empty from here on. @key, borrowed, is one of this owner and this other side alone.
 */
void rsk_mailbox_init(struct rsk_mailbox *box, void *at, uint32_t bytes, const struct rsk_key *key);
bool rsk_mailbox_validate(const struct rsk_mailbox *box);

/*
 * rsk_mailbox_publish - @message of @len bytes in the place of what is there. Words of 8 bytes, relaxed, the hash
 * last with release; whoever copies meanwhile gets a torn one. 0, -EMSGSIZE or -EINVAL (no such kind). Does not
 * block; in a signal handler: not while it may have interrupted itself.
 */
int rsk_mailbox_publish(struct rsk_mailbox *box, enum rsk_mailbox_kind kind, const void *message,
			uint32_t len);

/* What is believed. @message is borrowed until the next start; no more than @len bytes of it are anything. */
struct rsk_mailbox_view {
	uint64_t sequence;
	uint32_t len;
	uint16_t kind;
	const uint8_t *message;
};

enum rsk_mailbox_check {
	RSK_MAILBOX_EMPTY,
	RSK_MAILBOX_TORN, /* or changed, forged, another's */
	RSK_MAILBOX_WHOLE
};

/*
 * rsk_mailbox_check - what a copy of @bytes is, aligned to 8, that nobody else writes to; the view is filled where it is
 * whole. Pure; reads nothing outside, whatever it says.
 */
enum rsk_mailbox_check rsk_mailbox_check(const void *copy, uint32_t bytes,
					 const struct rsk_key *key, struct rsk_mailbox_view *view);

/* The other side's. One thread at a time; stays where it is while a get is under way, which ends in @copy. */
struct rsk_mailbox_reader {
	struct rsk_rail *rail; /* borrowed */
	uint64_t off;	       /* of the mailbox in the peer's segment */
	const struct rsk_key *key;
	uint32_t bytes, tag; /* of the rail's readers this one */
	enum {
		RSK_MAILBOX_IDLE,
		RSK_MAILBOX_FLYING,
		RSK_MAILBOX_LANDED
	} state;
	int status;
	uint32_t tries; /* of this start */
	uint64_t token; /* of the get under way */
	uint64_t known; /* newest sequence believed */
	uint64_t gets, empty, torn, old, whole, failed;
	_Alignas(8) uint8_t copy[RSK_MAILBOX_BYTES];
};

/* @tag: another one for each reader of that rail. */
void rsk_mailbox_reader_init(struct rsk_mailbox_reader *r, struct rsk_rail *rail, uint64_t off,
			     uint32_t bytes, const struct rsk_key *key, uint32_t tag);
bool rsk_mailbox_reader_validate(const struct rsk_mailbox_reader *r);

/*
 * rsk_mailbox_start - begins to obtain it. 0; -EBUSY: that has begun; -errno of the rail's get (-EAGAIN: it has too
 * much under way). Never blocks.
 */
int rsk_mailbox_start(struct rsk_mailbox_reader *r);

/* Is that completion this reader's? Then take() knows. */
bool rsk_mailbox_heard(struct rsk_mailbox_reader *r, const struct rsk_completion *done);

/*
 * rsk_mailbox_poll - takes completions of a rail whose gets are all of these readers'. Their number, or -errno of a
 * rail that broke, which is then the end of every get under way.
 */
int rsk_mailbox_poll(struct rsk_rail *rail, struct rsk_mailbox_reader *const *readers, uint32_t n);

/*
 * rsk_mailbox_take - 1: a message, newer than all before, in *view; 0: under way (poll, then again); -EAGAIN: nothing
 * newer there; -EBADMSG: torn each time; -EINVAL: not begun; other -errno: the rail's. But for 1 and 0, begin anew
 * when you like. Never blocks.
 */
int rsk_mailbox_take(struct rsk_mailbox_reader *r, struct rsk_mailbox_view *view);

/* Is it one of these, of the very length, with values that can be? 0 and the content, or -EBADMSG. */
int rsk_mailbox_link(const struct rsk_mailbox_view *view, struct rsk_mailbox_link *is);
int rsk_mailbox_credit(const struct rsk_mailbox_view *view, struct rsk_mailbox_credit *is);

/* The newest command that was accepted, and the words that came with it. Private to who executes it; zeroed: none. */
struct rsk_mailbox_pending {
	struct rsk_mailbox_command command;
	uint32_t words;
	bool armed; /* not done yet */
	uint64_t word[RSK_MAILBOX_WORDS];
};

/*
 * rsk_mailbox_accept - a command in a believed message: from here on it is the one that is due some time, or has
 * newer words. 0; -EALREADY: done, or older than the one that is known; -EBADMSG: none that can be.
 */
int rsk_mailbox_accept(struct rsk_mailbox_pending *p, const struct rsk_mailbox_view *view);

/* Its condition, as things are with the stream at @position: what to do, once; 0: nothing. Pure but for that. */
uint32_t rsk_mailbox_due(struct rsk_mailbox_pending *p, uint64_t position);

#endif
