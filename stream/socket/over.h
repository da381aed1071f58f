/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * over.h - the overread file: bytes that were unread in a stream's ring when it had to leave the
 * ring for a fork. The fork code fills it; kernel.c and the epoll code read it.
 *
 * Parent and child may both read on, in any order, and each byte is read once, as from the kernel's
 * queue. So the bytes go into a sealed memfd whose open file description both share: a read() takes
 * bytes and moves the shared position in one step of the kernel. The file comes before the TCP
 * socket's bytes. It never follows a ring: no stream is promoted before its file is read.
 *
 * All functions need the stream's rx_lock, except rsk_over_is() and rsk_over_unread(). None blocks.
 */
#ifndef RSK_OVER_H
#define RSK_OVER_H

#include <stdbool.h>

#include "stream.h"

/*
 * Whether the file may grow by @n bytes. RLIMIT_FSIZE applies to memory files: the process would
 * get SIGXFSZ, and bytes that had been taken for the file would be lost.
 */
bool rsk_over_fits(const struct rsk_stream *s, uint64_t n);
/* Creates an empty file, unless there is one. 0 or -errno. */
int rsk_over_open(struct rsk_stream *s);
int rsk_over_add(struct rsk_stream *s, const void *bytes, size_t n); /* appends; 0 or -errno */
/* All bytes were added: seals the file; closes an empty one. */
void rsk_over_seal(struct rsk_stream *s, int fd);

/* Whether there is a file; it may have been read to its end by now. */
static inline bool rsk_over_is(const struct rsk_stream *s)
{
	return __builtin_expect(atomic_load_explicit(&s->over.fd, memory_order_relaxed) > 0, 0);
}

/* Number of unread bytes in it; 0: none, or no file. */
uint64_t rsk_over_unread(struct rsk_stream *s);

/*
 * Reads like recvmsg() into the vector, at most @cap bytes; with @peek the bytes stay. 0: the file
 * is at its end, and was closed. -errno: nothing was read, and the TCP socket's bytes must wait.
 */
ssize_t rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n, size_t cap,
		      bool peek);

/*
 * Makes the last @n bytes, which this process has just taken, unread again. A process that has
 * checked meanwhile takes the file to be at its end.
 */
void rsk_over_put_back(struct rsk_stream *s, size_t n);

/*
 * rsk_over_back - called when the next user of the socket sees the kernel alone: moves the rest of
 * the file into the kernel's receive queue, by a copy of the peer's socket; bytes already in the
 * queue are put behind it. 0: the file is empty. -EBUSY: not possible, and all that is not in the
 * queue is in the file, which with @may_keep may be a new one that other processes do not have.
 * -EIO: the peer wrote meanwhile, and the order of the bytes is unknown, or without @may_keep there
 * is no place for them: the stream has to be ended.
 */
int rsk_over_back(struct rsk_stream *s, int fd, bool may_keep);

void rsk_over_close(struct rsk_stream *s, int fd); /* @fd -1: the socket is being closed */

#endif
