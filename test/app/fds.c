/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.c - tests descriptor numbers: the lowest free number, closing of ranges, limits, and numbers
 * that are used again; fds_dup.c tests copies.
 */
#include "app.h"

#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char buf[65536];

CASE(lowest_free, DIRECT, "every call that makes a descriptor takes the lowest free number")
{
	int fd = app_open(WARM);
	int p[2], sv[2];

	R(socket(AF_INET, SOCK_STREAM, 0));
	R(socket(AF_INET, SOCK_DGRAM, 0));
	R(epoll_create1(0));
	R(eventfd(0, 0));
	R(dup(fd));
	R(open("/dev/null", O_RDONLY));
	R(pipe(p));
	LOG("pipe %d %d", p[0], p[1]);
	R(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	LOG("pair %d %d", sv[0], sv[1]);
	R(close(5));
	R(fcntl(fd, F_DUPFD, 0));
	R(close(0));
	R(dup(fd));
	R(close(0));
	R(open("/dev/null", O_RDONLY));
	app_sync();
}

CASE(lowest_after_use, DIRECT, "numbers after accept, connect and closes, many times")
{
	int fds[3];

	for (int i = 0; i < 6; i++) {
		app_open_more(i % 2 ? COLD : WARM, fds, 3);
		LOG("numbers %d %d %d", fds[0], fds[1], fds[2]);
		for (int k = 0; k < 3; k++) {
			if (CLI)
				SAY(fds[k], "hello");
			else
				app_hear(fds[k], 5);
		}
		R(close(fds[1]));
		R(dup(fds[0]));
		R(close(fds[0]));
		R(close(fds[2]));
		R(close(fds[1]));
		app_sync();
	}
}

CASE(close_all_start, DIRECT, "a program that closes every descriptor at its start")
{
	int closed = 0;

	for (int i = 3; i < 1100; i++)
		closed += close(i) == 0;
	LOG("closed %d", closed);
	int fd = app_open(WARM);

	LOG("number %d", fd);
	if (CLI)
		SAY(fd, "hello");
	else
		app_hear(fd, 5);
	app_sync();
	closed = 0;
	for (int i = 3; i < 70000; i++)
		if (i != fd)
			closed += close(i) == 0;
	LOG("closed %d", closed);
	if (SRV)
		SAY(fd, "hello");
	else
		app_hear(fd, 5);
	app_sync();
	R(close(fd));
}

CASE(close_range_some, DIRECT, "close_range over streams, and around one")
{
	int fds[4];

	app_open_more(WARM, fds, 4);
	if (SRV) {
		R(close_range((unsigned int)fds[0], (unsigned int)fds[1], 0));
		R(close_range((unsigned int)fds[3], ~0u, 0));
		R(close_range(9, 3, 0));
		R(close_range(3, 9, 77));
		app_hear(fds[2], 4);
		R(read(fds[0], buf, 1));
		R(read(fds[3], buf, 1));
		R(socket(AF_INET, SOCK_STREAM, 0));
	} else {
		R(read(fds[0], buf, 1));
		R(read(fds[1], buf, 1));
		R(read(fds[3], buf, 1));
		SAY(fds[2], "left");
	}
	app_sync();
}

CASE(close_range_cloexec, DIRECT, "close_range with CLOSE_RANGE_CLOEXEC only marks")
{
	int fd = app_open(WARM);

	R(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC));
	R(fcntl(fd, F_GETFD));
	if (CLI)
		SAY(fd, "hello");
	else
		app_hear(fd, 5);
	app_sync();
	R(close(fd));
}

CASE(close_from, DIRECT, "closefrom ends all streams; new ones work")
{
	int fds[2];

	app_open_more(WARM, fds, 2);
	closefrom(3);
	R(read(fds[0], buf, 1));
	R(write(fds[1], buf, 1));
	app_sync();
	int fd = app_open(WARM);

	LOG("number %d", fd);
	if (CLI)
		SAY(fd, "again");
	else
		app_hear(fd, 5);
	app_sync();
}

CASE(fd_limit, DIRECT, "RLIMIT_NOFILE: EMFILE where the kernel says, and the streams go on")
{
	int fd = app_open(WARM);
	struct rlimit limit = { 20, 20 };
	int made = 0;

	R(setrlimit(RLIMIT_NOFILE, &limit));
	while (dup(fd) >= 0)
		made++;
	LOG("made %d then %s", made, app_errname(errno));
	R(socket(AF_INET, SOCK_STREAM, 0));
	R(epoll_create1(0));
	if (CLI) {
		SAY(fd, "full");
		app_hear(19, 4);
	} else {
		app_hear(fd, 4);
		SAY(fd, "here");
	}
	app_sync();
}

static void heard(void *fd)
{
	app_hear(*(int *)fd, 4);
}

CASE(fd_limit_lowered, DIRECT, "a thread asleep in recv, and once more below a lower RLIMIT_NOFILE")
{
	int fd = app_open(WARM);
	struct app_thread thread;
	struct rlimit limit;

	for (int i = 0; i < 2; i++) {
		if (SRV) {
			app_thread_start(&thread, heard, &fd);
			app_await_asleep(thread.tid);
			app_sync();
			app_thread_join(&thread);
			MUST(getrlimit(RLIMIT_NOFILE, &limit));
			limit.rlim_cur /= 2;
			R(setrlimit(RLIMIT_NOFILE, &limit));
		} else {
			app_sync();
			SAY(fd, "wake");
		}
	}
	app_sync();
	app_close(fd);
}

