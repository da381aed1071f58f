/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fds.c - tests descriptor numbers: all forms of dup, the lowest free number, closing of ranges,
 * flags.
 */
#include "app.h"

#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

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
