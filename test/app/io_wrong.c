/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * io_wrong.c - tests calls that move bytes with wrong or odd arguments: bad buffers, empty entries,
 * and lengths and counts that are negative or too large.
 */
#include "app.h"

static char buf[1 << 20];

CASE(efault_receive, DIRECT, "a bad buffer is EFAULT and takes nothing from the stream")
{
	int fd = app_open(WARM);
	void *volatile bad = (void *)8;
	struct iovec iov = { bad, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (CLI) {
		SAY(fd, "still here");
	} else {
		app_await_inq(fd, 10);
		R(read(fd, bad, 4));
		R(recv(fd, bad, 4, 0));
		R(recvmsg(fd, &msg, 0));
		R(readv(fd, &iov, 1));
		R(readv(fd, bad, 1));
		R(recvmsg(fd, bad, 0));
		app_hear(fd, 10);
	}
	app_sync();
	app_close(fd);
}

CASE(efault_send, DIRECT, "a bad buffer is EFAULT and puts nothing into the stream")
{
	int fd = app_open(WARM);
	void *volatile bad = (void *)8;
	struct iovec iov = { bad, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (CLI) {
		R(write(fd, bad, 4));
		R(send(fd, bad, 4, 0));
		R(sendmsg(fd, &msg, 0));
		R(writev(fd, &iov, 1));
		R(writev(fd, bad, 1));
		R(sendmsg(fd, bad, 0));
		SAY(fd, "clean");
	} else {
		app_hear(fd, 5);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(efault_vector, DIRECT, "one bad vector among good ones: EFAULT, nothing taken, nothing sent")
{
	int fd = app_open(WARM);
	struct iovec iov[2] = { { buf, 4 }, { (void *)8, 4 } };

	if (CLI) {
		SAY(fd, "0123456789");
		R(writev(fd, iov, 2));
		SAY(fd, "end");
	} else {
		app_await_inq(fd, 13);
		R(readv(fd, iov, 2));
		app_hear(fd, 13);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(empty_runs, DIRECT,
     "vectors that begin with many empty entries, where the kernel carries a direction")
{
	struct iovec v[71];
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 71 };
	int fd = app_open(WARM), p[2];
	char text[8] = "empties";

	for (int i = 0; i < 71; i++)
		v[i] = (struct iovec){ text, i == 70 ? 7 : 0 };
	if (CLI) {
		MUST(pipe(p));
		MUST(write(p[1], "pipe", 4));
		R(splice(p[0], NULL, fd, NULL, 4, 0));
	} else {
		app_hear(fd, 4);
	}
	app_sync();
	if (CLI) {
		R(writev(fd, v, 71));
		R(sendmsg(fd, &msg, 0));
		R(sendmsg(fd, &msg, MSG_DONTWAIT));
	} else {
		app_await_inq(fd, 21);
		RB(text, recvmsg(fd, &msg, MSG_PEEK));
		RB(text, readv(fd, v, 71));
		RB(text, recvmsg(fd, &msg, 0));
		RB(text, recvmsg(fd, &msg, MSG_DONTWAIT));
		R(recvmsg(fd, &msg, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(iov_limits, DIRECT, "too many vectors, negative counts")
{
	int fd = app_open(WARM);
	static struct iovec iov[1025];
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1025 };
	volatile int minus = -1;

	for (int i = 0; i < 1025; i++)
		iov[i] = (struct iovec){ buf + i, 1 };
	memset(buf, 'v', 1025);
	if (CLI) {
		R(writev(fd, iov, 1025));
		R(writev(fd, iov, minus));
		R(sendmsg(fd, &msg, 0));
		R(writev(fd, iov, 1024));
	} else {
		app_await_inq(fd, 1024);
		R(readv(fd, iov, 1025));
		R(readv(fd, iov, minus));
		R(recvmsg(fd, &msg, 0));
		R(readv(fd, iov, 1024));
		app_bytes("all", buf, 1024);
	}
	app_sync();
	app_close(fd);
}

CASE(iov_length_overflow, DIRECT, "vectors whose lengths do not fit are refused")
{
	int fd = app_open(WARM);
	struct iovec iov[2] = { { buf, (size_t)1 << 63 }, { buf, 4 } };

	R(writev(fd, iov, 2));
	R(readv(fd, iov, 2));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

/* The length that a program passes which ignores a failed read. */
CASE(length_of_minus_one, DIRECT, "a length of -1 is no range: nothing is sent, nothing is read")
{
	int fd = app_open(WARM);
	volatile size_t wrong = (size_t)-1;
	struct iovec v = { buf, wrong };

	if (CLI) {
		R(write(fd, buf, wrong));
		R(writev(fd, &v, 1));
		SAY(fd, "right");
	} else {
		app_await_inq(fd, 5);
		R(read(fd, buf, wrong));
		R(readv(fd, &v, 1));
		RB(buf, read(fd, buf, sizeof(buf)));
	}
	app_sync();
	app_close(fd);
}

CASE(name_of_no_length, DIRECT, "sendmsg and recvmsg without a name do not look at its length")
{
	struct iovec v = { buf, 5 };
	struct msghdr m = { .msg_namelen = (socklen_t)-1, .msg_iov = &v, .msg_iovlen = 1 };
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "01234");
		memset(buf, '5', 5);
		R(sendmsg(fd, &m, 0));
		SAY(fd, "abcde");
	} else {
		app_await_inq(fd, 15);
		for (int i = 0; i < 3; i++) {
			m.msg_namelen = (socklen_t)-1;
			R(recvmsg(fd, &m, MSG_DONTWAIT));
			LOG("%.5s", buf);
		}
	}
	app_sync();
	app_close(fd);
}
