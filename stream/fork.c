// SPDX-License-Identifier: BSD-2-Clause
/* fork.c - the family: fork, exec. Streams and sets are shared memory already; here only holders are counted. */
#include <fcntl.h>
#include <string.h>

#include <rsock/sys.h>

#include "engine.h"
#include "epoll.h"
#include "epollset.h"
#include "keeper.h"
#include "mend.h"
#include "stream.h"

static void add_holder(uintptr_t w, int by)
{
	struct rsk_stream *s = rsk_fd_object(w);

	if (w & RSK_FD_EPOLL) {
		atomic_fetch_add(&((struct rsk_epoll *)s)->fds, (uint32_t)by);
		return;
	}
	if (by > 0) {
		atomic_fetch_add(&s->life, 1);
		atomic_fetch_add(&s->fds, 1);
	} else {
		atomic_fetch_sub(&s->fds, 1);
		rsk_stream_unpin(s);
	}
}

static void for_all(int by)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = rsk_fd_word((int)i);

		if (rsk_fd_marked(w)) /* either may change the mode for both */
			rsk_fd_put_if((int)i, w, w & ~(uintptr_t)(RSK_FD_MODE | RSK_FD_NONBLOCK));
		else if (w && !rsk_fd_ours((int)i))
			add_holder(w, by);
	}
}

/* Counted before, so that no moment knows of fewer holders than there are. */
void rsk_fork_prepare(void)
{
	rsk_mend_fork();
	rsk_keeper_fork();
	rsk_join_fork();
	if (rsk_stats_segment())
		rsk_fd_name_all(); /* the number in a record is the parent's, who may close it */
	for_all(1);
}

void rsk_fork_parent(bool ok)
{
	if (!ok)
		for_all(-1);
	rsk_join_fork_parent(ok);
	rsk_keeper_fork_parent();
	rsk_mend_fork_over(false);
}

/* The parent may be in its exit(); the child is not. */
static void stay(void)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++)
		if (rsk_fd_word((int)i) & RSK_FD_LEFT)
			atomic_fetch_and(&rsk_fdtab.word[i], ~(uintptr_t)RSK_FD_LEFT);
}

void rsk_fork_child(void)
{
	rsk_pid = rsk_sys_getpid();
	rsk_tid = 0;
	rsk_join_fork_child();
	rsk_keeper_fork_child();
	rsk_mend_fork_over(true);
	stay();
	if (rsk_stats_segment())
		rsk_stats_forked();
}

/*
 * The new program may use what it inherits, and sees the kernel alone; whether it does cannot be known, and a stream on
 * TCP is right either way. @w: of @fd, a stream.
 */
static int leave_inherited(int fd, uintptr_t w)
{
	int flags = rsk_sys_fcntl(fd, F_GETFD, 0);

	if (!w || rsk_fd_marked(w) || (w & RSK_FD_EPOLL) || rsk_fd_ours(fd) || flags < 0 ||
	    (flags & FD_CLOEXEC))
		return 0;
	return rsk_fd_leave(fd, RSK_REASON_EXEC);
}

int rsk_exec_vforked(void)
{
	uint32_t high = rsk_fd_high();
	int rc = 0;

	for (uint32_t i = 0; i < high && rc == 0; i++)
		rc = leave_inherited((int)i, rsk_fd_word((int)i));
	return rc;
}

/*
 * Another program takes over. What has CLOEXEC goes the way of a killed process: the ring says what was sent. What
 * stays open is used there without us and goes back to TCP, for every process that holds it.
 */
int rsk_exec_prepare(void)
{
	uint32_t high = rsk_fd_high();
	int rc = rsk_exec_vforked();

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = rsk_fd_word((int)i);
		struct rsk_stream *s;

		if (!w || rsk_fd_marked(w) || rsk_fd_ours((int)i))
			continue;
		if (w & RSK_FD_EPOLL) {
			if (!(w & RSK_FD_LEFT))
				add_holder(w, -1);
			continue;
		}
		s = rsk_fd_object(w);
		if (w & RSK_FD_LEFT)
			continue;
		if (!rsk_stream_sole_process(s) || atomic_load(&s->fds) > 1)
			atomic_fetch_sub(&s->fds, 1);
		else
			atomic_store(&s->dupped, 2); /* marks: not taken off */
	}
	rsk_keeper_finish(RSK_MEND_PATIENCE_NS);
	rsk_join_leave(false);
	return 0;
}

void rsk_exec_failed(void)
{
	uint32_t high = rsk_fd_high();

	for (uint32_t i = 0; i < high; i++) {
		uintptr_t w = rsk_fd_word((int)i);
		struct rsk_stream *s = rsk_fd_object(w);

		if (!w || rsk_fd_marked(w) || (w & RSK_FD_LEFT) || rsk_fd_ours((int)i))
			continue;
		if (w & RSK_FD_EPOLL) {
			add_holder(w, 1);
			continue;
		}
		if (atomic_load(&s->dupped) == 2)
			atomic_store(&s->dupped, 1);
		else
			atomic_fetch_add(&s->fds, 1);
	}
}
