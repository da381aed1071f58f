/* SPDX-License-Identifier: BSD-2-Clause */
/* sig.c - tests signals: EINTR, SA_RESTART, handlers that use the stream themselves. */
#include "signals.h"

#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/select.h>

static char buf[1 << 20];
static int handler_fd;
static sigjmp_buf jump;

static void on_io(int sig)
{
	int saved = errno;
	char text[8];

	(void)sig;
	ssize_t w = write(handler_fd, "handler!", 8);
	ssize_t r = recv(handler_fd, text, sizeof(text), MSG_DONTWAIT);

	app_log("in the handler: write %zd recv %zd %s", w, r, r < 0 ? app_errname(errno) : "");
	atomic_fetch_add(&signals, 1);
	errno = saved;
}

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(jump, 1);
}

static void catch_with(int sig, void (*handler)(int), int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags };

	MUST(sigaction(sig, &act, NULL));
}

/* The client signals the server's thread when it is asleep; @flag names the thread. */
static void poke(int flag)
{
	pid_t tid = (pid_t)app_flag_wait(flag);

	app_await_asleep(tid);
	MUST(kill(tid, SIGUSR1));
}

#define POKED(flag, call)                                                                          \
	do {                                                                                       \
		app_flag_set(flag, (uint64_t)gettid());                                            \
		R(call);                                                                           \
	} while (0)

CASE(eintr, DIRECT, "a handler without SA_RESTART: EINTR in every blocked receive")
{
	int fd = app_open(WARM);
	struct iovec iov = { buf, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (SRV) {
		catch_signal(SIGUSR1, 0);
		POKED(0, read(fd, buf, 4));
		POKED(1, recv(fd, buf, 4, 0));
		POKED(2, readv(fd, &iov, 1));
		POKED(3, recvmsg(fd, &msg, 0));
		POKED(4, recv(fd, buf, 4, MSG_PEEK));
		LOG("signals %d", signals);
		app_flag_set(5, 1);
		app_hear(fd, 4);
	} else {
		for (int i = 0; i < 5; i++)
			poke(i);
		app_flag_wait(5);
		SAY(fd, "data");
	}
	app_sync();
	app_close(fd);
}

CASE(restart, DIRECT, "SA_RESTART: the blocked receive goes on")
{
	int fd = app_open(WARM);

	if (SRV) {
		catch_signal(SIGUSR1, SA_RESTART);
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, read(fd, buf, 10));
		LOG("signals %d", signals);
	} else {
		poke(0);
		poke(0);
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "restarted");
	}
	app_sync();
	app_close(fd);
}

CASE(restart_timeout, DIRECT, "SA_RESTART does not restart a receive with SO_RCVTIMEO")
{
	int fd = app_open(WARM);
	struct timeval tv = { 20, 0 };

	if (SRV) {
		catch_signal(SIGUSR1, SA_RESTART);
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		POKED(0, recv(fd, buf, 4, 0));
		LOG("signals %d", signals);
	} else {
		poke(0);
	}
	app_sync();
	app_close(fd);
}

