/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * words.h - what the two keepers of a link say to each other by a rail, in its indirect buffer, between the cells of
 * streams: messages of RSK_INDIRECT_WORD_BYTES, whose pieces follow each other. Pure; by the caller's lock.
 */
#ifndef RSK_VERBS_WORDS_H
#define RSK_VERBS_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "indirect.h"

#define RSK_WORDS_IN 8u /* that have come and were not heard; more wait in the indirect buffer */
#define RSK_WORDS_OUT (64u << 20) /* bytes that wait to be sent, at most */

/* To be sent: bytes[sent .. bytes) of @at, which is owned. Zeroed: none. */
struct rsk_words_out {
	uint8_t *at;
	size_t sent, bytes, room;
};

/* What has come: @n whole ones, and @bytes of the next. Zeroed: nothing. */
struct rsk_words_in {
	uint32_t n, bytes;
	uint8_t word[RSK_WORDS_IN][RSK_INDIRECT_WORD_BYTES];
};

/* A copy of it, zeros behind, is to be sent. 0; -EINVAL: it is none, or too long; -ENOMEM. Allocates. */
int rsk_words_say(struct rsk_words_out *w, const void *word, size_t bytes);
/* What is to be sent next: of the word that it is a piece of, from @off; to its end. Borrowed; NULL: nothing. */
const uint8_t *rsk_words_next(const struct rsk_words_out *w, uint32_t *off, uint32_t *bytes);
void rsk_words_sent(struct rsk_words_out *w, uint32_t bytes);
void rsk_words_free(struct rsk_words_out *w);

/*
 * A piece, from @off of a word: in order, or it is none that a peer of ours has sent. @off and @bytes lie within
 * a word. 0; -ENOBUFS: no room, nothing was taken; -EPROTO.
 */
int rsk_words_put(struct rsk_words_in *w, uint32_t off, const uint8_t *cells, uint32_t bytes);
/* The first that is whole; false: there is none. */
bool rsk_words_take(struct rsk_words_in *w, uint8_t word[static RSK_INDIRECT_WORD_BYTES]);

#endif
