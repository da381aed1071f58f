/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owed.c - tests a receiver that has left the ring and asked for its unread bytes to be repeated by
 * TCP, which has no room for them; then the sender shuts down, closes or ends. All of it arrives,
 * and then the end.
 */
#include "hand_over.h"

#define OWED_BYTES                                                                                 \
	24000u /* less than the smallest ring, and more than TCP has room for with these buffers */
#define ROOM 1 /* the smallest that the kernel allows */

/* Not preloaded: reads everything when it is told to. */
HELPER(late)
{
	int fd = atoi(argv[1]);
	char byte;

	(void)argc;
	app_flag_wait(1);
	R(app_recv_pattern(fd, (uint64_t)atoll(argv[2]), 1000, 1));
	R(read(fd, &byte, 1));
	return 0;
}

static void room(int fd, int which, int bytes)
{
	MUST(setsockopt(fd, SOL_SOCKET, which, &bytes, sizeof(bytes)));
}

/*
 * The program that the server executes has a descriptor that its parent has, too. With two
 * descriptor numbers the library cannot tell whether the program is meant to have the stream, so no
 * relay starts. With one number (@relay) a relay is started before the exec.
 */
static void receive(int fd, uint32_t bytes, bool relay)
{
	int copy = relay ? fd : (int)MUST(fcntl(fd, F_DUPFD_CLOEXEC, 0));
	char many[16], **args = app_self_argv("late", number(copy), many, NULL);

	snprintf(many, sizeof(many), "%u", bytes);

	app_sync();
	app_sync();
	unsetenv("LD_PRELOAD");
	if (!relay)
		MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	/* vfork() is the subject of the case. */
	/* NOLINTBEGIN(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	pid_t pid = vfork();

	if (!pid) {
		fcntl(copy, F_SETFD, 0);
		execve(app_self(), args, environ);
		_exit(127);
	}
	/* NOLINTEND(clang-analyzer-security.insecureAPI.vfork,clang-analyzer-unix.Vfork) */
	app_flag_set(0, 1);
	app_reap(pid, "late");
	app_flag_set(2, 1);
	app_close(fd);
}

/*
 * The receive buffer is small from the beginning: an advertised window cannot be taken back later.
 */
static int open_narrow(void)
{
	int listener, fd;

	if (SRV) {
		listener = app_listen(0);
		room(listener, SO_RCVBUF, ROOM);
		app_sync();
		fd = app_accept(listener);
		close(listener);
	} else {
		app_sync();
		fd = app_connect(0);
	}
	app_warm(fd);
	return fd;
}

/* The sender's part, up to the point where it has bytes to repeat. */
static int owe_before(uint32_t more, bool relay)
{
	int fd = open_narrow();

	if (SRV) {
		receive(fd, OWED_BYTES + more, relay);
		return -1;
	}
	app_sync();
	/* Kernel TCP takes all of it as well. */
	room(fd, SO_SNDBUF, 16 * (int)OWED_BYTES);
	R(app_send_pattern(fd, OWED_BYTES, OWED_BYTES, 1));
	room(fd, SO_SNDBUF, ROOM);
	app_sync();
	app_flag_wait(0);
	return fd;
}

static int owe(void)
{
	return owe_before(0, false);
}

CASE(shut, DIRECT, "shutdown(SHUT_WR), and the program makes no call more")
{
	int fd = owe();

	if (SRV)
		return;
	R(shutdown(fd, SHUT_WR));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	LOG("%x", app_await_poll(fd, POLLOUT, 1000));
	app_flag_set(1, 1);
	app_flag_wait(2);
	app_close(fd);
}

/*
 * The process that goes on in our place has no copy of other open descriptors: an epoll set would
 * still report a closed one.
 */
CASE(shut_and_closed_others, DIRECT,
     "shutdown(SHUT_WR), then another descriptor of a set is closed: the set tells of it no more")
{
	struct epoll_event ev = { .events = EPOLLIN };
	cpu_set_t one;
	int fd = owe(), ep, ends[2];

	if (SRV)
		return;
	/* A process that is started now runs only when this thread waits. */
	CPU_ZERO(&one);
	CPU_SET((size_t)sched_getcpu(), &one);
	MUST(sched_setaffinity(0, sizeof(one), &one));
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	MUST(pipe2(ends, O_CLOEXEC));
	MUST(write(ends[1], "x", 1));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, ends[0], &ev));
	R(epoll_wait(ep, &ev, 1, 0));
	R(shutdown(fd, SHUT_WR));
	R(close(ends[0]));
	R(epoll_wait(ep, &ev, 1, 0));
	R(close(ends[1]));
	R(close(ep));
	app_flag_set(1, 1);
	app_flag_wait(2);
	app_close(fd);
}

