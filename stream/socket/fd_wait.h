/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd_wait.h - fd waits: threads that sleep on a descriptor number that another thread may close
 * meanwhile. Internal to stream/; wait.c sleeps, fd.c reports the close.
 *
 * The kernel holds a file while a call on it is under way. A wait of the library polls the TCP
 * socket by its number, which may be closed, and become another file's, before the thread is awake.
 * So the thread registers its wait here first, and a thread that removes the number from the table
 * checks for waits here afterwards, while the number is still open: it gives each sleeper a copy of
 * the descriptor to go on with, the refuge, and wakes it by its doorbell. An undisturbed sleep
 * costs no system call for this.
 *
 * Register = store the wait, fence, read the table; close = remove the entry, fence, read the
 * waits: one of the two sees the other. Private memory of the process; the waits of a thread that
 * jumps out of its sleep stay for ever, as the rest of its call does
 * (docs/adr/threads-and-signals.md).
 */
#ifndef RSK_FD_WAIT_H
#define RSK_FD_WAIT_H

#include <stdint.h>

struct rsk_fd_wait;
struct rsk_stream;

/*
 * There is no file to go on with: the number was closed by a call that no hook saw, or no
 * descriptor is left.
 */
#define RSK_FD_WAIT_NOWHERE (-2)

/*
 * Registers a wait. @doorbell: the index of the sleeper's doorbell in s->link. The caller reads the
 * table next. NULL: no free place.
 */
struct rsk_fd_wait *rsk_fd_wait_begin(struct rsk_stream *s, int fd, uint32_t doorbell);

/*
 * The number to go on with, owned by the wait; -1: the original one is still valid; or
 * RSK_FD_WAIT_NOWHERE.
 */
int rsk_fd_wait_refuge(const struct rsk_fd_wait *fd_wait);

/* Ends the wait and returns rsk_fd_wait_refuge(); the caller owns the descriptor from now on. */
int rsk_fd_wait_end(struct rsk_fd_wait *fd_wait);

/*
 * @fd led to @s, and does not any more; the kernel closes it next, or (not @open) has done so
 * already. Gives the sleepers on it copies and wakes them.
 */
void rsk_fd_wait_disturb(struct rsk_stream *s, int fd, bool open);

/* In the child: frees the waits of the parent's other threads. */
void rsk_fd_waits_forked(void);

#endif