CASE(eintr_send, DIRECT, "a handler meets a blocked write: its part is returned")
{
	int fd = app_open(WARM);
	uint64_t total = 0;

	if (SRV) {
		size_t len = 64u << 20;
		char *big = malloc(len);

		app_pattern(big, len, 0, 1);
		catch_signal(SIGUSR1, SA_RESTART);
		app_flag_set(0, (uint64_t)gettid());
		ssize_t n = write(fd, big, len);

		LOG("part %d", n > 0 && n < (ssize_t)len);
		total = n > 0 ? (uint64_t)n : 0;
		/*
		 * Now it may still take a little; then it blocks with nothing taken. A sender
		 * leaves a ring that stays full after a moment, for TCP's larger buffers.
		 */
		app_set_nonblock(fd, true);
		for (int still = 0; still < 3; still++, usleep(200000))
			for (; (n = write(fd, big + total, 4096)) > 0; still = 0)
				total += (uint64_t)n;
		app_set_nonblock(fd, false);
		catch_signal(SIGUSR1, 0);
		POKED(1, write(fd, big + total, 1));
		LOG("signals %d", signals);
		app_flag_set(2, total);
		free(big);
	} else {
		poke(0);
		poke(1);
		total = app_flag_wait(2);
		R(app_recv_pattern(fd, total, 100000, 1));
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(eintr_waits, DIRECT, "poll, select, epoll_wait: EINTR even with SA_RESTART")
{
	int fd = app_open(WARM);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct epoll_event ev = { .events = EPOLLIN };
	fd_set set;

	if (SRV) {
		int ep = (int)MUST(epoll_create1(0));

		catch_signal(SIGUSR1, SA_RESTART);
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		POKED(0, poll(&pfd, 1, -1));
		POKED(1, poll(&pfd, 1, 20000));
		FD_ZERO(&set);
		FD_SET(fd, &set);
		POKED(2, select(fd + 1, &set, NULL, NULL, NULL));
		POKED(3, epoll_wait(ep, &ev, 1, -1));
		POKED(4, ppoll(&pfd, 1, NULL, NULL));
		POKED(5, epoll_wait(ep, &ev, 1, 20000));
		LOG("signals %d", signals);
		app_close(ep);
	} else {
		for (int i = 0; i < 6; i++)
			poke(i);
	}
	app_sync();
	app_close(fd);
}

CASE(handler_io, DIRECT, "a handler that writes and reads the stream its thread is blocked on")
{
	int fd = app_open(WARM);

	handler_fd = fd;
	if (SRV) {
		catch_with(SIGUSR1, on_io, SA_RESTART);
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, read(fd, buf, 4));
		LOG("signals %d", signals);
	} else {
		poke(0);
		app_hear(fd, 8);
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "main");
	}
	app_sync();
	app_close(fd);
}

static void on_write_mark(int sig)
{
	int saved = errno;

	(void)sig;
	if (write(handler_fd, "H", 1) == 1)
		atomic_fetch_add(&signals, 1);
	errno = saved;
}

CASE(handler_io_storm, DIRECT,
     "a storm of signals whose handler writes, during a flow the other way")
{
	int fd = app_open(WARM);
	size_t len = 4u << 20;

	handler_fd = fd;
	if (SRV) {
		catch_with(SIGUSR1, on_write_mark, SA_RESTART);
		app_flag_set(0, (uint64_t)gettid());
		R(app_recv_pattern(fd, len, 3000, 2));
		app_sync();
		LOG("some signals %d", signals > 0);
		app_flag_set(1, (uint64_t)signals);
	} else {
		pid_t tid = (pid_t)app_flag_wait(0);

		for (size_t pos = 0; pos < len; pos += 65536) {
			app_pattern(buf, 65536, pos, 2);
			for (int i = 0; i < 5; i++)
				MUST(kill(tid, SIGUSR1));
			app_write_all(fd, buf, 65536);
		}
		app_sync();
		size_t count = (size_t)app_flag_wait(1), right = 0;

		app_await_inq(fd, (int)count);
		LOG("all marks read %d", app_read_full(fd, buf, count) == count);
		for (size_t i = 0; i < count; i++)
			right += buf[i] == 'H';
		LOG("all right %d", right == count);
	}
	app_sync();
	app_close(fd);
}

CASE(handler_writes_storm, DIRECT,
     "a timer's handler writes into the stream that the main line writes to")
{
	int fd = app_open(WARM);

	handler_fd = fd;
	if (CLI) {
		struct itimerval it = { { 0, 500 }, { 0, 500 } };

		memset(buf, 'm', 1000);
		catch_with(SIGALRM, on_write_mark, SA_RESTART);
		MUST(setitimer(ITIMER_REAL, &it, NULL));
		int64_t until = app_now_ms() + 5000;
		uint64_t total = 0;

		while (signals < 100 && app_now_ms() < until) {
			app_write_all(fd, buf, 1000);
			total += 1000;
		}
		it = (struct itimerval){ { 0, 0 }, { 0, 0 } };
		MUST(setitimer(ITIMER_REAL, &it, NULL));
		app_flag_set(0, total);
		app_flag_set(1, (uint64_t)signals);
		MUST(shutdown(fd, SHUT_WR));
	} else {
		uint64_t plain = 0, marks = 0;
		ssize_t n;

		while ((n = read(fd, buf, 100000)) > 0)
			for (ssize_t i = 0; i < n; i++) {
				plain += buf[i] == 'm';
				marks += buf[i] == 'H';
			}
		LOG("ends %zd, plain %d, marks %d", n, plain == app_flag_wait(0),
		    marks == app_flag_wait(1));
	}
	app_sync();
	app_close(fd);
}

