/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * held.c - tests a stream with unread bytes that several processes hold, or that a process held
 * which is gone: a waiter gets those bytes, and the peer gets the reset that leaving them unread
 * causes.
 */
#include "epoll_say.h"
#include "held.h"

static void say_linger(int fd, const char *when)
{
	struct linger l = { 7, 7 };
	socklen_t len = sizeof(l);

	MUST(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len));
	LOG("%s: linger %d %d, %u bytes", when, l.l_onoff, l.l_linger, len);
}

/* Records what the other end sees of a reset: in poll, in a send, and after that. */
static void see_reset(int fd)
{
	app_await_poll(fd, POLLHUP, 5000);
	say_revents(fd, "reset");
	R(write(fd, "x", 1));
	say_revents(fd, "told");
	R(read(fd, buf, 10));
	R(write(fd, "x", 1));
}

/* A child alone holds the client's end, and is killed with the server's bytes unread. */
static int killed_alone(const char *before)
{
	pid_t pid;
	int fd = -1;

	no_sigpipe();
	if (SRV) {
		fd = app_open(WARM);
		SAY(fd, "never read");
		return fd;
	}
	pid = (pid_t)MUST(fork());
	if (!pid) {
		fd = app_open(WARM);
		if (before)
			app_write_all(fd, before, strlen(before));
		app_await_inq(fd, 10);
		app_flag_set(1, 1);
		for (;;)
			pause();
	}
	app_flag_wait(1);
	end_holder(pid);
	return fd;
}

CASE(alone_killed, 0,
     "the only holder is killed with bytes unread: poll shows the reset, a send tells it")
{
	int fd = killed_alone(NULL);

	if (SRV) {
		see_reset(fd);
		app_close(fd);
	}
	app_sync();
}

CASE(alone_killed_queue, 0,
     "the same with bytes of it unread here: HUP is shown with them, they come first")
{
	int fd = killed_alone("answer");

	if (SRV) {
		app_await_poll(fd, POLLHUP, 5000);
		say_revents(fd, "reset, bytes queued");
		RB(buf, read(fd, buf, 3));
		RB(buf, recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
		R(read(fd, buf, 10));
		R(read(fd, buf, 10));
		app_close(fd);
	}
	app_sync();
}

CASE(alone_killed_epoll, 0, "the same told by an epoll set, and by SO_ERROR")
{
	int fd = killed_alone(NULL), ep;

	if (SRV) {
		ep = (int)MUST(epoll_create1(0));
		app_await_poll(fd, POLLHUP, 5000);
		ADD(ep, fd, EPOLLIN | EPOLLRDHUP, 1);
		wait_say("reset", ep, 5000);
		int err = 0;
		socklen_t len = sizeof(err);

		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("error %s", app_errname(err));
		wait_say("told", ep, 0);
		R(read(fd, buf, 10));
		close(ep);
		app_close(fd);
	}
	app_sync();
}

/*
 * Ten bytes were unread when the client forked; then the client closes, and a child alone holds
 * them.
 */
static void last_holder(void (*child)(int fd), bool die)
{
	int fd = app_open(WARM);
	pid_t pid;

	no_sigpipe();
	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
		app_sync();
		if (die)
			see_reset(fd);
		else
			app_drain(fd, "end");
		say_revents(fd, "end");
		app_close(fd);
	} else {
		app_await_inq(fd, 10);
		app_sync();
		pid = holder(fd, 2, child);
		app_flag_wait(2);
		app_close(fd);
		end_holder(pid);
		app_sync();
	}
	app_sync();
}

CASE(child_killed_unread, DIRECT,
     "forked with bytes unread, then the last holder is killed: a reset")
{
	last_holder(NULL, true);
}

CASE(child_killed_partly, DIRECT, "the same where it has read some of them")
{
	last_holder(reads_some, true);
}

CASE(child_killed_read, DIRECT, "the same where it has read them all: no reset")
{
	last_holder(reads_all, false);
}

CASE(parent_reads_child_dies, DIRECT, "the parent reads what was unread, the child ends: no reset")
{
	int fd = app_open(WARM);
	pid_t pid;

	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
		app_sync();
		app_drain(fd, "end");
		say_revents(fd, "end");
	} else {
		app_await_inq(fd, 10);
		app_sync();
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		reads_all(fd);
		app_close(fd);
		end_holder(pid);
		app_sync();
	}
	app_sync();
	if (SRV)
		app_close(fd);
}

