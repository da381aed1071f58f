/* SPDX-License-Identifier: BSD-2-Clause */
/* proc.c - tests fork: streams that are inherited, shared, handed to a child, or kept from it. */
#include "app.h"

#include <sys/resource.h>

static char buf[16];

CASE(fork_different, DIRECT, "parent and child use different streams at the same time")
{
	int fds[2];

	app_open_more(WARM | NODELAY, fds, 2);
	pid_t pid = fork();

	if (!pid) {
		LOG("child good %d", app_pingpong(fds[1], 500, CLI));
		_exit(0);
	}
	int good = app_pingpong(fds[0], 500, CLI);

	app_reap(pid, "child");
	LOG("parent good %d", good);
	app_sync();
}

CASE(fork_same_write, DIRECT, "child, then parent, write the same stream")
{
	int fd = app_open(WARM);

	if (SRV) {
		for (int i = 0; i < 3; i++) {
			pid_t pid = fork();

			if (!pid) {
				SAY(fd, "child ");
				_exit(0);
			}
			app_reap(pid, "child");
			SAY(fd, "parent ");
		}
		MUST(shutdown(fd, SHUT_WR));
	} else {
		app_hear(fd, 39);
		R(read(fd, buf, 1));
	}
	app_sync();
	app_close(fd);
}

CASE(fork_same_read, DIRECT, "parent and child read the same stream in turn")
{
	int fd = app_open(WARM);

	if (SRV) {
		app_await_inq(fd, 40);
		pid_t pid = fork();

		for (int i = 0; i < 5; i++) {
			if (!pid) {
				app_flag_wait(1 + i * 2);
				app_hear(fd, 4);
				app_flag_set(2 + i * 2, 1);
			} else {
				app_hear(fd, 4);
				app_flag_set(1 + i * 2, 1);
				app_flag_wait(2 + i * 2);
			}
		}
		if (!pid)
			_exit(0);
		app_reap(pid, "child");
		app_flag_set(20, 1);
	} else {
		SAY(fd, "0aaa1bbb2ccc3ddd4eee5fff6ggg7hhh8iii9jjj");
		app_flag_wait(20);
	}
	app_sync();
	app_close(fd);
}

CASE(fork_same_duplex, DIRECT, "the child reads and the parent writes one stream, 2 MiB each way")
{
	int fd = app_open(WARM);
	pid_t pid = fork();

	if (!pid) {
		LOG("read %d", app_recv_pattern(fd, 2 << 20, 9999, (unsigned int)!app_side));
		_exit(0);
	}
	bool ok = app_send_pattern(fd, 2 << 20, 8888, (unsigned int)app_side);

	app_reap(pid, "child");
	LOG("written %d", ok);
	app_sync();
	app_close(fd);
}

CASE(fork_same_blocked, DIRECT,
     "parent and child both blocked in read: each message wakes one of them")
{
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		pid_t pid = fork();
		char text[4];
		int got = 0;

		app_flag_set(pid ? 0 : 1, (uint64_t)gettid());
		while (app_read_full(fd, text, 4) == 4) {
			got++;
			app_write_all(fd, text, 4);
		}
		if (!pid)
			_exit(got);
		int status = 0;

		waitpid(pid, &status, 0);
		LOG("together %d", got + WEXITSTATUS(status));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		app_await_asleep((pid_t)app_flag_wait(1));
		LOG("good %d", app_pingpong(fd, 200, true));
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

static void inherit_exit(void (*leave)(int))
{
	int fd = app_open(WARM | NODELAY);

	for (int i = 0; i < 3; i++) {
		pid_t pid = SRV ? fork() : 1;

		if (!pid)
			leave(0);
		int good = app_pingpong(fd, 200, CLI);

		if (SRV)
			app_reap(pid, "child");
		LOG("good %d", good);
	}
	if (CLI)
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
	app_close(fd);
}

CASE(fork_child_exits, DIRECT,
     "a child that only inherits and calls _exit: the stream does not notice")
{
	inherit_exit(_exit);
}

CASE(fork_child_exits_atexit, DIRECT, "the same with exit: its handlers run in the child")
{
	inherit_exit(exit);
}

CASE(fork_child_closes, DIRECT, "the child closes its copies: no EOF, no reset at the peer")
{
	int fd = app_open(WARM);

	if (SRV) {
		app_await_inq(fd, 6);
		pid_t pid = fork();

		if (!pid) {
			R(close(fd));
			R(read(fd, buf, 1));
			_exit(0);
		}
		app_reap(pid, "child");
		app_hear(fd, 6);
		SAY(fd, "parent here");
	} else {
		SAY(fd, "unread");
		app_hear(fd, 11);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(fork_parent_closes, DIRECT, "the parent closes, the child serves; EOF when the child ends")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			app_flag_wait(0);
			app_hear(fd, 7);
			SAY(fd, "from the child");
			_exit(0);
		}
		R(close(fd));
		app_flag_set(0, 1);
		app_reap(pid, "child");
	} else {
		app_flag_wait(0);
		SAY(fd, "request");
		app_hear(fd, 14);
		R(read(fd, buf, 1));
		app_close(fd);
	}
	app_sync();
}

