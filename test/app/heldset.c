/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heldset.c - tests epoll sets with streams that several processes hold after a fork, with bytes
 * unread before it.
 */
#include "epoll_say.h"
#include "held.h"

CASE(registered_later, DIRECT, "a stream that is put into a set with such bytes unread is told of")
{
	int fd = app_open(WARM), ep, edge;
	pid_t pid;

	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
	} else {
		app_await_inq(fd, 10);
		app_sync();
		ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		edge = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		ADD(ep, fd, EPOLLIN, 1);
		ADD(edge, fd, EPOLLIN | EPOLLET, 2);
		wait_say("level", ep, 1000);
		wait_say("level", ep, 0);
		wait_say("edge", edge, 1000);
		wait_say("no edge", edge, 0);
		MOD(edge, fd, EPOLLIN | EPOLLET, 3);
		wait_say("changed", edge, 0);
		reads_all(fd);
		wait_say("read", ep, 0);
		end_holder(pid);
	}
	app_sync();
	app_close(fd);
}

struct waiter {
	struct app_thread thread;
	struct epoll_event ev;
	int ep, n;
};

static void waits(void *arg)
{
	struct waiter *w = arg;

	w->n = epoll_wait(w->ep, &w->ev, 1, 10000);
}

CASE(registered_under_sleeper, DIRECT, "the same while a thread sleeps on the set")
{
	int fd = app_open(WARM);
	struct waiter w = { 0 };
	pid_t pid;

	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
	} else {
		app_await_inq(fd, 10);
		app_sync();
		w.ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		app_thread_start(&w.thread, waits, &w);
		app_await_asleep(w.thread.tid);
		ADD(w.ep, fd, EPOLLIN, 1);
		app_thread_join(&w.thread);
		LOG("woken: %d, %d", w.n, w.ev.events == EPOLLIN);
		reads_all(fd);
		end_holder(pid);
	}
	app_sync();
	app_close(fd);
}

/* Two sets that a child has, too; it has nothing that is made later. */
static pid_t sets_of_two(int *ep, int *edge)
{
	pid_t pid;

	*ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	*edge = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	pid = (pid_t)MUST(fork());
	if (!pid) {
		app_flag_wait(1);
		_exit(0);
	}
	return pid;
}

CASE(left_in_ring, DIRECT,
     "a stream whose sender has left the ring behind bytes unread "
     "is put into sets that a child has, too")
{
	int ep = -1, edge = -1, fd;
	pid_t pid = CLI ? sets_of_two(&ep, &edge) : -1;

	fd = app_open(WARM);
	if (SRV) {
		SAY(fd, "0123456789");
		fclose(fdopen((int)MUST(dup(fd)), "r"));
	} else {
		app_await_inq(fd, 10);
	}
	app_sync();
	if (CLI) {
		ADD(ep, fd, EPOLLIN, 1);
		ADD(edge, fd, EPOLLIN | EPOLLET, 2);
		wait_say("level", ep, 1000);
		wait_say("level", ep, 0);
		wait_say("edge", edge, 1000);
		wait_say("no edge", edge, 0);
		app_hear(fd, 4);
		wait_say("read in part", ep, 1000);
		wait_say("no edge", edge, 0);
		app_hear(fd, 6);
		wait_say("read", ep, 0);
	}
	app_sync();
	if (SRV) {
		SAY(fd, "more");
	} else {
		wait_say("more", ep, 10000);
		wait_say("edge", edge, 10000);
		app_hear(fd, 4);
		app_flag_set(1, 1);
		app_reap(pid, "child");
	}
	app_sync();
	app_close(fd);
}

CASE(left_under_sleeper, DIRECT, "such a stream is put into such a set while a thread sleeps on it")
{
	int ep = -1, edge = -1, fd;
	pid_t pid = CLI ? sets_of_two(&ep, &edge) : -1;
	struct waiter w[2] = { { .ep = ep }, { .ep = edge } };

	fd = app_open(WARM);
	if (SRV) {
		SAY(fd, "0123456789");
		fclose(fdopen((int)MUST(dup(fd)), "r"));
	} else {
		app_await_inq(fd, 10);
	}
	app_sync();
	for (int i = 0; CLI && i < 2; i++) {
		app_thread_start(&w[i].thread, waits, &w[i]);
		app_await_asleep(w[i].thread.tid);
		ADD(w[i].ep, fd, EPOLLIN | (i ? EPOLLET : 0), (uint64_t)i);
		app_thread_join(&w[i].thread);
		LOG("woken: %d, %d", w[i].n, w[i].ev.events == EPOLLIN);
	}
	if (CLI) {
		app_hear(fd, 10);
		wait_say("read", ep, 0);
		wait_say("read", edge, 0);
		app_flag_set(1, 1);
		app_reap(pid, "child");
	}
	app_sync();
	app_close(fd);
}

static void polled(int fd, const char *when)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = poll(&p, 1, 300);

	LOG("%s: %d %x", when, n, (unsigned int)p.revents);
}

/* @early: the set exists, and has the stream, before the fork. */
static void watched(bool early)
{
	int fd = app_open(WARM), ep, outer;
	pid_t pid;

	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
	} else {
		ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		outer = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		ADD(outer, ep, EPOLLIN, 9);
		if (early)
			ADD(ep, fd, EPOLLIN, 1);
		app_await_inq(fd, 10);
		app_sync();
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		if (!early)
			ADD(ep, fd, EPOLLIN, 1);
		polled(ep, "set");
		polled(outer, "outer set");
		wait_say("outer", outer, 300);
		wait_say("outer again", outer, 300);
		wait_say("inner", ep, 0);
		wait_say("outer", outer, 300);
		reads_some(fd);
		polled(ep, "some read");
		RB(buf, read(fd, buf, 100));
		polled(ep, "all read");
		wait_say("outer, all read", outer, 0);
		wait_say("inner, all read", ep, 0);
		end_holder(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(set_polled, DIRECT, "a set that is polled, or in another one, shows such bytes")
{
	watched(true);
}

CASE(set_polled_later, DIRECT, "the same where the stream is put into it later")
{
	watched(false);
}

CASE(edge_told_once, DIRECT,
     "an edge is told once where the peer's fork changes the path meanwhile")
{
	int fd = app_open(WARM), ep;
	pid_t pid = 0;

	if (SRV) {
		app_sync();
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		app_sync();
		app_sync();
		SAY(fd, "0123456789");
		app_sync();
		app_sync();
		end_holder(pid);
	} else {
		ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		app_sync();
		app_sync();
		ADD(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
		app_sync();
		app_sync();
		app_await_inq(fd, 10);
		wait_say("both", ep, 1000);
		wait_say("nothing new", ep, 0);
		wait_say("nothing new", ep, 0);
		app_sync();
		app_hear(fd, 10);
		close(ep);
	}
	app_sync();
	app_close(fd);
}
