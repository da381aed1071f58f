/* SPDX-License-Identifier: BSD-2-Clause */
/* sendflags.c - tests the MSG_* flags of send calls, EPIPE and SIGPIPE, urgent data, zero copy. */
#include "signals.h"

#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <sys/select.h>
#include <sys/sendfile.h>

static char buf[1 << 20];

CASE(msg_more, DIRECT, "MSG_MORE holds back at most for a while; nothing is lost")
{
	int fd = app_open(WARM);

	if (CLI) {
		for (int i = 0; i < 10; i++)
			R(send(fd, "piece-", 6, MSG_MORE));
		R(send(fd, "end", 3, 0));
		app_hear(fd, 3);
		R(send(fd, "alone", 5, MSG_MORE));
	} else {
		app_hear(fd, 63);
		SAY(fd, "got");
		app_await_inq(fd, 5);
		app_hear(fd, 5);
	}
	app_sync();
	app_close(fd);
}

CASE(msg_more_close, DIRECT, "what MSG_MORE held back is sent by shutdown")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(send(fd, "held", 4, MSG_MORE));
		R(shutdown(fd, SHUT_WR));
	} else {
		app_drain(fd, "drained");
	}
	app_sync();
	app_close(fd);
}

CASE(cork, DIRECT, "TCP_CORK on and off")
{
	int fd = app_open(WARM);
	int on = 1, off = 0, got = -1;
	socklen_t len = sizeof(got);

	if (CLI) {
		R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
		R(getsockopt(fd, IPPROTO_TCP, TCP_CORK, &got, &len));
		LOG("cork %d", got);
		for (int i = 0; i < 5; i++)
			R(write(fd, "cork", 4));
		R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off)));
		app_hear(fd, 2);
		R(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof(on)));
		R(write(fd, "last", 4));
		R(shutdown(fd, SHUT_WR));
	} else {
		app_await_inq(fd, 20);
		app_hear(fd, 20);
		SAY(fd, "ok");
		app_drain(fd, "rest");
	}
	app_sync();
	app_close(fd);
}

CASE(epipe_after_shutdown, DIRECT,
     "every way to write after SHUT_WR: EPIPE and SIGPIPE, or not with MSG_NOSIGNAL")
{
	int fd = app_open(WARM);
	struct iovec iov = IOV("x");
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct mmsghdr mmsg = { .msg_hdr = msg };

	if (CLI) {
		catch_signal(SIGPIPE, 0);
		R(shutdown(fd, SHUT_WR));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		LOG("signals %d", signals);
		R(send(fd, "x", 1, 0));
		LOG("signals %d", signals);
		R(write(fd, "x", 1));
		LOG("signals %d", signals);
		R(writev(fd, &iov, 1));
		LOG("signals %d", signals);
		R(sendmsg(fd, &msg, 0));
		LOG("signals %d", signals);
		R(sendmsg(fd, &msg, MSG_NOSIGNAL));
		LOG("signals %d", signals);
		R(sendmmsg(fd, &mmsg, 1, 0));
		LOG("signals %d", signals);
		R(sendto(fd, "x", 1, MSG_NOSIGNAL, NULL, 0));
		LOG("signals %d", signals);
		R(write(fd, "x", 0));
		LOG("signals %d", signals);
		R(send(fd, "x", 0, MSG_NOSIGNAL));
		LOG("signals %d", signals);
	} else {
		app_drain(fd, "drained");
	}
	app_sync();
	app_close(fd);
}

CASE(epipe_sendfile_splice, DIRECT, "sendfile and splice after SHUT_WR: EPIPE and SIGPIPE")
{
	int fd = app_open(WARM);
	int p[2];

	if (CLI) {
		int file = (int)MUST(open(app_self(), O_RDONLY));

		MUST(pipe(p));
		SAY(p[1], "x");
		catch_signal(SIGPIPE, 0);
		R(shutdown(fd, SHUT_WR));
		R(sendfile(fd, file, NULL, 100));
		LOG("signals %d", signals);
		R(splice(p[0], NULL, fd, NULL, 1, 0));
		LOG("signals %d", signals);
		R(dprintf(fd, "x"));
		LOG("signals %d", signals);
	}
	app_sync();
	app_close(fd);
}

