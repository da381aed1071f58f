/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * epollnest.c - tests an epoll set that is watched itself: in another set, in poll, in select. Its
 * readiness is right at any time.
 */
#include "epoll_say.h"

#include <sys/select.h>

/* Records what poll and select report of @ep, without a wait on it. */
static void shows(const char *what, int ep)
{
	struct pollfd p = { .fd = ep, .events = POLLIN | POLLOUT };
	fd_set rd;
	int n = poll(&p, 1, 0), m;

	FD_ZERO(&rd);
	FD_SET(ep, &rd);
	m = select(ep + 1, &rd, NULL, NULL, &(struct timeval){ 0, 0 });
	LOG("%s: poll %d %#x, select %d", what, n, (unsigned int)(unsigned short)p.revents, m);
}

CASE(edge_asleep, DIRECT, "an edge registration of a set wakes once an arrival, read or not")
{
	int fd = app_open(WARM | NODELAY);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

	ADD(inner, fd, EPOLLIN, 1);
	ADD(outer, inner, EPOLLIN | EPOLLET, 2);
	app_sync();
	for (int i = 0; i < 6; i++) {
		if (CLI) {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		} else {
			app_flag_set(i, (uint64_t)gettid());
			wait_say("outer", outer, 10000);
			wait_say("outer again", outer, 0);
			if (i & 1)
				wait_say("inner", inner, 0);
			if (i != 2)
				app_hear(fd, i == 3 ? 8 : 4);
			wait_say("outer after", outer, 0);
			shows("inner after", inner);
		}
		app_sync();
	}
	app_close(inner);
	app_close(outer);
	app_close(fd);
}

CASE(three, DIRECT, "three sets, one in the other: each shows what the innermost has")
{
	int fd = app_open(WARM | NODELAY);
	int a = (int)MUST(epoll_create1(0)), b = (int)MUST(epoll_create1(0)),
	    c = (int)MUST(epoll_create1(0));

	ADD(c, b, EPOLLIN, 3);
	ADD(b, a, EPOLLIN, 2);
	ADD(a, fd, EPOLLIN, 1);
	wait_say("quiet", c, 0);
	app_sync();
	for (int i = 0; i < 4; i++) {
		if (CLI) {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		} else {
			app_flag_set(i, (uint64_t)gettid());
			if (i & 1) {
				struct pollfd p = { .fd = c, .events = POLLIN };

				R(poll(&p, 1, 10000));
			}
			wait_say("c", c, 10000);
			shows("c", c);
			wait_say("b", b, 0);
			if (i & 2)
				wait_say("a", a, 0);
			wait_say("c", c, 0);
			app_hear(fd, 4);
			wait_say("c drained", c, 0);
			shows("b drained", b);
			wait_say("b drained", b, 0);
			shows("a drained", a);
		}
		app_sync();
	}
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		wait_say("c", c, 5000);
		DEL(b, a);
		wait_say("c without a", c, 0);
		ADD(b, a, EPOLLIN, 4);
		wait_say("c", c, 0);
		app_close(a);
		wait_say("a closed", c, 0);
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(poll_asleep, DIRECT, "poll and select sleep on a set, and see when it is drained")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN, 1);
	shows("quiet", ep);
	app_sync();
	for (int i = 0; i < 6; i++) {
		if (CLI) {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		} else {
			struct pollfd p[2] = { { .fd = ep, .events = POLLIN },
					       { .fd = fd, .events = POLLRDHUP } };
			fd_set rd;

			FD_ZERO(&rd);
			FD_SET(ep, &rd);
			app_flag_set(i, (uint64_t)gettid());
			if (i % 3 == 0)
				R(poll(p, 1, 10000));
			else if (i % 3 == 1)
				R(poll(p, 2, 10000));
			else
				R(select(ep + 1, &rd, NULL, NULL, &(struct timeval){ 10, 0 }));
			shows("ready", ep);
			if (i & 1)
				wait_say("waited", ep, 0);
			shows("still ready", ep);
			app_hear(fd, 2);
			shows("half read", ep);
			app_hear(fd, 2);
			shows("drained", ep);
			R(poll(p, 1, 10));
			FD_SET(ep, &rd);
			R(select(ep + 1, &rd, NULL, NULL, &(struct timeval){ 0, 10000 }));
		}
		app_sync();
	}
	app_close(ep);
	app_close(fd);
}

