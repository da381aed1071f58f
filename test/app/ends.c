/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ends.c - tests the end of a stream whose bytes are unread: a program that is told of the end gets
 * all that came before it.
 */
#include "app.h"
#include "rawclose.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#define STREAMS 8
#define BYTES 30000

static char buf[BYTES + 1];

static const char *names(unsigned int events)
{
	static char text[8];

	snprintf(text, sizeof(text), "%s%s%s%s", events & POLLIN ? "I" : "",
		 events & POLLRDHUP ? "R" : "", events & POLLHUP ? "H" : "",
		 events & POLLERR ? "E" : "");
	return text;
}

static void polled(int fd, short events)
{
	struct pollfd pfd = { .fd = fd, .events = events };

	R(poll(&pfd, 1, 10000));
	LOG("%s", names((unsigned int)pfd.revents));
}

static void waited(int ep)
{
	struct epoll_event ev = { 0 };

	R(epoll_wait(ep, &ev, 1, 10000));
	LOG("%s", names(ev.events));
}

static int set_with(int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events };
	int ep = (int)MUST(epoll_create1(EPOLL_CLOEXEC));

	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	return ep;
}

static void inq(int fd)
{
	int n = -1;

	R(ioctl(fd, FIONREAD, &n));
	LOG("inq %d", n);
}

/* Sends bytes in many pieces and the end at once, while the other side sleeps or polls. */
static void send_all(int fd, unsigned int seed)
{
	R(app_send_pattern(fd, BYTES, 1000, seed));
	R(shutdown(fd, SHUT_WR));
}

CASE(polled_for, DIRECT, "poll for RDHUP sleeps until all is there, and tells it each time")
{
	int fds[STREAMS];

	app_open_more(WARM, fds, STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		app_sync();
		if (CLI) {
			send_all(fds[i], (unsigned int)i);
			continue;
		}
		polled(fds[i], POLLRDHUP);
		inq(fds[i]);
		polled(fds[i], POLLRDHUP);
		polled(fds[i], POLLIN | POLLRDHUP);
		R(app_recv_pattern(fds[i], BYTES, 777, (unsigned int)i));
		polled(fds[i], POLLIN | POLLRDHUP);
		R(read(fds[i], buf, 1));
		polled(fds[i], POLLRDHUP);
	}
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}

CASE(told_by_sets, DIRECT, "the same of epoll sets: level, edge, oneshot")
{
	static const uint32_t how[] = { 0, EPOLLET, EPOLLONESHOT };
	int fds[STREAMS], ep;

	app_open_more(WARM, fds, STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		ep = SRV ? set_with(fds[i], EPOLLRDHUP | how[i % 3]) : -1;
		app_sync();
		if (CLI) {
			send_all(fds[i], (unsigned int)i);
			continue;
		}
		waited(ep);
		inq(fds[i]);
		if (!how[i % 3])
			waited(ep);
		R(app_recv_pattern(fds[i], BYTES, 777, (unsigned int)i));
		R(read(fds[i], buf, 1));
		close(ep);
	}
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}

CASE(hung_up, DIRECT, "both directions have ended: HUP comes with all that was sent")
{
	int fds[STREAMS];

	app_open_more(WARM, fds, STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		if (SRV)
			R(shutdown(fds[i], SHUT_WR));
		app_sync();
		if (CLI) {
			send_all(fds[i], (unsigned int)i);
			continue;
		}
		polled(fds[i], 0);
		inq(fds[i]);
		polled(fds[i], POLLIN | POLLRDHUP);
		R(app_recv_pattern(fds[i], BYTES, 777, (unsigned int)i));
		polled(fds[i], POLLIN | POLLRDHUP);
		R(read(fds[i], buf, 1));
	}
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}

CASE(peeked, DIRECT, "a peek for more than there will ever be ends with all there is")
{
	int fds[STREAMS];

	app_open_more(WARM, fds, STREAMS);
	for (int i = 0; i < STREAMS; i++) {
		app_sync();
		if (CLI) {
			send_all(fds[i], (unsigned int)i);
			continue;
		}
		RB(buf, recv(fds[i], buf, sizeof(buf), MSG_PEEK | MSG_WAITALL));
		R(app_recv_pattern(fds[i], BYTES, 777, (unsigned int)i));
		R(read(fds[i], buf, 1));
	}
	app_sync();
	for (int i = 0; i < STREAMS; i++)
		app_close(fds[i]);
}