CASE(shut_both, DIRECT, "shutdown(SHUT_RDWR)")
{
	int fd = owe();
	char byte;

	if (SRV)
		return;
	R(shutdown(fd, SHUT_RDWR));
	R(read(fd, &byte, 1));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	app_flag_set(1, 1);
	app_flag_wait(2);
	app_close(fd);
}

CASE(closed, DIRECT, "close()")
{
	int fd = owe();

	if (SRV)
		return;
	app_close(fd);
	app_flag_set(1, 1);
	app_flag_wait(2);
}

CASE(shut_closed, DIRECT, "shutdown(SHUT_WR), then close()")
{
	int fd = owe();

	if (SRV)
		return;
	R(shutdown(fd, SHUT_WR));
	app_close(fd);
	app_flag_set(1, 1);
	app_flag_wait(2);
}

CASE(ended, DIRECT, "exit()")
{
	int fd = owe();

	if (SRV)
		return;
	LOG("open %d", fcntl(fd, F_GETFD) >= 0);
	app_flag_set(1, 1);
	exit(0);
}

/* Not preloaded. */
HELPER(idle)
{
	(void)argc;
	(void)argv;
	app_flag_set(1, 1);
	app_flag_wait(2);
	return 0;
}

/* Lets the reader read after the sender has waited longer than a fallback takes. */
static void *let_read(void *arg)
{
	(void)arg;
	app_pause_ms(300); /* deliberately late */
	app_flag_set(1, 1);
	return NULL;
}

static ssize_t send_marked(int fd, char *text, size_t len)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .align = { .cmsg_len = CMSG_LEN(sizeof(int)),
				 .cmsg_level = SOL_SOCKET,
				 .cmsg_type = SO_MARK } };
	struct iovec iov = { text, len };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	return sendmsg(fd, &msg, 0);
}

/* Calls that the hooks do not carry: what the kernel is given comes behind the repeated bytes. */
static void go_on(ssize_t (*give)(int fd, char *text, size_t len), bool relay)
{
	char text[6];
	pthread_t thread;
	int fd = owe_before(sizeof(text), relay);

	if (SRV)
		return;
	app_pattern(text, sizeof(text), OWED_BYTES, 1);
	MUST(pthread_create(&thread, NULL, let_read, NULL) ? -1 : 0);
	R(give(fd, text, sizeof(text)));
	R(shutdown(fd, SHUT_WR));
	app_flag_wait(2);
	pthread_join(thread, NULL);
	app_close(fd);
}

CASE(marked, DIRECT, "sendmsg() with a control message")
{
	go_on(send_marked, false);
}

static ssize_t send_plain(int fd, char *text, size_t len)
{
	return send(fd, text, len, 0);
}

CASE(to_relay, DIRECT,
     "a relay has it meanwhile: what was asked for comes still, and what is sent behind it")
{
	go_on(send_plain, true);
}

CASE(closed_to_relay, DIRECT, "close() where a relay has it")
{
	int fd = owe_before(0, true);

	if (SRV)
		return;
	app_close(fd);
	app_flag_set(1, 1);
	app_flag_wait(2);
}

CASE(executed, DIRECT, "another program takes the process, and does not inherit the socket")
{
	int fd = owe();

	if (SRV)
		return;
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	unsetenv("LD_PRELOAD");
	execv(app_self(), app_self_argv("idle", NULL));
}

CASE(not_executed, DIRECT, "the program is not there: this one goes on, and closes")
{
	char *argv[] = { (char *)(uintptr_t) "none", NULL };
	int fd = owe();

	if (SRV)
		return;
	MUST(fcntl(fd, F_SETFD, FD_CLOEXEC));
	R(execv("/nowhere/none", argv));
	app_close(fd);
	app_flag_set(1, 1);
	app_flag_wait(2);
}

static __attribute__((noreturn)) void *sleeper(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

CASE(ended_threads, DIRECT, "exit() of a program with threads")
{
	pthread_t thread;
	int fd = owe();

	if (SRV)
		return;
	MUST(pthread_create(&thread, NULL, sleeper, NULL) ? -1 : 0);
	LOG("open %d", fcntl(fd, F_GETFD) >= 0);
	app_flag_set(1, 1);
	exit(0);
}

CASE(lingered, DIRECT, "close() with SO_LINGER waits for what is taken in time, and no longer")
{
	struct linger l = { .l_onoff = 1, .l_linger = 1 };
	int fd = owe();
	int64_t began;

	if (SRV)
		return;
	MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	began = app_now_ms();
	app_close(fd);
	LOG("waited %d", app_now_ms() - began >= 900);
	app_flag_set(1, 1);
	app_flag_wait(2);
}
