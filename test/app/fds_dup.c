/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds_dup.c - tests copies of a stream's descriptor: all forms of dup, and what the copies share.
 */
#include "app.h"

static char buf[65536];

CASE(dup_io, DIRECT, "dup: reads and writes over both, EOF only after the last close")
{
	int fd = app_open(WARM | NODELAY);

	if (SRV) {
		int two = (int)R(dup(fd));

		app_await_inq(fd, 10);
		RB(buf, read(two, buf, 3));
		RB(buf, read(fd, buf, 3));
		RB(buf, read(two, buf, 10));
		SAY(fd, "one-");
		SAY(two, "two-");
		R(close(fd));
		SAY(two, "three");
		app_sync();
		app_sync();
		R(close(two));
	} else {
		SAY(fd, "0123456789");
		app_hear(fd, 13);
		app_sync();
		R(recv(fd, buf, 1, MSG_DONTWAIT));
		app_sync();
		R(read(fd, buf, 1));
		app_close(fd);
	}
	app_sync();
}

CASE(dup_alternate, DIRECT, "1,000 messages read and written over three copies in turn")
{
	int fd[3], good = 0;

	fd[0] = app_open(WARM | NODELAY);
	fd[1] = (int)MUST(dup(fd[0]));
	fd[2] = (int)MUST(fcntl(fd[0], F_DUPFD, 100));
	LOG("numbers %d %d", fd[1], fd[2]);
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t got = ~i;

		if (CLI)
			MUST(write(fd[i % 3], &i, sizeof(i)));
		if (app_read_full(fd[(i + 1) % 3], &got, sizeof(got)) != sizeof(got))
			break;
		if (SRV)
			MUST(write(fd[(i + 2) % 3], &got, sizeof(got)));
		good += got == i;
	}
	LOG("good %d", good);
	app_sync();
	for (int i = 0; i < 3; i++)
		app_close(fd[i]);
}

CASE(dup2_over_live, DIRECT, "dup2 over a live stream closes that one; the copy works")
{
	int fds[2];

	app_open_more(WARM, fds, 2);
	if (SRV) {
		R(dup2(fds[1], fds[0]));
		app_hear(fds[0], 4);
		SAY(fds[0], "yes");
		SAY(fds[1], "sir");
	} else {
		R(read(fds[0], buf, 1));
		SAY(fds[1], "ping");
		app_hear(fds[1], 6);
	}
	app_sync();
}

CASE(dup2_unread_reset, DIRECT, "dup2 over a stream with unread bytes resets it")
{
	int fds[2];

	app_open_more(WARM, fds, 2);
	if (SRV) {
		app_await_inq(fds[0], 6);
		R(dup2(fds[1], fds[0]));
	} else {
		SAY(fds[0], "unread");
		R(read(fds[0], buf, 1));
	}
	app_sync();
}

CASE(dup2_edges, DIRECT, "dup2 onto itself, from and to bad numbers; dup3 and its flags")
{
	int fd = app_open(WARM);

	R(dup2(fd, fd));
	R(dup2(fd + 1, fd));
	R(dup2(fd, -1));
	R(dup2(fd, 1 << 24));
	R(dup2(fd, 50));
	R(dup3(fd, fd, 0));
	R(dup3(fd, 51, O_CLOEXEC));
	R(dup3(fd, 52, O_NONBLOCK));
	R(fcntl(50, F_GETFD));
	R(fcntl(51, F_GETFD));
	R(fcntl(fd, F_DUPFD, 60));
	R(fcntl(fd, F_DUPFD_CLOEXEC, 60));
	R(fcntl(61, F_GETFD));
	R(fcntl(fd, F_DUPFD, 1 << 24));
	R(fcntl(fd, F_DUPFD, -1));
	if (CLI) {
		SAY(60, "over 60");
		app_hear(61, 4);
	} else {
		app_hear(51, 7);
		SAY(50, "back");
	}
	app_sync();
}

CASE(shared_flags, DIRECT, "O_NONBLOCK is shared by copies, FD_CLOEXEC is not")
{
	int fd = app_open(WARM);
	int two = (int)R(dup(fd));

	R(fcntl(two, F_SETFL, O_NONBLOCK));
	R(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
	R(read(fd, buf, 1));
	R(fcntl(fd, F_SETFD, FD_CLOEXEC));
	R(fcntl(two, F_GETFD));
	R(fcntl(fd, F_GETFD));
	R(fcntl(two, F_SETFL, 0));
	R(fcntl(fd, F_GETFL));
	app_sync();
	app_close(two);
	app_close(fd);
}

CASE(over_stdin, DIRECT, "dup2 onto 0 and 1, then read and write there")
{
	int fd = app_open(WARM);

	R(dup2(fd, 0));
	R(dup2(fd, 1));
	R(close(fd));
	if (CLI) {
		R(write(1, "to stdout", 9));
		app_hear(0, 4);
	} else {
		app_hear(0, 9);
		R(write(1, "back", 4));
	}
	app_sync();
	R(close(0));
	if (SRV)
		R(recv(1, buf, 1, MSG_DONTWAIT));
	app_sync();
}
