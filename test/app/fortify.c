/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fortify.c - tests the fortified calls. Built with -O2 -D_FORTIFY_SOURCE=2: buffers of known size
 * and lengths that are not known make the calls below go to __read_chk, __recv_chk, __recvfrom_chk,
 * __poll_chk, __ppoll_chk, __fdelt_chk, __dprintf_chk and __vdprintf_chk. A ctest checks that this
 * program references these symbols.
 */
#include "app.h"

#include <stdarg.h>
#include <sys/select.h>

static char buf[4096];
static volatile size_t some = 5; /* the compiler must not know */
static volatile nfds_t one = 1;

CASE(read_chk, DIRECT, "__read_chk")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_poll(fd, POLLRDHUP, 5000);
		RB(buf, read(fd, buf, some));
		RB(buf, read(fd, buf, some + 100));
		R(read(fd, buf, some));
		R(read(-1, buf, some));
	}
	app_sync();
	app_close(fd);
}

CASE(recv_chk, DIRECT, "__recv_chk, with flags")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		RB(buf, recv(fd, buf, some, MSG_PEEK));
		RB(buf, recv(fd, buf, some, 0));
		RB(buf, recv(fd, buf, some, MSG_WAITALL));
		R(recv(fd, buf, some, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(recvfrom_chk, DIRECT, "__recvfrom_chk")
{
	int fd = app_open(WARM);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from);

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		RB(buf, recvfrom(fd, buf, some, 0, (struct sockaddr *)&from, &len));
		LOG("length %u", len);
		RB(buf, recvfrom(fd, buf, some, 0, NULL, NULL));
		R(recvfrom(fd, buf, some, MSG_DONTWAIT, NULL, NULL));
	}
	app_sync();
	app_close(fd);
}

CASE(poll_chk, DIRECT, "__poll_chk and __ppoll_chk")
{
	int fd = app_open(WARM);
	struct pollfd pfd[2] = { { .fd = fd, .events = POLLIN }, { .fd = -1 } };
	struct timespec ts = { 0, 10000000 };

	R(poll(pfd, one, 0));
	R(ppoll(pfd, one, &ts, NULL));
	app_sync();
	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		R(poll(pfd, one + 1, 10000));
		LOG("revents %#x", (unsigned int)pfd[0].revents);
		ts.tv_sec = 10;
		R(ppoll(pfd, one, &ts, NULL));
		app_hear(fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "data");
	}
	app_sync();
	app_close(fd);
}

CASE(fdelt_chk, DIRECT, "FD_SET with __fdelt_chk, select")
{
	int fd = app_open(WARM);
	volatile int number = fd;
	fd_set rd;

	if (SRV) {
		FD_ZERO(&rd);
		FD_SET(number, &rd);
		app_flag_set(0, (uint64_t)gettid());
		R(select(number + 1, &rd, NULL, NULL, NULL));
		LOG("set %d", !!FD_ISSET(number, &rd));
		app_hear(fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "data");
	}
	app_sync();
	app_close(fd);
}

static void say_va(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say_va(int fd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	LOG("vdprintf %d", vdprintf(fd, fmt, ap));
	va_end(ap);
}

CASE(dprintf_chk, DIRECT, "__dprintf_chk and __vdprintf_chk")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(dprintf(fd, "value %d ", (int)some));
		R(write(fd, "between ", 8));
		say_va(fd, "and %s", "varargs");
		R(write(fd, "!", 1));
	} else {
		app_hear(fd, 28);
	}
	app_sync();
	app_close(fd);
}

CASE(bulk_chk, DIRECT, "2 MiB by fortified reads of growing sizes")
{
	int fd = app_open(WARM);
	uint64_t pos = 0, len = 2u << 20;
	bool ok = true;

	if (CLI) {
		R(app_send_pattern(fd, len, 6000, 1));
	} else {
		while (pos < len && ok) {
			some = some % sizeof(buf) + 1;
			ssize_t n = pos % 3 ? read(fd, buf, some) : recv(fd, buf, some, 0);

			ok = n > 0 && app_pattern_ok(buf, (size_t)n, pos, 1);
			pos += n > 0 ? (uint64_t)n : 0;
		}
		LOG("ok %d", ok);
	}
	app_sync();
	app_close(fd);
}

CASE(overflow_aborts, DIRECT, "a read that would overflow the buffer is still caught: SIGABRT")
{
	int fd = app_open(WARM);

	if (SRV) {
		for (int i = 0; i < 3; i++) {
			pid_t pid = fork();

			if (!pid) {
				char small[16];
				size_t len = some + 100;
				ssize_t n = i == 0 ? read(fd, small, len) :
					    i == 1 ? recv(fd, small, len, 0) :
						     recvfrom(fd, small, len, 0, NULL, NULL);

				_exit(n > 0 ? small[0] : 1);
			}
			app_reap(pid, "child");
		}
		app_hear(fd, 4);
	} else {
		SAY(fd, "safe");
	}
	app_sync();
	app_close(fd);
}
