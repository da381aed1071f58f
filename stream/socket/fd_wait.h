/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fd_wait.h - sleepers on a number that another thread may close meanwhile. Internal to stream/.
 *
 * The kernel holds a file while a call on it is under way. A wait of ours polls the companion by
 * its number, which may be closed, and another file's, before the thread is awake. So it lies
 * down here first, and whoever takes the number out of the table looks here behind it, while the
 * number is still open: it makes each sleeper a copy to go on with, the refuge, and wakes it by
 * its bell. A sleep that nobody disturbs costs no system call for it.
 *
 * Lie down = put the nap there, fence, look at the table; close = take the entry out, fence, look
 * at the naps: one of the two sees the other. Private memory of the process; naps of a thread
 * that jumps out of its sleep stay for ever, as the rest of its call does
 * (docs/adr/threads-and-signals.md).
 */
#ifndef RSK_FD_WAIT_H
#define RSK_FD_WAIT_H

#include <stdint.h>

struct rsk_fd_wait;
struct rsk_stream;

/*
 * There is no file to go on with: the number was closed by no call that we saw, or no descriptor
 * is left.
 */
#define RSK_FD_WAIT_NOWHERE (-2)

/*
 * @bell: the index of the sleeper's in s->link. The table is to be looked at next. NULL: no place
 * for one more.
 */
struct rsk_fd_wait *rsk_fd_wait_begin(struct rsk_stream *s, int fd, uint32_t doorbell);

/*
 * The number to go on with, owned by the nap; -1: the one that it began with; or RSK_FD_WAIT_NOWHERE.
 */
int rsk_fd_wait_refuge(const struct rsk_fd_wait *fd_wait);

/* The refuge as above, from now on the caller's. */
int rsk_fd_wait_end(struct rsk_fd_wait *fd_wait);

/*
 * @fd led to @s, and does not any more; the kernel closes it next, or (not @open) has done so
 * already.
 */
void rsk_fd_wait_disturb(struct rsk_stream *s, int fd, bool open);

/* In the child: other threads' naps were their parent's. */
void rsk_fd_waits_forked(void);

#endif
