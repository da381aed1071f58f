/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local_out.h - messages of a process to rsockd, and the queue of those that wait for room: the
 * kernel's queue takes some 270 messages, and a thousand streams whose peers are looked up at once
 * have one each. Order is kept; nothing here waits for room. local.c and local_say.c use it;
 * private to the process, under the pairing lock.
 */
#ifndef RSK_STREAM_LOCAL_OUT_H
#define RSK_STREAM_LOCAL_OUT_H

#include "local_msg.h"

/* All zero: nothing waits. Memory is allocated when a message has to wait, and kept. */
struct rsk_local_out {
	struct rsk_local_msg *at; /* a circular buffer */
	uint32_t first, n;
};

/*
 * Sends the message or queues it; @fd as in rsk_local_msg_send(): a message with a descriptor is
 * never queued. Returns 0; -EAGAIN: there is no room for it; -errno.
 */
int rsk_local_out_say(struct rsk_local_out *o, int to, struct rsk_local_msg *m, int fd);

/* Sends as many queued messages as there is room for. Returns 0 or -errno. */
int rsk_local_out_flush(struct rsk_local_out *o, int to);

/* Drops the queue: its messages mean nothing to another rsockd. */
void rsk_local_out_clear(struct rsk_local_out *o);

#endif
