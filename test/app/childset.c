/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * childset.c - tests epoll sets that a living child of fork() has, too, with streams that it does
 * not have: they go by the ring, and waits on the set report them beside what both processes have.
 */
#include "childset.h"

#include <sys/eventfd.h>

/* @events: of the registration. */
static void with_a_child(uint32_t events)
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, events, 1);
	turns_onto_ring(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	if (CLI) {
		wait_say("nothing", ep, 0);
		end_child(pid);
	}
	app_sync();
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	app_close(ep);
	app_close(fd);
}

CASE(level, DIRECT, "a set that an idle child has, too: a stream is promoted in it, and stays so")
{
	with_a_child(EPOLLIN);
}

CASE(edge, DIRECT, "the same of edges")
{
	with_a_child(EPOLLIN | EPOLLET);
}

CASE(added_on_ring, DIRECT, "a stream on the ring is put into such a set, out of it, and again")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	for (int i = 0; i < 3; i++) {
		if (CLI)
			ADD(ep, fd, EPOLLIN | (i == 1 ? EPOLLET : 0), 1);
		turns(ep, fd, 20);
		if (CLI) {
			MOD(ep, fd, EPOLLIN | EPOLLOUT, 1);
			wait_say("room", ep, 0);
			DEL(ep, fd);
			wait_say("deleted", ep, 0);
		}
		app_sync();
	}
	app_expect_rings(1);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
	if (CLI)
		wait_say("closed", ep, 0);
	app_close(ep);
}

CASE(beside_others, DIRECT,
     "what both processes have is reported beside the stream, whoever sets it")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd, event = -1;
	uint64_t one = 1;
	pid_t pid = -1;

	if (CLI) {
		event = (int)MUST(eventfd(0, EFD_NONBLOCK));
		ADD(ep, event, EPOLLIN, 7);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_WAITS);
			wait_say("child", ep, 20000);
			R(read(event, &one, sizeof(one)));
			wait_say("child, read", ep, 0);
			app_flag_set(CHILD_HEARD, 1);
			app_flag_wait(CHILD_ENDS);
			one = 1;
			MUST(write(event, &one, sizeof(one)));
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns_onto_ring(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	if (CLI) {
		MUST(write(event, &one, sizeof(one)));
		app_flag_set(CHILD_WAITS, 1);
		app_flag_wait(CHILD_HEARD);
		wait_say("the child has read it", ep, 0);
		R(write(event, &one, sizeof(one)));
		wait_say("written here", ep, 1000);
		wait_say("level", ep, 0);
	}
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (CLI) {
		struct epoll_event ev;

		wait_say("both", ep, 1000);
		R(epoll_wait(ep, &ev, 1, 0));
		app_hear(fd, 5);
		R(read(event, &one, sizeof(one)));
		wait_say("none", ep, 0);
		app_flag_set(CHILD_ENDS, 1);
		wait_say("by the child", ep, 20000);
		app_reap(pid, "child");
	}
	app_sync();
	app_close(fd);
}

CASE(forks_again, DIRECT, "further forks while the stream is on the ring; the children end")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t first = CLI ? idle_child() : -1, second = -1;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns_onto_ring(ep, fd, TURNS);
	if (CLI) {
		second = holder(fd, CHILD_HEARD, NULL);
		app_flag_wait(CHILD_HEARD);
	}
	turns(ep, fd, 20);
	if (CLI)
		end_holder(second);
	turns_onto_ring(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	if (CLI)
		end_child(first);
	turns(ep, fd, TURNS);
	app_expect_rings(1);
	app_close(fd);
}

CASE(both_have_stream, DIRECT, "a stream that the child has, too, is put into the set: both see it")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd = app_open(WARM);
	pid_t pid = -1;

	if (CLI) {
		pid = (pid_t)MUST(fork());
		if (!pid) {
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_WAITS);
			wait_say("child", ep, 20000);
			app_flag_set(CHILD_HEARD, 1);
			app_flag_wait(CHILD_ENDS);
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
		ADD(ep, fd, EPOLLIN, 1);
	}
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (CLI) {
		app_flag_set(CHILD_WAITS, 1);
		app_flag_wait(CHILD_HEARD);
		wait_say("parent", ep, 1000);
		app_hear(fd, 5);
		end_child(pid);
	}
	app_sync();
	turns_onto_ring(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	app_close(fd);
}

CASE(child_closes_stream, DIRECT, "the child has the stream and the set, and closes the stream")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd = app_open(WARM);
	pid_t pid = -1;

	if (CLI) {
		ADD(ep, fd, EPOLLIN, 1);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			close(fd);
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_ENDS);
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	turns(ep, fd, 3 * TURNS);
	app_expect_rings(1);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
}

