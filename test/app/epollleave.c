/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollleave.c - tests a stream in an epoll set that falls back to TCP: the set reports what it
 * would have reported without that.
 */
#include "epoll_say.h"

/* A FILE reads from the kernel only: the stream leaves the ring for good. */
static void leave_by_stdio(int fd)
{
	int copy = (int)MUST(dup(fd));
	FILE *f = fdopen(copy, "r");

	if (!f)
		app_die("fdopen");
	fclose(f);
}

/* The same by a program that inherits the descriptor. */
static void leave_by_exec(int fd)
{
	pid_t pid = (pid_t)MUST(fork());

	(void)fd;
	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	app_reap(pid, "true");
}

static void oneshot_fired(void (*leave)(int fd), uint32_t more)
{
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));

	if (SRV) {
		ADD(ep, fd, EPOLLIN | EPOLLONESHOT | more, 1);
		app_sync();
		wait_say("fires", ep, 10000);
		app_hear(fd, 5);
		app_sync();
		app_sync();
		leave(fd);
		R(shutdown(fd,
			   SHUT_WR)); /* both directions have ended: EPOLLHUP, but it is disarmed */
		wait_say("disarmed", ep, 300);
		wait_say("still", ep, 0);
		MOD(ep, fd, EPOLLIN | EPOLLONESHOT | more, 2);
		wait_say("armed again", ep, 10000);
		wait_say("once", ep, 0);
		MOD(ep, fd, EPOLLONESHOT | more, 3);
		wait_say("armed for nothing but the end", ep, 10000);
		wait_say("once", ep, 0);
		DEL(ep, fd);
		ADD(ep, fd, EPOLLIN, 4);
		wait_say("new", ep, 0);
	} else {
		app_sync();
		SAY(fd, "hello");
		app_sync();
		MUST(shutdown(fd, SHUT_WR));
		app_sync();
	}
	app_sync();
	close(ep);
	app_close(fd);
}

CASE(oneshot_stdio, DIRECT,
     "EPOLLONESHOT that has fired stays silent when the stream leaves (fdopen)")
{
	oneshot_fired(leave_by_stdio, 0);
}

CASE(oneshot_exec, DIRECT, "the same, by a program that inherits it")
{
	oneshot_fired(leave_by_exec, 0);
}

CASE(oneshot_edge, DIRECT, "the same, EPOLLONESHOT | EPOLLET")
{
	oneshot_fired(leave_by_stdio, EPOLLET);
}

static void waits(void *arg)
{
	wait_say("other thread", *(int *)arg, 1500);
}

CASE(oneshot_asleep, DIRECT, "it stays silent for a thread that sleeps on the set, too")
{
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	struct app_thread t;

	if (SRV) {
		ADD(ep, fd, EPOLLIN | EPOLLONESHOT, 1);
		app_sync();
		wait_say("fires", ep, 10000);
		app_hear(fd, 5);
		app_sync();
		app_thread_start(&t, waits, &ep);
		app_await_asleep(atomic_load(&t.tid));
		app_sync();
		leave_by_stdio(fd);
		R(shutdown(fd, SHUT_WR));
		app_thread_join(&t);
		MOD(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
		wait_say("armed again", ep, 10000);
	} else {
		app_sync();
		SAY(fd, "hello");
		app_sync();
		MUST(shutdown(fd, SHUT_WR));
		app_sync();
	}
	app_sync();
	close(ep);
	app_close(fd);
}

/* An edge that was reported is not reported again because the stream changes its path. */
static void edges(void (*leave)(int fd))
{
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));

	if (SRV) {
		ADD(ep, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, 1);
		wait_say("at first", ep, 1000);
		wait_say("told", ep, 0);
		leave(fd);
		wait_say("it has left", ep, 100);
		app_sync();
		wait_say("a byte", ep, 10000);
		app_hear(fd, 1);
		wait_say("told", ep, 0);
	} else {
		app_sync();
		SAY(fd, "x");
	}
	app_sync();
	close(ep);
	app_close(fd);
}

CASE(edge_stdio, DIRECT, "EPOLLET: no edge comes of leaving the ring (fdopen)")
{
	edges(leave_by_stdio);
}

CASE(edge_exec, DIRECT, "the same, by a program that inherits it")
{
	edges(leave_by_exec);
}

static void reset_behind(uint32_t more)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));

	if (SRV)
		ADD(ep, fd, EPOLLIN | EPOLLRDHUP | more, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "unread");
		app_await_outq_empty(fd);
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
		app_close(fd);
		app_sync();
		return;
	}
	app_sync();
	app_await_poll(fd, POLLERR, 10000);
	wait_say("reset with bytes unread", ep, 10000);
	wait_say("again", ep, 0);
	close(ep);
	app_close(fd);
}

CASE(reset_unread, DIRECT, "the peer resets behind bytes unread: ERR and HUP at once")
{
	reset_behind(0);
}

CASE(reset_unread_edge, DIRECT, "the same, EPOLLET")
{
	reset_behind(EPOLLET);
}
