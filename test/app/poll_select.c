/* SPDX-License-Identifier: BSD-2-Clause */
/* poll_select.c - tests readiness as select and pselect report it. */
#include "signals.h"

#include <sys/select.h>

static char buf[1 << 20];

CASE(select_levels, DIRECT, "select: sets come back with what is ready; Linux counts the time down")
{
	int fd = app_open(WARM);
	fd_set rd, wr, ex;
	struct timeval tv = { 0, 30000 };

	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_ZERO(&ex);
	FD_SET(fd, &rd);
	FD_SET(fd, &ex);
	R(select(fd + 1, &rd, &wr, &ex, &tv));
	LOG("left %ld.%06ld, sets %d %d", (long)tv.tv_sec, (long)tv.tv_usec, FD_ISSET(fd, &rd),
	    FD_ISSET(fd, &ex));
	app_sync();
	if (CLI) {
		SAY(fd, "data");
	} else {
		app_await_inq(fd, 4);
		tv = (struct timeval){ 5, 0 };
		FD_SET(fd, &rd);
		FD_SET(fd, &wr);
		FD_SET(fd, &ex);
		R(select(fd + 1, &rd, &wr, &ex, &tv));
		LOG("sets %d %d %d, time left %d", FD_ISSET(fd, &rd), FD_ISSET(fd, &wr),
		    FD_ISSET(fd, &ex), tv.tv_sec == 4 || tv.tv_sec == 5);
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(select_wakes, DIRECT, "a blocked select wakes for data and for EOF")
{
	int fd = app_open(WARM);
	fd_set rd;

	for (int i = 0; i < 2; i++) {
		if (SRV) {
			FD_ZERO(&rd);
			FD_SET(fd, &rd);
			app_flag_set(i, (uint64_t)gettid());
			R(select(fd + 1, &rd, NULL, NULL, NULL));
			LOG("set %d", FD_ISSET(fd, &rd));
			RB(buf, read(fd, buf, 10));
		} else {
			app_await_asleep((pid_t)app_flag_wait(i));
			if (i)
				R(shutdown(fd, SHUT_WR));
			else
				SAY(fd, "data");
		}
	}
	app_sync();
	app_close(fd);
}

CASE(select_wakes_out, DIRECT, "full: a blocked select wakes when the reader made room")
{
	int fd = app_open(WARM);
	fd_set wr;

	if (SRV) {
		uint64_t total = app_fill(fd, 1);

		app_set_nonblock(fd, false);
		struct timeval tv = { 0, 0 };

		FD_ZERO(&wr);
		FD_SET(fd, &wr);
		R(select(fd + 1, NULL, &wr, NULL, &tv));
		FD_SET(fd, &wr);
		app_flag_set(1, total);
		app_flag_set(0, (uint64_t)gettid());
		R(select(fd + 1, NULL, &wr, NULL, NULL));
		R(send(fd, "more", 4, MSG_DONTWAIT));
	} else {
		uint64_t total = app_flag_wait(1);

		app_await_asleep((pid_t)app_flag_wait(0));
		R(app_recv_pattern(fd, total, 60000, 1));
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(select_errors, DIRECT, "select: closed descriptors, negative counts, bad times")
{
	int fd = app_open(WARM);
	fd_set rd;
	struct timeval tv = { -1, 0 };

	FD_ZERO(&rd);
	FD_SET(fd, &rd);
	FD_SET(fd + 1, &rd);
	R(select(fd + 2, &rd, NULL, NULL, NULL));
	LOG("sets kept %d %d", FD_ISSET(fd, &rd), FD_ISSET(fd + 1, &rd));
	R(select(-1, &rd, NULL, NULL, NULL));
	FD_ZERO(&rd);
	FD_SET(fd, &rd);
	R(select(fd + 1, &rd, NULL, NULL, &tv));
	R(select(fd + 1, (fd_set *)8, NULL, NULL, NULL));
	tv = (struct timeval){ 0, 20000 };
	R(select(0, NULL, NULL, NULL, &tv));
	app_sync();
	app_close(fd);
}

CASE(pselect_mask, DIRECT, "pselect: mask, and a timeout it does not change")
{
	int fd = app_open(WARM);
	struct timespec ts = { 0, 20000000 };
	sigset_t block, empty;
	fd_set rd;

	sigemptyset(&empty);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	catch_signal(SIGUSR1, 0);
	MUST(sigprocmask(SIG_BLOCK, &block, NULL));
	FD_ZERO(&rd);
	FD_SET(fd, &rd);
	R(pselect(fd + 1, &rd, NULL, NULL, &ts, &block));
	LOG("timeout untouched %d", ts.tv_nsec == 20000000);
	MUST(raise(SIGUSR1));
	FD_SET(fd, &rd);
	R(pselect(fd + 1, &rd, NULL, NULL, NULL, &empty));
	LOG("signals %d", signals);
	app_sync();
	app_close(fd);
}

CASE(select_pingpong, DIRECT, "1,000 round trips, each with select before read")
{
	int fd = app_open(WARM | NODELAY);
	int good = 0;

	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t got = ~i;
		fd_set rd;

		FD_ZERO(&rd);
		FD_SET(fd, &rd);
		if (CLI)
			MUST(write(fd, &i, sizeof(i)));
		if (select(fd + 1, &rd, NULL, NULL, NULL) != 1 ||
		    read(fd, &got, sizeof(got)) != sizeof(got))
			break;
		if (SRV)
			MUST(write(fd, &got, sizeof(got)));
		good += got == i;
	}
	LOG("good %d", good);
	app_sync();
	app_close(fd);
}