CASE(room, DIRECT, "a set that waits for room shows it when there is some")
{
	int fd = app_open(WARM);

	if (SRV) {
		int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

		ADD(inner, fd, EPOLLOUT, 1);
		ADD(outer, inner, EPOLLIN, 2);
		wait_say("room", outer, 0);
		uint64_t total = app_fill(fd, 1);

		wait_say("full", outer, 0);
		shows("full", inner);
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		wait_say("room", outer, 10000);
		app_sync();
		wait_say("room", outer, 0);
		wait_say("room", inner, 0);
		shows("room", inner);
		MOD(inner, fd, EPOLLIN, 1);
		wait_say("not asked for", outer, 0);
		R(send(fd, "more", 4, 0));
		app_close(inner);
		app_close(outer);
	} else {
		uint64_t total = app_flag_wait(1);

		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, total, 60000, 1));
		app_sync();
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

#define MORE_THAN_A_RING 700000

CASE(room_by_tcp, DIRECT,
     "more than a ring holds is sent to one who does not read: a set that waits for room shows it")
{
	int fd = app_open(WARM | NODELAY), inner = (int)MUST(epoll_create1(0));
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	static char buf[50000];

	ADD(inner, fd, EPOLLOUT, 1);
	app_set_nonblock(fd, true);
	for (uint64_t at = 0; CLI && at < MORE_THAN_A_RING;) {
		size_t len = MORE_THAN_A_RING - at < sizeof(buf) ? MORE_THAN_A_RING - at :
								   sizeof(buf);
		ssize_t n;

		app_pattern(buf, len, at, 3);
		n = send(fd, buf, len, 0);
		if (n > 0)
			at += (uint64_t)n;
		else if (errno != EAGAIN || poll(&p, 1, 10000) != 1)
			app_die("no room, at %llu: %s", (unsigned long long)at, strerror(errno));
		poll(&(struct pollfd){ .fd = inner, .events = POLLIN }, 1, 0);
	}
	if (CLI) {
		shows("behind it", inner);
		wait_say("inner", inner, 0);
	}
	app_sync();
	app_set_nonblock(fd, false);
	if (SRV)
		R(app_recv_pattern(fd, MORE_THAN_A_RING, 65536, 3));
	app_sync();
	app_close(inner);
	app_close(fd);
}

CASE(oneshot, DIRECT, "oneshot, edge, MOD and DEL inside show outside")
{
	int fd = app_open(WARM | NODELAY);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

	ADD(outer, inner, EPOLLIN, 2);
	ADD(inner, fd, EPOLLIN | EPOLLONESHOT, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
		app_sync();
		SAY(fd, "more");
	} else {
		app_await_inq(fd, 4);
		wait_say("outer", outer, 5000);
		wait_say("inner", inner, 0);
		wait_say("told once", outer, 0);
		app_sync();
		app_await_inq(fd, 8);
		wait_say("disarmed", outer, 0);
		shows("disarmed", inner);
		MOD(inner, fd, EPOLLIN, 1);
		wait_say("armed", outer, 0);
		MOD(inner, fd, EPOLLIN | EPOLLET, 1);
		wait_say("edge", outer, 0);
		wait_say("edge", inner, 0);
		wait_say("told", outer, 0);
		MOD(inner, fd, EPOLLIN, 1);
		wait_say("level", outer, 0);
		DEL(inner, fd);
		wait_say("gone", outer, 0);
		shows("gone", inner);
		ADD(inner, fd, EPOLLIN, 1);
		wait_say("back", outer, 0);
		MOD(inner, fd, EPOLLOUT, 1);
		wait_say("room", outer, 0);
		MOD(inner, fd, EPOLLIN, 1);
		app_hear(fd, 8);
		wait_say("drained", outer, 0);
	}
	app_sync();
	app_close(inner);
	app_close(outer);
	app_close(fd);
}

CASE(mixture, DIRECT, "a set of a stream and a pipe, one event a call")
{
	int fd = app_open(WARM | NODELAY), p[2];
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));
	unsigned int seen = 0;

	MUST(pipe(p));
	ADD(inner, fd, EPOLLIN, 0);
	ADD(inner, p[0], EPOLLIN, 1);
	ADD(outer, inner, EPOLLIN, 2);
	ADD(outer, fd, EPOLLIN, 3);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		SAY(p[1], "pipe");
		app_await_inq(fd, 4);
		wait_say("outer", outer, 5000);
		for (int i = 0; i < 12; i++) {
			struct epoll_event ev;

			if (epoll_wait(inner, &ev, 1, 0) == 1)
				seen |= 1u << ev.data.u64;
		}
		LOG("seen %u", seen);
		app_hear(fd, 4);
		wait_say("pipe", outer, 0);
		app_hear(p[0], 4);
		wait_say("neither", outer, 0);
		wait_say("neither", inner, 0);
	}
	app_sync();
	app_close(fd);
}