CASE(linger, DIRECT, "SO_LINGER is the program's own all the time")
{
	struct linger l = { 1, 5 };
	int fd = app_open(WARM);
	pid_t pid;

	if (SRV) {
		SAY(fd, "0123456789");
		app_sync();
	} else {
		app_await_inq(fd, 10);
		app_sync();
		say_linger(fd, "before");
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		say_linger(fd, "unread");
		R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
		say_linger(fd, "set");
		reads_some(fd);
		say_linger(fd, "some read");
		RB(buf, read(fd, buf, 6));
		say_linger(fd, "all read");
		end_holder(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(reset_behind_unread, DIRECT, "a fork with bytes unread before a reset: the bytes come first")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (SRV) {
		SAY(fd, "answer");
		app_await_inq(fd, 6);
		app_sync();
		R(close(fd));
		app_sync();
	} else {
		SAY(fd, "unread");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		app_sync();
		pid_t pid = holder(fd, 2, NULL);

		app_flag_wait(2);
		RB(buf, recv(fd, buf, 3, MSG_PEEK));
		RB(buf, read(fd, buf, 4));
		RB(buf, read(fd, buf, 100));
		R(read(fd, buf, 100));
		R(read(fd, buf, 100));
		end_holder(pid);
		app_close(fd);
	}
	app_sync();
}

CASE(leaves_after_fork, DIRECT,
     "forked with bytes unread, read on, then handed to stdio: the peer goes on")
{
	int fd = app_open(WARM);
	pid_t pid;

	if (SRV) {
		SAY(fd, "by the ring");
		app_sync();
		app_sync();
		SAY(fd, "by TCP");
		app_sync();
		app_sync();
		app_hear(fd, 5);
		SAY(fd, "and back");
		app_hear(fd, 6);
	} else {
		app_await_inq(fd, 11);
		app_sync();
		pid = holder(fd, 2, NULL);
		app_flag_wait(2);
		app_sync();
		app_hear(fd, 17);
		app_sync();
		SAY(fd, "later");
		int copy = (int)MUST(dup(fd));
		FILE *f = fdopen(copy, "w");

		R(fputs("stdio!", f));
		R(fclose(f));
		app_sync();
		app_hear(fd, 8);
		end_holder(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(reset_before_fork, DIRECT,
     "a reset that nobody has asked for before a fork: told once, here in the child")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (SRV) {
		app_await_inq(fd, 6);
		R(close(fd));
		app_sync();
	} else {
		SAY(fd, "unread");
		app_sync();
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			app_await_poll(fd, POLLHUP, 5000);
			say_revents(fd, "child");
			R(read(fd, buf, 10));
			R(read(fd, buf, 10));
			_exit(0);
		}
		app_reap(pid, "child");
		R(read(fd, buf, 10));
		say_revents(fd, "parent");
		app_close(fd);
	}
	app_sync();
}

/* Forks with bytes and the end of the ring unread; the child, or the parent, reads them. */
static void end_unread(bool child_reads)
{
	int fd = app_open(WARM);

	if (SRV) {
		SAY(fd, "0123456789");
		R(shutdown(fd, SHUT_WR));
		app_sync();
	} else {
		app_sync();
		app_await_inq(fd, 10);
		app_await_poll(fd, POLLRDHUP, 5000);
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			if (child_reads)
				app_drain(fd, "child");
			_exit(0);
		}
		app_reap(pid, "child");
		say_revents(fd, "parent");
		RB(buf, recv(fd, buf, 3, MSG_PEEK));
		RB(buf, read(fd, buf, 4));
		app_drain(fd, "parent");
		say_revents(fd, "parent");
	}
	app_sync();
	app_close(fd);
}

CASE(end_unread_parent, DIRECT, "forked with bytes and the end unread: the parent reads both")
{
	end_unread(false);
}

CASE(end_unread_child, DIRECT, "the same, the child reads both")
{
	end_unread(true);
}

CASE(reset_behind_much, DIRECT,
     "a read that takes all before a reset leaves the error to the next call")
{
	static char much[50000];
	struct linger l = { 1, 0 };
	int fd = app_open(WARM);

	if (SRV) {
		for (int i = 0; i < 4; i++) /* just over what one round takes from a small ring */
			app_write_all(fd, much, 4149);
		app_sync();
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
		app_close(fd);
		app_sync();
	} else {
		app_await_inq(fd, 16596);
		app_sync();
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		R(recv(fd, much, sizeof(much), MSG_DONTWAIT));
		say_revents(fd, "read");
		R(read(fd, much, 10));
		R(read(fd, much, 10));
		say_revents(fd, "told");
		app_close(fd);
	}
	app_sync();
}

CASE(reset_behind_part, DIRECT,
     "a read that waits for more than is before a reset leaves the error "
     "to who else has the socket")
{
	int fd = app_open(WARM);

	no_sigpipe();
	if (SRV) {
		app_await_inq(fd, 6);
		SAY(fd, "0123456789");
		app_sync();
		app_sync();
		R(close(fd));
		app_sync();
	} else {
		SAY(fd, "unread");
		app_sync();
		app_await_inq(fd, 10);
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			app_flag_wait(3);
			say_revents(fd, "child");
			R(read(fd, buf, 10));
			R(read(fd, buf, 10));
			_exit(0);
		}
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		app_sync();
		RB(buf, recv(fd, buf, 100, MSG_WAITALL));
		say_revents(fd, "parent");
		app_flag_set(3, 1);
		app_reap(pid, "child");
		say_revents(fd, "told");
		R(read(fd, buf, 10));
		app_close(fd);
	}
	app_sync();
}

CASE(reset_behind_ring, DIRECT,
     "a reset behind the ring's bytes, which are read; then a fork: the child is told, nobody else")
{
	static char much[4096];
	int fd = app_open(WARM);

	no_sigpipe();
	if (SRV) {
		app_await_inq(fd, 6);
		SAY(fd, "0123456789");
		R(close(fd));
		app_sync();
	} else {
		SAY(fd, "unread");
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		RB(much, recv(fd, much, sizeof(much), MSG_DONTWAIT));
		pid_t pid = (pid_t)MUST(fork());

		if (!pid) {
			R(write(fd, "x", 1));
			R(write(fd, "x", 1));
			_exit(0);
		}
		app_reap(pid, "child");
		R(read(fd, buf, 10));
		say_revents(fd, "parent");
		app_close(fd);
	}
	app_sync();
}
