/* SPDX-License-Identifier: BSD-2-Clause */
/* net.c - tests how connections are made: families, accept, connect and its failures. */
#include "app.h"

#include <arpa/inet.h>

static char buf[65536];

static void say_addr(const char *what, const struct app_addr *addr)
{
	char text[64] = "?";

	if (addr->sa.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &addr->in6.sin6_addr, text, sizeof(text));
	else
		inet_ntop(AF_INET, &addr->in.sin_addr, text, sizeof(text));
	LOG("%s: family %d length %u address %s, service port %d", what, addr->sa.sa_family,
	    addr->len, text, ntohs(addr->in.sin_port) == app_port());
}

static void family(unsigned int how)
{
	int fd = app_open(how | WARM | NODELAY);
	struct app_addr addr = { .len = sizeof(addr.ss) };

	R(getsockname(fd, &addr.sa, &addr.len));
	say_addr("local", &addr);
	addr.len = sizeof(addr.ss);
	R(getpeername(fd, &addr.sa, &addr.len));
	say_addr("peer", &addr);
	LOG("good %d", app_pingpong(fd, 300, CLI));
	if (CLI)
		R(app_send_pattern(fd, 1 << 20, 30000, 1));
	else
		R(app_recv_pattern(fd, 1 << 20, 30000, 1));
	app_sync();
	app_close(fd);
}

CASE(ipv4, DIRECT, "IPv4, listener on one address")
{
	family(0);
}

CASE(ipv6, DIRECT, "IPv6, listener on one address")
{
	family(V6);
}

CASE(v4_mapped, DIRECT, "IPv4 client, IPv6 listener: v4-mapped addresses")
{
	family(MAPPED);
}

CASE(any_ipv4, DIRECT, "listener on 0.0.0.0")
{
	family(ANYADDR);
}

CASE(any_ipv6, DIRECT, "listener on ::")
{
	family(V6 | ANYADDR);
}

CASE(other_loopback, DIRECT, "both ends on 127.0.0.2")
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int fd;

	addr.sin_addr.s_addr = htonl(0x7f000002);
	if (SRV) {
		int listener = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));

		MUST(bind(listener, (struct sockaddr *)&addr, sizeof(addr)));
		MUST(listen(listener, 8));
		MUST(getsockname(listener, (struct sockaddr *)&addr, &len));
		app_flag_set(0, ntohs(addr.sin_port));
		fd = (int)MUST(accept(listener, NULL, NULL));
	} else {
		addr.sin_port = htons((uint16_t)app_flag_wait(0));
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
		MUST(connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	}
	app_warm(fd);
	app_expect_rings(1);
	LOG("good %d", app_pingpong(fd, 100, CLI));
	app_sync();
	app_close(fd);
}

CASE(accept_address, 0, "accept and accept4 fill in the peer's address; flags")
{
	int listener = SRV ? app_listen(COLD) : -1;
	struct app_addr addr = { .len = sizeof(addr.ss) };

	app_sync();
	for (int i = 0; i < 3; i++) {
		if (CLI) {
			int fd = app_connect(COLD);

			app_sync();
			app_close(fd);
			continue;
		}
		int fd = -1;

		app_await_poll(listener, POLLIN, 5000);
		addr.len = sizeof(addr.ss);
		if (i == 0)
			fd = (int)R(accept(listener, &addr.sa, &addr.len));
		else if (i == 1)
			fd = (int)R(accept4(listener, &addr.sa, &addr.len,
					    SOCK_NONBLOCK | SOCK_CLOEXEC));
		else
			fd = (int)R(accept4(listener, NULL, NULL, 0));
		LOG("length %u family %d, flags %#x %#x", addr.len, addr.sa.sa_family,
		    (unsigned int)fcntl(fd, F_GETFL), (unsigned int)fcntl(fd, F_GETFD));
		app_sync();
		app_close(fd);
	}
	if (SRV) {
		app_set_nonblock(listener, true);
		R(accept(listener, NULL, NULL));
		R(accept4(listener, NULL, NULL, 0x7777));
	}
	app_sync();
}

CASE(accept_inherits, 0, "options of the listener that accepted sockets have")
{
	int one = 1, got = -1;
	socklen_t len = sizeof(got);

	if (SRV) {
		int listener = app_listen(COLD);

		MUST(setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		MUST(setsockopt(listener, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)));
		app_set_nonblock(listener, true);
		app_sync();
		app_await_poll(listener, POLLIN, 5000);
		int fd = app_accept(listener);

		R(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &got, &len));
		LOG("nodelay %d", got);
		R(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &got, &len));
		LOG("keepalive %d", got);
		LOG("nonblock %d", !!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	} else {
		app_sync();
		app_connect(COLD);
	}
	app_sync();
}

