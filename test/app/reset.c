/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reset.c - tests resets, from close with bytes unread or from a peer that is killed: how they
 * show, and that they are reported once.
 */
#include "end_say.h"

static char buf[1 << 20];

static int so_error(int fd)
{
	int err = -1;
	socklen_t len = sizeof(err);

	MUST(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	return err;
}

CASE(close_unread, DIRECT, "close with unread bytes is a reset at the peer")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		SAY(fd, "never read");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		say_revents(fd, "reset");
		R(read(fd, buf, 10));
		R(read(fd, buf, 10));
		R(write(fd, "x", 1));
		say_revents(fd, "later");
		app_close(fd);
	} else {
		app_await_inq(fd, 10);
		R(close(fd));
		app_sync();
	}
	app_sync();
}

CASE(reset_polled, DIRECT, "a reset shows in every poll until it is told, here by SO_ERROR")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		SAY(fd, "never read");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		say_revents(fd, "reset");
		say_revents(fd, "still");
		LOG("error %s", app_errname(so_error(fd)));
		say_revents(fd, "told");
		R(read(fd, buf, 10));
		R(write(fd, "x", 1));
		LOG("error %d", so_error(fd));
		app_close(fd);
	} else {
		app_await_inq(fd, 10);
		R(close(fd));
		app_sync();
	}
	app_sync();
}

CASE(killed_unread, DIRECT, "the peer is killed with bytes unread: a reset, told once")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		pid_t pid = fork();

		if (!pid)
			for (;;)
				pause();
		app_close(fd);
		app_sync();
		app_sync(); /* the bytes are there */
		MUST(kill(pid, SIGKILL));
		app_reap(pid, "holder");
	} else {
		app_sync();
		SAY(fd, "never read");
		app_sync();
		app_await_poll(fd, POLLRDHUP, 5000);
		R(read(fd, buf, 10));
		say_revents(fd, "told");
		LOG("error %d", so_error(fd));
		R(read(fd, buf, 10));
		R(write(fd, "x", 1));
		say_revents(fd, "later");
		app_close(fd);
	}
	app_sync();
}

/* The client, a child that made the connection itself, is killed; the server sends after that. */
static void killed_then_sent_to(bool shut)
{
	pid_t pid = CLI ? fork() : -1;
	int fd = pid > 0 ? -1 : app_open(WARM);

	no_sigpipe();
	if (!pid) {
		if (shut)
			MUST(shutdown(fd, SHUT_WR));
		app_flag_set(0, 1);
		for (;;)
			pause();
	}
	if (CLI) {
		app_flag_wait(0);
		MUST(kill(pid, SIGKILL));
		app_reap(pid, "holder");
	}
	app_sync();
	if (SRV) {
		app_await_poll(fd, POLLRDHUP, 5000);
		say_revents(fd, "ended");
		R(write(fd, "nobody", 6));
		LOG("told %d", !!(app_await_poll(fd, POLLHUP, 5000) & POLLHUP));
		say_revents(fd, "reset");
		R(read(fd, buf, 10));
		R(write(fd, "x", 1));
		say_revents(fd, "later");
		app_close(fd);
	}
	app_sync();
}

CASE(sent_to_the_killed, DIRECT,
     "sent to a peer that was killed, and its end is known: EPIPE, no reset")
{
	killed_then_sent_to(false);
}

CASE(sent_to_the_shut, DIRECT, "the same, where the peer had shut its direction before")
{
	killed_then_sent_to(true);
}

/* @behind: its end, too, has unread bytes before it. */
static void shut_killed_unread(bool behind)
{
	pid_t pid = CLI ? fork() : -1;
	int fd = pid > 0 ? -1 : app_open(WARM);

	no_sigpipe();
	if (!pid) {
		if (behind)
			SAY(fd, "before");
		MUST(shutdown(fd, SHUT_WR));
		app_await_inq(fd, 10);
		app_flag_set(0, 1);
		for (;;)
			pause();
	}
	if (CLI) {
		app_flag_wait(0);
		MUST(kill(pid, SIGKILL));
		app_reap(pid, "holder");
	} else {
		app_await_poll(fd, POLLRDHUP, 5000);
		say_revents(fd, "ended");
		SAY(fd, "never read");
	}
	app_sync();
	if (SRV) {
		LOG("told %d", !!(app_await_poll(fd, POLLHUP, 5000) & POLLHUP));
		say_revents(fd, "killed");
		RB(buf, read(fd, buf, 3));
		RB(buf, read(fd, buf, 10));
		R(read(fd, buf, 10));
		say_revents(fd, "read");
		R(write(fd, "x", 1));
		say_revents(fd, "told");
		LOG("error %d", so_error(fd));
		app_close(fd);
	}
	app_sync();
}

