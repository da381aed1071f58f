/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resets.h - while there are bytes that the kernel does not know of, SO_LINGER says that the connection is to be reset:
 * whoever closes it last, and also if that one is killed. The program goes on to see, and to set, what is its own.
 */
#ifndef RSK_RESETS_H
#define RSK_RESETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rsk_stream;

enum {
	RSK_RESETS_UNREAD =
		1, /* in the overread file (over.h): as a TCP socket that is closed with bytes unread */
	RSK_RESETS_OWED =
		2, /* to a peer on another host, and repeated: an end would cut the stream short */
};

/* @fd -1: the socket is being closed. Any thread; its own lock, the last one. */
void rsk_resets(struct rsk_stream *s, int fd, unsigned int why, bool on);

/* What close() is to do as the program sees it: what it has set, but for a file with bytes unread. */
void rsk_resets_linger(struct rsk_stream *s, int fd, struct linger *l);

#endif
