/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_msgs.h - queues of the control messages that the progress threads of a link send each
 * other by a rail, in its indirect buffer, between the cells of streams. A message has
 * RSK_INDIRECT_WORD_BYTES and may be sent in consecutive pieces. Used by flush.c, poll.c and
 * rail.c. Pure; the caller's lock protects it.
 */
#ifndef RSK_CONTROL_MSGS_H
#define RSK_CONTROL_MSGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indirect.h"

/* Maximum of received messages that were not taken yet; more of them wait in the indirect buffer */
#define RSK_CONTROL_MSGS_IN 8u
#define RSK_CONTROL_MSGS_OUT (64u << 20) /* maximum of bytes that wait to be sent */

/* Messages to send: bytes [sent, bytes) of @at, which is owned. All zero: none. */
struct rsk_control_msgs_out {
	uint8_t *at;
	size_t sent, bytes, room;
};

/* Messages received: @n complete ones, and @bytes of the next. All zero: none. */
struct rsk_control_msgs_in {
	uint32_t n, bytes;
	uint8_t word[RSK_CONTROL_MSGS_IN][RSK_INDIRECT_WORD_BYTES];
};

/*
 * Queues a copy of the message, padded with zeros. Allocates. Returns 0; -EINVAL: empty or too
 * long; -ENOMEM.
 */
int rsk_control_msgs_say(struct rsk_control_msgs_out *w, const void *word, size_t bytes);
/*
 * Returns the next bytes to send, borrowed, or NULL. They start at *off of their message and reach
 * to its end.
 */
const uint8_t *rsk_control_msgs_next(const struct rsk_control_msgs_out *w, uint32_t *off,
				     uint32_t *bytes);
void rsk_control_msgs_sent(struct rsk_control_msgs_out *w, uint32_t bytes);
void rsk_control_msgs_free(struct rsk_control_msgs_out *w);

/*
 * Adds a piece that starts at @off of a message. @off and @bytes lie within a message. Returns 0;
 * -ENOBUFS: the queue is full, nothing was taken; -EPROTO: the piece is not the next one.
 */
int rsk_control_msgs_put(struct rsk_control_msgs_in *w, uint32_t off, const uint8_t *cells,
			 uint32_t bytes);
/* Takes the first complete message; returns false if there is none. */
bool rsk_control_msgs_take(struct rsk_control_msgs_in *w,
			   uint8_t word[static RSK_INDIRECT_WORD_BYTES]);

#endif
