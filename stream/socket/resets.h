/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * resets.h - while there are bytes that the kernel does not know of, SO_LINGER is set so that the
 * last close resets the connection, even if the process is killed. The program continues to see,
 * and to set, its own value. over.c, kernel.c and the close code call it.
 */
#ifndef RSK_RESETS_H
#define RSK_RESETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct rsk_stream;

enum {
	/* In the overread file (over.h): as for a TCP socket that is closed with bytes unread. */
	RSK_RESETS_UNREAD = 1,
	/* To be repeated for a peer on another host: a FIN would cut the stream short. */
	RSK_RESETS_OWED = 2,
};

/*
 * Sets or clears the reason @why. @fd -1: the socket is being closed. Any thread may call it; it
 * takes its own lock, which is the last in the order.
 */
void rsk_resets(struct rsk_stream *s, int fd, unsigned int why, bool on);

/*
 * The SO_LINGER value that decides what close() does, as the program sees it: the value that it has
 * set, except when the overread file has unread bytes.
 */
void rsk_resets_linger(struct rsk_stream *s, int fd, struct linger *l);

#endif
