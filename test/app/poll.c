/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.c - tests readiness as poll and ppoll report it, and the longest timeouts; poll_select.c
 * tests select and pselect.
 */
#include "signals.h"

#include <limits.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>

static char buf[1 << 20];

static void say(const char *what, int n, const struct pollfd *pfd, int count)
{
	char text[512];
	int at = snprintf(text, sizeof(text), "%s: %d", what, n);

	for (int i = 0; i < count; i++) {
		short re = pfd[i].revents;

		at += snprintf(text + at, sizeof(text) - (size_t)at, " [%s%s%s%s%s%s%s]",
			       re & POLLIN ? "I" : "", re & POLLOUT ? "O" : "",
			       re & POLLPRI ? "P" : "", re & POLLRDHUP ? "R" : "",
			       re & POLLHUP ? "H" : "", re & POLLERR ? "E" : "",
			       re & POLLNVAL ? "N" : "");
	}
	LOG("%s", text);
}

CASE(poll_levels, DIRECT, "IN and OUT come and go with the bytes")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLIN | POLLOUT };

	say("fresh", poll(&pfd, 1, 0), &pfd, 1);
	app_sync();
	if (CLI) {
		SAY(fd, "123456");
	} else {
		app_await_inq(fd, 6);
		say("data", poll(&pfd, 1, 0), &pfd, 1);
		pfd.events = POLLIN;
		app_hear(fd, 3);
		say("half read", poll(&pfd, 1, 0), &pfd, 1);
		say("again", poll(&pfd, 1, 1000), &pfd, 1);
		app_hear(fd, 3);
		say("drained", poll(&pfd, 1, 0), &pfd, 1);
		pfd.events = POLLRDNORM | POLLWRNORM;
		R(poll(&pfd, 1, 0));
		LOG("WRNORM %d RDNORM %d", !!(pfd.revents & POLLWRNORM),
		    !!(pfd.revents & POLLRDNORM));
		pfd.events = 0;
		say("nothing asked", poll(&pfd, 1, 0), &pfd, 1);
	}
	app_sync();
	app_close(fd);
}

CASE(poll_timeout, DIRECT, "timeouts: none, short, with and without descriptors")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int64_t start = app_now_ms();

	say("0 ms", poll(&pfd, 1, 0), &pfd, 1);
	say("60 ms", poll(&pfd, 1, 60), &pfd, 1);
	R(poll(NULL, 0, 40));
	int64_t took = app_now_ms() - start;

	LOG("in time %d", took >= 95 && took < 5000);
	app_sync();
	app_close(fd);
}

CASE(poll_wakes_data, DIRECT, "a blocked poll wakes for data, each time")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	for (int i = 0; i < 3; i++) {
		if (SRV) {
			app_flag_set(i, (uint64_t)gettid());
			say("woken", poll(&pfd, 1, i == 1 ? 10000 : -1), &pfd, 1);
			app_hear(fd, 4);
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "data");
		}
	}
	app_sync();
	app_close(fd);
}

