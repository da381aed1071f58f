/* SPDX-License-Identifier: BSD-2-Clause */
/* timeouts.c - tests SO_RCVTIMEO and SO_SNDTIMEO: set on which descriptor, and by which process. */
#include "app.h"

static char buf[1 << 20];

CASE(rcvtimeo, DIRECT, "SO_RCVTIMEO: every receive call gives EAGAIN after the time")
{
	int fd = app_open(WARM);
	struct timeval tv = { 0, 60000 }, got;
	socklen_t len = sizeof(got);
	struct iovec iov = { buf, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (SRV) {
		R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		R(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &got, &len));
		LOG("timeout %ld.%06ld", (long)got.tv_sec, (long)got.tv_usec);
		for (int i = 0; i < 4; i++) {
			int64_t start = app_now_ms();

			if (i == 0)
				R(read(fd, buf, 4));
			else if (i == 1)
				R(recv(fd, buf, 4, 0));
			else if (i == 2)
				R(readv(fd, &iov, 1));
			else
				R(recvmsg(fd, &msg, 0));
			int64_t took = app_now_ms() - start;

			LOG("in time %d", took >= 50 && took < 5000);
		}
		tv = (struct timeval){ 0, 0 };
		R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		app_flag_set(0, (uint64_t)gettid());
		app_hear(fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "late");
	}
	app_sync();
	app_close(fd);
}

CASE(rcvtimeo_wrong, DIRECT, "SO_RCVTIMEO: EDOM, short lengths, negative times")
{
	int fd = app_open(WARM);
	struct timeval tv = { 0, 1000000 };

	R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	tv.tv_usec = -1;
	R(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, 3));
	tv = (struct timeval){ -1, 0 };
	R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	R(recv(fd, buf, 1, 0));
	app_sync();
	app_close(fd);
}

CASE(sndtimeo, DIRECT, "SO_SNDTIMEO: a blocked send gives its part, the next one EAGAIN")
{
	int fd = app_open(WARM);
	struct timeval tv = { 0, 60000 };

	if (CLI) {
		size_t len = 64u << 20;
		char *big = malloc(len);

		app_pattern(big, len, 0, 3);
		MUST(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
		ssize_t n = send(fd, big, len, 0);

		LOG("part %d", n > 0 && n < (ssize_t)len);
		uint64_t total = n > 0 ? (uint64_t)n : 0;

		/* Buffers may still grow a little. */
		while ((n = send(fd, big + total, 1, 0)) > 0)
			total += (uint64_t)n;
		LOG("then %zd %s", n, app_errname(errno));
		app_flag_set(0, total);
		free(big);
	} else {
		R(app_recv_pattern(fd, app_flag_wait(0), 65536, 3));
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

/*
 * Waits for a byte that does not come, and checks that the wait was neither endless nor too short.
 */
static void hear_nothing(int fd)
{
	int64_t start = app_now_ms(), took;

	R(recv(fd, buf, 1, 0));
	took = app_now_ms() - start;
	LOG("in time %d", took >= 50 && took < 5000);
}

CASE(rcvtimeo_elsewhere, DIRECT, "SO_RCVTIMEO set on another number of the socket, and by a child")
{
	int fd = app_open(WARM), dupped;
	struct timeval tv = { 0, 60000 };
	pid_t pid;

	if (SRV) {
		dupped = dup(fd);
		R(setsockopt(dupped, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		hear_nothing(fd);
		tv.tv_usec = 0;
		R(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
		close(dupped);
		pid = fork();
		if (pid == 0) {
			tv.tv_usec = 80000;
			_exit(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) ? 1 : 0);
		}
		app_reap(pid, "child");
		hear_nothing(fd);
	}
	app_sync();
	app_close(fd);
}

/* ---- delayed acknowledgements ---- */

#define STREAMS 40
#define ROUNDS 30
#define DELAYED_MS 30 /* a delayed ACK comes after 40 */
#define CHANCES 10    /* number of late rounds that scheduling may cause */

static bool round_trip(int fd, bool first)
{
	size_t got = 0;

	if (first && write(fd, buf, 64) != 64)
		return false;
	while (got < 64) {
		ssize_t n = read(fd, buf + got, 64 - got);

		if (n <= 0)
			return false;
		got += (size_t)n;
	}
	return first || write(fd, buf, 64) == 64;
}

CASE(no_delayed_ack, LONG_RUN,
     "a small message (no TCP_NODELAY) waits for no ACK while the other direction moves")
{
	int fds[STREAMS], late = 0;

	app_open_more(COLD, fds, STREAMS);
	for (int i = 0; i < STREAMS * ROUNDS; i++) {
		int64_t start = app_now_ms();

		if (!round_trip(fds[i / ROUNDS], CLI))
			app_die("round %d: %s", i, app_errname(errno));
		late += app_now_ms() - start >= DELAYED_MS;
	}
	LOG("late: %s", late < CHANCES ? "no" : "YES");
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}
