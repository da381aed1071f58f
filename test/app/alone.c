/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alone.c - tests calls after which the kernel alone may serve a stream, while bytes lie in the
 * ring that its sender will not repeat, since it has fallen back to TCP behind them. Either the
 * bytes are in the kernel's queue when the call returns, or the call fails.
 */
#include "hand_over.h"
#include "rawclose.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#define MOVED_BYTES 1500000u /* more than a ring: its sender falls back */
#define FEW_BYTES 20000u

static char buf[MOVED_BYTES];

/* Reads by a system call instruction of the test's own, which no hook sees. */
static bool kernel_has_all(int fd)
{
	size_t got = 0;

	while (got < MOVED_BYTES) {
		int n = raw_call(SYS_read, fd, (long)(buf + got), (long)(MOVED_BYTES - got));

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got == MOVED_BYTES && app_pattern_ok(buf, MOVED_BYTES, 0, 1);
}

static int moved(void)
{
	int fd = app_open(WARM);

	if (CLI)
		R(app_send_pattern(fd, MOVED_BYTES, MOVED_BYTES, 1));
	app_sync();
	return fd;
}

static void end(int fd)
{
	app_sync();
	app_close(fd);
}

CASE(ktls, DIRECT, "TCP_ULP: the kernel reads what is encrypted")
{
	int fd = moved();

	if (SRV) {
		LOG("tried %d", setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) <= 0);
		LOG("all %d", kernel_has_all(fd));
	}
	end(fd);
}

CASE(zerocopy, DIRECT, "TCP_ZEROCOPY_RECEIVE: the kernel maps what is in its queue")
{
	struct {
		uint64_t address;
		uint32_t length, skip;
	} what = { 0 };
	socklen_t len = sizeof(what);
	int fd = moved();

	if (SRV) {
		R(getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &what, &len));
		LOG("all %d", kernel_has_all(fd));
	}
	end(fd);
}

/* What a ring needs: its doorbells. */
static int forbid_eventfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_eventfd2, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

CASE(seccomp, DIRECT, "a filter forbids what a ring needs")
{
	int fd = moved();

	if (SRV) {
		R(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		R(forbid_eventfd());
		LOG("all %d", kernel_has_all(fd));
	}
	end(fd);
}

CASE(epoll, DIRECT, "a set that no hook saw made tells what the kernel has")
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };
	int fd = moved();

	if (SRV) {
		int ep = raw_call(SYS_epoll_create1, 0, 0, 0);

		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		ev.data.u64 = 0;
		R(epoll_wait(ep, &ev, 1, 5000));
		LOG("of %d", (int)ev.data.u64);
		LOG("all %d", kernel_has_all(fd));
		raw_close(ep);
	}
	end(fd);
}

/* From now on this process cannot create another one, so no relay can start. */
static void forbid_processes(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (raw_call(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog) < 0)
		app_die("no filter");
}

/* A call that was refused has changed nothing: the program's own calls go on. */
static bool whole(int fd, bool refused)
{
	return refused ? app_recv_pattern(fd, MOVED_BYTES, 50000, 1) : kernel_has_all(fd);
}

CASE(no_relay, DIRECT, "where nothing helps the call fails, and nothing is lost")
{
	int fd = moved();

	if (SRV) {
		struct io_uring_params p = { 0 };
		struct epoll_event ev = { .events = EPOLLIN };
		struct {
			uint64_t address;
			uint32_t length, skip;
		} what = { 0 };
		socklen_t len = sizeof(what);
		bool refused = false;
		int ep = raw_call(SYS_epoll_create1, 0, 0, 0), ring;

		forbid_processes();
		errno = 0;
		ring = (int)syscall(SYS_io_uring_setup, 8, &p);
		refused |= ring < 0 && errno == EAGAIN;
		refused |= setsockopt(fd, IPPROTO_TCP, TCP_ULP, "nonesuch", 9) < 0 &&
			   errno == EAGAIN;
		refused |= getsockopt(fd, IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE, &what, &len) < 0 &&
			   errno == EAGAIN;
		refused |= epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev) < 0 && errno == ENOMEM;
		refused |= forbid_eventfd() < 0 && errno == EAGAIN;
		LOG("whole %d", whole(fd, refused));
	}
	end(fd);
}

