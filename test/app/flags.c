/* SPDX-License-Identifier: BSD-2-Clause */
/* flags.c - tests the MSG_* flags of receive calls. */
#include "signals.h"

static char buf[1 << 20];

CASE(peek, DIRECT, "MSG_PEEK leaves the bytes, again and again")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		int inq;

		app_await_inq(fd, 10);
		RB(buf, recv(fd, buf, 4, MSG_PEEK));
		RB(buf, recv(fd, buf, sizeof(buf), MSG_PEEK));
		RB(buf, recv(fd, buf, sizeof(buf), MSG_PEEK));
		R(ioctl(fd, FIONREAD, &inq));
		LOG("inq %d", inq);
		RB(buf, recv(fd, buf, 4, 0));
		RB(buf, recv(fd, buf, sizeof(buf), MSG_PEEK));
		RB(buf, recv(fd, buf, sizeof(buf), 0));
		R(recv(fd, buf, 1, MSG_PEEK | MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_messages, DIRECT, "MSG_PEEK over the borders of messages, with scatter")
{
	int fd = app_open(WARM | NODELAY);
	char tail[300];
	struct iovec iov[2] = { { buf, 25 }, { tail, sizeof(tail) } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (CLI) {
		for (int i = 0; i < 20; i++) {
			app_pattern(buf, 10, (uint64_t)i * 10, 4);
			R(send(fd, buf, 10, 0));
		}
	} else {
		app_await_inq(fd, 200);
		for (int i = 0; i < 2; i++) {
			R(recvmsg(fd, &msg, MSG_PEEK));
			app_bytes("head", buf, 25);
			app_bytes("tail", tail, 175);
		}
		RB(buf, recv(fd, buf, 95, 0));
		RB(buf, recvfrom(fd, buf, 50, MSG_PEEK, NULL, NULL));
		RB(buf, recv(fd, buf, 105, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 200, 0));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_blocks, DIRECT, "MSG_PEEK waits for data")
{
	int fd = app_open(WARM);

	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 10, MSG_PEEK));
		RB(buf, recv(fd, buf, 10, 0));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "peekaboo");
	}
	app_sync();
	app_close(fd);
}

CASE(peek_eof, DIRECT, "MSG_PEEK at the end of the stream")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "tail");
		R(shutdown(fd, SHUT_WR));
	} else {
		LOG("RDHUP %d", !!(app_await_poll(fd, POLLRDHUP, 5000) & POLLRDHUP));
		RB(buf, recv(fd, buf, 10, MSG_PEEK));
		RB(buf, recv(fd, buf, 10, 0));
		R(recv(fd, buf, 10, MSG_PEEK));
		R(recv(fd, buf, 10, 0));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_large, DIRECT, "MSG_PEEK of 60,000 bytes, then read in pieces")
{
	int fd = app_open(WARM);
	struct iovec iov[] = { { buf, 20000 }, { buf + 20000, 25000 }, { buf + 45000, 15000 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

	if (CLI) {
		R(app_send_pattern(fd, 60000, 25000, 6));
	} else {
		app_await_inq(fd, 60000);
		RB(buf, recv(fd, buf, 60000, MSG_PEEK | MSG_WAITALL));
		memset(buf, 0, 60000);
		RB(buf, recvmsg(fd, &msg, MSG_PEEK | MSG_WAITALL));
		R(app_recv_pattern(fd, 60000, 7000, 6));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_waitall_sleeps, DIRECT,
     "MSG_PEEK | MSG_WAITALL sleeps until there is more than it has seen")
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		SAY(fd, "0123456789");
		for (uint32_t i = 0; i < 2; i++) {
			app_await_asleep((pid_t)app_flag_wait(i));
			SAY(fd, "abcdefghij");
		}
	} else {
		app_await_inq(fd, 10);
		for (uint32_t i = 0; i < 2; i++) {
			app_flag_set(i, (uint64_t)gettid());
			RB(buf, recv(fd, buf, 20 + 10 * i, MSG_PEEK | MSG_WAITALL));
		}
		RB(buf, recv(fd, buf, sizeof(buf), 0));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_over_the_change, 0,
     "MSG_PEEK | MSG_WAITALL over bytes of TCP with bytes of the ring behind them")
{
	int fd = app_open(NODELAY);
	char byte = 'x';

	/*
	 * One direction is read at once, so that the stream is paired; what goes the other way
	 * stays unread.
	 */
	for (int i = 0; i < 400; i++) {
		if (CLI) {
			MUST(send(fd, &byte, 1, 0));
			MUST(recv(fd, &byte, 1, MSG_WAITALL));
		} else {
			app_await_inq(fd, i + 1);
			MUST(send(fd, &byte, 1, 0));
		}
	}
	if (SRV) {
		RB(buf, recv(fd, buf, 400, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 400, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT));
		RB(buf, recv(fd, buf, 400, MSG_WAITALL));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_waitall_end, DIRECT, "MSG_PEEK | MSG_WAITALL for more than there is before the end")
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "abc");
		SAY(fd, "def");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 10, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 10, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 10, MSG_WAITALL));
		R(recv(fd, buf, 10, MSG_PEEK | MSG_WAITALL));
	}
	app_sync();
	app_close(fd);
}

