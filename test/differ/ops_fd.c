/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops_fd.c - the worker's operations on descriptors: making, copying, closing them in every way,
 * and their options.
 */
#include "worker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The address of listeners: DIFFER_HOST, an IPv4 address, or loopback. */
static in_addr_t host(void)
{
	const char *address = getenv("DIFFER_HOST");

	return address ? inet_addr(address) : htonl(INADDR_LOOPBACK);
}

/* listen H */
void op_listen(struct op *op)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr.sin_addr.s_addr = host();
	if (fd < 0 || bind(fd, (struct sockaddr *)&addr, len) || listen(fd, 16) ||
	    getsockname(fd, (struct sockaddr *)&addr, &len)) {
		say_result(op, -1);
		return;
	}
	handle_set(op, op->arg[0], fd);
	say(op, "# %d", ntohs(addr.sin_port));
}

/* connect H PORT */
void op_connect(struct op *op)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	addr.sin_addr.s_addr = host();
	addr.sin_port = htons((uint16_t)op->arg[1]);
	handle_set(op, op->arg[0], fd);
	say_result(op, connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* accept H LISTENER */
void op_accept(struct op *op)
{
	int fd = accept(handle(op->arg[1]), NULL, NULL), one = 1;

	handle_set(op, op->arg[0], fd);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* pipe READER WRITER */
void op_pipe(struct op *op)
{
	int p[2] = { -1, -1 };

	(void)!pipe2(p, O_NONBLOCK);
	handle_set(op, op->arg[0], p[0]);
	handle_set(op, op->arg[1], p[1]);
}

/* socketpair A B */
void op_socketpair(struct op *op)
{
	int p[2] = { -1, -1 };

	(void)!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p);
	handle_set(op, op->arg[0], p[0]);
	handle_set(op, op->arg[1], p[1]);
}

/*
 * file H KEY: makes a file, writes and reads it back: if the library still takes the number for a
 * stream's, it shows here.
 */
void op_file(struct op *op)
{
	char path[320], text[64], back[64] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/file.%ld", folder, op->arg[0]);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	handle_set(op, op->arg[0], fd);
	snprintf(text, sizeof(text), "file %ld %ld", op->arg[0], op->arg[1]);
	say_result(op, write(fd, text, strlen(text)));
	say_result(op, lseek(fd, 0, SEEK_SET));
	say_result(op, read(fd, back, sizeof(back) - 1));
	say(op, "%s", strcmp(text, back) ? "another's bytes" : "its own bytes");
}

/* Closes without a function of libc. */
static long raw_close(int fd)
{
	long ret;

#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(ret) : "0"(SYS_close), "D"(fd) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = fd;
	register long x8 __asm__("x8") = SYS_close;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8) : "memory");
	ret = x0;
#else
	ret = close(fd) ? -errno : 0;
#endif
	if (ret < 0)
		errno = (int)-ret;
	return ret < 0 ? -1 : ret;
}

/*
 * close H FORM OTHER: FORM is the way of closing; the dup2 forms put the handle OTHER, a file, in
 * its place.
 */
void op_close(struct op *op)
{
	int fd = handle(op->arg[0]), file;

	fd_of[op->arg[0] & (MAX_HANDLES - 1)] = -1;
	switch (op->arg[1]) {
	case 1:
		say_result(op, syscall(SYS_close, fd));
		break;
	case 2:
		say_result(op, close_range((unsigned)fd, (unsigned)fd, 0));
		break;
	case 3:
	case 4:
		file = memfd_create("differ", 0);
		say_result(op, op->arg[1] == 3 ? dup2(file, fd) : dup3(file, fd, O_CLOEXEC));
		close(file);
		fd_of[op->arg[2] & (MAX_HANDLES - 1)] = fd;
		break;
	case 5:
		say_result(op, raw_close(fd));
		break;
	case 6:
		say_result(op, syscall(SYS_close_range, fd, fd, 0));
		break;
	default:
		say_result(op, close(fd));
		break;
	}
}

/* dup H NEW FORM */
void op_dup(struct op *op)
{
	int fd = handle(op->arg[0]), to;

	switch (op->arg[2]) {
	case 1:
		to = fcntl(fd, F_DUPFD, 0);
		break;
	case 2:
		to = fcntl(fd, F_DUPFD_CLOEXEC, 50);
		break;
	case 3:
		to = dup2(fd, 100 + (int)op->arg[1] % 64);
		break;
	case 4:
		to = dup3(fd, 100 + (int)op->arg[1] % 64, O_CLOEXEC);
		break;
	case 5:
		to = (int)syscall(SYS_dup, fd);
		break;
	case 6:
#ifdef SYS_dup2 /* not on aarch64 */
		to = (int)syscall(SYS_dup2, fd, 100 + (int)op->arg[1] % 64);
#else
		to = (int)syscall(SYS_dup3, fd, 100 + (int)op->arg[1] % 64, 0);
#endif
		break;
	case 7:
		to = (int)syscall(SYS_fcntl, fd, F_DUPFD, 30);
		break;
	default:
		to = dup(fd);
		break;
	}
	handle_set(op, op->arg[1], to);
}

/* shutdown H HOW FORM */
void op_shutdown(struct op *op)
{
	int fd = handle(op->arg[0]);

	say_result(op, op->arg[2] ? syscall(SYS_shutdown, fd, op->arg[1]) :
				    shutdown(fd, (int)op->arg[1]));
}

/* nonblock H ON FORM */
void op_nonblock(struct op *op)
{
	int fd = handle(op->arg[0]), on = (int)op->arg[1];

	if (op->arg[2]) {
		say_result(op, ioctl(fd, FIONBIO, &on));
	} else {
		int flags = fcntl(fd, F_GETFL);

		say_result(op, fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
	}
}

/* getfl H */
void op_getfl(struct op *op)
{
	int fd = handle(op->arg[0]);

	say_result(op, fcntl(fd, F_GETFL));
	say_result(op, fcntl(fd, F_GETFD));
}

/* inq H */
void op_inq(struct op *op)
{
	int n = -1;

	say_result(op, ioctl(handle(op->arg[0]), FIONREAD, &n));
	say(op, "inq %d", n);
}

/* outq H: the peer's acknowledgement may be delayed by its timer; the count must reach zero. */
void op_outq(struct op *op)
{
	struct timespec pause = { .tv_nsec = 500000 };
	int64_t until = now_ms() + PATIENCE_MS;
	int n = -1, ret;

	while (!(ret = ioctl(handle(op->arg[0]), SIOCOUTQ, &n)) && n && now_ms() < until)
		nanosleep(&pause, NULL);
	say_result(op, ret);
	say(op, "outq %d", n);
}

/* getopt H LEVEL NAME */
void op_getopt(struct op *op)
{
	uint32_t val[8] = { 0 };
	socklen_t len = sizeof(val);

	say_result(op, getsockopt(handle(op->arg[0]), (int)op->arg[1], (int)op->arg[2], val, &len));
	say(op, "len %u values %u %u %u", len, val[0], val[1], val[2]);
}

/* setopt H LEVEL NAME COUNT V1 V2 V3 V4 (ints, or halves of a timeval) */
void op_setopt(struct op *op)
{
	uint32_t val[4] = { (uint32_t)op->arg[4], (uint32_t)op->arg[5], (uint32_t)op->arg[6],
			    (uint32_t)op->arg[7] };

	say_result(op, setsockopt(handle(op->arg[0]), (int)op->arg[1], (int)op->arg[2], val,
				  (socklen_t)(4 * op->arg[3])));
}