CASE(less_than_wanted, DIRECT,
     "SO_RCVLOWAT: fewer bytes and the end are readable, for poll and for a set")
{
	int fd = app_open(WARM), low = 1000, ep = -1;

	if (SRV) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		ep = set_with(fd, EPOLLIN | EPOLLRDHUP);
	}
	app_sync();
	if (CLI) {
		SAY(fd, "few");
		R(shutdown(fd, SHUT_WR));
	} else {
		polled(fd, POLLIN);
		polled(fd, POLLRDHUP);
		polled(fd, POLLIN | POLLRDHUP);
		waited(ep);
		inq(fd);
		RB(buf, read(fd, buf, 100));
		R(read(fd, buf, 100));
		close(ep);
	}
	app_sync();
	app_close(fd);
}

/*
 * Aborts the socket as a firewall's or an operator's reset does, without an action of either
 * program. Once reported, it is an end of stream.
 */
static void abort_under(bool half, bool by_read)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fd = app_open(WARM), err = -1, ep;
	socklen_t len = sizeof(err);

	if (SRV && half)
		R(shutdown(fd, SHUT_WR));
	app_sync();
	if (CLI)
		MUST(raw_call(SYS_connect, fd, (long)&none, sizeof(none)));
	app_sync();
	if (SRV) {
		polled(fd, POLLRDHUP);
		if (by_read)
			R(read(fd, buf, 10));
		else
			R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("error %d", err);
		polled(fd, POLLIN | POLLRDHUP);
		polled(fd, 0);
		ep = set_with(fd, EPOLLIN | EPOLLRDHUP);
		waited(ep);
		close(ep);
		inq(fd);
		R(recv(fd, buf, 10, MSG_DONTWAIT));
		R(read(fd, buf, 10));
		polled(fd, POLLRDHUP);
	}
	app_sync();
	app_close(fd);
}

CASE(aborted, DIRECT,
     "the connection is reset by neither program, SO_ERROR tells: HUP from then on, and the end")
{
	abort_under(false, false);
}

CASE(aborted_read, DIRECT, "the same, a read tells")
{
	abort_under(false, true);
}

CASE(aborted_half, DIRECT, "the same when this end has sent its own end")
{
	abort_under(true, false);
}

CASE(aborted_asleep, DIRECT,
     "the same while this end, which has sent its own, sleeps in poll; then in read")
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int fds[2];

	app_open_more(WARM, fds, 2);
	for (int i = 0; i < 2; i++) {
		if (SRV && i == 0)
			R(shutdown(fds[i], SHUT_WR));
		app_sync();
		if (CLI) {
			usleep(50000);
			MUST(raw_call(SYS_connect, fds[i], (long)&none, sizeof(none)));
		} else if (i == 0) {
			polled(fds[i], POLLIN | POLLRDHUP);
		} else {
			R(read(fds[i], buf, 10));
			R(read(fds[i], buf, 10));
		}
		app_sync();
	}
	for (int i = 0; i < 2; i++)
		app_close(fds[i]);
}

/* ---- sends after the abort ---- */

static void abort_it(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	MUST(raw_call(SYS_connect, fd, (long)&none, sizeof(none)));
}

static void told_by_poll(int fd)
{
	polled(fd, POLLIN | POLLOUT);
}

static void told_by_a_set(int fd)
{
	int ep = set_with(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);

	waited(ep);
	close(ep);
}

static void told_by_read(int fd)
{
	R(read(fd, buf, 10));
}

static void told_by_a_peek(int fd)
{
	R(recv(fd, buf, 10, MSG_PEEK));
}

static void told_by_option(int fd)
{
	socklen_t len = sizeof(int);
	int err = -1;

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	LOG("error %d", err);
}

static void told_by_many(int fd)
{
	struct iovec iov = { buf, 10 };
	struct mmsghdr msg = { .msg_hdr = { .msg_iov = &iov, .msg_iovlen = 1 } };

	R(recvmmsg(fd, &msg, 1, 0, NULL));
}

/* The last two find the unread bytes, and get no error. */
static void (*const told[])(int fd) = { told_by_poll, told_by_a_set,  told_by_option,
					told_by_many, told_by_a_peek, told_by_read };

#define TOLD (int)(sizeof(told) / sizeof(told[0]))

CASE(aborted_send, DIRECT,
     "reset by neither program, and told: a send tells it too, or is into a closed pipe")
{
	int fds[2 * TOLD - 2];

	signal(SIGPIPE, SIG_IGN);
	app_open_more(WARM, fds, 2 * TOLD - 2);
	for (int i = 0; i < 2 * TOLD - 2; i++) {
		if (CLI && i >= TOLD)
			SAY(fds[i], "unread");
		app_sync();
		if (CLI)
			abort_it(fds[i]);
		app_sync();
		if (CLI)
			continue;
		told[i % TOLD](fds[i]);
		R(send(fds[i], "x", 1, 0));
		R(write(fds[i], "x", 1));
		R(send(fds[i], "x", 1, MSG_DONTWAIT));
		R(read(fds[i], buf, 10));
		R(read(fds[i], buf, 10));
		R(write(fds[i], "x", 1));
	}
	app_sync();
	for (int i = 0; i < 2 * TOLD - 2; i++)
		app_close(fds[i]);
}

