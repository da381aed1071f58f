/* SPDX-License-Identifier: BSD-2-Clause */
/* close.c - tests ends of streams: half-close, EOF, and what can still be read and written. */
#include "end_say.h"

#include <sys/sendfile.h>

static char buf[1 << 20];

CASE(close_eof, DIRECT, "close is EOF at the peer, for every later read")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(close(fd));
		R(write(fd, "x", 1));
	} else {
		R(read(fd, buf, 10));
		R(recv(fd, buf, 10, 0));
		R(recv(fd, buf, 10, MSG_DONTWAIT));
		say_revents(fd, "peer closed");
		app_close(fd);
	}
	app_sync();
}

CASE(data_then_eof, DIRECT, "bytes, then EOF, when both are there at once")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "the end");
		app_close(fd);
	} else {
		app_await_poll(fd, POLLRDHUP, 5000);
		say_revents(fd, "both there");
		RB(buf, read(fd, buf, 3));
		RB(buf, read(fd, buf, 100));
		R(read(fd, buf, 100));
		say_revents(fd, "drained");
		app_close(fd);
	}
	app_sync();
}

static void half_close(bool server_first)
{
	int fd = app_open(WARM);

	if ((bool)SRV == server_first) {
		SAY(fd, "request");
		R(shutdown(fd, SHUT_WR));
		app_drain(fd, "reply");
		say_revents(fd, "both ended");
	} else {
		app_drain(fd, "request");
		say_revents(fd, "other half closed");
		SAY(fd, "long ");
		SAY(fd, "reply");
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

CASE(half_close_client, DIRECT, "the client ends its half first and still receives")
{
	half_close(false);
}

CASE(half_close_server, DIRECT, "the server ends its half first and still receives")
{
	half_close(true);
}

CASE(half_close_both, DIRECT, "both end their halves at the same moment, bytes in flight")
{
	int fd = app_open(WARM);

	R(app_send_pattern(fd, 50000, 50000, (unsigned int)app_side));
	R(shutdown(fd, SHUT_WR));
	R(app_recv_pattern(fd, 50000, 6000, (unsigned int)!app_side));
	R(read(fd, buf, 1));
	app_sync();
	say_revents(fd, "both ended");
	R(shutdown(fd, SHUT_RDWR));
	app_close(fd);
}

CASE(half_close_bulk, DIRECT, "2 MiB, half-close, 2 MiB back")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 2 << 20, 65536, 1));
		R(shutdown(fd, SHUT_WR));
		R(app_recv_pattern(fd, 2 << 20, 65536, 2));
		R(read(fd, buf, 1));
	} else {
		R(app_recv_pattern(fd, 2 << 20, 65536, 1));
		R(read(fd, buf, 1));
		R(app_send_pattern(fd, 2 << 20, 65536, 2));
	}
	app_close(fd);
	app_sync();
}

CASE(shutdown_read, DIRECT, "SHUT_RD: reads give 0, later bytes can be read all the same")
{
	int fd = app_open(WARM);

	if (SRV) {
		R(shutdown(fd, SHUT_RD));
		R(read(fd, buf, 10));
		R(recv(fd, buf, 10, MSG_DONTWAIT));
		say_revents(fd, "after SHUT_RD");
	}
	app_sync();
	if (CLI) {
		SAY(fd, "anyway");
		app_hear(fd, 4);
	} else {
		app_await_inq(fd, 6);
		RB(buf, read(fd, buf, 10));
		R(read(fd, buf, 10));
		SAY(fd, "talk");
	}
	app_sync();
	app_close(fd);
}

CASE(shutdown_read_queued, DIRECT, "SHUT_RD with bytes queued: they can be read")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "queued");
	} else {
		app_await_inq(fd, 6);
		R(shutdown(fd, SHUT_RD));
		say_revents(fd, "after SHUT_RD");
		RB(buf, read(fd, buf, 4));
		RB(buf, read(fd, buf, 10));
		R(read(fd, buf, 10));
	}
	app_sync();
	app_close(fd);
}

CASE(shutdown_both, DIRECT, "SHUT_RDWR: EOF there, 0 and EPIPE here")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		SAY(fd, "last words");
		R(shutdown(fd, SHUT_RDWR));
		R(read(fd, buf, 10));
		R(write(fd, "x", 1));
		R(shutdown(fd, SHUT_RDWR));
	} else {
		app_drain(fd, "drained");
		/* Between hosts this end may be leaving the ring, and has no room meanwhile. */
		app_await_poll(fd, POLLOUT, 5000);
		say_revents(fd, "peer shut both");
	}
	app_sync();
	app_close(fd);
}

CASE(shutdown_twice, DIRECT, "shutdown again, and in another order")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(shutdown(fd, SHUT_WR));
		R(shutdown(fd, SHUT_WR));
		R(shutdown(fd, SHUT_RD));
		R(shutdown(fd, 7));
		R(shutdown(fd, -1));
		R(read(fd, buf, 1));
	} else {
		R(read(fd, buf, 1));
	}
	app_sync();
	app_close(fd);
}

CASE(eof_then_write, DIRECT, "writing to a peer that closed: out, then EPIPE; reading stays 0")
{
	int fd = app_open(WARM);
	int err = -1;
	socklen_t len = sizeof(err);

	no_sigpipe();
	if (CLI) {
		app_close(fd);
		app_sync();
	} else {
		app_sync();
		R(read(fd, buf, 10));
		R(write(fd, "hello?", 6));
		app_await_poll(fd, POLLHUP, 5000);
		say_revents(fd, "after the reset");
		R(read(fd, buf, 10));
		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("error %s", err ? app_errname(err) : "0");
		R(write(fd, "hello?", 6));
		R(write(fd, "hello?", 6));
		R(read(fd, buf, 10));
		app_close(fd);
	}
	app_sync();
}

