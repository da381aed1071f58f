/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * relay.c - tests a stream that is handed to a program that only the kernel serves, while bytes lie
 * in the ring that the peer will not repeat in order: it fell back to TCP behind them, or has
 * ended. Also programs started by a child that shares its parent's memory.
 */
#include "hand_over.h"

#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define MOVED_BYTES 1500000u /* more than a ring: its sender falls back */
#define FEW_BYTES 60000u

/* Not preloaded: reads a number of bytes of the pattern, answers, and reads on to the end. */
HELPER(reader)
{
	int fd = atoi(argv[1]);
	char text[4];

	(void)argc;
	R(app_recv_pattern(fd, (uint64_t)atoll(argv[2]), 1234, 1));
	SAY(fd, "read");
	R(app_read_full(fd, text, 4));
	R(read(fd, text, 1));
	return 0;
}

static void talk(int fd)
{
	app_hear(fd, 4);
	SAY(fd, "tail");
	R(shutdown(fd, SHUT_WR));
	app_sync();
	app_close(fd);
}

/*
 * The client's part of a case: sends bytes that are all accepted although the server does not read;
 * then what follows them.
 */
static int open_and_fill(uint64_t bytes)
{
	int fd = app_open(WARM);

	if (CLI)
		R(app_send_pattern(fd, bytes, bytes, 1));
	app_sync();
	return fd;
}

static void exec_reader(int fd, uint64_t bytes)
{
	char many[24];

	snprintf(many, sizeof(many), "%llu", (unsigned long long)bytes);
	unsetenv("LD_PRELOAD");
	execv(app_self(), app_self_argv("reader", number(fd), many, NULL));
	_exit(127);
}

static void give_by_fork(int fd, uint64_t bytes)
{
	pid_t pid = fork();

	if (!pid)
		exec_reader(fd, bytes);
	close(fd);
	app_reap(pid, "reader");
	app_sync();
}

CASE(exec_moved, DIRECT, "fork and exec behind a sender that has gone on to TCP")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI)
		talk(fd);
	else
		give_by_fork(fd, MOVED_BYTES);
}

CASE(exec_moved_stdin, DIRECT, "the same as descriptor 0")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI) {
		talk(fd);
		return;
	}
	pid_t pid = fork();

	if (!pid) {
		MUST(dup2(fd, 0));
		close(fd);
		exec_reader(0, MOVED_BYTES);
	}
	close(fd);
	app_reap(pid, "reader");
	app_sync();
}

CASE(vfork_moved, DIRECT, "the same by vfork, as descriptor 0; the parent has the descriptor, too")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI) {
		talk(fd);
		return;
	}
	char **args = app_self_argv("reader", "0", "1500000", NULL);

	unsetenv("LD_PRELOAD");
	/* vfork() is the subject of the case. */
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	pid_t pid = vfork();

	if (!pid) {
		dup2(fd, 0);
		execve(app_self(), args, environ);
		_exit(127);
	}
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	close(fd);
	app_reap(pid, "reader");
	app_sync();
}

CASE(fdopen_moved, DIRECT,
     "fdopen behind a sender that has gone on; its own end and events stay right")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI) {
		talk(fd);
		return;
	}
	static char buf[MOVED_BYTES];
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), copy = (int)MUST(dup(fd));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP, .data.u64 = 77 };

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	FILE *f = fdopen(fd, "r+");

	setvbuf(f, NULL, _IONBF, 0);
	LOG("fread %zu", fread(buf, 1, sizeof(buf), f));
	R(app_pattern_ok(buf, sizeof(buf), 0, 1));
	SAY(copy, "read");
	LOG("fread %zu %.4s", fread(buf, 1, 4, f), buf);
	R(fgetc(f));
	ev = (struct epoll_event){ 0 };
	R(epoll_wait(ep, &ev, 1, 5000));
	LOG("of %d: %x", (int)ev.data.u64, ev.events);
	close(copy);
	R(fclose(f));
	close(ep);
	app_sync();
}

CASE(stdin_moved, DIRECT, "dup2 onto 0 behind a sender that has gone on, read by stdio")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI) {
		talk(fd);
		return;
	}
	pid_t pid = fork();

	if (!pid) {
		static char buf[MOVED_BYTES];

		R(dup2(fd, 0));
		close(fd);
		LOG("fread %zu", fread(buf, 1, sizeof(buf), stdin));
		R(app_pattern_ok(buf, sizeof(buf), 0, 1));
		SAY(0, "read");
		LOG("fread %zu", fread(buf, 1, 5, stdin));
		_exit(0);
	}
	close(fd);
	app_reap(pid, "child");
	app_sync();
}

static void pass_on(int via, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char byte = 'f';
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(int));
	if (fd >= 0)
		memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	R(fd >= 0 ? sendmsg(via, &msg, 0) : recvmsg(via, &msg, 0));
	if (fd >= 0) {
		app_flag_set(1, 1); /* the line of our own call comes first */
	} else {
		app_flag_wait(1);
		memcpy(&fd, CMSG_DATA(cm), sizeof(fd));
		exec_reader(fd, MOVED_BYTES);
	}
}

CASE(pass_moved, DIRECT, "SCM_RIGHTS behind a sender that has gone on")
{
	int sv[2] = { -1, -1 }, fd;
	pid_t pid = 0;

	if (SRV) {
		MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
		pid = fork();
		if (!pid)
			pass_on(sv[1], -1);
		close(sv[1]);
	}
	fd = open_and_fill(MOVED_BYTES);
	if (CLI) {
		talk(fd);
		return;
	}
	pass_on(sv[0], fd);
	close(fd);
	app_reap(pid, "reader");
	close(sv[0]);
	app_sync();
}

