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

/* The server speaks first; the client, which waits on @ep, answers. True: it was right. */
static inline bool turn(int ep, int fd, uint32_t i)
{
	struct epoll_event ev = { 0 };
	uint32_t word = 0;
	bool right;

	if (SRV) {
		app_write_all(fd, &i, sizeof(i));
		return app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i + 1;
	}
	if (epoll_wait(ep, &ev, 1, 20000) != 1 || ev.data.u64 != 1)
		LOG("turn %u: events %x, data %llx", i, ev.events, (unsigned long long)ev.data.u64);
	right = app_read_full(fd, &word, sizeof(word)) == sizeof(word) && word == i;
	word++;
	app_write_all(fd, &word, sizeof(word));
	return right;
}

/* Both count what was right. */
static inline void turns(int ep, int fd, int count)
{
	int right = 0;

	for (int i = 0; i < count; i++)
		right += turn(ep, fd, (uint32_t)i);
	LOG("turns: %d", right);
	app_sync();
}

/* As many, and between hosts more, until the stream is on the ring. */
static inline void turns_onto_ring(int ep, int fd, int count)
{
	int done = 0, right = 0;

	for (; app_warm_goes_on(fd, done, count); done++)
		right += turn(ep, fd, (uint32_t)done);
	LOG("onto the ring: right %d", right == done);
	app_sync();
}

#endif
