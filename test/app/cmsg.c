/* SPDX-License-Identifier: BSD-2-Clause */
/* cmsg.c - tests control messages that a program enables before, while and after bytes arrive. */
#include <sys/resource.h>

#include "app.h"

static char buf[256];

/* @late: enabled once the bytes are there. */
static void told_what_is_left(bool late)
{
	int fd = app_open(WARM);
	int on = 1, inq = -1;
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { buf, 4 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	if (SRV && !late)
		R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	app_sync();
	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		if (late)
			R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		R(recvmsg(fd, &msg, 0));
		struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

		if (cm)
			memcpy(&inq, CMSG_DATA(cm), sizeof(inq));
		LOG("control %zu, type %d, left %d", msg.msg_controllen, cm ? cm->cmsg_type : -1,
		    inq);
		app_hear(fd, 6);
	}
	app_sync();
	app_close(fd);
}

CASE(inq_nowhere, DIRECT,
     "TCP_INQ: a buffer for control messages that is NULL, and its size is not 0")
{
	int fd = app_open(WARM), on = 1;
	struct iovec iov = { buf, 4 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_controllen = 64 };

	if (SRV)
		R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	if (CLI) {
		SAY(fd, "text");
	} else {
		app_await_inq(fd, 4);
		R(recvmsg(fd, &msg, 0));
		LOG("control %zu, flags %#x", msg.msg_controllen, msg.msg_flags);
	}
	app_sync();
	app_close(fd);
}

CASE(inq, DIRECT, "TCP_INQ: recvmsg tells what is left")
{
	told_what_is_left(false);
}

CASE(inq_late, DIRECT, "TCP_INQ, asked for behind the bytes: the same")
{
	told_what_is_left(true);
}

#define STREAMS 10
#define EACH 64000

/*
 * Calls recvmsg() until everything has come. Returns how many calls had no message, or a wrong one.
 */
static int hear_with_messages(int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int)) + 8];
	} control;
	struct iovec iov = { buf, 61 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
	int wrong = 0, left = -1;
	ssize_t n;

	for (size_t had = 0; had < EACH; had += (size_t)n) {
		struct cmsghdr *cm;

		msg.msg_controllen = sizeof(control);
		n = recvmsg(fd, &msg, 0);
		if (n <= 0)
			app_die("%ld behind %zu", (long)n, had);
		cm = CMSG_FIRSTHDR(&msg);
		if (cm)
			memcpy(&left, CMSG_DATA(cm), sizeof(left));
		wrong += !cm || msg.msg_controllen != CMSG_SPACE(sizeof(int)) ||
			 cm->cmsg_len != CMSG_LEN(sizeof(int)) || cm->cmsg_level != SOL_TCP ||
			 cm->cmsg_type != TCP_CM_INQ || left < 0 ||
			 had + (size_t)n + (size_t)left > EACH;
	}
	return wrong + (left != 0);
}

CASE(inq_meanwhile, DIRECT, "TCP_INQ, asked for while bytes arrive: each recvmsg() behind it tells")
{
	int fds[STREAMS], on = 1, wrong = 0;

	app_open_more(WARM, fds, STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		app_sync();
		if (CLI) {
			for (int k = 0; k < EACH / 64; k++)
				if (send(fds[i], buf, 64, 0) != 64)
					app_die("send");
			continue;
		}
		app_await_poll(fds[i], POLLIN, 10000);
		MUST(setsockopt(fds[i], IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		wrong += hear_with_messages(fds[i]);
	}
	LOG("wrong %d", wrong);
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}

/* Receives with @room bytes of control buffer; records the room that is left, and the message. */
static void hear_message(int fd, size_t len, size_t room, int flags)
{
	union {
		struct cmsghdr align;
		char room[256];
	} control = { 0 };
	struct iovec iov = { buf, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };

	msg.msg_controllen = room;
	RB(buf, recvmsg(fd, &msg, flags));
	LOG("control %zu of %zu, flags %x", msg.msg_controllen, room, (unsigned int)msg.msg_flags);
	app_bytes("  control", &control, msg.msg_controllen);
	LOG("  left %d", *(int *)(void *)CMSG_DATA(&control.align));
}

/*
 * A process that cannot open another descriptor cannot borrow the peer's, which the return of
 * unread bytes needs.
 */
static void ask_without_files(int fd)
{
	struct rlimit was, none = { 0 };
	int on = 1;

	MUST(getrlimit(RLIMIT_NOFILE, &was));
	none.rlim_max = was.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &none));
	R(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
	MUST(setrlimit(RLIMIT_NOFILE, &was));
}

CASE(inq_unread, DIRECT,
     "TCP_INQ, asked for where unread bytes cannot be moved: each recvmsg() tells")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789abcdefghijklmnopqrstuvwxyz");
	} else {
		app_await_inq(fd, 36);
		ask_without_files(fd);
		hear_message(fd, 4, 256, 0);
		hear_message(fd, 4, 256, MSG_PEEK);
		hear_message(fd, 4, CMSG_SPACE(sizeof(int)), 0);
		hear_message(fd, 4, CMSG_LEN(sizeof(int)), 0);
		hear_message(fd, 4, CMSG_LEN(sizeof(int)) - 1, 0);
		hear_message(fd, 4, CMSG_LEN(0), 0);
		hear_message(fd, 4, CMSG_LEN(0) - 1, 0);
		hear_message(fd, 4, 0, 0);
		hear_message(fd, 4, 256, MSG_DONTWAIT);
		hear_message(fd, 10, 256, MSG_DONTWAIT);
		R(recv(fd, buf, 10, MSG_DONTWAIT));
	}
	app_sync();
	if (CLI)
		SAY(fd, "more");
	else
		hear_message(fd, 3, 256, 0);
	app_sync();
	app_close(fd);
}

