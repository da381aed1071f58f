/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * childset.h - shared by the files of the family childset: a child that has an epoll set, and turns
 * on a stream of that set.
 */
#ifndef APP_CHILDSET_H
#define APP_CHILDSET_H

#include "epoll_say.h"
#include "held.h"

#define TURNS 200

enum {
	CHILD_ENDS = 1, /* flags */
	CHILD_LIVES,
	CHILD_WAITS,
	CHILD_HEARD
};

/* A child that has what the caller has, and uses nothing of it. */
static inline pid_t idle_child(void)
{
	pid_t pid = (pid_t)MUST(fork());

	if (pid) {
		app_flag_wait(CHILD_LIVES);
		return pid;
	}
	app_flag_set(CHILD_LIVES, 1);
	app_flag_wait(CHILD_ENDS);
	_exit(0);
}

static inline void end_child(pid_t pid)
{
	app_flag_set(CHILD_ENDS, 1);
	app_reap(pid, "child");
}

/* The server speaks first; the client, which waits on @ep, answers. Both count what was right. */
static inline void turns(int ep, int fd, int count)
{
	struct epoll_event ev = { 0 };
	uint32_t word = 0, right = 0;

	for (uint32_t i = 0; i < (uint32_t)count; i++) {
		if (SRV) {
			app_write_all(fd, &i, sizeof(i));
			right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) &&
				 word == i + 1;
			continue;
		}
		if (epoll_wait(ep, &ev, 1, 20000) != 1 || ev.data.u64 != 1) {
			LOG("turn %u: events %x, data %llx", i, ev.events,
			    (unsigned long long)ev.data.u64);
			break;
		}
		right += app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
		word++;
		app_write_all(fd, &word, sizeof(word));
	}
	LOG("turns: %u", right);
	app_sync();
}

#endif
