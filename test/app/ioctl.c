/* SPDX-License-Identifier: BSD-2-Clause */
/* ioctl.c - tests what ioctl() and fcntl() count, switch and signal. */
#include "app.h"

#include <linux/sockios.h>

static char buf[1 << 10];

CASE(fionread, DIRECT, "FIONREAD counts what can be read, and 0 at the end")
{
	int fd = app_open(WARM);
	int inq = -1;

	if (CLI) {
		SAY(fd, "0123456789");
		app_sync();
		R(app_send_pattern(fd, 30000, 1000, 1));
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_inq(fd, 10);
		RB(buf, read(fd, buf, 3));
		R(ioctl(fd, FIONREAD, &inq));
		LOG("inq %d", inq);
		RB(buf, read(fd, buf, 100));
		app_sync();
		app_await_poll(fd, POLLRDHUP, 5000);
		R(ioctl(fd, FIONREAD, &inq));
		LOG("inq %d", inq);
		R(app_recv_pattern(fd, 30000, 777, 1));
		R(ioctl(fd, FIONREAD, &inq));
		LOG("inq %d", inq);
		R(read(fd, buf, 1));
	}
	app_sync();
	app_close(fd);
}

CASE(siocoutq, DIRECT, "SIOCOUTQ gets to 0 when the peer has all of it")
{
	int fd = app_open(WARM);
	int outq = -1;

	R(ioctl(fd, SIOCOUTQ, &outq));
	LOG("outq %d", outq);
	if (CLI) {
		SAY(fd, "hello");
		app_hear(fd, 5);
		app_await_outq_empty(fd);
		R(ioctl(fd, TIOCOUTQ, &outq));
		LOG("outq %d", outq);
		R(ioctl(fd, SIOCOUTQNSD, &outq));
		LOG("not sent %d", outq);
	} else {
		app_hear(fd, 5);
		SAY(fd, "hello");
	}
	app_sync();
	app_close(fd);
}

CASE(fionbio, DIRECT, "FIONBIO and O_NONBLOCK are the same switch")
{
	int fd = app_open(WARM);
	int on = 1, off = 0;

	R(ioctl(fd, FIONBIO, &on));
	LOG("O_NONBLOCK %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	R(recv(fd, buf, 1, 0));
	R(ioctl(fd, FIONBIO, &off));
	LOG("O_NONBLOCK %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	R(fcntl(fd, F_SETFL, O_NONBLOCK));
	R(fcntl(fd, F_GETFL) == (O_RDWR | O_NONBLOCK));
	R(read(fd, buf, 1));
	R(ioctl(fd, FIONBIO, (void *)8));
	R(fcntl(fd, F_SETFL, 0));
	if (SRV) {
		app_flag_set(0, (uint64_t)gettid());
		app_hear(fd, 4);
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "data");
	}
	app_sync();
	app_close(fd);
}

CASE(o_async, DIRECT, "O_ASYNC: a signal when data arrives, with F_SETSIG its descriptor")
{
	int fd = app_open(WARM);

	if (SRV) {
		sigset_t set;
		siginfo_t info;
		int sig = SIGRTMIN + 3;

		sigemptyset(&set);
		sigaddset(&set, SIGIO);
		sigaddset(&set, sig);
		MUST(sigprocmask(SIG_BLOCK, &set, NULL));
		R(fcntl(fd, F_SETOWN, getpid()));
		R(fcntl(fd, F_GETOWN) == getpid());
		R(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC));
		app_sync();
		LOG("SIGIO %d", sigtimedwait(&set, &info, &(struct timespec){ 5, 0 }) == SIGIO);
		app_hear(fd, 3);
		while (sigtimedwait(&set, &info, &(struct timespec){ 0, 0 }) > 0)
			;
		R(fcntl(fd, F_SETSIG, sig) == 0);
		app_sync();
		int got = sigtimedwait(&set, &info, &(struct timespec){ 5, 0 });

		LOG("realtime signal %d, its fd %d", got == sig, info.si_fd == fd);
		app_hear(fd, 3);
		R(fcntl(fd, F_SETFL, 0));
	} else {
		app_sync();
		SAY(fd, "one");
		app_sync();
		SAY(fd, "two");
	}
	app_sync();
	app_close(fd);
}

CASE(fioasync, DIRECT, "FIOASYNC is O_ASYNC")
{
	int fd = app_open(WARM);
	int on = 1, off = 0;

	R(ioctl(fd, FIOASYNC, &on));
	LOG("O_ASYNC %d", !!(fcntl(fd, F_GETFL) & O_ASYNC));
	R(ioctl(fd, FIOASYNC, &off));
	LOG("O_ASYNC %d", !!(fcntl(fd, F_GETFL) & O_ASYNC));
	if (CLI)
		SAY(fd, "data");
	else
		app_hear(fd, 4);
	app_sync();
	app_close(fd);
}
