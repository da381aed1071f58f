/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shut.c - tests an end that has shut down both of its directions: it accepts nothing more, and
 * what the peer sends is answered by a reset.
 */
#include "app.h"

static char buf[1 << 16];

static void polled(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	R(poll(&p, 1, 0));
	LOG("  revents %x", (unsigned int)p.revents);
}

static void so_error(int fd)
{
	int err = -1;
	socklen_t len = sizeof(err);

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	LOG("  %s", err ? app_errname(err) : "none");
}

/*
 * The client sends to an end that has shut down both directions: the first send succeeds, and its
 * answer is a reset.
 */
static void sends(int fd)
{
	RB(buf, recv(fd, buf, sizeof(buf), 0));
	R(send(fd, "first", 5, MSG_NOSIGNAL));
	app_await_poll(fd, POLLHUP, 10000);
	polled(fd, POLLIN | POLLOUT | POLLRDHUP);
	R(send(fd, "second", 6, MSG_NOSIGNAL));
	R(send(fd, "third", 5, MSG_NOSIGNAL));
	R(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	polled(fd, POLLIN | POLLOUT | POLLRDHUP);
}

static void is_sent_to(int fd)
{
	app_await_poll(fd, POLLERR, 10000);
	polled(fd, POLLIN | POLLOUT | POLLRDHUP);
}

CASE(both, DIRECT, "SHUT_RDWR, then the peer sends: reset")
{
	int fd = app_open(WARM);

	if (SRV)
		R(shutdown(fd, SHUT_RDWR));
	app_sync();
	if (CLI)
		sends(fd);
	app_sync();
	if (SRV) {
		is_sent_to(fd);
		so_error(fd);
		R(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
	}
	app_sync();
	app_close(fd);
}

CASE(one_by_one, DIRECT, "SHUT_RD, then SHUT_WR, then the peer sends: reset")
{
	int fd = app_open(WARM);

	if (SRV) {
		R(shutdown(fd, SHUT_RD));
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	if (CLI)
		sends(fd);
	app_sync();
	if (SRV) {
		is_sent_to(fd);
		R(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
		R(recv(fd, buf, sizeof(buf), MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(other_order, DIRECT, "SHUT_WR, the peer still sends; then SHUT_RD: reset")
{
	int fd = app_open(WARM);

	if (SRV)
		R(shutdown(fd, SHUT_WR));
	app_sync();
	if (CLI)
		SAY(fd, "taken");
	else
		app_hear(fd, 5);
	app_sync();
	if (SRV)
		R(shutdown(fd, SHUT_RD));
	app_sync();
	if (CLI)
		sends(fd);
	app_sync();
	if (SRV)
		is_sent_to(fd);
	app_sync();
	app_close(fd);
}

CASE(queued, DIRECT, "SHUT_RDWR with bytes queued: they can be read; what comes later is a reset")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "queued");
	else
		app_await_inq(fd, 6);
	app_sync();
	if (SRV) {
		R(shutdown(fd, SHUT_RDWR));
		RB(buf, recv(fd, buf, 3, 0));
		polled(fd, POLLIN | POLLRDHUP);
	}
	app_sync();
	if (CLI) {
		RB(buf, recv(fd, buf, sizeof(buf), 0));
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
	}
	app_sync();
	if (SRV) {
		RB(buf, recv(fd, buf, 3, 0));
		R(recv(fd, buf, 3, 0));
	}
	app_sync();
	if (CLI)
		sends(fd);
	app_sync();
	app_close(fd);
}

CASE(peeked, DIRECT,
     "SHUT_RDWR with bytes queued, the peer sends: a peek for more than there is leaves the error")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "queued");
	else
		app_await_inq(fd, 6);
	app_sync();
	if (SRV)
		R(shutdown(fd, SHUT_RDWR));
	app_sync();
	if (CLI)
		sends(fd);
	app_sync();
	if (SRV) {
		is_sent_to(fd);
		RB(buf, recv(fd, buf, 700, MSG_PEEK));
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
		RB(buf, recv(fd, buf, 700, MSG_PEEK | MSG_WAITALL));
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
		RB(buf, recv(fd, buf, 700, 0));
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
		R(recv(fd, buf, 700, 0));
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
	}
	app_sync();
	app_close(fd);
}

CASE(under_sender, DIRECT, "SHUT_RDWR under a sender that sleeps, since nobody reads: reset")
{
	int fd = app_open(WARM);

	if (CLI) {
		static char much[1 << 20];
		ssize_t n;

		app_flag_set(0, (uint64_t)gettid());
		do
			n = send(fd, much, sizeof(much), MSG_NOSIGNAL);
		while (n > 0);
		LOG("told %s", app_errname(errno));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		R(shutdown(fd, SHUT_RDWR));
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
	}
	app_sync();
	app_close(fd);
}

CASE(peer_waits, DIRECT, "SHUT_RDWR, the peer is told by epoll when its bytes met the reset")
{
	int fd = app_open(WARM), ep = (int)MUST(epoll_create1(0));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET };

	if (CLI)
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
	app_sync();
	if (SRV) {
		R(shutdown(fd, SHUT_RDWR));
	} else {
		R(epoll_wait(ep, &ev, 1, 10000));
		LOG("  events %x", ev.events);
		R(send(fd, "bytes", 5, MSG_NOSIGNAL));
		R(epoll_wait(ep, &ev, 1, 10000));
		LOG("  events %x", ev.events);
		R(send(fd, "bytes", 5, MSG_NOSIGNAL));
	}
	app_sync();
	close(ep);
	app_close(fd);
}

static void spawn_by_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	app_reap(pid, "true");
}

static void spawn_by_vfork(void)
{
	pid_t pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): the subject */

	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(127);
	}
	app_reap(pid, "true");
}

/* Other processes hold the socket, too, so no relay takes the bytes. */
CASE(spawns, DIRECT,
     "SHUT_RDWR with bytes unread, then a program is executed: they are read all the same")
{
	int fd = app_open(WARM);

	if (CLI)
		SAY(fd, "0123456789");
	else
		app_await_inq(fd, 10);
	app_sync();
	if (SRV) {
		R(shutdown(fd, SHUT_RDWR));
		spawn_by_vfork();
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
		RB(buf, recv(fd, buf, 4, 0));
		spawn_by_fork();
		polled(fd, POLLIN | POLLOUT | POLLRDHUP);
		RB(buf, recv(fd, buf, sizeof(buf), 0));
		R(recv(fd, buf, sizeof(buf), 0));
	}
	app_sync();
	app_close(fd);
}
