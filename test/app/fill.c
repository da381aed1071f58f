/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fill.c - tests more data than fits: partial writes until EAGAIN, blocked writes, large messages.
 */
#include "app.h"

static char buf[1 << 20];

/* Writes until EAGAIN and tells the reader how much; both sides record whether it was the same. */
static void fill_and_drain(int fd, ssize_t (*put)(int fd, const void *from, size_t len))
{
	uint64_t total = 0;

	if (CLI) {
		ssize_t n;

		app_set_nonblock(fd, true);
		for (;;) {
			app_pattern(buf, 10007, total, 5);
			n = put(fd, buf, 10007);
			if (n <= 0)
				break;
			total += (uint64_t)n;
		}
		LOG("ends with %zd %s, some bytes: %d", n, app_errname(errno), total > 0);
		/* The peer's kernel may make room at any time. */
		app_pattern(buf, 1, total, 5);
		n = put(fd, buf, 1);
		LOG("one more or none: %d", n == 1 || (n < 0 && errno == EAGAIN));
		total += n > 0;
		LOG("POLLOUT %d", app_await_poll(fd, 0, 1));
		app_flag_set(1, total);
		LOG("POLLOUT %d", !!(app_await_poll(fd, POLLOUT, 10000) & POLLOUT));
		app_sync();
		R(put(fd, "more", 4));
	} else {
		total = app_flag_wait(1);
		R(app_recv_pattern(fd, total, 4099, 5));
		app_sync();
		app_hear(fd, 4);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

static ssize_t put_send(int fd, const void *from, size_t len)
{
	return send(fd, from, len, 0);
}

static ssize_t put_writev(int fd, const void *from, size_t len)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)from, len / 2 },
				{ (char *)(uintptr_t)from + len / 2, len - len / 2 } };

	return writev(fd, iov, 2);
}

CASE(fill_write, DIRECT, "non-blocking write until EAGAIN, drain, go on")
{
	fill_and_drain(app_open(WARM), write);
}

CASE(fill_send, DIRECT, "non-blocking send until EAGAIN, drain, go on")
{
	fill_and_drain(app_open(WARM), put_send);
}

CASE(fill_writev, DIRECT, "non-blocking writev until EAGAIN, drain, go on")
{
	fill_and_drain(app_open(WARM), put_writev);
}

CASE(fill_twice, DIRECT, "both directions full at once, then drained")
{
	int fd = app_open(WARM);
	uint64_t total = 0;
	ssize_t n;

	app_set_nonblock(fd, true);
	for (;;) {
		app_pattern(buf, 5003, total, (unsigned int)app_side);
		n = write(fd, buf, 5003);
		if (n <= 0)
			break;
		total += (uint64_t)n;
	}
	LOG("ends with %zd %s", n, app_errname(errno));
	app_flag_set(app_side, total);
	app_sync();
	app_set_nonblock(fd, false);
	R(app_recv_pattern(fd, app_flag_wait(!app_side), 65536, (unsigned int)!app_side));
	app_sync();
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

CASE(blocking_write_whole, DIRECT, "a blocking write of 8 MiB returns when all of it is taken")
{
	int fd = app_open(WARM);
	size_t len = 8u << 20;

	if (CLI) {
		char *big = malloc(len);

		app_pattern(big, len, 0, 3);
		app_flag_set(0, (uint64_t)gettid());
		LOG("write %zd", write(fd, big, len));
		free(big);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, len, 30000, 3));
	}
	app_sync();
	app_close(fd);
}

CASE(large_send_waitall, DIRECT, "1 MiB in one send, taken by one recv with MSG_WAITALL")
{
	int fd = app_open(WARM);

	if (CLI) {
		app_pattern(buf, sizeof(buf), 0, 1);
		R(send(fd, buf, sizeof(buf), 0));
	} else {
		RB(buf, recv(fd, buf, sizeof(buf), MSG_WAITALL));
	}
	app_sync();
	app_close(fd);
}