CASE(fork_snapshot, DIRECT,
     "a child sits on its copy for long, as for a snapshot, while 4 MiB flow")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			app_flag_wait(0);
			_exit(0);
		}
		R(app_recv_pattern(fd, 4 << 20, 10000, 1));
		R(app_send_pattern(fd, 4 << 20, 10000, 2));
		app_flag_set(0, 1);
		app_reap(pid, "child");
	} else {
		R(app_send_pattern(fd, 4 << 20, 20000, 1));
		R(app_recv_pattern(fd, 4 << 20, 20000, 2));
	}
	app_sync();
	app_close(fd);
}

CASE(fork_often, DIRECT, "20 children come and go while 8 MiB flow")
{
	int fd = app_open(WARM);
	uint64_t part = (8u << 20) / 20;

	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		bool ok = CLI ? app_send_pattern(fd, part, 7777, (unsigned int)i) :
				app_recv_pattern(fd, part, 6666, (unsigned int)i);

		waitpid(pid, NULL, 0);
		LOG("part %d", ok);
	}
	app_sync();
	app_close(fd);
}

CASE(fork_orphan, DIRECT, "a grandchild goes on alone with the stream")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			if (!fork()) {
				app_flag_wait(0);
				app_hear(fd, 4);
				SAY(fd, "orphan");
				app_log("grandchild done");
				app_flag_set(1, 1);
			}
			_exit(0);
		}
		app_reap(pid, "child");
		R(close(fd));
		app_flag_set(0, 1);
	} else {
		app_flag_wait(0);
		SAY(fd, "ping");
		app_hear(fd, 6);
		R(read(fd, buf, 1));
	}
	app_flag_wait(1);
	app_sync();
}

CASE(fork_again_dupped, 0,
     "a listener has two numbers; a child of a child serves, another is executed")
{
	int listener = SRV ? app_listen(COLD) : -1;

	if (SRV) {
		int copy = (int)MUST(dup(listener));
		pid_t pid = fork();

		if (!pid) {
			LOG("exec: %d", system("exit 7") >> 8);
			if (!(pid = fork())) {
				int fd = app_accept(copy);

				SAY(fd, "served");
				app_close(fd);
				_exit(0);
			}
			app_reap(pid, "grandchild");
			_exit(0);
		}
		app_reap(pid, "child");
		app_close(copy);
		app_close(listener);
	} else {
		int fd = app_connect(COLD);

		app_drain(fd, "client");
		app_close(fd);
	}
	app_sync();
}

CASE(accept_then_fork, DIRECT, "a server that forks for each connection")
{
	enum {
		N = 4
	};
	int listener = SRV ? app_listen(COLD) : -1;

	app_sync();
	for (int i = 0; i < N; i++) {
		if (SRV) {
			int fd = app_accept(listener);
			pid_t pid = fork();

			if (!pid) {
				app_close(listener);
				LOG("child good %d", app_pingpong(fd, 500, false));
				app_drain(fd, "child");
				exit(0);
			}
			app_close(fd);
			app_reap(pid, "child");
		} else {
			int fd = app_connect(NODELAY);

			LOG("good %d", app_pingpong(fd, 500, true));
			SAY(fd, "bye");
			app_close(fd);
		}
	}
	app_sync();
}

CASE(accept_use_fork, DIRECT, "the parent uses the stream first, then a child has it alone")
{
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		SAY(fd, "parent");
		pid_t pid = fork();

		if (!pid) {
			app_flag_wait(0);
			LOG("child good %d", app_pingpong(fd, 1000, false));
			app_drain(fd, "child");
			_exit(0);
		}
		app_close(fd);
		app_flag_set(0, 1);
		app_reap(pid, "child");
	} else {
		app_hear(fd, 6);
		LOG("good %d", app_pingpong(fd, 1000, true));
		app_close(fd);
	}
	app_sync();
}

CASE(fork_no_files, DIRECT, "a fork with bytes unread, where no file may grow (RLIMIT_FSIZE)")
{
	int fd = app_open(WARM);
	struct rlimit was, none;

	if (CLI) {
		R(app_send_pattern(fd, 4000, 999, 1));
		app_sync();
		app_sync();
		R(app_send_pattern(fd, 4000, 999, 2));
	} else {
		app_await_inq(fd, 4000);
		app_sync();
		MUST(getrlimit(RLIMIT_FSIZE, &was));
		none = (struct rlimit){ .rlim_max = was.rlim_max };
		MUST(setrlimit(RLIMIT_FSIZE, &none));
		pid_t pid = (pid_t)MUST(fork());

		if (!pid)
			_exit(0);
		MUST(setrlimit(RLIMIT_FSIZE, &was));
		app_reap(pid, "child");
		app_sync();
		R(app_recv_pattern(fd, 4000, 999, 1));
		R(app_recv_pattern(fd, 4000, 999, 2));
	}
	app_sync();
	app_close(fd);
}

CASE(no_files_at_all, 0,
     "no file may grow from the start: what the library has in memory is not worth a signal")
{
	struct rlimit none;
	int fd;

	MUST(getrlimit(RLIMIT_FSIZE, &none));
	none.rlim_cur = 0;
	MUST(setrlimit(RLIMIT_FSIZE, &none));
	fd = app_open(COLD);
	LOG("good %d", app_pingpong(fd, 500, CLI));
	app_sync();
	app_close(fd);
}
