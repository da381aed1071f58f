/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.h - shared by the families of streams that several processes hold: a child that holds a
 * stream, and what it reads.
 */
#ifndef APP_HELD_H
#define APP_HELD_H

#include "end_say.h"

static char buf[4096];

/* Forks a child that runs @first, sets @flag, and lives until it is killed. */
static inline pid_t holder(int fd, int flag, void (*first)(int fd))
{
	pid_t pid = (pid_t)MUST(fork());

	if (pid)
		return pid;
	if (first)
		first(fd);
	app_flag_set(flag, 1);
	for (;;)
		pause();
}

static inline void end_holder(pid_t pid)
{
	MUST(kill(pid, SIGKILL));
	app_reap(pid, "holder");
}

static inline void reads_some(int fd)
{
	RB(buf, read(fd, buf, 4));
}

static inline void reads_all(int fd)
{
	RB(buf, read(fd, buf, 4));
	RB(buf, read(fd, buf, 100));
}

#endif
