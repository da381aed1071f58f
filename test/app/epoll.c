/* SPDX-License-Identifier: BSD-2-Clause */
/* epoll.c - tests epoll: level, edge, oneshot, MOD, wake-ups. One thread waits. */
#include "epoll_say.h"

static char buf[16];

CASE(level, DIRECT, "level: ready as long as bytes are there")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN, 7);
	wait_say("quiet", ep, 0);
	app_sync();
	if (CLI) {
		SAY(fd, "123456");
	} else {
		app_await_inq(fd, 6);
		wait_say("data", ep, 1000);
		wait_say("still", ep, 1000);
		app_hear(fd, 3);
		wait_say("half read", ep, 0);
		app_hear(fd, 3);
		wait_say("drained", ep, 0);
		MOD(ep, fd, EPOLLIN | EPOLLOUT, 8);
		wait_say("out", ep, 0);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(edge, DIRECT, "edge: once an arrival, also when bytes are left")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLET, 1);
	wait_say("quiet", ep, 0);
	app_sync();
	for (int i = 0; i < 3; i++) {
		if (CLI) {
			SAY(fd, "12345");
		} else {
			app_await_inq(fd, 5 + i * 3);
			wait_say("arrival", ep, 5000);
			wait_say("no new one", ep, 0);
			app_hear(fd, 2);
			wait_say("after a partial read", ep, 0);
		}
		app_sync();
	}
	if (SRV) {
		app_hear(fd, 9);
		wait_say("drained", ep, 0);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(edge_in_out, DIRECT, "edge with IN and OUT: OUT at once, both with an arrival")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 1);
	wait_say("registered", ep, 0);
	wait_say("then quiet", ep, 0);
	app_sync();
	if (CLI) {
		SAY(fd, "12345");
	} else {
		app_await_inq(fd, 5);
		wait_say("arrival", ep, 5000);
		app_hear(fd, 5);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(edge_out, DIRECT, "edge: OUT once room was made after the stream was full")
{
	int fd = app_open(WARM);

	if (SRV) {
		int ep = (int)MUST(epoll_create1(0));

		ADD(ep, fd, EPOLLOUT | EPOLLET, 1);
		wait_say("registered", ep, 0);
		uint64_t total = app_fill(fd, 1);

		wait_say("full", ep, 0);
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		wait_say("room", ep, 10000);
		R(send(fd, "more", 4, 0));
		app_close(ep);
	} else {
		uint64_t total = app_flag_wait(1);

		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, total, 60000, 1));
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(level_out, DIRECT, "level: no OUT while full, OUT for good once drained")
{
	int fd = app_open(WARM);

	if (SRV) {
		int ep = (int)MUST(epoll_create1(0));

		ADD(ep, fd, EPOLLOUT, 1);
		uint64_t total = app_fill(fd, 1);

		wait_say("full", ep, 0);
		wait_say("full", ep, 20);
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		wait_say("room", ep, 10000);
		app_sync();
		wait_say("drained", ep, 0);
		wait_say("drained", ep, 0);
		R(send(fd, "more", 4, 0));
		app_close(ep);
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

CASE(oneshot, DIRECT, "EPOLLONESHOT: one event, then silence until MOD")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLONESHOT, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "first");
		app_sync();
		SAY(fd, "second");
		R(shutdown(fd, SHUT_WR));
		app_sync();
	} else {
		app_await_inq(fd, 5);
		wait_say("first", ep, 5000);
		wait_say("fired", ep, 0);
		app_sync();
		app_sync();
		app_await_inq(fd, 11);
		wait_say("still fired", ep, 0);
		MOD(ep, fd, EPOLLIN | EPOLLONESHOT, 2);
		wait_say("armed again", ep, 5000);
		wait_say("fired", ep, 0);
		app_hear(fd, 11);
		MOD(ep, fd, EPOLLIN | EPOLLONESHOT | EPOLLET, 3);
		wait_say("the end", ep, 5000);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(mod_edge, DIRECT, "MOD of an edge registration tells again what is ready")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLET, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		wait_say("arrival", ep, 5000);
		wait_say("quiet", ep, 0);
		MOD(ep, fd, EPOLLIN | EPOLLET, 2);
		wait_say("after MOD", ep, 0);
		wait_say("quiet", ep, 0);
		MOD(ep, fd, EPOLLOUT | EPOLLET, 3);
		wait_say("OUT now", ep, 0);
		MOD(ep, fd, 0, 4);
		wait_say("nothing asked", ep, 0);
		app_hear(fd, 4);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(del_add, DIRECT, "DEL silences; ADD again finds what is there")
{
	int fd = app_open(WARM);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN | EPOLLET, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		DEL(ep, fd);
		wait_say("deleted", ep, 0);
		ADD(ep, fd, EPOLLIN | EPOLLET, 2);
		wait_say("added again", ep, 0);
		app_hear(fd, 4);
		DEL(ep, fd);
		DEL(ep, fd);
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(out_and_in, DIRECT, "a registration that is taken out is gone, and comes back as a new one")
{
	int fd = app_open(WARM | NODELAY), two;
	int ep = (int)MUST(epoll_create1(0)), other = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "data");
		app_sync();
		R(shutdown(fd, SHUT_WR));
		app_sync();
	} else {
		app_await_inq(fd, 4);
		DEL(ep, fd);
		MOD(ep, fd, EPOLLIN, 2);
		wait_say("out", ep, 0);
		ADD(ep, fd, EPOLLOUT, 3);
		ADD(ep, fd, EPOLLIN, 4);
		wait_say("room", ep, 0);
		MOD(ep, fd, EPOLLIN | EPOLLOUT | EPOLLET, 5);
		wait_say("both", ep, 0);
		wait_say("once", ep, 0);
		DEL(ep, fd);
		ADD(ep, fd, EPOLLIN | EPOLLONESHOT, 6);
		wait_say("one shot", ep, 0);
		wait_say("no other", ep, 0);
		DEL(ep, fd);
		/* Moves it to another set, to another number, and back. */
		ADD(other, fd, EPOLLIN, 7);
		wait_say("other set", other, 0);
		wait_say("out of this", ep, 0);
		ADD(ep, fd, EPOLLIN, 8);
		wait_say("both sets", ep, 0);
		DEL(ep, fd);
		two = (int)MUST(dup(fd));
		ADD(ep, two, EPOLLIN, 9);
		wait_say("the dup", ep, 0);
		DEL(ep, two);
		DEL(other, fd);
		app_close(fd);
		wait_say("number closed", ep, 0);
		MUST(dup2(two, fd));
		ADD(ep, fd, EPOLLIN, 10);
		ADD(other, fd, EPOLLIN, 11);
		wait_say("number again", ep, 0);
		wait_say("number again, other set", other, 0);
		app_hear(fd, 4);
		wait_say("read", ep, 0);
		DEL(ep, fd);
		app_sync();
		/* The end comes while it is in no set. */
		app_await_poll(fd, POLLRDHUP, 5000);
		app_sync();
		wait_say("out at the end", ep, 0);
		ADD(ep, fd, EPOLLRDHUP | EPOLLET, 12);
		wait_say("end", ep, 0);
		wait_say("end told", ep, 0);
		DEL(ep, fd);
		ADD(ep, fd, EPOLLIN | EPOLLEXCLUSIVE, 13);
		wait_say("exclusive", ep, 0);
	}
	app_sync();
	app_close(ep);
	app_close(other);
	app_close(fd);
}

CASE(ends, DIRECT, "RDHUP, HUP and ERR, asked for or not")
{
	int fds[3];
	struct linger lg = { 1, 0 };

	app_open_more(WARM, fds, 3);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fds[0], EPOLLIN | EPOLLRDHUP, 1);
	ADD(ep, fds[1], 0, 2);
	ADD(ep, fds[2], EPOLLRDHUP | EPOLLET, 3);
	app_sync();
	for (int i = 0; i < 3; i++) {
		if (CLI) {
			if (i == 1)
				MUST(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
			if (i)
				app_close(fds[i]);
			else
				R(shutdown(fds[0], SHUT_WR));
			app_sync();
			app_sync();
			continue;
		}
		app_sync();
		app_await_poll(fds[i], i == 1 ? POLLHUP : POLLRDHUP, 5000);
		wait_say(i == 0 ? "half-close" : i == 1 ? "reset" : "close", ep, 5000);
		if (i < 2) {
			DEL(ep, fds[i]);
		} else {
			wait_say("edge told", ep, 0);
			R(shutdown(fds[2], SHUT_WR));
			app_await_poll(fds[2], POLLHUP, 5000);
			wait_say("both halves", ep, 5000);
		}
		app_sync();
	}
	app_sync();
}

CASE(wakes, DIRECT, "a blocked epoll_wait wakes for data, again and again, level and edge")
{
	int fd = app_open(WARM | NODELAY);
	int ep = (int)MUST(epoll_create1(0));

	ADD(ep, fd, EPOLLIN, 1);
	for (int i = 0; i < 4; i++) {
		if (SRV) {
			if (i == 2)
				MOD(ep, fd, EPOLLIN | EPOLLET, 2);
			app_flag_set(i, (uint64_t)gettid());
			wait_say("woken", ep, i % 2 ? 10000 : -1);
			app_hear(fd, 4);
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		}
	}
	app_sync();
	app_close(ep);
	app_close(fd);
}

CASE(wakes_end, DIRECT, "a blocked epoll_wait wakes for half-close, close and reset")
{
	int fds[3];
	struct linger lg = { 1, 0 };

	app_open_more(WARM, fds, 3);
	for (int i = 0; i < 3; i++) {
		if (SRV) {
			int ep = (int)MUST(epoll_create1(0));

			ADD(ep, fds[i], EPOLLIN | EPOLLRDHUP | (i == 1 ? EPOLLET : 0), (uint64_t)i);
			app_flag_set(i, (uint64_t)gettid());
			wait_say("woken", ep, 10000);
			R(read(fds[i], buf, 1));
			app_close(ep);
			app_close(fds[i]);
			continue;
		}
		app_await_asleep((pid_t)app_flag_wait(i));
		if (i == 2)
			MUST(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		if (i == 0)
			R(shutdown(fds[i], SHUT_WR));
		else
			app_close(fds[i]);
	}
	app_sync();
	if (CLI)
		app_close(fds[0]);
}
