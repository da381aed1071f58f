/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ready.c - tests that a program which was told of readiness finds bytes, while more are coming: no
 * EAGAIN after POLLIN, or after FIONREAD.
 */
#include "app.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define BYTES (48u << 20)
#define SEED 7

static char buf[8192]; /* less than a slot, as some programs read */

/* Reads on from @got, as many bytes as are reported; false: there were none. */
static bool read_told(int fd, uint64_t *got)
{
	int there = 1;

	do {
		ssize_t n = read(fd, buf, sizeof(buf));

		if (n <= 0)
			return false;
		if (!app_pattern_ok(buf, (size_t)n, *got, SEED))
			app_die("wrong bytes at %llu", (unsigned long long)*got);
		*got += (uint64_t)n;
		MUST(ioctl(fd, FIONREAD, &there));
	} while (there > 0 && *got < BYTES);
	return true;
}

static void receive(int fd, bool by_set)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), in_vain = 0;
	uint64_t got = 0;

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	MUST(fcntl(fd, F_SETFL, O_NONBLOCK));
	while (got < BYTES) {
		if (by_set ? epoll_wait(ep, &ev, 1, 30000) != 1 : poll(&pfd, 1, 30000) != 1)
			app_die("nothing for 30 s, at %llu", (unsigned long long)got);
		in_vain += !read_told(fd, &got);
	}
	LOG("told in vain: %d times", in_vain);
	close(ep);
}

static void told(bool by_set)
{
	int fd = app_open(WARM);

	if (CLI)
		R(app_send_pattern(fd, BYTES, 40000, SEED));
	else
		receive(fd, by_set);
	app_sync();
	app_close(fd);
}

CASE(told_by_poll, DIRECT, "poll, then reads until FIONREAD says 0: each gets something")
{
	told(false);
}

CASE(told_by_set, DIRECT, "the same with a level-triggered epoll set")
{
	told(true);
}

CASE(lowat_of_both, DIRECT, "SO_RCVLOWAT counts bytes of the ring and of TCP behind them together")
{
	int fd = app_open(WARM), low = 20;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	if (CLI) {
		SAY(fd, "0123456789");
		fclose(fdopen((int)MUST(dup(fd)), "r"));
		SAY(fd, "abcdefghi");
		app_sync();
		app_sync();
		SAY(fd, "j");
		app_sync();
	} else {
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		app_await_inq(fd, 19);
		app_sync();
		R(poll(&p, 1, 0));
		app_sync();
		app_await_inq(fd, 20);
		app_sync();
		R(poll(&p, 1, 0));
		app_hear(fd, 20);
	}
	app_sync();
	app_close(fd);
}
