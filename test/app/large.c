/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large.c - tests one large blocking call on a fresh connection: the kernel sends it whole, the
 * library in chunks.
 */
#include "app.h"

#define BYTES (48u << 20)

static char *pattern(size_t len)
{
	char *buf = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buf == MAP_FAILED)
		app_die("mmap");
	app_pattern(buf, len, 0, 5);
	return buf;
}

static void count_signal(int sig)
{
	(void)sig;
}

/* Classifies a result: more than nothing and less than all depends on the buffers. */
static const char *part(ssize_t n)
{
	return n <= 0 ? "none" : n < (ssize_t)BYTES ? "a part" : "all";
}

/* Between hosts all of it would be sent before a fresh stream has a mapping. */
static int open_fresh(void)
{
	return app_open(getenv("APP_WARM_S") ? WARM : COLD);
}

CASE(one_write, LONG_RUN, "one write of 48 MiB on a fresh connection returns all of it")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);

		R(write(fd, buf, BYTES));
	} else {
		R(app_recv_pattern(fd, BYTES, 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(one_sendmsg, LONG_RUN, "the same from a vector of odd pieces, and a second one behind it")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);
		struct iovec iov[3] = { { buf, 1000001 },
					{ buf + 1000001, 0 },
					{ buf + 1000001, BYTES - 1000001 } };
		struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 3 };

		R(sendmsg(fd, &msg, MSG_NOSIGNAL));
		R(write(fd, "end", 3));
	} else {
		R(app_recv_pattern(fd, BYTES, 100000, 5));
		app_hear(fd, 3);
	}
	app_sync();
	app_close(fd);
}

/* A signal handler, restarting or not, ends a send that has taken a part. */
static void interrupted(int flags)
{
	int fd = open_fresh();

	if (CLI) {
		struct sigaction act = { .sa_handler = count_signal, .sa_flags = flags };
		char *buf = pattern(BYTES);
		uint64_t sent;

		MUST(sigaction(SIGUSR1, &act, NULL));
		app_flag_set(1, (uint64_t)getpid());
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		sent = n > 0 ? (uint64_t)n : 0;
		app_flag_set(2, sent + 1);
	} else {
		pid_t sender = (pid_t)app_flag_wait(1);

		app_await_asleep(sender);
		MUST(kill(sender, SIGUSR1));
		uint64_t sent = app_flag_wait(2) - 1;

		LOG("right %d", app_recv_pattern(fd, sent, 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(signal_ends_it, 0, "a handler meets a large blocked write: its part is returned")
{
	interrupted(0);
}

CASE(restarting_signal_ends_it, 0, "SA_RESTART restarts nothing of which a part was sent")
{
	interrupted(SA_RESTART);
}

CASE(timeout_ends_it, 0, "SO_SNDTIMEO over a large write: its part, then EAGAIN")
{
	int fd = open_fresh();

	if (CLI) {
		struct timeval tv = { .tv_usec = 100000 };
		char *buf = pattern(BYTES);

		MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		uint64_t sent = n > 0 ? (uint64_t)n : 1;

		/* The kernel's buffers may have grown meanwhile. */
		while ((n = write(fd, buf + sent, BYTES - sent)) > 0)
			sent += (uint64_t)n;
		app_ret("then", n, errno);
		app_flag_set(2, sent);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(reset_ends_it, 0, "the peer resets under a large write: its part, then the error, then EPIPE")
{
	int fd = open_fresh();

	MUST((long)signal(SIGPIPE, SIG_IGN));
	if (CLI) {
		char *buf = pattern(BYTES);

		app_flag_set(1, (uint64_t)getpid());
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		R(write(fd, buf, BYTES));
		R(write(fd, buf, BYTES));
		app_close(fd);
	} else {
		app_await_asleep((pid_t)app_flag_wait(1));
		app_close(fd); /* with everything unread */
	}
	app_sync();
}

CASE(never_blocks, 0, "a large write that must not block takes what there is room for")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);
		ssize_t n = send(fd, buf, BYTES, MSG_DONTWAIT);

		LOG("sent %s", part(n));
		app_set_nonblock(fd, true);
		R(write(fd, buf, BYTES));
		app_flag_set(2, n > 0 ? (uint64_t)n : 1);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}

CASE(wild_end, 0,
     "a large write from memory that ends before it: EFAULT, or the part that is there")
{
	int fd = open_fresh();

	if (CLI) {
		char *buf = pattern(BYTES);

		MUST(munmap(buf + (1 << 20), BYTES - (1 << 20)));
		ssize_t n = write(fd, buf, BYTES);

		LOG("sent %s", part(n));
		app_flag_set(2, n > 0 ? (uint64_t)n : 1);
	} else {
		LOG("right %d", app_recv_pattern(fd, app_flag_wait(2), 65536, 5));
	}
	app_sync();
	app_close(fd);
}