CASE(aborted_only_sends, DIRECT,
     "the same, and nobody is told: who does nothing but send is told some time")
{
	static char much[300000];
	const size_t sizes[] = { 1, 64, 5000, sizeof(much) };
	int fds[4];

	signal(SIGPIPE, SIG_IGN);
	app_open_more(WARM, fds, 4);
	for (int i = 0; i < 4; i++) {
		app_sync();
		if (CLI)
			abort_it(fds[i]);
		app_sync();
		if (CLI)
			continue;
		int k = 0;

		while (k < 100000 && send(fds[i], much, sizes[i], 0) > 0)
			k++;
		LOG("%s, soon %d", app_errname(errno), k < 300);
		R(write(fds[i], "x", 1));
		R(read(fds[i], buf, 10));
	}
	app_sync();
	for (int i = 0; i < 4; i++)
		app_close(fds[i]);
}

static void sends_much(void *arg)
{
	static char much[16 << 20];
	int fd = *(int *)arg;

	LOG("part of it %d", send(fd, much, sizeof(much), 0) > 0);
	R(send(fd, "x", 1, 0));
	R(send(fd, "x", 1, 0));
}

CASE(aborted_under_send, DIRECT, "the same under a send that waits for room, and one that does not")
{
	struct app_thread t;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	app_open_more(WARM, fds, 2);
	if (SRV) {
		app_thread_start(&t, sends_much, &fds[0]);
		app_flag_set(1, (uint64_t)t.tid);
		LOG("full %d", app_fill(fds[1], 1) > 0);
	}
	app_sync();
	if (CLI) {
		app_await_asleep((pid_t)app_flag_wait(1));
		abort_it(fds[0]);
		abort_it(fds[1]);
	}
	app_sync();
	if (SRV) {
		app_thread_join(&t);
		told_by_poll(fds[1]);
		R(send(fds[1], "x", 1, 0));
		R(send(fds[1], "x", 1, 0));
	}
	app_sync();
	for (int i = 0; i < 2; i++)
		app_close(fds[i]);
}

/*
 * Destroys the socket as `ss -K` does, where the kernel and the test's rights allow that; false:
 * the peer has to reset it.
 */
static bool destroy(int fd)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 req;
	} ask = { .head = { .nlmsg_len = sizeof(ask),
			    .nlmsg_type = SOCK_DESTROY,
			    .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK },
		  .req = { .sdiag_family = AF_INET,
			   .sdiag_protocol = IPPROTO_TCP,
			   .idiag_states = ~0u,
			   .id = { .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } } };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char room[256];
	} told_us = { .err.error = -1 };
	struct sockaddr_in here = { 0 }, there = { 0 };
	socklen_t len = sizeof(here);
	int nl = (int)MUST(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));

	MUST(getsockname(fd, (struct sockaddr *)&here, &len));
	len = sizeof(there);
	MUST(getpeername(fd, (struct sockaddr *)&there, &len));
	ask.req.id.idiag_sport = here.sin_port;
	ask.req.id.idiag_dport = there.sin_port;
	ask.req.id.idiag_src[0] = here.sin_addr.s_addr;
	ask.req.id.idiag_dst[0] = there.sin_addr.s_addr;
	MUST(send(nl, &ask, sizeof(ask), 0));
	MUST(recv(nl, &told_us, sizeof(told_us), 0));
	close(nl);
	return !told_us.err.error;
}

CASE(aborted_here, DIRECT,
     "an operator destroys the connection at one end: both are told, by whatever they do")
{
	int fds[TOLD];
	uint64_t done;

	signal(SIGPIPE, SIG_IGN);
	app_open_more(WARM, fds, TOLD);
	for (int i = 0; i < TOLD; i++) {
		app_sync();
		if (SRV)
			app_flag_set(1 + i, 1 + destroy(fds[i]));
		done = app_flag_wait(1 + i);
		if (CLI && done == 1)
			abort_it(fds[i]);
		app_sync();
		if (CLI && done == 1)
			continue;
		told[i](fds[i]);
		R(send(fds[i], "x", 1, 0));
		R(write(fds[i], "x", 1));
		R(read(fds[i], buf, 10));
		R(read(fds[i], buf, 10));
		polled(fds[i], POLLIN | POLLRDHUP);
	}
	app_sync();
	for (int i = 0; i < TOLD; i++)
		app_close(fds[i]);
}