/* Not preloaded: reads a number of bytes, and the end of stream. */
HELPER(heir)
{
	char byte;
	int fd = atoi(argv[1]);

	(void)argc;
	R(app_recv_pattern(fd, (uint64_t)atoll(argv[2]), 1234, 1));
	app_flag_set(1, 1);
	R(read(fd, &byte, 1));
	return 0;
}

/* Not preloaded. */
HELPER(first)
{
	(void)argc;
	R(app_recv_pattern(atoi(argv[1]), FEW_BYTES, 1234, 1));
	return 0;
}

/* Not preloaded: inherits the socket without knowing of it. */
HELPER(outsider)
{
	(void)argc;
	(void)argv;
	return 0;
}

/* What the parent executes: it has not got the socket. */
HELPER(parent)
{
	(void)argc;
	app_flag_set(0, 1);
	app_reap((pid_t)atoi(argv[1]), "heir");
	return 0;
}

CASE(heir, DIRECT,
     "a child executes a program, its parent has gone without a word: "
     "the stream is the child's alone")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(app_send_pattern(fd, FEW_BYTES, 999, 1));
		R(shutdown(fd, SHUT_WR));
		app_sync();
		app_flag_wait(1);
		app_close(fd);
		return;
	}
	app_sync();
	unsetenv("LD_PRELOAD");
	pid_t pid = (pid_t)MUST(fork());

	if (!pid) {
		app_flag_wait(0);
		execv(app_self(), app_self_argv("heir", number(fd), "20000", NULL));
		_exit(127);
	}
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	execv(app_self(), app_self_argv("parent", number(pid), NULL));
	_exit(127);
}

/* Starts a program by vfork, with descriptor @fd; @clear: clears FD_CLOEXEC in the child. */
static void start(char **args, const char *what, int fd, bool clear)
{
	unsetenv("LD_PRELOAD");
	/* vfork() is the subject of the case. */
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	pid_t pid = vfork();

	if (!pid) {
		if (clear)
			fcntl(fd, F_SETFD, 0);
		execve(app_self(), args, environ);
		_exit(127);
	}
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	app_reap(pid, what);
}

/* The end of stream comes when the reader has read all the bytes. */
static void client_of_heir(int fd)
{
	app_flag_wait(1);
	R(shutdown(fd, SHUT_WR));
	app_sync();
	app_close(fd);
}

CASE(vfork_kept, DIRECT,
     "vfork and exec: the program reads by the same number, the parent has it, too")
{
	int fd = moved();

	if (CLI) {
		client_of_heir(fd);
		return;
	}
	start(app_self_argv("heir", number(fd), "1500000", NULL), "heir", fd, false);
	end(fd);
}

CASE(vfork_passed, DIRECT, "the same, where FD_CLOEXEC is taken away in the child")
{
	int fd = moved();

	if (CLI) {
		client_of_heir(fd);
		return;
	}
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	start(app_self_argv("heir", number(fd), "1500000", NULL), "heir", fd, true);
	end(fd);
}

CASE(vfork_shared, DIRECT, "the program reads the first bytes, then the parent the others")
{
	int fd = moved();

	if (CLI) {
		end(fd);
		return;
	}
	start(app_self_argv("first", number(fd), NULL), "first", fd, false);
	R(app_read_full(fd, buf, MOVED_BYTES - FEW_BYTES));
	R(app_pattern_ok(buf, MOVED_BYTES - FEW_BYTES, FEW_BYTES, 1));
	end(fd);
}

CASE(vfork_leaked, DIRECT, "a program that does not know of it: the parent has all")
{
	int fd = moved();

	if (CLI) {
		end(fd);
		return;
	}
	start(app_self_argv("outsider", NULL), "outsider", fd, false);
	R(app_recv_pattern(fd, MOVED_BYTES, 50000, 1));
	end(fd);
}