CASE(fd_limit_before, 0, "a low RLIMIT_NOFILE from the start: all numbers belong to the program")
{
	struct rlimit limit = { 12, 12 };

	R(setrlimit(RLIMIT_NOFILE, &limit));
	int fd = app_open(WARM);
	int made = 0;

	while (dup(fd) >= 0)
		made++;
	LOG("made %d then %s", made, app_errname(errno));
	if (CLI)
		SAY(fd, "full");
	else
		app_hear(fd, 4);
	app_sync();
}

CASE(fstat_socket, DIRECT, "fstat and /proc say socket")
{
	int fd = app_open(WARM);
	struct stat st, st2;
	char path[64], text[64];

	R(fstat(fd, &st));
	LOG("socket %d", S_ISSOCK(st.st_mode));
	MUST(fstat(MUST(dup(fd)), &st2));
	LOG("same inode %d", st.st_ino == st2.st_ino);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, text, sizeof(text));

	LOG("link socket: %d", n > 8 && !memcmp(text, "socket:[", 8));
	R(isatty(fd));
	app_sync();
}

CASE(number_reused, DIRECT, "one number, 40 streams one after the other")
{
	int listener = SRV ? app_listen(COLD) : -1;

	app_sync();
	for (int i = 0; i < 40; i++) {
		int fd = SRV ? app_accept(listener) : app_connect(COLD);
		char text[32];

		if (i % 10 == 0) {
			app_warm(fd);
			app_expect_rings(1);
		}
		snprintf(text, sizeof(text), "stream %d", i);
		if (CLI) {
			app_write_all(fd, text, strlen(text));
			R(shutdown(fd, SHUT_WR));
			R(read(fd, buf, 1));
		} else {
			app_drain(fd, text);
		}
		R(close(fd));
	}
	app_sync();
}

CASE(file_after_stream, DIRECT, "a closed stream's number becomes a file, a pipe, a UDP socket")
{
	int fd = app_open(WARM);
	int p[2];

	if (CLI)
		SAY(fd, "x");
	else
		app_hear(fd, 1);
	app_sync();
	R(close(fd));
	R(open(app_self(), O_RDONLY));
	RB(buf, read(fd, buf, 4));
	R(lseek(fd, 0, SEEK_SET));
	R(close(fd));
	R(pipe(p));
	SAY(p[1], "pipe");
	app_hear(fd, 4);
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	R(close(fd));
	R(socket(AF_INET, SOCK_DGRAM, 0));
	R(recv(fd, buf, 1, MSG_DONTWAIT));
	app_sync();
}

static void one_byte(void *number)
{
	unsigned char c = 0;
	ssize_t n = recv(*(int *)number, &c, 1, 0);

	*(int *)number = n == 1 ? c : -1;
}

static void linger(int i)
{
	for (int64_t turns = (int64_t)i * 7919 % 20000; turns > 0; turns--)
		atomic_signal_fence(memory_order_seq_cst);
}

/*
 * A thread that sleeps in recv keeps the file, whatever becomes of the number, and whenever the
 * byte comes.
 */
CASE(number_taken_under_recv, DIRECT,
     "100 times: a number is closed under a recv as its byte comes, "
     "and is a pipe's with bytes at once")
{
	int fd = app_open(WARM), p[2], number, got, good = 0;
	struct app_thread thread;

	MUST(pipe(p));
	SAY(p[1], "never read");
	for (int i = 0; i < 100; i++) {
		unsigned char c = (unsigned char)i;

		if (CLI) {
			app_sync();
			linger(i * 3);
			app_write_all(fd, &c, 1);
			app_sync();
			continue;
		}
		number = got = (int)MUST(dup(fd));
		app_thread_start(&thread, one_byte, &got);
		app_await_asleep(thread.tid);
		app_sync();
		linger(i);
		MUST(close(number));
		if (MUST(dup(p[0])) != number)
			app_die("another number is free");
		app_thread_join(&thread);
		good += got == c;
		app_close(number);
		app_sync();
	}
	LOG("%d right", good);
	app_hear(p[0], 10);
	if (CLI)
		R(shutdown(fd, SHUT_WR));
	else
		R(read(fd, buf, 1));
	app_sync();
	app_close(fd);
}

CASE(own_numbers, DIRECT,
     "what the program has not opened is no descriptor for fcntl and ioctl either")
{
	int fd = app_open(WARM), seen = 0, on = 0;
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int i = atoi(entry->d_name);

		if (i > fd && i != dirfd(dir) && fcntl(i, F_GETFD) >= 0) {
			seen++;
			fcntl(i, F_SETFD, 0);
			ioctl(i, FIONBIO, &on);
		}
	}
	LOG("%d", seen);
	if (dir)
		closedir(dir);
	app_sync();
	LOG("good %d", app_pingpong(fd, 50, CLI));
	app_sync();
	app_close(fd);
}