CASE(ends, DIRECT, "the peer's end shows outside until the stream is closed")
{
	int fd = app_open(WARM);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

	ADD(inner, fd, EPOLLIN | EPOLLRDHUP, 1);
	ADD(outer, inner, EPOLLIN, 2);
	app_sync();
	if (CLI) {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "last");
		app_close(fd);
	} else {
		app_flag_set(0, (uint64_t)gettid());
		wait_say("outer", outer, 10000);
		app_await_poll(fd, POLLRDHUP, 5000);
		wait_say("inner", inner, 0);
		app_hear(fd, 4);
		wait_say("end", outer, 0);
		wait_say("end", inner, 0);
		wait_say("end", outer, 0);
		app_close(fd);
		wait_say("closed", outer, 0);
		shows("closed", inner);
	}
	app_sync();
}

CASE(joins_inside, DIRECT,
     "registered cold in a set in a set, used all the way through the promotion")
{
	int fd = app_open(COLD | NODELAY);
	int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));
	struct epoll_event ev;
	uint32_t i;
	int n = 0;

	ADD(outer, inner, EPOLLIN, 2);
	ADD(inner, fd, EPOLLIN, 1);
	app_sync();
	for (i = 0; i < 3000; i++) {
		uint32_t got = ~i;

		if (CLI)
			MUST(write(fd, &i, sizeof(i)));
		n = epoll_wait(outer, &ev, 1, 10000);
		if (n != 1 || ev.data.u64 != 2)
			break;
		if (i % 3 && (n = epoll_wait(inner, &ev, 1, 0)) != 1)
			break;
		if (read(fd, &got, sizeof(got)) != sizeof(got) || got != i)
			break;
		n = epoll_wait(outer, &ev, 1, 0);
		if (n)
			break;
		if (SRV)
			MUST(write(fd, &got, sizeof(got)));
	}
	LOG("good %u, %d", i, n);
	app_sync();
	app_expect_rings(1);
	app_close(inner);
	app_close(outer);
	app_close(fd);
}

static int inside, outside;
static _Atomic int told_inside, told_outside;

static void wait_inside(void *arg)
{
	struct epoll_event ev;

	(void)arg;
	told_inside = epoll_wait(inside, &ev, 1, 10000);
}

static void wait_outside(void *arg)
{
	struct epoll_event ev;

	(void)arg;
	told_outside = epoll_wait(outside, &ev, 1, 10000);
}

CASE(both_asleep, DIRECT, "a thread sleeps on the set, one on the set around it: both wake")
{
	int fd = app_open(WARM | NODELAY);

	inside = (int)MUST(epoll_create1(0));
	outside = (int)MUST(epoll_create1(0));
	ADD(inside, fd, EPOLLIN, 1);
	ADD(outside, inside, EPOLLIN, 2);
	for (int i = 0; i < 8; i++) {
		struct app_thread in, out;

		told_inside = told_outside = 0;
		if (CLI) {
			app_await_asleep((pid_t)app_flag_wait(i));
			app_await_asleep((pid_t)app_flag_wait(i + 16));
			SAY(fd, "data");
		} else {
			app_thread_start(&in, wait_inside, NULL);
			app_thread_start(&out, wait_outside, NULL);
			app_flag_set(i, (uint64_t)in.tid);
			app_flag_set(i + 16, (uint64_t)out.tid);
			app_thread_join(&in);
			app_thread_join(&out);
			LOG("inside %d, outside %d", told_inside, told_outside);
			app_hear(fd, 4);
			wait_say("drained", outside, 0);
		}
		app_sync();
	}
	app_close(inside);
	app_close(outside);
	app_close(fd);
}

/* A nested set across a fork; @late: only the child adds it. */
static void over_fork(bool late)
{
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		int inner = (int)MUST(epoll_create1(0)), outer = (int)MUST(epoll_create1(0));

		ADD(inner, fd, EPOLLIN, 1);
		if (!late)
			ADD(outer, inner, EPOLLIN, 2);
		pid_t pid = fork();

		if (!pid) {
			if (late)
				ADD(outer, inner, EPOLLIN, 2);
			app_flag_set(0, (uint64_t)gettid());
			wait_say("child", outer, 10000);
			wait_say("child", inner, 0);
			app_hear(fd, 4);
			wait_say("child, drained", outer, 0);
			shows("child, drained", inner);
			_exit(0);
		}
		app_reap(pid, "child");
		wait_say("parent", outer, 0);
		app_flag_set(1, (uint64_t)gettid());
		wait_say("parent", outer, 10000);
		app_hear(fd, 4);
		wait_say("parent, drained", outer, 0);
		shows("parent, drained", inner);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "data");
		app_await_asleep((pid_t)app_flag_wait(1));
		SAY(fd, "more");
	}
	app_sync();
	app_close(fd);
}

CASE(over_fork, DIRECT, "a set in a set, used by parent and child")
{
	over_fork(false);
}

CASE(child_nests, DIRECT, "a child puts the shared set into another")
{
	over_fork(true);
}
