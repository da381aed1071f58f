/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * leave.c - tests a stream that leaves the ring for good, with bytes unread: none is lost, none
 * comes late.
 */
#include "app.h"

static char buf[16];

/*
 * Timestamps of a device make a stream fall back to TCP: what is unread in the ring must still be
 * read.
 */
#define OF_DEVICE (1 << 2) /* SOF_TIMESTAMPING_RX_HARDWARE */

CASE(leave_unread, DIRECT, "time stamps asked for with bytes unread")
{
	int fd = app_open(WARM);
	int on = OF_DEVICE;

	if (CLI)
		R(app_send_pattern(fd, 60000, 999, 1));
	app_sync();
	if (SRV)
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
	if (CLI)
		R(app_send_pattern(fd, 60000, 999, 2));
	for (unsigned int i = 1; SRV && i <= 2; i++)
		R(app_recv_pattern(fd, 60000, 1234, i));
	app_sync();
	app_close(fd);
}

CASE(leave_unread_little_room, DIRECT,
     "the same where the sender's socket has room for a part of it")
{
	int fd = app_open(WARM);
	int on = 1, little = 8192;

	if (CLI) {
		R(app_send_pattern(fd, 60000, 999, 1));
		R(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little)));
	}
	app_sync();
	if (SRV)
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
	app_sync();
	if (CLI)
		R(app_send_pattern(fd, 60000, 999, 2));
	for (unsigned int i = 1; SRV && i <= 2; i++)
		R(app_recv_pattern(fd, 60000, 1234, i));
	app_sync();
	app_close(fd);
}

CASE(leave_unread_moved, DIRECT, "the same where the sender has gone on to TCP's larger buffers")
{
	int fd = app_open(WARM);
	int on = OF_DEVICE;

	if (CLI)
		R(app_send_pattern(fd, 1500000, 1500000, 1));
	app_sync();
	if (SRV)
		R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
	if (CLI)
		R(app_send_pattern(fd, 60000, 999, 2));
	if (SRV) {
		R(app_recv_pattern(fd, 1500000, 1234, 1));
		R(app_recv_pattern(fd, 60000, 1234, 2));
	}
	app_sync();
	app_close(fd);
}

CASE(leave_unread_ended, DIRECT, "the same where the sender has closed, or shut its half")
{
	int fds[2], on = OF_DEVICE;

	app_open_more(WARM, fds, 2);
	if (CLI) {
		R(app_send_pattern(fds[0], 60000, 999, 1));
		app_close(fds[0]);
		R(app_send_pattern(fds[1], 60000, 999, 2));
		R(shutdown(fds[1], SHUT_WR));
	}
	app_sync();
	for (unsigned int i = 0; SRV && i < 2; i++) {
		R(setsockopt(fds[i], SOL_SOCKET, SO_TIMESTAMPING, &on, sizeof(on)));
		R(app_recv_pattern(fds[i], 60000, 1234, i + 1));
		R(read(fds[i], buf, 1));
		app_close(fds[i]);
	}
	app_sync();
}
