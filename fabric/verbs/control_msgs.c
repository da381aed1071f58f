// SPDX-License-Identifier: BSD-2-Clause
/* control_msgs.c - see control_msgs.h. */
#include "control_msgs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int rsk_control_msgs_say(struct rsk_control_msgs_out *w, const void *word, size_t bytes)
{
	size_t need = w->bytes + RSK_INDIRECT_WORD_BYTES;

	if (!bytes || bytes > RSK_INDIRECT_WORD_BYTES)
		return -EINVAL;
	if (need > w->room) {
		size_t room = 2 * need;
		uint8_t *more = room <= RSK_CONTROL_MSGS_OUT ? realloc(w->at, room) : NULL;

		if (!more)
			return -ENOMEM;
		w->at = more;
		w->room = room;
	}
	memcpy(w->at + w->bytes, word, bytes);
	memset(w->at + w->bytes + bytes, 0, RSK_INDIRECT_WORD_BYTES - bytes);
	w->bytes = need;
	return 0;
}

const uint8_t *rsk_control_msgs_next(const struct rsk_control_msgs_out *w, uint32_t *off,
				     uint32_t *bytes)
{
	if (w->sent == w->bytes)
		return NULL;
	*off = (uint32_t)(w->sent % RSK_INDIRECT_WORD_BYTES);
	*bytes = RSK_INDIRECT_WORD_BYTES - *off;
	return w->at + w->sent;
}

void rsk_control_msgs_sent(struct rsk_control_msgs_out *w, uint32_t bytes)
{
	w->sent += bytes;
	if (w->sent == w->bytes)
		w->sent = w->bytes = 0;
}

void rsk_control_msgs_free(struct rsk_control_msgs_out *w)
{
	free(w->at);
	*w = (struct rsk_control_msgs_out){ .at = NULL };
}

int rsk_control_msgs_put(struct rsk_control_msgs_in *w, uint32_t off, const uint8_t *cells,
			 uint32_t bytes)
{
	if (!bytes)
		return 0; /* the end of a lap */
	if (off != w->bytes || bytes > RSK_INDIRECT_WORD_BYTES - off)
		return -EPROTO;
	if (w->n == RSK_CONTROL_MSGS_IN)
		return -ENOBUFS;
	memcpy(w->word[w->n] + off, cells, bytes);
	w->bytes += bytes;
	if (w->bytes == RSK_INDIRECT_WORD_BYTES) {
		w->bytes = 0;
		w->n++;
	}
	return 0;
}

bool rsk_control_msgs_take(struct rsk_control_msgs_in *w,
			   uint8_t word[static RSK_INDIRECT_WORD_BYTES])
{
	if (!w->n)
		return false;
	memcpy(word, w->word[0], RSK_INDIRECT_WORD_BYTES);
	/* This also moves the message that is not complete yet. */
	memmove(w->word[0], w->word[1], (RSK_CONTROL_MSGS_IN - 1) * sizeof(w->word[0]));
	w->n--;
	return true;
}