CASE(inq_end, DIRECT, "the same, and the end is there, too, which counts")
{
	int fd = app_open(WARM);

	if (CLI) {
		SAY(fd, "0123456789");
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	if (SRV) {
		app_await_poll(fd, POLLRDHUP, 10000);
		ask_without_files(fd);
		hear_message(fd, 4, 256, 0);
		hear_message(fd, 6, 256, 0);
		hear_message(fd, 6, 256, 0);
		hear_message(fd, 6, 256, 0);
	}
	app_sync();
	app_close(fd);
}

/*
 * Edge triggered: a program that was told that nothing is left does not check again before the next
 * edge (as gRPC).
 */
CASE(inq_edge, DIRECT,
     "TCP_INQ and edges: read until nothing is left, never until EAGAIN; no edge is missing")
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { buf, 7 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control };
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int fd = app_open(WARM), ep = MUST(epoll_create1(0)), on = 1, left;

	if (CLI) {
		for (int i = 0; i < 200; i++) {
			R(send(fd, "0123456789012345678901234567890123456789", 1 + i % 40, 0));
			app_hear(fd, 1);
		}
	} else {
		MUST(setsockopt(fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		for (int i = 0; i < 200; i++) {
			ssize_t n, had = 0;

			while (had < 1 + i % 40) {
				if (epoll_wait(ep, &ev, 1, 10000) != 1)
					app_die("no edge behind %zd of %d", had, 1 + i % 40);
				do {
					msg.msg_controllen = sizeof(control);
					n = MUST(recvmsg(fd, &msg, 0));
					if (!CMSG_FIRSTHDR(&msg))
						app_die("no message");
					memcpy(&left, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(left));
					had += n;
				} while (left);
			}
			LOG("%zd", had);
			SAY(fd, "k");
		}
	}
	app_expect_rings(1);
	app_close(fd);
	close(ep);
}

static int the_fd;
static char taken[16];

static void *recv_when_cancelled(void *arg)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { taken, 4 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	n = recvmsg(the_fd, &msg, 0);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	*(ssize_t *)arg = n;
	return NULL;
}

CASE(inq_cancelled, DIRECT,
     "TCP_INQ and a thread that is cancelled: it has taken bytes and returns, or has not")
{
	char all[11] = { 0 };
	pthread_t thread;
	ssize_t n = 0;
	int on = 1;

	the_fd = app_open(WARM);
	if (CLI) {
		SAY(the_fd, "0123456789");
	} else {
		app_await_inq(the_fd, 10);
		MUST(setsockopt(the_fd, IPPROTO_TCP, TCP_INQ, &on, sizeof(on)));
		MUST(-pthread_create(&thread, NULL, recv_when_cancelled, &n));
		MUST(-pthread_join(thread, NULL));
		memcpy(all, taken, (size_t)n);
		n += recv(the_fd, all + n, sizeof(all) - 1 - (size_t)n, MSG_DONTWAIT);
		LOG("%zd bytes: %s", n, all);
	}
	app_sync();
	app_close(the_fd);
}

/* Sends @text with one control message of @len bytes. */
static void send_with(int fd, int level, int type, size_t len)
{
	char control[CMSG_SPACE(64)] __attribute__((aligned(8))) = { 0 };
	struct iovec iov = IOV("text");
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = CMSG_SPACE(sizeof(int)) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	*c = (struct cmsghdr){ .cmsg_level = level, .cmsg_type = type, .cmsg_len = len };
	R(sendmsg(fd, &msg, 0));
}

CASE(ignored, DIRECT, "control messages of levels that TCP ignores: the stream stays where it is")
{
	int fd = app_open(WARM);

	if (CLI) {
		send_with(fd, IPPROTO_IP, IP_TOS, CMSG_LEN(sizeof(int)));
		send_with(fd, IPPROTO_IP, IP_TTL, CMSG_LEN(sizeof(int)));
		send_with(fd, IPPROTO_IPV6, IPV6_TCLASS, CMSG_LEN(sizeof(int)));
		send_with(fd, IPPROTO_TCP, 7, CMSG_LEN(0));
	}
	if (SRV)
		app_hear(fd, 16);
	app_sync();
	app_expect_rings(1);
	app_close(fd);
}

/* The first one is right, and ignored. */
static void second_is_wrong(int fd)
{
	struct cmsghdr c[2] = { { .cmsg_level = IPPROTO_IP, .cmsg_len = sizeof(c[0]) },
				{ .cmsg_level = IPPROTO_IP, .cmsg_len = 99 } };
	struct iovec iov = IOV("text");
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof(c)
	};

	R(sendmsg(fd, &msg, 0));
	/* Too short for a second one. */
	msg.msg_controllen = sizeof(c[0]) + 8;
	R(sendmsg(fd, &msg, 0));
}

CASE(malformed, DIRECT, "lengths that no control message has: EINVAL, of any level")
{
	int fd = app_open(WARM);

	if (CLI) {
		send_with(fd, IPPROTO_IP, IP_TOS, 3);
		send_with(fd, IPPROTO_IP, IP_TOS, 400);
		send_with(fd, IPPROTO_IP, IP_TOS, CMSG_SPACE(sizeof(int)) + 1);
		second_is_wrong(fd);
		SAY(fd, "end");
	} else {
		app_hear(fd, 7);
	}
	app_sync();
	app_close(fd);
}