CASE(connect_nonblock, DIRECT, "non-blocking connect: EINPROGRESS, poll, SO_ERROR, EISCONN")
{
	int listener = SRV ? app_listen(COLD) : -1;
	int fd, err = -1;
	socklen_t len = sizeof(err);

	app_sync();
	if (SRV) {
		fd = app_accept(listener);
	} else {
		struct app_addr addr;

		app_addr_make(&addr, COLD, false, app_port());
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
		R(connect(fd, &addr.sa, addr.len));
		LOG("OUT %d", !!(app_await_poll(fd, POLLOUT, 5000) & POLLOUT));
		R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
		LOG("error %d", err);
		R(connect(fd, &addr.sa, addr.len));
		R(connect(fd, &addr.sa, addr.len));
		app_set_nonblock(fd, false);
	}
	app_warm(fd);
	app_expect_rings(1);
	LOG("good %d", app_pingpong(fd, 50, CLI));
	app_sync();
}

CASE(connect_epoll, DIRECT, "non-blocking connect waited for with epoll, then used edge triggered")
{
	int listener = SRV ? app_listen(COLD) : -1;
	int fd;

	app_sync();
	if (SRV) {
		fd = app_accept(listener);
	} else {
		struct app_addr addr;
		struct epoll_event ev = { .events = EPOLLOUT | EPOLLIN | EPOLLET };
		int ep = (int)MUST(epoll_create1(0));

		app_addr_make(&addr, COLD, false, app_port());
		fd = (int)MUST(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
		R(connect(fd, &addr.sa, addr.len));
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		R(epoll_wait(ep, &ev, 1, 5000));
		LOG("OUT %d", !!(ev.events & EPOLLOUT));
		app_set_nonblock(fd, false);
	}
	app_warm(fd);
	app_expect_rings(1);
	LOG("good %d", app_pingpong(fd, 50, CLI));
	app_sync();
}

CASE(connect_refused, 0, "connect to a port without listener: ECONNREFUSED, blocking and not")
{
	struct app_addr addr;
	int holder, err = -1;
	socklen_t len = sizeof(err);

	app_addr_make(&addr, COLD, false, app_dead_port(&holder));
	int fd = (int)R(socket(AF_INET, SOCK_STREAM, 0));

	R(connect(fd, &addr.sa, addr.len));
	R(send(fd, "x", 1, MSG_NOSIGNAL));
	R(close(fd));
	fd = (int)R(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
	R(connect(fd, &addr.sa, addr.len));
	LOG("revents %#x", (unsigned int)app_await_poll(fd, POLLOUT, 5000));
	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	LOG("error %s", app_errname(err));
	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	LOG("error %d", err);
	R(close(fd));
	app_sync();
}

CASE(connect_errors, DIRECT, "connect again, to a wrong family, with a short length")
{
	int fd = app_open(WARM);
	struct app_addr addr;

	app_addr_make(&addr, COLD, false, 9);
	R(connect(fd, &addr.sa, addr.len));
	R(connect(fd, &addr.sa, 3));
	R(connect(fd, (struct sockaddr *)8, addr.len));
	addr.sa.sa_family = AF_UNIX;
	int fresh = (int)R(socket(AF_INET, SOCK_STREAM, 0));

	R(connect(fresh, &addr.sa, addr.len));
	R(connect(-1, &addr.sa, addr.len));
	R(bind(fd, &addr.sa, addr.len));
	R(listen(fd, 1));
	LOG("good %d", app_pingpong(fd, 20, CLI));
	app_sync();
}

CASE(connect_unspec, DIRECT,
     "connect with AF_UNSPEC takes the connection apart; the socket can be used again")
{
	int fd = app_open(WARM);
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	int listener = -1;

	if (SRV) {
		R(recv(fd, buf, 1, 0));
		app_close(fd);
		listener = app_listen(COLD);
	} else {
		R(connect(fd, &none, sizeof(none)));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
	}
	app_sync();
	if (SRV) {
		fd = app_accept(listener);
	} else {
		struct app_addr addr;

		app_addr_make(&addr, COLD, false, app_port());
		R(connect(fd, &addr.sa, addr.len));
	}
	app_warm(fd);
	app_expect_rings(1);
	LOG("good %d", app_pingpong(fd, 50, CLI));
	app_sync();
}

CASE(never_connects, 0, "sockets made, set up and thrown away")
{
	int one = 1;

	for (int i = 0; i < 100; i++) {
		int fd = (int)MUST(socket(i % 2 ? AF_INET : AF_INET6, SOCK_STREAM, 0));

		MUST(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
		MUST(shutdown(fd, SHUT_RDWR) && errno == ENOTCONN ? 0 : -1);
		MUST(close(fd));
	}
	R(socket(AF_INET, 77, 0));
	R(socket(1234, SOCK_STREAM, 0));
	R(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
	R(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
	app_sync();
}

CASE(never_used, 0, "connections without a byte")
{
	int fds[20];

	app_open_more(COLD, fds, 20);
	for (int i = 0; i < 20; i++) {
		if (CLI)
			app_close(fds[i]);
		else
			LOG("read %zd", read(fds[i], buf, 1));
	}
	app_sync();
}
