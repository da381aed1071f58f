/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * privs_after.c - tests a parent's stream when a child that has it, too, closes its copy, executes
 * a program, reads, or exits: who reads which bytes, and when the ring is used again.
 */
#include "app.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

CASE(alone_again, DIRECT, "the child exits: the parent's stream is promoted once more")
{
	int fd = app_open(WARM | NODELAY);

	for (int i = 0; i < 3; i++) {
		if (SRV) {
			pid_t pid = fork();

			if (!pid)
				_exit(0);
			app_reap(pid, "child");
		}
		app_sync();
		app_warm(fd);
		app_expect_rings(1);
	}
	app_close(fd);
}

CASE(alone_in_epoll, DIRECT, "the same, of a stream in an epoll set, which the child had, too")
{
	int fd = app_open(WARM | NODELAY), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 }, got = { 0 };

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	for (int i = 0; i < 3; i++) {
		if (CLI)
			SAY(fd, "before");
		if (SRV) {
			app_await_inq(fd, 6);
			pid_t pid = fork();

			if (!pid)
				_exit(0);
			R(epoll_wait(ep, &got, 1, 5000));
			LOG("events %x of %d", got.events, (int)got.data.u64);
			app_hear(fd, 6);
			R(epoll_wait(ep, &got, 1, 0));
			app_reap(pid, "child");
		}
		app_sync();
		app_warm(fd);
		app_expect_rings(1);
	}
	MUST(close(ep));
	app_close(fd);
}

static void child_exits(void)
{
	pid_t pid = (pid_t)MUST(fork());

	if (!pid)
		_exit(0);
	app_reap(pid, "child");
}

/* The kernel drops EPOLLWAKEUP from what a thread without this right registers. */
static void may_not_block_suspend(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	MUST(syscall(SYS_capget, &head, data));
	data[CAP_TO_INDEX(CAP_BLOCK_SUSPEND)].effective &= ~CAP_TO_MASK(CAP_BLOCK_SUSPEND);
	MUST(syscall(SYS_capset, &head, data));
}

CASE(alone_wakeup, DIRECT, "the same of one that was registered with EPOLLWAKEUP")
{
	int fd = app_open(WARM | NODELAY), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLWAKEUP };

	may_not_block_suspend();
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	if (SRV)
		child_exits();
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	MUST(close(ep));
	app_close(fd);
}

/* No descriptor below @most can be made from here on, in this process. */
static void limit_fds(rlim_t most)
{
	struct rlimit limit;

	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = most;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

CASE(alone_scarce, DIRECT, "the same where there is no descriptor left for a while")
{
	int fd = app_open(WARM | NODELAY), ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), lowest;
	struct epoll_event ev = { .events = EPOLLIN };
	struct rlimit was;

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	MUST(getrlimit(RLIMIT_NOFILE, &was));
	if (SRV) {
		child_exits();
		lowest = (int)MUST(dup(fd));
		MUST(close(lowest));
		limit_fds((rlim_t)lowest);
	}
	app_sync();
	LOG("good %d", app_pingpong(fd, 5000, CLI));
	if (SRV)
		limit_fds(was.rlim_cur);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	MUST(close(ep));
	app_close(fd);
}

CASE(alone_renumbered, DIRECT,
     "the same where the set has another one, whose registered number was closed before")
{
	int fds[2], copy = -1, ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event ev = { .events = EPOLLIN };

	app_open_more(WARM | NODELAY, fds, 2);
	for (int i = 0; i < 2; i++)
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &ev));
	if (SRV) {
		copy = (int)MUST(dup(fds[0]));
		MUST(close(fds[0]));
		child_exits();
	}
	app_sync();
	LOG("good %d", app_pingpong(fds[1], 5000, CLI));
	app_close(SRV ? copy : fds[0]);
	app_sync();
	app_warm(fds[1]);
	app_expect_rings(1);
	MUST(close(ep));
	app_close(fds[1]);
}

CASE(alone_reused_number, DIRECT,
     "the same where the set also has a file that had the stream's number before")
{
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC)), pipes[2], number, fd;
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = 7 };

	fd = app_open(WARM | NODELAY);
	MUST(pipe(pipes));
	/* Its entry keeps its number when that is closed. */
	number = (int)MUST(dup(pipes[0]));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, number, &ev));
	MUST(dup2(fd, number));
	ev.data.u64 = 8;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, number, &ev));
	MUST(close(fd));
	if (SRV)
		child_exits();
	app_sync();
	app_warm(number);
	app_expect_rings(1);
	MUST(close(ep));
	app_close(number);
}

CASE(alone_while_it_lives, DIRECT,
     "a child closes its copy, and lives on: the parent's stream is promoted")
{
	int fd = app_open(WARM | NODELAY), hold[2] = { -1, -1 };
	pid_t pid = 0;
	char byte;

	MUST(pipe(hold));
	if (SRV) {
		pid = fork();
		if (!pid) {
			close(hold[1]);
			close(fd);
			_exit((int)read(hold[0], &byte, 1));
		}
	}
	close(hold[0]);
	app_sync();
	app_warm(fd);
	app_expect_rings(1);
	close(hold[1]);
	if (SRV)
		app_reap(pid, "child");
	app_close(fd);
}

HELPER(late)
{
	char byte;

	(void)argc;
	/* When the parent has closed its end of the pipe. */
	(void)!read(atoi(argv[2]), &byte, 1);
	return write(atoi(argv[1]), "late", 4) == 4 ? 0 : 1;
}

CASE(executed_later, DIRECT,
     "a program that a child executes has the stream, too, and uses it late")
{
	int fd = app_open(WARM | NODELAY), hold[2] = { -1, -1 };
	char text[2][12];
	pid_t pid = 0;

	if (SRV) {
		MUST(pipe(hold));
		snprintf(text[0], sizeof(text[0]), "%d", fd);
		snprintf(text[1], sizeof(text[1]), "%d", hold[0]);
		pid = fork();
		if (!pid) {
			close(hold[1]);
			execv(app_self(), app_self_argv("late", text[0], text[1], NULL));
			_exit(127);
		}
		close(hold[0]);
		/* Until it has taken over, and longer. */
		app_await_asleep(pid);
	}
	app_sync();
	LOG("good %d", app_pingpong(fd, 2000, CLI));
	if (SRV) {
		close(hold[1]);
		app_reap(pid, "program");
	} else {
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

static void hand_over(int (*end)(int fd))
{
	int fd = app_open(WARM | NODELAY);
	pid_t pid;

	if (CLI) {
		SAY(fd, "for whoever reads");
		app_sync();
		app_sync();
		LOG("good %d", app_pingpong(fd, 200, true));
		app_close(fd);
		return;
	}
	app_await_inq(fd, 17);
	pid = fork();
	if (!pid) {
		app_hear(fd, 7);
		_exit(end(fd));
	}
	app_reap(pid, "child");
	app_hear(fd, 10);
	app_sync();
	app_sync();
	LOG("good %d", app_pingpong(fd, 200, false));
	app_close(fd);
}

static int just_end(int fd)
{
	return 0 * fd;
}

static int close_first(int fd)
{
	return close(fd);
}

CASE(both_read, DIRECT,
     "what was unread before the fork: some is read by the child, the rest by the parent")
{
	hand_over(just_end);
}

CASE(both_read_closed, DIRECT, "the same, the child closes")
{
	hand_over(close_first);
}
