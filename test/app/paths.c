/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * paths.c - tests one call that takes bytes of the ring and bytes of TCP behind them, much at once,
 * or with an error behind both.
 */
#include "app.h"

#define MUCH 100000

static char buf[1 << 20];

/* The sender leaves the ring for good: what follows goes by TCP. */
static void leave(int fd)
{
	int copy = (int)MUST(dup(fd));
	FILE *f = fdopen(copy, "r");

	if (!f)
		app_die("fdopen");
	fclose(f);
}

/* Ten bytes by the ring, ten by TCP, all there when the reader begins. */
static void send_both(int fd)
{
	if (CLI) {
		SAY(fd, "0123456789");
		leave(fd);
		SAY(fd, "abcdefghij");
	} else {
		app_await_inq(fd, 20);
	}
	app_sync();
}

CASE(readv_over, DIRECT, "readv() over a change of path fills all of its buffers")
{
	int fd = app_open(WARM);
	struct iovec v[4] = { { buf, 7 }, { buf + 100, 5 }, { buf + 200, 0 }, { buf + 300, 100 } };

	send_both(fd);
	if (SRV) {
		R(readv(fd, v, 4));
		app_bytes("first", buf, 7);
		app_bytes("second", buf + 100, 5);
		app_bytes("third", buf + 300, 8);
	}
	app_sync();
	app_close(fd);
}

CASE(recvmsg_over, DIRECT, "the same by recvmsg(), many small buffers")
{
	int fd = app_open(WARM);
	struct iovec v[20];
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 20 };

	for (size_t i = 0; i < 20; i++)
		v[i] = (struct iovec){ buf + i, 1 };
	send_both(fd);
	if (SRV)
		RB(buf, recvmsg(fd, &m, 0));
	app_sync();
	app_close(fd);
}

CASE(over_shut_read, DIRECT,
     "the same by recv() behind the own SHUT_RD, which has shown an end before")
{
	int fd = app_open(WARM);

	if (SRV) {
		R(shutdown(fd, SHUT_RD));
		R(recv(fd, buf, 1, 0));
		app_await_poll(fd, POLLRDHUP, 10000);
	}
	app_sync();
	send_both(fd);
	if (SRV) {
		RB(buf, recv(fd, buf, 100, MSG_PEEK));
		RB(buf, recv(fd, buf, 100, 0));
		R(recv(fd, buf, 100, 0));
	}
	app_sync();
	app_close(fd);
}

CASE(readv_over_wait, DIRECT, "the same by recvmsg(MSG_WAITALL), part of it still to come")
{
	int fd = app_open(WARM);
	struct iovec v[3] = { { buf, 7 }, { buf + 7, 5 }, { buf + 12, 18 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };

	send_both(fd);
	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recvmsg(fd, &m, MSG_WAITALL));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "klmnopqrst");
	}
	app_sync();
	app_close(fd);
}

CASE(peek_over_wait, DIRECT,
     "a peek for more than both paths hold sleeps until the rest has come, too")
{
	int fd = app_open(WARM);

	send_both(fd);
	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 30, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 33, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 33, MSG_WAITALL));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "klmno");
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "pqrst");
		app_pause_ms(20);
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "uvw");
	}
	app_sync();
	app_close(fd);
}

CASE(peek_over_end, DIRECT, "the same, and the end comes instead")
{
	int fd = app_open(WARM);

	send_both(fd);
	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 30, MSG_PEEK | MSG_WAITALL));
		RB(buf, recv(fd, buf, 30, MSG_WAITALL));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

static void much_there(int fd)
{
	if (CLI) {
		app_pattern(buf, MUCH, 0, 1);
		app_write_all(fd, buf, MUCH);
		SAY(fd, "behind");
	} else {
		app_await_inq(fd, MUCH + 6);
	}
	app_sync();
}

CASE(much_at_once, DIRECT, "one recv() gets all there is")
{
	int fd = app_open(WARM);

	much_there(fd);
	if (SRV) {
		R(recv(fd, buf, sizeof(buf), 0));
		R(app_pattern_ok(buf, MUCH, 0, 1));
	}
	app_sync();
	app_close(fd);
}