CASE(poll_wakes_end, DIRECT, "a blocked poll wakes for half-close, close and reset")
{
	int fds[3];
	struct linger lg = { 1, 0 };

	app_open_more(WARM, fds, 3);
	for (int i = 0; i < 3; i++) {
		struct pollfd pfd = { .fd = fds[i], .events = POLLIN | POLLRDHUP };

		if (SRV) {
			app_flag_set(i, (uint64_t)gettid());
			say("woken", poll(&pfd, 1, 10000), &pfd, 1);
			R(read(fds[i], buf, 1));
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

CASE(poll_wakes_out, DIRECT, "full: no OUT; a blocked poll wakes when the reader made room")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };

	if (SRV) {
		uint64_t total = app_fill(fd, 1);

		app_set_nonblock(fd, false);

		say("full", poll(&pfd, 1, 0), &pfd, 1);
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		say("room", poll(&pfd, 1, 10000), &pfd, 1);
		R(send(fd, "more", 4, MSG_DONTWAIT));
	} else {
		uint64_t total = app_flag_wait(1);

		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, total, 60000, 1));
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(poll_mixture, DIRECT,
     "streams, a pipe, an eventfd, a listener, holes and bad numbers in one array")
{
	int fds[4], p[2];

	app_open_more(WARM, fds, 4);
	MUST(pipe(p));
	int ev = (int)MUST(eventfd(0, 0));
	int ls = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct pollfd pfd[10] = {
		{ .fd = fds[0], .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
		{ .fd = p[0], .events = POLLIN },
		{ .fd = fds[1], .events = POLLIN },
		{ .fd = 900000, .events = POLLIN },
		{ .fd = ev, .events = POLLIN },
		{ .fd = fds[2], .events = POLLIN | POLLOUT },
		{ .fd = ls, .events = POLLIN },
		{ .fd = fds[3], .events = POLLRDHUP },
		{ .fd = fds[0], .events = POLLOUT },
	};

	MUST(listen(ls, 1));
	app_sync();
	if (CLI) {
		SAY(fds[1], "one");
		SAY(fds[2], "two");
		R(shutdown(fds[3], SHUT_WR));
		app_sync();
	} else {
		app_await_inq(fds[1], 3);
		app_await_inq(fds[2], 3);
		app_await_poll(fds[3], POLLRDHUP, 5000);
		app_sync();
		say("mixture", poll(pfd, 10, 1000), pfd, 10);
		SAY(p[1], "p");
		app_hear(fds[1], 3);
		say("pipe too", poll(pfd, 10, 1000), pfd, 10);
	}
	app_sync();
	for (int i = 0; i < 4; i++)
		app_close(fds[i]);
}

CASE(poll_other_wakes, DIRECT, "a poll over a quiet stream wakes for a pipe")
{
	int fd = app_open(WARM);
	int p[2];

	MUST(pipe(p));
	struct pollfd pfd[2] = { { .fd = fd, .events = POLLIN }, { .fd = p[0], .events = POLLIN } };

	if (SRV) {
		pid_t parent = getpid();
		pid_t pid = fork();

		if (!pid) {
			app_await_asleep(parent);
			SAY(p[1], "!");
			_exit(0);
		}
		say("woken", poll(pfd, 2, 10000), pfd, 2);
		app_reap(pid, "writer");
	}
	app_sync();
	app_close(fd);
}

CASE(poll_many, DIRECT, "60 streams, every third with data; then all of them")
{
	int fds[60];
	struct pollfd pfd[60];

	app_open_more(COLD, fds, 60);
	for (int i = 0; i < 6; i++)
		app_warm(fds[i * 10]);
	app_expect_rings(6);
	for (int i = 0; i < 60; i++)
		pfd[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	app_sync();
	for (int step = 3; step >= 1; step -= 2) {
		for (int i = 0; i < 60; i += step) {
			if (CLI)
				SAY(fds[i], "x");
			else
				app_await_poll(fds[i], POLLIN, 5000);
		}
		app_sync();
		if (SRV) {
			int ready = 0, n = poll(pfd, 60, 1000);

			for (int i = 0; i < 60; i++)
				ready += (pfd[i].revents == POLLIN) == (i % step == 0);
			LOG("poll %d, right %d", n, ready);
			for (int i = 0; i < 60; i += step)
				MUST(read(fds[i], buf, 10));
		}
		app_sync();
	}
	for (int i = 0; i < 60; i++)
		app_close(fds[i]);
}

CASE(poll_errors, DIRECT, "bad arrays and counts")
{
	int fd = app_open(WARM);
	struct rlimit limit;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	volatile nfds_t many;
	struct timespec ts = { 0, 2000000000 };

	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	many = limit.rlim_cur + 1;
	R(poll((struct pollfd *)8, 1, 0));
	R(poll(&pfd, many, 0));
	R(ppoll(&pfd, 1, &ts, NULL));
	ts = (struct timespec){ -1, 0 };
	R(ppoll(&pfd, 1, &ts, NULL));
	app_sync();
	app_close(fd);
}

CASE(ppoll_mask, DIRECT, "ppoll lets a blocked signal in, and only while it waits")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct timespec ts = { 10, 0 };
	sigset_t block, empty;

	sigemptyset(&empty);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	catch_signal(SIGUSR1, 0);
	MUST(sigprocmask(SIG_BLOCK, &block, NULL));
	MUST(raise(SIGUSR1));
	LOG("signals %d", signals);
	R(ppoll(&pfd, 1, &ts, &empty));
	LOG("signals %d", signals);
	MUST(raise(SIGUSR1));
	ts = (struct timespec){ 0, 20000000 };
	R(ppoll(&pfd, 1, &ts, &block));
	R(ppoll(&pfd, 1, &ts, NULL));
	LOG("timeout untouched %d, signals %d", ts.tv_nsec == 20000000, signals);
	app_sync();
	app_close(fd);
}

CASE(poll_pingpong, DIRECT, "3,000 round trips, each with poll before read")
{
	int fd = app_open(WARM | NODELAY);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int good = 0;

	app_set_nonblock(fd, true);
	for (uint32_t i = 0; i < 3000; i++) {
		uint32_t got = ~i;

		if (CLI)
			MUST(write(fd, &i, sizeof(i)));
		if (poll(&pfd, 1, 10000) != 1 || read(fd, &got, sizeof(got)) != sizeof(got))
			break;
		if (SRV)
			MUST(write(fd, &got, sizeof(got)));
		good += got == i;
	}
	LOG("good %d", good);
	app_sync();
	app_close(fd);
}

static void says_later(void *arg)
{
	app_pause_ms(50);
	SAY(*(int *)arg, "x");
}

CASE(longest_timeouts, DIRECT, "the longest times there are do not pass at once")
{
	const struct timespec ts = { .tv_sec = LONG_MAX };
	int fd = app_open(WARM);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval tv = { .tv_sec = LONG_MAX };
	fd_set in;

	for (int i = 0; i < 3; i++) {
		if (CLI) {
			struct app_thread later;
			char c;

			app_thread_start(&later, says_later, &fd);
			app_thread_join(&later);
			app_read_full(fd, &c, 1);
			continue;
		}
		FD_ZERO(&in);
		FD_SET(fd, &in);
		if (i == 0)
			R(ppoll(&p, 1, &ts, NULL));
		else if (i == 1)
			R(pselect(fd + 1, &in, NULL, NULL, &ts, NULL));
		else
			R(select(fd + 1, &in, NULL, NULL, &tv));
		char c = 0;

		R(recv(fd, &c, 1, 0));
		SAY(fd, "y");
	}
	app_sync();
	app_close(fd);
}
