/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local_out.h - what a process has to say to rsockd, and what of it waits: the kernel's queue takes some 270 messages,
 * and of a thousand streams that are sought at once each has one. In order; nothing here waits for room. Private to
 * the process, under the join lock.
 */
#ifndef RSK_STREAM_LOCAL_OUT_H
#define RSK_STREAM_LOCAL_OUT_H

#include "local_msg.h"

/* All zero: nothing waits. Memory is taken when something has to, and kept. */
struct rsk_local_out {
	struct rsk_local_msg *at; /* a ring */
	uint32_t first, n;
};

/*
 * Says it, or keeps it; @fd as in rsk_local_msg_send(): a message that has one is not kept. 0; -EAGAIN: there is no
 * room for it; -errno.
 */
int rsk_local_out_say(struct rsk_local_out *o, int to, struct rsk_local_msg *m, int fd);

/* As much as there is room for. 0 or -errno. */
int rsk_local_out_flush(struct rsk_local_out *o, int to);

/* For another rsockd it is nothing. */
void rsk_local_out_clear(struct rsk_local_out *o);

#endif