CASE(epipe_peer_gone, DIRECT, "the peer closed: one write goes out, the next is EPIPE and SIGPIPE")
{
	int fd = app_open(WARM);

	if (SRV) {
		catch_signal(SIGPIPE, 0);
		app_sync();
		LOG("read %zd", read(fd, buf, 10));
		R(write(fd, "into the void", 13));
		LOG("ERR|HUP %d", (app_await_poll(fd, POLLERR | POLLHUP, 5000) &
				   (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
		R(write(fd, "x", 1));
		LOG("signals %d", signals);
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		LOG("signals %d", signals);
		R(read(fd, buf, 10));
		app_close(fd);
	} else {
		app_close(fd);
		app_sync();
	}
	app_sync();
}

CASE(sigpipe_kills, DIRECT, "SIGPIPE left alone ends the process")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(shutdown(fd, SHUT_WR));
		pid_t pid = fork();

		if (!pid) {
			if (write(fd, "x", 1))
				_exit(0);
			_exit(0);
		}
		app_reap(pid, "writer");
	}
	app_sync();
	app_close(fd);
}

CASE(sigpipe_ignored, DIRECT, "SIGPIPE ignored, and blocked: it stays pending once")
{
	int fd = app_open(WARM);
	sigset_t set, pending;

	if (CLI) {
		R(shutdown(fd, SHUT_WR));
		signal(SIGPIPE, SIG_IGN);
		R(write(fd, "x", 1));
		signal(SIGPIPE, SIG_DFL);
		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		MUST(sigprocmask(SIG_BLOCK, &set, NULL));
		R(write(fd, "x", 1));
		MUST(sigpending(&pending));
		LOG("pending %d", sigismember(&pending, SIGPIPE));
		R(sigtimedwait(&set, NULL, &(struct timespec){ 1, 0 }));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		MUST(sigpending(&pending));
		LOG("pending %d", sigismember(&pending, SIGPIPE));
	}
	app_sync();
	app_close(fd);
}

CASE(oob, DIRECT, "urgent data: mark, MSG_OOB, POLLPRI; normal data around it stays in order")
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		SAY(fd, "before");
		app_sync();
		R(send(fd, "!", 1, MSG_OOB));
		SAY(fd, "after");
		app_hear(fd, 2);
		SAY(fd, "more");
	} else {
		int at;

		app_await_inq(fd, 6);
		R(recv(fd, buf, 1, MSG_OOB));
		app_sync();
		LOG("PRI %d", !!(app_await_poll(fd, POLLPRI, 5000) & POLLPRI));
		/* The urgent byte has a place of its own in the sequence that FIONREAD counts. */
		RB(buf, recv(fd, buf, 1, MSG_OOB));
		R(recv(fd, buf, 1, MSG_OOB));
		RB(buf, read(fd, buf, 100));
		R(ioctl(fd, SIOCATMARK, &at));
		LOG("at mark %d", at);
		app_hear(fd, 5);
		R(ioctl(fd, SIOCATMARK, &at));
		LOG("at mark %d", at);
		SAY(fd, "ok");
		app_hear(fd, 4);
	}
	app_sync();
	app_close(fd);
}