CASE(eof_blocked_reader, DIRECT, "close and shutdown wake a blocked read")
{
	int fds[2];

	app_open_more(WARM, fds, 2);
	for (int i = 0; i < 2; i++) {
		if (SRV) {
			app_flag_set(i, (uint64_t)gettid());
			R(read(fds[i], buf, 10));
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			if (i)
				R(shutdown(fds[i], SHUT_WR));
			else
				R(close(fds[i]));
		}
	}
	app_sync();
	if (SRV)
		app_close(fds[0]);
	app_close(fds[1]);
}

CASE(write_close, DIRECT, "300 KB and close at once: all of it arrives, then EOF")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 300000, 300000, 3));
		R(close(fd));
		app_sync();
	} else {
		app_sync();
		R(app_recv_pattern(fd, 300000, 10000, 3));
		R(read(fd, buf, 1));
		app_close(fd);
	}
}

CASE(write_exit, DIRECT, "300 KB and exit without close: all of it arrives, then EOF")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 300000, 300000, 3));
		app_flag_set(0, (uint64_t)getpid());
	} else {
		pid_t pid = (pid_t)app_flag_wait(0);
		int64_t deadline = app_now_ms() + 10000;

		while (kill(pid, 0) == 0 && app_now_ms() < deadline)
			app_pause_ms(1);
		R(app_recv_pattern(fd, 300000, 10000, 3));
		R(read(fd, buf, 1));
		app_close(fd);
	}
}

CASE(write_exit_raw, DIRECT, "the same with _exit: no handler runs")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, 300000, 300000, 3));
		app_flag_set(0, (uint64_t)getpid());
		_exit(0);
	} else {
		pid_t pid = (pid_t)app_flag_wait(0);
		int64_t deadline = app_now_ms() + 10000;

		while (kill(pid, 0) == 0 && app_now_ms() < deadline)
			app_pause_ms(1);
		R(app_recv_pattern(fd, 300000, 10000, 3));
		R(read(fd, buf, 1));
		app_close(fd);
	}
}

CASE(closed_fd, DIRECT, "every call on a closed descriptor is EBADF")
{
	int fd = app_open(WARM);
	struct iovec iov = { buf, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int value;

	R(close(fd));
	R(close(fd));
	R(read(fd, buf, 1));
	R(write(fd, buf, 1));
	R(readv(fd, &iov, 1));
	R(writev(fd, &iov, 1));
	R(send(fd, buf, 1, 0));
	R(recv(fd, buf, 1, 0));
	R(sendmsg(fd, &msg, 0));
	R(recvmsg(fd, &msg, 0));
	R(shutdown(fd, SHUT_WR));
	R(getsockname(fd, (struct sockaddr *)&ss, &len));
	R(getpeername(fd, (struct sockaddr *)&ss, &len));
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &len));
	R(ioctl(fd, FIONREAD, &value));
	R(fcntl(fd, F_GETFL));
	R(dup(fd));
	R(sendfile(fd, 0, NULL, 1));
	R(listen(fd, 1));
	R(close(-1));
	R(read(-1, buf, 1));
	R(send(1 << 20, buf, 1, 0));
	app_sync();
}

CASE(not_connected, 0, "a socket that never connects: ENOTCONN, EPIPE, poll HUP")
{
	int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int inq;

	no_sigpipe();
	R(read(fd, buf, 1));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	R(write(fd, buf, 1));
	R(send(fd, buf, 1, MSG_NOSIGNAL));
	R(getpeername(fd, (struct sockaddr *)&ss, &len));
	R(shutdown(fd, SHUT_WR));
	R(accept(fd, NULL, NULL));
	R(ioctl(fd, FIONREAD, &inq));
	say_revents(fd, "never connected");
	R(close(fd));
	app_sync();
}

CASE(not_a_socket, 0, "socket calls on a file, a pipe and an eventfd: ENOTSOCK")
{
	int p[2];

	MUST(pipe(p));
	R(send(p[1], "x", 1, 0));
	R(recv(p[0], buf, 1, 0));
	R(shutdown(p[0], SHUT_WR));
	R(getsockname(p[0], NULL, NULL));
	R(write(p[1], "pipe", 4));
	RB(buf, read(p[0], buf, 10));
	R(listen(0, 1));
	app_close(p[0]);
	app_close(p[1]);
	app_sync();
}

CASE(many_ends, DIRECT, "32 streams, ended in every way in turn")
{
	int fds[8];
	struct linger lg = { 1, 0 };

	for (int round = 0; round < 4; round++) {
		app_open_more(round ? COLD : WARM, fds, 8);
		for (int i = 0; i < 8; i++) {
			if (CLI) {
				app_write_all(fds[i], "12345678", 8);
				if (i % 4 == 1)
					MUST(shutdown(fds[i], SHUT_WR));
				if (i % 4 == 2)
					MUST(setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &lg,
							sizeof(lg)));
				if (i % 4 != 1)
					app_close(fds[i]);
			} else {
				app_hear(fds[i], 8);
				ssize_t n = read(fds[i], buf, 1);

				LOG("stream %d ends %zd %s", i, n, n ? app_errname(errno) : "");
				app_close(fds[i]);
			}
		}
		app_sync();
		for (int i = 1; CLI && i < 8; i += 4)
			app_close(fds[i]);
	}
}
