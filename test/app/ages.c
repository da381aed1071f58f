/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ages.c - tests what ends a stream, or changes its use, at each moment around its promotion: these
 * cases do not warm the stream up.
 */
#include "app.h"

static char buf[1 << 10];

/*
 * Opens streams and ends them with @end after different numbers of messages around the promotion.
 */
static void at_every_age(void (*end)(int fd, int age))
{
	enum {
		STEP = 7,
		AGES = 60
	};
	int listener = SRV ? app_listen(COLD) : -1;
	int one = 1;

	app_sync();
	for (int k = 0; k < AGES; k++) {
		int fd = SRV ? app_accept(listener) : app_connect(COLD);

		MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		for (uint32_t i = 0; i < (uint32_t)(k * STEP); i++) {
			uint32_t got = ~i;

			if (CLI)
				MUST(write(fd, &i, sizeof(i)));
			if (app_read_full(fd, &got, sizeof(got)) != sizeof(got) || got != i)
				app_die("age %d, message %u", k, i);
			if (SRV)
				MUST(write(fd, &got, sizeof(got)));
		}
		end(fd, k);
		app_sync();
	}
}

static void end_half_close(int fd, int age)
{
	char text[32];

	(void)age;
	if (CLI) {
		SAY(fd, "last request");
		MUST(shutdown(fd, SHUT_WR));
		app_hear(fd, 5);
		R(read(fd, text, 1));
	} else {
		app_drain(fd, "drained");
		SAY(fd, "reply");
	}
	app_close(fd);
}

CASE(age_half_close, 0, "half-close at every age from 0 to 413 round trips")
{
	at_every_age(end_half_close);
}

static void end_reset(int fd, int age)
{
	struct linger lg = { 1, 0 };

	(void)age;
	if (CLI) {
		SAY(fd, "12345");
		app_flag_wait(2);
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		app_close(fd);
	} else {
		app_await_inq(fd, 5);
		app_flag_set(2, 1);
		app_await_poll(fd, POLLHUP, 5000);
		app_drain(fd, "drained");
		R(recv(fd, buf, 1, 0));
		app_close(fd);
	}
	app_sync();
	if (SRV)
		app_flag_set(2, 0);
}

CASE(age_reset, 0, "reset at every age from 0 to 413 round trips")
{
	at_every_age(end_reset);
}

static void end_burst(int fd, int age)
{
	if (CLI == (age % 2 == 0)) {
		if (!app_send_pattern(fd, 300000, 9999, (unsigned int)age))
			LOG("age %d", age);
	} else {
		if (!app_recv_pattern(fd, 300000, 8888, (unsigned int)age))
			LOG("age %d", age);
	}
	app_sync();
	app_close(fd);
}

CASE(age_burst, 0, "a burst of 300 KB at every age from 0 to 413 round trips")
{
	at_every_age(end_burst);
}

static void end_fork(int fd, int age)
{
	(void)age;
	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			app_hear(fd, 5);
			SAY(fd, "child");
			_exit(0);
		}
		app_close(fd);
		waitpid(pid, NULL, 0);
	} else {
		SAY(fd, "hello");
		app_hear(fd, 5);
		R(read(fd, buf, 1));
		app_close(fd);
	}
}

CASE(age_fork, 0, "handed to a child at every age from 0 to 413 round trips")
{
	at_every_age(end_fork);
}

static void end_epoll(int fd, int age)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET, .data.u64 = (uint64_t)age };

	if (SRV) {
		int ep = (int)MUST(epoll_create1(0));

		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		app_flag_set(3, (uint64_t)gettid());
		for (int i = 0; i < 30; i++) {
			char text[4];

			if (epoll_wait(ep, &ev, 1, 10000) != 1 || read(fd, text, 4) != 4)
				app_die("age %d, event %d", age, i);
			app_write_all(fd, text, 4);
		}
		app_close(ep);
	} else {
		for (int i = 0; i < 30; i++) {
			char text[4];

			app_write_all(fd, "ping", 4);
			if (app_read_full(fd, text, 4) != 4)
				app_die("age %d, reply %d", age, i);
		}
	}
	app_sync();
	app_close(fd);
}

CASE(age_epoll, 0, "put into an edge-triggered epoll at every age from 0 to 413 round trips")
{
	at_every_age(end_epoll);
	LOG("done");
}

static void end_bytes_left(int fd, int age)
{
	(void)age;
	if (CLI) {
		app_write_all(fd, "0123456789", 10);
		R(recv(fd, buf, 1, 0));
		app_close(fd);
	} else {
		app_await_inq(fd, 10);
		app_hear(fd, 5);
		app_close(fd);
	}
}

CASE(age_close_unread, 0, "closed with unread bytes at every age from 0 to 413 round trips")
{
	at_every_age(end_bytes_left);
}
