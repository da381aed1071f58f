/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * edges.c - tests the kernel's behaviour at the limits of a call: its longest and shortest results,
 * what it refuses, and what is inherited.
 */
#include <sys/resource.h>
#include <sys/select.h>

#include "app.h"

#define RUN_BYTES (64u << 20)
#define RUNS 33 /* 2,112 MiB: more than one call moves */

static char *run_of(size_t len)
{
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buf == MAP_FAILED)
		app_die("mmap");
	return buf;
}

/* A vector whose runs all use the same buffer. */
static void vector_of(struct iovec iov[RUNS], char *buf)
{
	for (int i = 0; i < RUNS; i++)
		iov[i] = (struct iovec){ buf, RUN_BYTES };
}

static void swallow(int fd)
{
	static char buf[1 << 18];
	uint64_t got = 0;
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0)
		got += (uint64_t)n;
	LOG("came: %llu, then %zd", (unsigned long long)got, n);
}

CASE(most_sent, DIRECT | LONG_RUN, "more than 2 GiB in one call: 0x7ffff000 bytes are sent")
{
	int fd = app_open(WARM);

	if (CLI) {
		struct iovec iov[RUNS];

		vector_of(iov, run_of(RUN_BYTES));
		R(writev(fd, iov, RUNS));
		R(shutdown(fd, SHUT_WR));
	} else {
		swallow(fd);
	}
	app_sync();
	app_close(fd);
}

CASE(most_awaited, DIRECT | LONG_RUN,
     "MSG_WAITALL for more than 2 GiB: 0x7ffff000 bytes are waited for")
{
	int fd = app_open(WARM);
	char *buf = run_of(RUN_BYTES);
	struct iovec iov[RUNS];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = RUNS };

	vector_of(iov, buf);
	if (CLI) {
		for (uint64_t left = (uint64_t)RUNS * RUN_BYTES; left; left -= RUN_BYTES)
			app_write_all(fd, buf, RUN_BYTES);
		R(shutdown(fd, SHUT_WR));
	} else {
		R(recvmsg(fd, &msg, MSG_WAITALL));
		swallow(fd);
	}
	app_sync();
	app_close(fd);
}

static void tell_error(int fd, socklen_t room)
{
	unsigned char err[sizeof(int)] = { 0x5a, 0x5a, 0x5a, 0x5a };
	socklen_t len = room;

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, err, &len));
	LOG("%u: %u bytes: %02x %02x %02x %02x", room, len, err[0], err[1], err[2], err[3]);
}

/* @kept: a receive has met the error behind some bytes, and left it for the next call. */
static void short_errors(bool kept)
{
	struct linger lg = { 1, 0 };
	int fds[3];
	char buf[100];

	app_open_more(WARM, fds, 3);
	for (socklen_t room = 0; room < 3; room++) {
		int fd = fds[room];

		if (CLI) {
			if (kept) {
				SAY(fd, "0123456789");
				app_await_asleep((pid_t)app_flag_wait((int)room));
			}
			MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
			app_close(fd);
			app_sync();
			continue;
		}
		if (kept) {
			app_await_inq(fd, 10);
			app_flag_set((int)room, (uint64_t)gettid());
			RB(buf, recv(fd, buf, sizeof(buf), MSG_WAITALL));
		}
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		tell_error(fd, room);
		tell_error(fd, sizeof(int));
		R(recv(fd, buf, 1, 0));
		app_close(fd);
	}
	app_sync();
}

CASE(short_so_error, DIRECT, "SO_ERROR with less room than it needs: told, and over with")
{
	short_errors(false);
}

CASE(short_so_error_kept, DIRECT, "the same of an error that a receive has met behind some bytes")
{
	short_errors(true);
}

CASE(dup_beyond_limit, DIRECT,
     "dup onto an open number beyond a lowered limit: refused, and that one goes on")
{
	int fds[2], high;
	struct rlimit lim;

	app_open_more(WARM, fds, 2);
	high = (int)MUST(fcntl(fds[1], F_DUPFD, 200));
	MUST(close(fds[1]));
	MUST(getrlimit(RLIMIT_NOFILE, &lim));
	lim.rlim_cur = 100;
	MUST(setrlimit(RLIMIT_NOFILE, &lim));
	R(dup2(fds[0], high));
	R(dup3(fds[0], high, O_CLOEXEC));
	R(dup2(high, high));
	app_sync();
	if (CLI) {
		SAY(high, "still here");
		SAY(fds[0], "here, too");
	} else {
		app_hear(high, 10);
		app_hear(fds[0], 9);
	}
	app_sync();
	app_expect_rings(2);
	MUST(close(high));
	app_close(fds[0]);
}

CASE(into_no_set, DIRECT, "epoll_ctl on what is no set: EINVAL, and the stream goes on by its ring")
{
	int fd = app_open(WARM), p[2];
	struct epoll_event ev = { .events = EPOLLIN };

	MUST(pipe(p));
	R(epoll_ctl(p[0], EPOLL_CTL_ADD, fd, &ev));
	R(epoll_ctl(p[0], EPOLL_CTL_MOD, fd, &ev));
	R(epoll_ctl(p[0], EPOLL_CTL_DEL, fd, &ev));
	R(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &ev));
	R(epoll_ctl(400, EPOLL_CTL_ADD, fd, &ev));
	app_sync();
	if (CLI)
		SAY(fd, "hello");
	else
		app_hear(fd, 5);
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

static void select_exceptions(int fd, int more, int timeout_ms)
{
	struct timeval tv = { timeout_ms / 1000, timeout_ms % 1000 * 1000 };
	int64_t began = app_now_ms();
	fd_set r, e;

	FD_ZERO(&r);
	FD_ZERO(&e);
	FD_SET(fd, &e);
	if (more >= 0)
		FD_SET(more, &r);
	R(select((fd > more ? fd : more) + 1, more >= 0 ? &r : NULL, NULL, &e,
		 timeout_ms < 0 ? NULL : &tv));
	LOG("exception %d, readable %d, slept as long %d", FD_ISSET(fd, &e),
	    more >= 0 && FD_ISSET(more, &r), timeout_ms < 0 || app_now_ms() - began >= timeout_ms);
}

static void write_later(void *fd)
{
	app_pause_ms(50);
	MUST(write(*(int *)fd, "x", 1));
}

CASE(exceptions_alone, DIRECT,
     "select for exceptions of a stream that has hung up: none, until its time is over")
{
	int fd = app_open(WARM), p[2];
	struct app_thread thread;

	MUST(pipe(p));
	R(shutdown(fd, SHUT_WR));
	app_await_poll(fd, POLLHUP, 5000);
	select_exceptions(fd, -1, 0);
	select_exceptions(fd, -1, 30);
	select_exceptions(fd, p[0], 30);
	app_thread_start(&thread, write_later, &p[1]);
	select_exceptions(fd, p[0], -1);
	app_thread_join(&thread);
	app_sync();
	app_close(fd);
}
