/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mailbox.h - both ends of a mailbox (layout and contents: <rsock/mailbox.h>). The owner publishes
 * in its own memory and notifies no one; the reader obtains a copy by RDMA READ or memcpy, and
 * accepts it if its hash is right.
 *
 *	start --get--> under way --completion--> take: empty -> nothing yet
 *						       torn  -> read again, RSK_MAILBOX_TRIES times,
 *								then -EBADMSG
 *						       old   -> nothing new
 *						       whole -> the message, once
 *
 * rx.c publishes credit in a mailbox; the progress thread reads those of the peer. Nothing here
 * waits, allocates or makes a system call, except through the rail's ops.
 */
#ifndef RSK_MAILBOX_STATE_H
#define RSK_MAILBOX_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rsock/mailbox.h>

#include "fabric.h"
#include "hash.h"

#define RSK_MAILBOX_TRIES 8u /* gets per start */

/*
 * The owner's side. One writer at a time, by the caller's lock. The last published sequence is kept
 * here and not read back from @at, which the peer may be able to write.
 */
struct rsk_mailbox {
	uint64_t *at; /* borrowed; in the owner's segment */
	uint32_t bytes;
	uint64_t sequence; /* last published */
	const struct rsk_key *key;
};

/*
 * rsk_mailbox_init - a mailbox of @bytes (a multiple of 8, more than the frame, at most
 * RSK_MAILBOX_BYTES) at @at, which is aligned to 8 bytes. It is empty afterwards. @key is borrowed,
 * and used for this owner and this reader only.
 */
void rsk_mailbox_init(struct rsk_mailbox *box, void *at, uint32_t bytes, const struct rsk_key *key);
bool rsk_mailbox_validate(const struct rsk_mailbox *box);

/*
 * rsk_mailbox_publish - replaces the content by @message of @len bytes. Stores words of 8 bytes,
 * relaxed, and the hash last with release; a reader that copies meanwhile gets a torn copy. Returns
 * 0, -EMSGSIZE, or -EINVAL (unknown kind). Does not block. A signal handler may call it only if it
 * cannot have interrupted another call on the same mailbox.
 */
int rsk_mailbox_publish(struct rsk_mailbox *box, enum rsk_mailbox_kind kind, const void *message,
			uint32_t len);

/*
 * A validated message. @message is borrowed until the next start; only its first @len bytes are
 * valid.
 */
struct rsk_mailbox_view {
	uint64_t sequence;
	uint32_t len;
	uint16_t kind;
	const uint8_t *message;
};

enum rsk_mailbox_check {
	RSK_MAILBOX_EMPTY,
	RSK_MAILBOX_TORN, /* or changed, forged, or written for another reader */
	RSK_MAILBOX_WHOLE
};

/*
 * rsk_mailbox_check - checks a copy of @bytes, aligned to 8 bytes, that nothing else writes to.
 * Fills *view if it is whole. Pure; reads only inside the copy, whatever the copy contains.
 */
enum rsk_mailbox_check rsk_mailbox_check(const void *copy, uint32_t bytes,
					 const struct rsk_key *key, struct rsk_mailbox_view *view);

/*
 * The reader's side. One thread at a time. It must not move in memory while a get is under way,
 * since the get writes to @copy.
 */
struct rsk_mailbox_reader {
	struct rsk_rail *rail; /* borrowed */
	uint64_t off;	       /* of the mailbox in the peer's segment */
	const struct rsk_key *key;
	uint32_t bytes, tag; /* @tag identifies this reader among those of the rail */
	enum {
		RSK_MAILBOX_IDLE,
		RSK_MAILBOX_FLYING,
		RSK_MAILBOX_LANDED
	} state;
	int status;
	uint32_t tries; /* since the last start */
	uint64_t token; /* of the get under way */
	uint64_t known; /* newest sequence accepted */
	uint64_t gets, empty, torn, old, whole, failed;
	_Alignas(8) uint8_t copy[RSK_MAILBOX_BYTES];
};

/* @tag is unique among the readers of @rail. */
void rsk_mailbox_reader_init(struct rsk_mailbox_reader *r, struct rsk_rail *rail, uint64_t off,
			     uint32_t bytes, const struct rsk_key *key, uint32_t tag);
bool rsk_mailbox_reader_validate(const struct rsk_mailbox_reader *r);

/*
 * rsk_mailbox_start - begins a read. Returns 0; -EBUSY: a read is already under way; -EOPNOTSUPP:
 * the rail has no get; -errno of the rail's get (-EAGAIN: too many operations are under way). Never
 * blocks.
 */
int rsk_mailbox_start(struct rsk_mailbox_reader *r);

/*
 * Handles completion @done of the rail. Returns whether it belongs to this reader, and then
 * rsk_mailbox_take() has the result.
 */
bool rsk_mailbox_heard(struct rsk_mailbox_reader *r, const struct rsk_completion *done);

/*
 * rsk_mailbox_poll - takes completions of a rail whose gets all belong to @readers. Returns how
 * many belonged to one of them, or -errno of a rail that broke; that ends every get under way.
 */
int rsk_mailbox_poll(struct rsk_rail *rail, struct rsk_mailbox_reader *const *readers, uint32_t n);

/*
 * rsk_mailbox_take - the result of a read. Returns 1: a message newer than all before, in *view; 0:
 * still under way (poll, then call again); -EAGAIN: nothing new; -EBADMSG: torn each time; -EINVAL:
 * not started; other -errno: the rail's. After any result but 0 the next read has to be started.
 * Never blocks.
 */
int rsk_mailbox_take(struct rsk_mailbox_reader *r, struct rsk_mailbox_view *view);

/*
 * Decode a message of that kind. Return 0 and the content, or -EBADMSG if the kind, the length or a
 * value is wrong.
 */
int rsk_mailbox_link(const struct rsk_mailbox_view *view, struct rsk_mailbox_link *is);
int rsk_mailbox_credit(const struct rsk_mailbox_view *view, struct rsk_mailbox_credit *is);

#endif