CASE(oob_inline, DIRECT, "SO_OOBINLINE: the urgent byte is in the stream, reads stop at the mark")
{
	int fd = app_open(WARM | NODELAY);
	int on = 1, at;

	if (SRV)
		R(setsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	app_sync();
	if (CLI) {
		SAY(fd, "head");
		R(send(fd, "xyz", 3, MSG_OOB));
		SAY(fd, "tail");
	} else {
		app_await_inq(fd, 11);
		R(recv(fd, buf, 1, MSG_OOB));
		RB(buf, read(fd, buf, 100));
		R(ioctl(fd, SIOCATMARK, &at));
		LOG("at mark %d", at);
		RB(buf, read(fd, buf, 100));
		R(ioctl(fd, SIOCATMARK, &at));
		LOG("at mark %d", at);
	}
	app_sync();
	app_close(fd);
}

CASE(oob_sigurg, DIRECT, "SIGURG reaches the owner set with F_SETOWN")
{
	int fd = app_open(WARM);

	if (SRV) {
		sigset_t set;

		sigemptyset(&set);
		sigaddset(&set, SIGURG);
		MUST(sigprocmask(SIG_BLOCK, &set, NULL));
		R(fcntl(fd, F_SETOWN, getpid()));
		app_sync();
		LOG("signal %d", sigtimedwait(&set, NULL, &(struct timespec){ 5, 0 }) == SIGURG);
		RB(buf, recv(fd, buf, 1, MSG_OOB));
	} else {
		app_sync();
		R(send(fd, "u", 1, MSG_OOB));
	}
	app_sync();
	app_close(fd);
}

CASE(oob_readiness, DIRECT, "urgent data in select's third set and as EPOLLPRI")
{
	int fd = app_open(WARM);
	struct epoll_event ev = { .events = EPOLLPRI };
	fd_set ex;

	if (CLI) {
		R(send(fd, "!", 1, MSG_OOB));
	} else {
		int ep = (int)MUST(epoll_create1(0));

		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		R(epoll_wait(ep, &ev, 1, 5000));
		LOG("events %#x", ev.events);
		FD_ZERO(&ex);
		FD_SET(fd, &ex);
		R(select(fd + 1, NULL, NULL, &ex, NULL));
		RB(buf, recv(fd, buf, 1, MSG_OOB));
		app_close(ep);
	}
	app_sync();
	app_close(fd);
}

CASE(odd_flags, DIRECT, "flags that mean nothing to TCP, or nothing at all")
{
	int fd = app_open(WARM);

	if (CLI) {
		R(send(fd, "a", 1, MSG_EOR));
		R(send(fd, "b", 1, MSG_DONTROUTE));
		R(send(fd, "c", 1, MSG_CONFIRM));
		R(send(fd, "d", 1, MSG_TRUNC));
		R(send(fd, "e", 1, 0x00400000));
		R(recv(fd, buf, 1, MSG_ERRQUEUE));
	} else {
		app_await_inq(fd, 5);
		RB(buf, recv(fd, buf, 1, MSG_CTRUNC));
		RB(buf, recv(fd, buf, 1, MSG_CMSG_CLOEXEC));
		RB(buf, recv(fd, buf, 1, MSG_NOSIGNAL));
		RB(buf, recv(fd, buf, 1, 0x00400000));
		R(recv(fd, buf, 1, MSG_ERRQUEUE));
		RB(buf, recv(fd, buf, 1, 0));
	}
	app_sync();
	app_close(fd);
}

CASE(zerocopy, DIRECT, "MSG_ZEROCOPY: the bytes arrive and the completion is told")
{
	int fd = app_open(WARM);
	int on = 1;

	if (CLI) {
		char control[128];
		struct msghdr msg = { .msg_control = control, .msg_controllen = sizeof(control) };

		app_pattern(buf, 100000, 0, 9);
		R(send(fd, buf, 10, MSG_ZEROCOPY));
		R(setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
		app_pattern(buf, 99990, 10, 9);
		R(send(fd, buf, 99990, MSG_ZEROCOPY));
		LOG("ERR %d", !!(app_await_poll(fd, POLLERR, 5000) & POLLERR));
		R(recvmsg(fd, &msg, MSG_ERRQUEUE));
		struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

		if (cm) {
			struct sock_extended_err ee;

			memcpy(&ee, CMSG_DATA(cm), sizeof(ee));
			LOG("errno %u origin %u range %u-%u", ee.ee_errno, ee.ee_origin, ee.ee_info,
			    ee.ee_data);
		}
		R(recvmsg(fd, &msg, MSG_ERRQUEUE));
	} else {
		R(app_recv_pattern(fd, 100000, 20000, 9));
	}
	app_sync();
	app_close(fd);
}

CASE(cmsg_unknown, DIRECT, "control messages that a TCP send does not take")
{
	int fd = app_open(WARM);
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = IOV("text");
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	if (CLI) {
		struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

		memset(&control, 0, sizeof(control));
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = 0x7777;
		R(sendmsg(fd, &msg, 0));
		cm->cmsg_level = SOL_RAW;
		R(sendmsg(fd, &msg, 0));
		msg.msg_controllen = 3;
		R(sendmsg(fd, &msg, 0));
		SAY(fd, "end");
		R(shutdown(fd, SHUT_WR));
	} else {
		app_drain(fd, "drained");
	}
	app_sync();
	app_close(fd);
}