CASE(peek_offset, DIRECT, "SO_PEEK_OFF, as far as the kernel has it for TCP")
{
	int fd = app_open(WARM);
	int off = 3, got = -9;
	socklen_t len = sizeof(got);

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		R(setsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &off, sizeof(off)));
		RB(buf, recv(fd, buf, 2, MSG_PEEK));
		RB(buf, recv(fd, buf, 2, MSG_PEEK));
		R(getsockopt(fd, SOL_SOCKET, SO_PEEK_OFF, &got, &len));
		LOG("offset %d", got);
		RB(buf, recv(fd, buf, 4, 0));
		RB(buf, recv(fd, buf, 3, MSG_PEEK));
	}
	app_sync();
	app_close(fd);
}

CASE(waitall, DIRECT, "MSG_WAITALL waits for all the pieces")
{
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 9, MSG_WAITALL));
	} else {
		pid_t tid = (pid_t)app_flag_wait(0);

		for (int i = 0; i < 3; i++) {
			app_await_asleep(tid);
			SAY(fd, "abc");
		}
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_iov, DIRECT, "MSG_WAITALL with scatter, in a socket with O_NONBLOCK")
{
	int fd = app_open(WARM);
	char a[5], b[10];
	struct iovec iov[2] = { { a, 5 }, { b, 10 } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (CLI) {
		SAY(fd, "0123456789abcdefgh");
	} else {
		app_await_inq(fd, 18);
		R(recvmsg(fd, &msg, MSG_WAITALL));
		app_bytes("a", a, 5);
		app_bytes("b", b, 10);
		app_set_nonblock(fd, true);
		RB(buf, recv(fd, buf, 10, MSG_WAITALL));
		R(recv(fd, buf, 10, MSG_WAITALL));
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_eof, DIRECT, "MSG_WAITALL gives what there is when the stream ends")
{
	int fd = app_open(WARM);

	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 100, MSG_WAITALL));
		R(recv(fd, buf, 100, MSG_WAITALL));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "short");
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_signal, DIRECT, "MSG_WAITALL interrupted: the bytes so far, or EINTR when none")
{
	int fd = app_open(WARM);

	if (SRV) {
		catch_signal(SIGUSR1, 0);
		app_flag_set(0, (uint64_t)gettid());
		R(recv(fd, buf, 10, MSG_WAITALL));
		app_flag_set(1, 1);
		RB(buf, recv(fd, buf, 10, MSG_WAITALL));
		LOG("signals %d", signals);
	} else {
		pid_t tid = (pid_t)app_flag_wait(0);

		app_await_asleep(tid);
		MUST(kill(tid, SIGUSR1));
		app_flag_wait(1);
		SAY(fd, "some");
		app_await_outq_empty(fd);
		app_await_asleep(tid);
		MUST(kill(tid, SIGUSR1));
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_restart, DIRECT, "MSG_WAITALL and a handler with SA_RESTART: goes on while empty")
{
	int fd = app_open(WARM);

	if (SRV) {
		catch_signal(SIGUSR1, SA_RESTART);
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 4, MSG_WAITALL));
		LOG("signals %d", signals);
	} else {
		pid_t tid = (pid_t)app_flag_wait(0);

		app_await_asleep(tid);
		MUST(kill(tid, SIGUSR1));
		app_await_asleep(tid);
		SAY(fd, "full");
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_timeout, DIRECT, "MSG_WAITALL and SO_RCVTIMEO: the bytes so far, or EAGAIN when none")
{
	int fd = app_open(WARM);
	struct timeval tv = { 0, 100000 };

	if (SRV) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		R(recv(fd, buf, 10, MSG_WAITALL));
	}
	app_sync();
	if (SRV) {
		app_await_inq(fd, 4);
		int64_t start = app_now_ms();

		RB(buf, recv(fd, buf, 10, MSG_WAITALL));
		LOG("waited %d", app_now_ms() - start >= 90);
	} else {
		SAY(fd, "some");
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_dontwait, DIRECT, "MSG_WAITALL with MSG_DONTWAIT does not wait")
{
	int fd = app_open(WARM);

	if (SRV) {
		R(recv(fd, buf, 10, MSG_WAITALL | MSG_DONTWAIT));
		app_sync();
		app_await_inq(fd, 4);
		RB(buf, recv(fd, buf, 10, MSG_WAITALL | MSG_DONTWAIT));
	} else {
		app_sync();
		SAY(fd, "some");
	}
	app_sync();
	app_close(fd);
}

