/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_msgs.h - what the two keepers of a link say to each other by a rail, in its indirect buffer, between the cells of
 * streams: messages of RSK_INDIRECT_WORD_BYTES, whose pieces follow each other. Pure; by the caller's lock.
 */
#ifndef RSK_CONTROL_MSGS_H
#define RSK_CONTROL_MSGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indirect.h"

#define RSK_CONTROL_MSGS_IN                                                                        \
	8u /* that have come and were not heard; more wait in the indirect buffer */
#define RSK_CONTROL_MSGS_OUT (64u << 20) /* bytes that wait to be sent, at most */

/* To be sent: bytes[sent .. bytes) of @at, which is owned. Zeroed: none. */
struct rsk_control_msgs_out {
	uint8_t *at;
	size_t sent, bytes, room;
};

/* What has come: @n whole ones, and @bytes of the next. Zeroed: nothing. */
struct rsk_control_msgs_in {
	uint32_t n, bytes;
	uint8_t word[RSK_CONTROL_MSGS_IN][RSK_INDIRECT_WORD_BYTES];
};

/* A copy of it, zeros behind, is to be sent. 0; -EINVAL: it is none, or too long; -ENOMEM. Allocates. */
int rsk_control_msgs_say(struct rsk_control_msgs_out *w, const void *word, size_t bytes);
/* What is to be sent next: of the word that it is a piece of, from @off; to its end. Borrowed; NULL: nothing. */
const uint8_t *rsk_control_msgs_next(const struct rsk_control_msgs_out *w, uint32_t *off,
				     uint32_t *bytes);
void rsk_control_msgs_sent(struct rsk_control_msgs_out *w, uint32_t bytes);
void rsk_control_msgs_free(struct rsk_control_msgs_out *w);

/*
 * A piece, from @off of a word: in order, or it is none that a peer of ours has sent. @off and @bytes lie within
 * a word. 0; -ENOBUFS: no room, nothing was taken; -EPROTO.
 */
int rsk_control_msgs_put(struct rsk_control_msgs_in *w, uint32_t off, const uint8_t *cells,
			 uint32_t bytes);
/* The first that is whole; false: there is none. */
bool rsk_control_msgs_take(struct rsk_control_msgs_in *w,
			   uint8_t word[static RSK_INDIRECT_WORD_BYTES]);

#endif
