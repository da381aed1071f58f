/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * workers.c - tests prefork servers; vfork, clone, _Fork, daemon; an epoll set across a fork; a
 * child that is killed.
 */
#include "app.h"

#include <sched.h>

static char buf[65536];

static void prefork_worker(int listener)
{
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		char text[64];
		ssize_t n;

		if (fd < 0)
			_exit(1);
		while ((n = read(fd, text, sizeof(text))) > 0)
			app_write_all(fd, text, (size_t)n);
		close(fd);
	}
}

static void prefork(bool reuseport)
{
	enum {
		WORKERS = 3
	};
	pid_t pid[WORKERS];
	int one = 1;

	if (SRV) {
		int listener = -1;

		if (!reuseport) {
			listener = app_listen(COLD);
		} else {
			/* Holds the port; the workers' own listeners share it. */
			struct app_addr addr;
			int holder = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

			app_addr_make(&addr, COLD, true, 0);
			MUST(setsockopt(holder, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)));
			MUST(bind(holder, &addr.sa, addr.len));
			MUST(getsockname(holder, &addr.sa, &addr.len));
			app_flag_set(0, ntohs(addr.in.sin_port));
		}
		for (int i = 0; i < WORKERS; i++) {
			pid[i] = fork();
			if (pid[i])
				continue;
			if (reuseport) {
				struct app_addr addr;

				app_addr_make(&addr, COLD, true, (int)app_flag_wait(0));
				listener = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
				MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one,
						sizeof(one)));
				MUST(bind(listener, &addr.sa, addr.len));
				MUST(listen(listener, 64));
			}
			app_flag_set(10 + i, 1);
			prefork_worker(listener);
		}
		for (int i = 0; i < WORKERS; i++)
			app_flag_wait(10 + i);
		app_sync();
		app_sync();
		for (int i = 0; i < WORKERS; i++)
			kill(pid[i], SIGKILL);
		for (int i = 0; i < WORKERS; i++)
			app_reap(pid[i], "worker");
	} else {
		app_sync();
		for (int i = 0; i < 12; i++) {
			struct app_addr addr;
			int fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

			app_addr_make(&addr, COLD, false,
				      reuseport ? (int)app_flag_wait(0) : app_port());
			MUST(connect(fd, &addr.sa, addr.len));
			MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
			LOG("good %d", app_pingpong(fd, 150, true));
			app_close(fd);
		}
		app_sync();
	}
	app_sync();
}

CASE(prefork_listener, 0, "three workers accept from one inherited listener")
{
	prefork(false);
}

CASE(prefork_reuseport, 0, "three workers with SO_REUSEPORT listeners of their own")
{
	prefork(true);
}

CASE(vfork_exec, DIRECT, "vfork and exec of a static program with the stream as 0 and 1")
{
	int fd = app_open(WARM);

	if (SRV) {
		const char *cat = app_static_cat();
		pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): tested */

		if (!pid) {
			/* What programs do here, whatever POSIX says. */
			dup2(fd, 0); /* NOLINT(clang-analyzer-unix.Vfork) */
			dup2(fd, 1); /* NOLINT(clang-analyzer-unix.Vfork) */
			execl(cat, cat, (char *)NULL);
			_exit(127);
		}
		app_close(fd);
		app_reap(pid, "cat");
	} else {
		SAY(fd, "echo this");
		app_hear(fd, 9);
		R(shutdown(fd, SHUT_WR));
		R(read(fd, buf, 1));
	}
	app_sync();
}

CASE(vfork_exit, DIRECT,
     "vfork children that only _exit, or fail to exec, leave the parent as it was")
{
	int fd = app_open(WARM | NODELAY);

	for (int i = 0; i < 20; i++) {
		pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): tested */

		if (!pid) {
			if (i % 2) {
				close(fd); /* NOLINT(clang-analyzer-unix.Vfork) */
				execl("/nonexistent/program", "program", (char *)NULL);
			}
			_exit(7);
		}
		int status = 0;

		waitpid(pid, &status, 0);
		if (WEXITSTATUS(status) != 7)
			LOG("status %#x", status);
		if (app_pingpong(fd, 20, CLI) != 20)
			LOG("round %d", i);
	}
	LOG("done");
	app_sync();
	app_close(fd);
}

static int clone_main(void *arg)
{
	int fd = *(int *)arg;

	SAY(fd, "cloned");
	_exit(5);
}

CASE(clone_child, DIRECT, "clone() as fork uses the stream")
{
	int fd = app_open(WARM);

	if (SRV) {
		char *stack = malloc(256 << 10);
		pid_t pid = clone(clone_main, stack + (256 << 10), SIGCHLD, &fd);

		app_reap(pid, "clone");
		SAY(fd, " and parent");
	} else {
		app_hear(fd, 17);
	}
	app_sync();
	app_close(fd);
}

CASE(under_fork, DIRECT, "_Fork, the fork without handlers")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = _Fork();

		if (!pid) {
			if (write(fd, "child", 5) != 5)
				_exit(1);
			_exit(0);
		}
		app_reap(pid, "child");
		SAY(fd, " parent");
	} else {
		app_hear(fd, 12);
	}
	app_sync();
	app_close(fd);
}