CASE(waitall_huge, DIRECT, "MSG_WAITALL for more than any buffer holds")
{
	int fd = app_open(WARM);
	size_t len = 12u << 20;

	if (SRV) {
		char *big = malloc(len);

		LOG("recv %zd", recv(fd, big, len, MSG_WAITALL));
		LOG("pattern %d", app_pattern_ok(big, len, 0, 8));
		free(big);
	} else {
		R(app_send_pattern(fd, len, 100000, 8));
	}
	app_sync();
	app_close(fd);
}

CASE(dontwait_send, DIRECT,
     "MSG_DONTWAIT on a blocking socket until it is full; blocking sends still block")
{
	int fd = app_open(WARM);
	uint64_t total = 0;

	if (CLI) {
		ssize_t n;

		for (;;) {
			app_pattern(buf, 9001, total, 5);
			n = send(fd, buf, 9001, MSG_DONTWAIT);
			if (n <= 0)
				break;
			total += (uint64_t)n;
		}
		LOG("ends with %zd %s", n, app_errname(errno));
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		R(send(fd, "blocked", 7, 0));
	} else {
		total = app_flag_wait(1);
		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, total, 30000, 5));
		app_hear(fd, 7);
	}
	app_sync();
	app_close(fd);
}

CASE(trunc, DIRECT, "MSG_TRUNC throws bytes away, with or without a buffer")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789abcdefghij");
	} else {
		app_await_inq(fd, 20);
		memset(buf, '-', 8);
		R(recv(fd, NULL, 3, MSG_TRUNC));
		R(recv(fd, buf, 3, MSG_TRUNC));
		app_bytes("untouched", buf, 3);
		R(recv(fd, NULL, 2, MSG_TRUNC | MSG_PEEK));
		RB(buf, recv(fd, buf, 4, 0));
		R(recv(fd, NULL, 100, MSG_TRUNC));
		R(recv(fd, NULL, 100, MSG_TRUNC | MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(trunc_bulk, DIRECT, "MSG_TRUNC over 1 MiB, then the byte behind it")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 1 << 20, 40000, 1));
		SAY(fd, "behind");
	} else {
		R(recv(fd, NULL, 1 << 20, MSG_TRUNC | MSG_WAITALL));
		app_hear(fd, 6);
	}
	app_sync();
	app_close(fd);
}