CASE(shut_killed_unread, DIRECT,
     "the peer has shut its direction, and is killed with bytes unread: "
     "its end stands, sends are refused")
{
	shut_killed_unread(false);
}

CASE(shut_killed_unread_both, DIRECT, "the same with bytes unread before its end")
{
	shut_killed_unread(true);
}

CASE(close_unread_partly, DIRECT, "one byte left unread is enough for a reset")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		SAY(fd, "0123456789");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		R(write(fd, "x", 1));
		R(write(fd, "x", 1));
		R(read(fd, buf, 10));
		app_close(fd);
	} else {
		app_await_inq(fd, 10);
		RB(buf, read(fd, buf, 9));
		R(close(fd));
		app_sync();
	}
	app_sync();
}

/* Sends ten bytes to a peer that closes with them unread. */
static void never_read(int fd)
{
	SAY(fd, "0123456789");
	app_sync();
	app_await_poll(fd, POLLHUP, 5000);
	R(read(fd, buf, 10));
	app_close(fd);
}

CASE(close_unread_peeked, DIRECT, "bytes only peeked at are unread")
{
	int fd = app_open(WARM);

	if (CLI) {
		never_read(fd);
	} else {
		app_await_inq(fd, 10);
		RB(buf, recv(fd, buf, 10, MSG_PEEK));
		R(close(fd));
		app_sync();
	}
	app_sync();
}

CASE(fork_close_unread, DIRECT,
     "close with unread bytes at once after a fork whose child has ended")
{
	int fd = app_open(WARM);

	if (CLI) {
		never_read(fd);
	} else {
		app_await_inq(fd, 10);
		SAY(fd, "nor this");
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		app_reap(pid, "child");
		R(close(fd));
		app_sync();
	}
	app_sync();
}

CASE(reset_with_queue, DIRECT, "a reset behind bytes: the bytes first, then ECONNRESET, then 0")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (CLI) {
		SAY(fd, "unread");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		say_revents(fd, "reset, bytes queued");
		RB(buf, read(fd, buf, 3));
		RB(buf, read(fd, buf, 100));
		R(read(fd, buf, 10));
		R(read(fd, buf, 10));
		app_close(fd);
	} else {
		app_await_inq(fd, 6);
		SAY(fd, "answer");
		R(close(fd));
		app_sync();
	}
	app_sync();
}

CASE(reset_blocked_reader, DIRECT, "a reset wakes a blocked read")
{
	int fd = app_open(WARM);
	struct linger lg = { 1, 0 };

	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		R(read(fd, buf, 10));
		R(read(fd, buf, 10));
	} else {
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		app_await_asleep((pid_t)app_flag_wait(0));
	}
	app_close(fd);
	app_sync();
}

CASE(reset_blocked_writer, DIRECT, "a reset wakes a blocked write: its part, then the error")
{
	int fd = app_open(WARM);
	struct linger lg = { 1, 0 };

	no_sigpipe();
	if (SRV) {
		size_t len = 64u << 20;
		char *big = calloc(1, len);

		app_flag_set(0, (uint64_t)gettid());
		ssize_t n = write(fd, big, len);

		LOG("part %d", n > 0 && n < (ssize_t)len);
		R(write(fd, big, 1));
		R(write(fd, big, 1));
		R(read(fd, buf, 1));
		free(big);
	} else {
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		app_await_asleep((pid_t)app_flag_wait(0));
	}
	app_close(fd);
	app_sync();
}

CASE(exit_unread, DIRECT, "exit with unread bytes is a reset at the peer")
{
	int fd = app_open(WARM);

	if (CLI) {
		app_await_inq(fd, 6);
	} else {
		SAY(fd, "unread");
		R(read(fd, buf, 10));
		R(read(fd, buf, 10));
		app_close(fd);
	}
}

CASE(shutdown_unread, DIRECT, "SHUT_WR with unread bytes is no reset")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "unread");
		app_sync();
		R(read(fd, buf, 10));
		SAY(fd, " more");
		app_sync();
	} else {
		app_await_inq(fd, 6);
		R(shutdown(fd, SHUT_WR));
		app_sync();
		app_sync();
		app_hear(fd, 11);
	}
	app_sync();
	app_close(fd);
}

CASE(unread_both, DIRECT, "both close with unread bytes")
{
	int fd = app_open(WARM);

	SAY(fd, "unread");
	app_await_inq(fd, 6);
	app_sync();
	R(close(fd));
	R(read(fd, buf, 1));
	app_sync();
}