CASE(daemonize, DIRECT, "daemon() and on with the stream in the background process")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			int ret = daemon(1, 1);

			app_flag_wait(1);
			LOG("daemon %d", ret);
			app_hear(fd, 4);
			SAY(fd, "daemon");
			app_flag_set(0, 1);
			exit(0);
		}
		app_reap(pid, "starter");
		app_flag_set(1, 1);
		app_flag_wait(0);
	} else {
		SAY(fd, "ping");
		app_hear(fd, 6);
	}
	app_sync();
	app_close(fd);
}

CASE(epoll_over_fork, DIRECT, "an epoll set made before fork, used by the child")
{
	int fd = app_open(WARM);

	if (SRV) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 0x77 };
		int ep = (int)MUST(epoll_create1(0));

		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		pid_t pid = fork();

		if (!pid) {
			app_flag_set(0, (uint64_t)gettid());
			int n = epoll_wait(ep, &ev, 1, 10000);

			LOG("child: %d %#x %#llx", n, ev.events, (unsigned long long)ev.data.u64);
			app_hear(fd, 4);
			_exit(0);
		}
		app_reap(pid, "child");
		R(epoll_wait(ep, &ev, 1, 0));
		SAY(fd, "done");
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "data");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(fork_child_dies, DIRECT, "a child killed in mid-stream leaves the parent's other stream alone")
{
	int fds[2];

	app_open_more(WARM | NODELAY, fds, 2);
	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			while (write(fds[1], "x", 1) == 1)
				;
			_exit(0);
		}
		app_close(fds[1]);
		app_flag_wait(0);
		kill(pid, SIGKILL);
		app_reap(pid, "child");
		LOG("good %d", app_pingpong(fds[0], 300, false));
	} else {
		ssize_t n;

		app_hear(fds[1], 10);
		app_flag_set(0, 1);
		while ((n = read(fds[1], buf, sizeof(buf))) > 0)
			;
		LOG("ends with %zd", n);
		LOG("good %d", app_pingpong(fds[0], 300, true));
	}
	app_sync();
}

/* Echoes 4 bytes at a time, as the set reports them, until the peer has finished. */
static void echo_by_epoll(int ep, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };
	char text[4];

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	for (;;) {
		if (epoll_wait(ep, &ev, 1, 10000) != 1 || ev.data.fd != fd)
			break;
		if (app_read_full(fd, text, sizeof(text)) != sizeof(text))
			return;
		app_write_all(fd, text, sizeof(text));
	}
	LOG("not told");
}

/* A client in a process of its own, which is gone afterwards. */
static pid_t brief_client(uint32_t rounds, int end_flag)
{
	pid_t pid = fork();

	if (!pid) {
		int fd = app_connect(COLD);

		LOG("good %d", app_pingpong(fd, rounds, true));
		if (end_flag)
			app_flag_wait(end_flag);
		_exit(0);
	}
	return pid;
}

CASE(fork_peer_leaves, 0,
     "a peer process leaves, seen by a child first; the parent's epoll set goes on")
{
	if (SRV) {
		int listener = app_listen(NODELAY), ep = (int)MUST(epoll_create1(0));
		int fd = app_accept(listener);
		struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		LOG("good %d", app_pingpong(fd, 2000, false));
		pid_t pid = fork();

		if (!pid) {
			app_flag_wait(1);
			close(fd);
			app_flag_set(2, 1);
			app_flag_wait(3);
			_exit(0);
		}
		app_close(fd);
		app_flag_set(4, 1); /* the client may go */
		app_flag_wait(2);
		for (int i = 0; i < 3; i++) {
			fd = app_accept(listener);
			echo_by_epoll(ep, fd);
			app_close(fd);
		}
		app_flag_set(3, 1);
		app_reap(pid, "child");
	} else {
		app_reap(brief_client(2000, 4), "client");
		app_flag_set(1, 1);
		for (int i = 0; i < 3; i++)
			app_reap(brief_client(2000, 0), "client");
	}
	app_sync();
}

CASE(epoll_child_looks, 0,
     "an epoll set that a child looks at too, while the parent's peers come and go")
{
	if (SRV) {
		int listener = app_listen(NODELAY), ep = (int)MUST(epoll_create1(0));
		struct epoll_event ev;
		pid_t pid = fork();

		if (!pid) {
			app_flag_wait(1);
			while (epoll_wait(ep, &ev, 1, 0) >= 0)
				app_pause_ms(1);
			_exit(1);
		}
		for (int i = 0; i < 6; i++) {
			int fd = app_accept(listener);

			if (i == 1)
				app_flag_set(1, 1);
			echo_by_epoll(ep, fd);
			app_close(fd);
		}
		kill(pid, SIGKILL);
		app_reap(pid, "child");
	} else {
		for (int i = 0; i < 6; i++)
			app_reap(brief_client(4000, 0), "client");
	}
	app_sync();
}