CASE(longjmp_out, DIRECT, "a handler that jumps out of a blocked read: the stream stays usable")
{
	int fd = app_open(WARM);

	if (SRV) {
		for (volatile int i = 0; i < 5; i++) {
			catch_with(SIGUSR1, on_jump, SA_NODEFER);
			if (!sigsetjmp(jump, 1)) {
				app_flag_set(i, (uint64_t)gettid());
				R(read(fd, buf, 4));
			} else {
				LOG("jumped");
			}
		}
		app_flag_set(9, 1);
		app_hear(fd, 5);
		SAY(fd, "fine");
	} else {
		for (int i = 0; i < 5; i++)
			poke(i);
		app_flag_wait(9);
		SAY(fd, "still");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(alarm_read, DIRECT, "alarm as a timeout for read")
{
	int fd = app_open(WARM);

	if (SRV) {
		struct itimerval it = { { 0, 0 }, { 0, 50000 } };

		catch_signal(SIGALRM, 0);
		MUST(setitimer(ITIMER_REAL, &it, NULL));
		R(read(fd, buf, 4));
		LOG("signals %d", signals);
	}
	app_sync();
	app_close(fd);
}

CASE(mask_kept, DIRECT, "the calls leave the signal mask and handlers alone")
{
	int fd = app_open(WARM);
	sigset_t set, got;
	struct sigaction act;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	MUST(sigprocmask(SIG_BLOCK, &set, NULL));
	catch_signal(SIGUSR1, SA_RESTART | SA_NODEFER);
	if (CLI) {
		SAY(fd, "data");
		app_hear(fd, 4);
	} else {
		app_hear(fd, 4);
		SAY(fd, "data");
	}
	MUST(sigprocmask(SIG_BLOCK, NULL, &got));
	LOG("USR1 %d USR2 %d PIPE %d", sigismember(&got, SIGUSR1), sigismember(&got, SIGUSR2),
	    sigismember(&got, SIGPIPE));
	MUST(sigaction(SIGUSR1, NULL, &act));
	LOG("handler kept %d, flags %#x", act.sa_handler == count_signal,
	    (unsigned int)act.sa_flags & ~0x04000000u);
	LOG("signal() %d", signal(SIGUSR1, SIG_IGN) == count_signal);
	MUST(raise(SIGUSR1));
	LOG("signals %d", signals);
	app_sync();
	app_close(fd);
}

static void on_info(int sig, siginfo_t *info, void *context)
{
	app_log("siginfo %d value %d, sender %d, context %d", sig, info->si_value.sival_int,
		info->si_pid == getpid(), context != NULL);
}

CASE(siginfo, DIRECT, "SA_SIGINFO: the handler gets what the kernel says, once a signal")
{
	int fd = app_open(WARM);
	struct sigaction act = { .sa_sigaction = on_info, .sa_flags = SA_SIGINFO };

	MUST(sigaction(SIGRTMIN + 1, &act, NULL));
	for (int i = 0; i < 3; i++) {
		if (CLI)
			app_write_all(fd, "1234", 4);
		else
			app_hear(fd, 4);
		MUST(sigqueue(getpid(), SIGRTMIN + 1, (union sigval){ .sival_int = i }));
	}
	app_sync();
	app_close(fd);
}

CASE(resethand, DIRECT, "SA_RESETHAND and SA_ONSTACK do what they say")
{
	int fd = app_open(WARM);
	stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction act;

	MUST(sigaltstack(&stack, NULL));
	catch_signal(SIGUSR1, SA_RESETHAND | SA_ONSTACK);
	MUST(raise(SIGUSR1));
	MUST(sigaction(SIGUSR1, NULL, &act));
	LOG("signals %d, default again %d", signals, act.sa_handler == SIG_DFL);
	if (CLI)
		SAY(fd, "x");
	else
		app_hear(fd, 1);
	app_sync();
	app_close(fd);
}

CASE(crash_in_handler, DIRECT,
     "a default-action signal ends a process blocked in read; the peer gets EOF")
{
	int fd = app_open(WARM);

	if (SRV) {
		pid_t pid = fork();

		if (!pid) {
			app_flag_set(0, (uint64_t)getpid());
			if (read(fd, buf, 4) < 0)
				_exit(1);
			_exit(0);
		}
		app_close(fd);
		app_reap(pid, "reader");
	} else {
		poke(0);
		R(read(fd, buf, 4));
		app_close(fd);
	}
	app_sync();
}