CASE(exec_ended, DIRECT, "fork and exec behind the peer's shutdown")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, FEW_BYTES, 999, 1));
		SAY(fd, "tail");
		R(shutdown(fd, SHUT_WR));
		app_sync();
		app_hear(fd, 4);
		app_sync();
		app_close(fd);
	} else {
		app_sync();
		give_by_fork(fd, FEW_BYTES);
	}
}

CASE(exec_closed_later, DIRECT,
     "the same; the parent closes when the child has executed it, or is at it")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, FEW_BYTES, 999, 1));
		SAY(fd, "tail");
		app_close(fd);
		app_sync();
		app_sync();
		return;
	}
	app_sync();
	pid_t pid = fork();

	if (!pid) {
		app_flag_set(0, 1);
		exec_reader(fd, FEW_BYTES);
	}
	app_flag_wait(0);
	app_pause_ms(20); /* deliberately late */
	close(fd);
	app_reap(pid, "reader");
	app_sync();
}

CASE(exec_meant, DIRECT,
     "the same; the child takes FD_CLOEXEC away, and the parent has the descriptor meanwhile")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, FEW_BYTES, 999, 1));
		SAY(fd, "tail");
		app_close(fd);
		app_sync();
		app_sync();
		return;
	}
	app_sync();
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	pid_t pid = fork();

	if (!pid) {
		MUST(fcntl(fd, F_SETFD, 0));
		exec_reader(fd, FEW_BYTES);
	}
	app_reap(pid, "reader");
	close(fd);
	app_sync();
}

CASE(exec_closed, DIRECT, "fork and exec behind the peer's close")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, FEW_BYTES, 999, 1));
		SAY(fd, "tail");
		app_close(fd);
	}
	app_sync();
	if (SRV)
		give_by_fork(fd, FEW_BYTES);
	else
		app_sync();
}

/* The relay's process is invisible to a wait for any child, and sends no signal when it ends. */
CASE(unseen, DIRECT, "nobody's children are more than were forked")
{
	int fd = open_and_fill(MOVED_BYTES);

	if (CLI) {
		talk(fd);
		return;
	}
	static char buf[MOVED_BYTES];
	FILE *f = fdopen(fd, "r+");

	setvbuf(f, NULL, _IONBF, 0);
	R(waitpid(-1, NULL, WNOHANG));
	LOG("fread %zu", fread(buf, 1, sizeof(buf), f));
	SAY(fd, "read");
	LOG("fread %zu", fread(buf, 1, 5, f));
	R(fclose(f));
	R(waitpid(-1, NULL, 0));
	app_sync();
}

CASE(parent_goes_on, DIRECT, "a child made by vfork writes, ends, and its parent writes behind it")
{
	int fd = app_open(WARM);

	if (SRV) {
		char cmd[64];

		snprintf(cmd, sizeof(cmd), "printf AAAAA >&%d", fd);
		/*
		 * vfork() is the subject of the case.
		 * NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork)
		 */
		pid_t pid = vfork();

		if (!pid) {
			execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
			_exit(127);
		}
		/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
		app_reap(pid, "sh");
		SAY(fd, "BBBBB");
		app_hear(fd, 5);
	} else {
		app_hear(fd, 10);
		SAY(fd, "CCCCC");
	}
	app_sync();
	app_close(fd);
}

CASE(dup_in_vfork, DIRECT, "the descriptor closes itself, a copy made in the vfork child does not")
{
	int fd = app_open(WARM);

	if (SRV) {
		MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
		/*
		 * vfork() is the subject of the case.
		 * NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork)
		 */
		pid_t pid = vfork();

		if (!pid) {
			if (fcntl(fd, F_DUPFD, 9) != 9)
				_exit(1);
			execl("/bin/sh", "sh", "-c", "printf AAAAA >&9", (char *)NULL);
			_exit(127);
		}
		/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
		app_reap(pid, "sh");
		SAY(fd, "BBBBB");
	} else {
		app_hear(fd, 10);
	}
	app_sync();
	app_close(fd);
}

static int sh_by_clone(void *arg)
{
	execl("/bin/sh", "sh", "-c", arg, (char *)NULL);
	_exit(127);
}

CASE(clone_vfork, DIRECT, "the same by clone(CLONE_VM | CLONE_VFORK)")
{
	static char stack[65536] __attribute__((aligned(16)));
	int fd = app_open(WARM);

	if (SRV) {
		char cmd[64];

		snprintf(cmd, sizeof(cmd), "printf AAAAA >&%d", fd);
		pid_t pid = clone(sh_by_clone, stack + sizeof(stack),
				  CLONE_VM | CLONE_VFORK | SIGCHLD, cmd);

		app_reap(pid, "sh");
		SAY(fd, "BBBBB");
	} else {
		app_hear(fd, 10);
	}
	app_sync();
	app_close(fd);
}

CASE(spawned, DIRECT, "posix_spawn without file actions, the number in its arguments")
{
	int fd = app_open(WARM);

	if (SRV) {
		char cmd[64], sh[] = "sh", c[] = "-c", *const args[] = { sh, c, cmd, NULL };
		pid_t pid;

		snprintf(cmd, sizeof(cmd), "printf AAAAA >&%d", fd);
		R(posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ));
		app_reap(pid, "sh");
		SAY(fd, "BBBBB");
	} else {
		app_hear(fd, 10);
	}
	app_sync();
	app_close(fd);
}
