/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unseen.c - tests a direct stream's number that is closed and reused for another descriptor
 * without any hook seeing it: the library notices it where it asks the kernel about the number
 * anyway.
 */
#include "app.h"
#include "rawclose.h"

#include <sys/stat.h>

static char buf[4096];

/* @number becomes a copy of @other; the peer has seen the end. */
static void become(int number, int other)
{
	MUST(raw_dup(other, number));
	app_sync();
	app_sync();
}

static void see_the_end(int fd)
{
	app_sync();
	app_drain(fd, "the peer");
	app_sync();
}

CASE(read, DIRECT, "it is a file's: a blocking read reads the file")
{
	int fd = app_open(WARM), other;

	if (SRV) {
		other = (int)MUST(memfd_create("other", 0));
		SAY(other, "of the file");
		MUST(lseek(other, 0, SEEK_SET));
		become(fd, other);
		RB(buf, read(fd, buf, 100));
		R(read(fd, buf, 100));
		R(write(fd, "more", 4));
		R(lseek(fd, 0, SEEK_CUR));
	} else {
		see_the_end(fd);
	}
	app_sync();
	app_close(fd);
}

static void say_later(void *arg)
{
	app_await_asleep(getpid());
	app_write_all(*(int *)arg, "of the pair", 11);
}

CASE(wait, DIRECT, "it is another socket's: a read that waits gets what comes there")
{
	int fd = app_open(WARM), pair[2];
	struct app_thread thread;

	if (SRV) {
		MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
		become(fd, pair[0]);
		app_thread_start(&thread, say_later, &pair[1]);
		RB(buf, read(fd, buf, 100));
		app_thread_join(&thread);
		R(write(fd, "answer", 6));
		app_hear(pair[1], 6);
	} else {
		see_the_end(fd);
	}
	app_sync();
	app_close(fd);
}

CASE(poll, DIRECT, "it is a pipe's: poll tells of the pipe")
{
	int fd = app_open(WARM), p[2];
	struct pollfd f = { .fd = fd, .events = POLLIN | POLLOUT };

	if (SRV) {
		MUST(pipe(p));
		SAY(p[1], "piped");
		become(fd, p[0]);
		R(poll(&f, 1, 1000));
		LOG("revents %x", (unsigned int)f.revents);
		app_hear(fd, 5);
	} else {
		see_the_end(fd);
	}
	app_sync();
	app_close(fd);
}

CASE(leave, DIRECT, "it is a file's: fdopen reads and writes the file")
{
	int fd = app_open(WARM), other;
	char line[32] = "";
	FILE *file;

	if (SRV) {
		other = (int)MUST(memfd_create("other", 0));
		become(fd, other);
		file = fdopen(fd, "r+");
		R(fprintf(file, "a line\n"));
		R(fseek(file, 0, SEEK_SET));
		R(fgets(line, sizeof(line), file) == line);
		LOG("%.6s", line);
		R(fclose(file));
	} else {
		see_the_end(fd);
		app_close(fd);
	}
	app_sync();
}

CASE(bulk, DIRECT, "it is a file's: of many writes most go to the file")
{
	int fd = app_open(WARM), other;
	struct stat st;

	if (SRV) {
		other = (int)MUST(memfd_create("other", 0));
		MUST(raw_dup(other, fd));
		for (int i = 0; i < 2000; i++)
			MUST(write(fd, buf, 100));
		MUST(fstat(other, &st));
		LOG("most of it: %d", st.st_size > 2000 * 100 / 2);
		app_sync();
	} else {
		char byte;

		app_sync();
		while (read(fd, &byte, 1) > 0)
			;
	}
	app_sync();
	app_close(fd);
}

CASE(ioctl_made, DIRECT, "closed unseen, then made by an ioctl: the terminal's other end")
{
	int fd = app_open(WARM), master = (int)MUST(posix_openpt(O_RDWR | O_NOCTTY));

	if (SRV) {
		int hole, holes[16], n = 0, peer;

		MUST(unlockpt(master));
		while ((hole = (int)MUST(dup(STDERR_FILENO))) < fd)
			holes[n++] = hole;
		app_close(hole);
		MUST(raw_close(fd));
		peer = (int)MUST(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY));
		LOG("same number %d", peer == fd);
		R(write(peer, "to the master", 13));
		app_hear(master, 13);
		while (n)
			app_close(holes[--n]);
		app_sync();
		app_sync();
	} else {
		see_the_end(fd);
	}
	app_close(master);
	app_close(fd);
}