CASE(trunc_much, DIRECT, "MSG_TRUNC throws away all there is, of any length")
{
	int fd = app_open(WARM);

	much_there(fd);
	if (SRV) {
		R(recv(fd, NULL, MUCH, MSG_TRUNC));
		app_hear(fd, 6);
	}
	app_sync();
	app_close(fd);
}

CASE(trunc_more, DIRECT, "the same, asked for more than there is")
{
	int fd = app_open(WARM);

	much_there(fd);
	if (SRV) {
		R(recv(fd, NULL, sizeof(buf), MSG_TRUNC));
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(trunc_peek, DIRECT, "MSG_TRUNC | MSG_PEEK counts all there is, of any length")
{
	int fd = app_open(WARM);

	much_there(fd);
	if (SRV) {
		R(recv(fd, NULL, sizeof(buf), MSG_TRUNC | MSG_PEEK));
		R(recv(fd, NULL, MUCH, MSG_TRUNC | MSG_PEEK));
		R(app_recv_pattern(fd, MUCH, 5000, 1));
		app_hear(fd, 6);
	}
	app_sync();
	app_close(fd);
}

static void reset_by_peer(int fd)
{
	const struct linger now = { .l_onoff = 1, .l_linger = 0 };

	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	app_close(fd);
}

static int receive_two(int fd)
{
	struct iovec v[2] = { { buf, 3 }, { buf + 100, 3 } };
	struct mmsghdr m[2] = { { .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
				{ .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } } };
	long n = R(recvmmsg(fd, m, 2, MSG_DONTWAIT, NULL));

	for (long i = 0; i < n; i++)
		app_bytes("message", v[i].iov_base, m[i].msg_len);
	return (int)n;
}

CASE(recvmmsg_reset, DIRECT, "recvmmsg(): an error that is pending is told before the bytes")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "unread");
	else
		app_await_inq(fd, 6);
	app_sync();
	if (CLI) {
		reset_by_peer(fd);
		app_sync();
		app_sync();
		return;
	}
	app_sync();
	app_await_poll(fd, POLLERR, 10000);
	receive_two(fd);
	receive_two(fd);
	receive_two(fd);
	app_sync();
	app_close(fd);
}

CASE(reset_own_end, DIRECT, "own SHUT_WR, then the peer closes with bytes unread: ECONNRESET")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "unread");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_inq(fd, 6);
	}
	app_sync();
	if (SRV) {
		app_close(fd);
	} else {
		app_await_poll(fd, POLLERR, 10000);
		R(recv(fd, buf, 10, 0));
		R(recv(fd, buf, 10, 0));
		R(send(fd, buf, 10, MSG_NOSIGNAL));
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(reset_own_end_asleep, DIRECT, "the same while this end sleeps in recv")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "unread");
		R(shutdown(fd, SHUT_WR));
		app_flag_set(0, (uint64_t)gettid());
		R(recv(fd, buf, 10, 0));
		R(recv(fd, buf, 10, 0));
		R(send(fd, buf, 10, MSG_NOSIGNAL));
	} else {
		app_await_inq(fd, 6);
		app_await_asleep((pid_t)app_flag_wait(0));
		app_close(fd);
	}
	app_sync();
	if (CLI)
		app_close(fd);
}

CASE(reset_own_end_send, DIRECT, "the same, and a send comes first")
{
	int fd = app_open(WARM);
	int err = -1;
	socklen_t len = sizeof(err);

	if (CLI) {
		SAY(fd, "unread");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_inq(fd, 6);
	}
	app_sync();
	if (SRV) {
		app_close(fd);
	} else {
		app_await_poll(fd, POLLERR, 10000);
		R(send(fd, buf, 10, MSG_NOSIGNAL));
		R(recv(fd, buf, 10, 0));
		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("%d", err);
	}
	app_sync();
	if (CLI)
		app_close(fd);
}
