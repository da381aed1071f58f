/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * over.h - the overread file: what lay unread in a stream's ring when it had to leave it for a fork.
 *
 * Parent and child may both read on, whoever comes first, each byte once, as from the kernel's queue. So the bytes go
 * into a sealed memfd, of which both have the open file description: a read() takes bytes and moves the position that
 * they share, in one step of the kernel's. First the file, then the TCP socket. The file never comes behind a ring:
 * nobody is promoted before it is read.
 *
 * All with the stream's rx_lock held, but rsk_over_is() and rsk_over_unread(). Nothing here blocks.
 */
#ifndef RSK_OVER_H
#define RSK_OVER_H

#include <stdbool.h>

#include "stream.h"

/*
 * Whether the file may grow by @n bytes (RLIMIT_FSIZE, which memory files obey: the process would get SIGXFSZ, and what
 * had been taken to be put there would be lost).
 */
bool rsk_over_fits(const struct rsk_stream *s, uint64_t n);
/* An empty one, unless there is one. 0 or -errno. */
int rsk_over_open(struct rsk_stream *s);
int rsk_over_add(struct rsk_stream *s, const void *bytes, size_t n); /* after that; 0 or -errno */
void rsk_over_seal(struct rsk_stream *s,
		   int fd); /* all that there is was added; an empty one is closed */

/* Is there one, which may have been read to its end by now? */
static inline bool rsk_over_is(const struct rsk_stream *s)
{
	return __builtin_expect(atomic_load_explicit(&s->over_fd, memory_order_relaxed) > 0, 0);
}

bool rsk_over_any(void); /* of any stream of this process */

/* Bytes in it that nobody has read; 0: none, or no file. */
uint64_t rsk_over_unread(struct rsk_stream *s);

/* As recvmsg() of the vector, at most @cap bytes, with @peek nothing is taken. 0: it is at its end, and closed. */
ssize_t rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n, size_t cap,
		      bool peek);

/*
 * The last @n bytes, which this process has just taken, are unread again. Where another process has looked meanwhile it
 * holds the file to be at its end.
 */
void rsk_over_put_back(struct rsk_stream *s, size_t n);

/*
 * rsk_over_back - who uses the socket next sees the kernel alone: what is left of the file goes into the kernel's
 * receive queue, by a copy of the peer's socket, and what lies there already comes behind it. 0: there is nothing in
 * the file any more. -EBUSY: that cannot be done, and nothing has changed. -EIO: the peer wrote meanwhile, and nobody
 * can tell what came first: the stream is to be ended.
 */
int rsk_over_back(struct rsk_stream *s, int fd);

void rsk_over_close(struct rsk_stream *s, int fd); /* @fd -1: the socket is being closed */

#endif