CASE(child_changes_stream, 0, "the same; before, it changes the registration")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd = app_open(WARM);
	pid_t pid = -1;

	if (CLI) {
		ADD(ep, fd, EPOLLIN | EPOLLET, 2);
		pid = (pid_t)MUST(fork());
		if (!pid) {
			MOD(ep, fd, EPOLLIN, 1);
			close(fd);
			app_flag_set(CHILD_LIVES, 1);
			app_flag_wait(CHILD_ENDS);
			_exit(0);
		}
		app_flag_wait(CHILD_LIVES);
	}
	app_sync();
	turns(ep, fd, 3 * TURNS);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
}

CASE(oneshot, DIRECT, "a oneshot registration that has fired stays silent until it is armed again")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLOUT | EPOLLONESHOT, 1);
	if (CLI)
		wait_say("fires", ep, 1000);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	if (CLI) {
		wait_say("has fired", ep, 0);
		MOD(ep, fd, EPOLLOUT | EPOLLONESHOT, 1);
		wait_say("armed", ep, 0);
		wait_say("has fired", ep, 0);
		end_child(pid);
	}
	app_sync();
	app_close(fd);
}

CASE(watched, 0, "such a set with a stream on the ring is polled, and put into another set")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), outer, fd;
	struct pollfd p = { .fd = ep, .events = POLLIN };
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 20);
	if (CLI)
		R(poll(&p, 1, 0));
	app_sync();
	if (SRV)
		SAY(fd, "bytes");
	app_sync();
	if (CLI) {
		R(poll(&p, 1, 10000));
		outer = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
		ADD(outer, ep, EPOLLIN, 9);
		wait_say("outer", outer, 10000);
		app_hear(fd, 5);
		R(poll(&p, 1, 0));
		wait_say("outer, read", outer, 0);
	}
	app_sync();
	turns(ep, fd, 20);
	if (CLI)
		end_child(pid);
	turns(ep, fd, 20);
	app_close(fd);
}

CASE(falls_back, DIRECT, "a stream falls back in such a set, with bytes unread")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? idle_child() : -1;

	fd = app_open(WARM);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns(ep, fd, 20);
	app_expect_rings(1);
	if (SRV)
		SAY(fd, "bytes");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (CLI) {
		fclose(fdopen((int)MUST(dup(fd)), "r"));
		wait_say("unread", ep, 1000);
		app_hear(fd, 5);
		wait_say("read", ep, 0);
	}
	app_sync();
	turns(ep, fd, 20);
	if (CLI)
		end_child(pid);
	app_sync();
	app_close(fd);
	if (CLI)
		wait_say("closed", ep, 0);
}

#define MOVED_BYTES 1500000u /* more than a ring: its sender falls back */

CASE(relayed, DIRECT, "the same behind a sender that has gone on by TCP; what comes later is told")
{
	static char bytes[MOVED_BYTES];
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd, copy;
	pid_t pid = SRV ? idle_child() : -1;
	FILE *f;

	fd = app_open(WARM);
	if (CLI)
		R(app_send_pattern(fd, MOVED_BYTES, MOVED_BYTES, 1));
	app_sync();
	if (CLI) {
		app_hear(fd, 4);
		SAY(fd, "tail");
		app_sync();
		app_close(fd);
		return;
	}
	ADD(ep, fd, EPOLLIN, 1);
	copy = (int)MUST(dup(fd));
	f = fdopen(fd, "r+");
	setvbuf(f, NULL, _IONBF, 0);
	LOG("fread %zu", fread(bytes, 1, sizeof(bytes), f));
	R(app_pattern_ok(bytes, sizeof(bytes), 0, 1));
	wait_say("read", ep, 0);
	SAY(copy, "read");
	/* It has come to whoever serves the descriptor now, and is that file's event. */
	app_await_inq(copy, 4);
	wait_say("tail", ep, 1000);
	wait_say("level", ep, 0);
	LOG("fread %zu %.4s", fread(bytes, 1, 4, f), bytes);
	wait_say("tail read", ep, 0);
	end_child(pid);
	app_sync();
	close(copy);
	R(fclose(f));
}

CASE(of_the_child, DIRECT, "the child puts a stream of its own into the set, and waits there")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), fd;
	pid_t pid = CLI ? (pid_t)MUST(fork()) : 0;

	if (pid) {
		app_reap(pid, "child");
		wait_say("parent", ep, 0);
		return;
	}
	fd = app_open(COLD);
	if (CLI)
		ADD(ep, fd, EPOLLIN, 1);
	turns_onto_ring(ep, fd, 2 * TURNS);
	app_expect_rings(1);
	app_close(fd);
	if (CLI) {
		wait_say("closed", ep, 0);
		_exit(0);
	}
}
