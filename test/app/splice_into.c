/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * splice_into.c - tests splice() and sendfile() into a stream that has bytes unread: what can be
 * read afterwards, and the errors if the peer has reset it.
 */
#include "splice.h"

#include <sys/sendfile.h>

/* Moves ten bytes of a pipe into the stream by splice(), or of a device by sendfile(). */
static ssize_t send_by_kernel(int fd, bool device)
{
	int p[2], in;
	ssize_t n;

	if (device) {
		in = (int)MUST(open("/dev/zero", O_RDONLY));
		n = R(sendfile(fd, in, NULL, 10));
		app_close(in);
		return n;
	}
	make_pipe(p, false);
	SAY(p[1], "by a pipe.");
	n = R(splice(p[0], NULL, fd, NULL, 10, 0));
	close_pipe(p);
	return n;
}

CASE(out_unread, DIRECT,
     "into a stream that has bytes of both paths unread: they can be read at once")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "by the ring");
		send_by_kernel(fd, false);
		SAY(fd, "by TCP");
	} else {
		struct pollfd p = { .fd = fd, .events = POLLIN };

		app_await_inq(fd, 27);
		send_by_kernel(fd, false);
		R(poll(&p, 1, 0));
		R(ioctl(fd, FIONREAD, buf));
		app_bytes("FIONREAD", buf, sizeof(int));
		send_by_kernel(fd, true);
		app_hear(fd, 27);
	}
	app_sync();
	if (CLI)
		app_hear(fd, 20);
	app_sync();
	app_close(fd);
}

static void into_reset(bool device)
{
	int fd = app_open(WARM);

	signal(SIGPIPE, SIG_IGN);
	SAY(fd, "unread");
	app_await_inq(fd, 6);
	app_sync();
	if (SRV) {
		app_close(fd);
		app_sync();
		return;
	}
	app_sync();
	app_await_poll(fd, POLLERR, 10000);
	send_by_kernel(fd, device);
	send_by_kernel(fd, !device);
	R(recv(fd, buf, 10, 0));
	R(recv(fd, buf, 10, 0));
	app_close(fd);
}

CASE(out_reset, DIRECT, "into a stream that the peer has reset, with bytes unread here: its error")
{
	into_reset(false);
}

CASE(out_reset_file, DIRECT, "the same by sendfile() from a device")
{
	into_reset(true);
}
