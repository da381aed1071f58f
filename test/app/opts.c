/* SPDX-License-Identifier: BSD-2-Clause */
/* opts.c - tests socket options and names. */
#include "app.h"

#include <arpa/inet.h>

static char buf[1 << 20];

CASE(rcvlowat, DIRECT, "SO_RCVLOWAT: recv and poll wait for so many bytes")
{
	int fd = app_open(WARM | NODELAY);
	int low = 10, got = 0;
	socklen_t len = sizeof(got);
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	if (SRV) {
		R(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		R(getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &got, &len));
		LOG("lowat %d", got);
	}
	app_sync();
	if (CLI)
		SAY(fd, "12345");
	else
		app_await_inq(fd, 5);
	app_sync();
	if (SRV) {
		R(poll(&pfd, 1, 30));
		RB(buf, recv(fd, buf, 100, MSG_DONTWAIT));
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 100, 0));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "abcde");
		app_await_outq_empty(fd);
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "fghijkl");
	}
	app_sync();
	if (SRV) {
		app_flag_set(1, (uint64_t)gettid());
		R(poll(&pfd, 1, 5000));
		LOG("revents %#x", (unsigned int)pfd.revents);
		app_hear(fd, 12);
	} else {
		app_await_asleep((pid_t)app_flag_wait(1));
		SAY(fd, "123456");
		app_await_outq_empty(fd);
		app_await_asleep((pid_t)app_flag_wait(1));
		SAY(fd, "789abc");
	}
	app_sync();
	app_close(fd);
}

CASE(rcvlowat_eof, DIRECT, "SO_RCVLOWAT: the end of the stream ends the wait")
{
	int fd = app_open(WARM);
	int low = 1000;

	if (SRV) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low)));
		app_flag_set(0, (uint64_t)gettid());
		RB(buf, recv(fd, buf, 2000, 0));
		R(recv(fd, buf, 2000, 0));
	} else {
		app_await_asleep((pid_t)app_flag_wait(0));
		SAY(fd, "few");
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

CASE(linger_reset, DIRECT, "SO_LINGER with 0 s: close resets; what was queued can still be read")
{
	int fd = app_open(WARM);
	struct linger lg = { 1, 0 }, got;
	socklen_t len = sizeof(got);

	if (CLI) {
		R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		R(getsockopt(fd, SOL_SOCKET, SO_LINGER, &got, &len));
		LOG("linger %d %d", got.l_onoff, got.l_linger);
		SAY(fd, "queued");
		app_sync();
		app_close(fd);
	} else {
		app_await_inq(fd, 6);
		app_sync();
		LOG("HUP %d", !!(app_await_poll(fd, POLLHUP, 5000) & POLLHUP));
		RB(buf, recv(fd, buf, 100, 0));
		R(recv(fd, buf, 100, 0));
		R(recv(fd, buf, 100, 0));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		app_close(fd);
	}
	app_sync();
}

CASE(linger_wait, DIRECT, "SO_LINGER with time: close returns when all was delivered")
{
	int fd = app_open(WARM);
	struct linger lg = { 1, 10 };

	if (CLI) {
		R(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		R(app_send_pattern(fd, 500000, 100000, 4));
		R(close(fd));
	} else {
		R(app_recv_pattern(fd, 500000, 10000, 4));
		R(read(fd, buf, 1));
		app_close(fd);
	}
	app_sync();
}

CASE(so_error, DIRECT, "SO_ERROR gives an error once, then the call does not")
{
	int fd = app_open(WARM);
	int err = -1;
	socklen_t len = sizeof(err);

	R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	LOG("error %s", err ? app_errname(err) : "0");
	if (CLI) {
		struct linger lg = { 1, 0 };

		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		app_sync();
		app_close(fd);
	} else {
		app_sync();
		app_await_poll(fd, POLLHUP, 5000);
		for (int i = 0; i < 2; i++) {
			R(getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
			LOG("error %s", err ? app_errname(err) : "0");
		}
		R(recv(fd, buf, 1, 0));
		R(send(fd, "x", 1, MSG_NOSIGNAL));
		app_close(fd);
	}
	app_sync();
}

CASE(tcp_info, DIRECT, "TCP_INFO: states, and byte counts that are no nonsense")
{
	int fd = app_open(WARM);
	struct tcp_info info;
	socklen_t len = sizeof(info);

	R(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	LOG("state %u", info.tcpi_state);
	LOG("mss %d rtt %d", info.tcpi_snd_mss > 0, info.tcpi_rtt > 0);
	app_sync();
	if (CLI) {
		R(shutdown(fd, SHUT_WR));
		app_sync();
	} else {
		R(read(fd, buf, 1));
		len = sizeof(info);
		R(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
		LOG("state %u", info.tcpi_state);
		app_sync();
	}
	len = 4;
	R(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	LOG("length %u", len);
	app_sync();
	app_close(fd);
}

CASE(nodelay, DIRECT, "TCP_NODELAY set and read")
{
	int fd = app_open(WARM);
	int on = 1, got = -1;
	socklen_t len = sizeof(got);

	R(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &got, &len));
	LOG("nodelay %d", got);
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)));
	R(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &got, &len));
	LOG("nodelay %d", got);
	app_sync();
	app_close(fd);
}

static uint64_t packed(const struct app_addr *addr)
{
	return (uint64_t)ntohl(addr->in.sin_addr.s_addr) << 16 | ntohs(addr->in.sin_port);
}

CASE(names, DIRECT, "getsockname and getpeername mirror each other")
{
	int fd = app_open(WARM);
	struct app_addr local = { .len = sizeof(local.ss) }, peer = { .len = sizeof(peer.ss) };

	R(getsockname(fd, &local.sa, &local.len));
	R(getpeername(fd, &peer.sa, &peer.len));
	LOG("lengths %u %u families %d %d", local.len, peer.len, local.sa.sa_family,
	    peer.sa.sa_family);
	app_flag_set(app_side * 2, packed(&local));
	app_flag_set(app_side * 2 + 1, packed(&peer));
	LOG("mirror %d %d", app_flag_wait(!app_side * 2) == packed(&peer),
	    app_flag_wait(!app_side * 2 + 1) == packed(&local));
	LOG("server port %d", ntohs((SRV ? local : peer).in.sin_port) == app_port());
	local.len = 4;
	R(getsockname(fd, &local.sa, &local.len));
	LOG("full length %u", local.len);
	R(getsockname(fd, (struct sockaddr *)8, &local.len));
	local.len = (socklen_t)-1;
	R(getpeername(fd, &local.sa, &local.len));
	app_sync();
	app_close(fd);
}

CASE(names_after_close, DIRECT, "getpeername when the peer has gone or reset")
{
	int fd = app_open(WARM);
	struct app_addr addr = { .len = sizeof(addr.ss) };
	struct linger lg = { 1, 0 };

	if (CLI) {
		MUST(setsockopt(fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
		app_close(fd);
	} else {
		app_await_poll(fd, POLLHUP, 5000);
		R(getpeername(fd, &addr.sa, &addr.len));
		R(getsockname(fd, &addr.sa, &addr.len));
		R(shutdown(fd, SHUT_WR));
		app_close(fd);
	}
	app_sync();
}

static void show_int(int fd, int level, int opt, const char *name)
{
	int value = -1;
	socklen_t len = sizeof(value);
	int ret = getsockopt(fd, level, opt, &value, &len);

	LOG("%s: %d, value %d, length %u", name, ret, value, len);
}

CASE(options, DIRECT, "what SO_TYPE, SO_DOMAIN and others say of the socket")
{
	int fd = app_open(WARM);
	int on = 1;

	show_int(fd, SOL_SOCKET, SO_TYPE, "SO_TYPE");
	show_int(fd, SOL_SOCKET, SO_DOMAIN, "SO_DOMAIN");
	show_int(fd, SOL_SOCKET, SO_PROTOCOL, "SO_PROTOCOL");
	show_int(fd, SOL_SOCKET, SO_ACCEPTCONN, "SO_ACCEPTCONN");
	show_int(fd, SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE");
	R(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	show_int(fd, SOL_SOCKET, SO_KEEPALIVE, "SO_KEEPALIVE");
	show_int(fd, SOL_SOCKET, SO_RCVLOWAT, "SO_RCVLOWAT");
	show_int(fd, SOL_SOCKET, SO_OOBINLINE, "SO_OOBINLINE");
	show_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT");
	show_int(fd, IPPROTO_TCP, TCP_CORK, "TCP_CORK");
	app_sync();
	app_close(fd);
}

CASE(option_errors, DIRECT, "unknown options, short and bad buffers")
{
	int fd = app_open(WARM);
	int value = 1;
	socklen_t len = sizeof(value);

	R(setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof(value)));
	R(getsockopt(fd, SOL_SOCKET, 9999, &value, &len));
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 1));
	R(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)8, sizeof(value)));
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, (void *)8, &len));
	R(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, (socklen_t *)8));
	R(setsockopt(fd, 77, 1, &value, sizeof(value)));
	R(ioctl(fd, 0x5499, &value));
	R(ioctl(fd, FIONREAD, (void *)8));
	app_sync();
	app_close(fd);
}

CASE(small_buffers, DIRECT, "small SO_SNDBUF and SO_RCVBUF: slow, complete")
{
	int fd = app_open(WARM);
	int size = 8192;

	R(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
	R(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
	show_int(fd, SOL_SOCKET, SO_SNDBUF, "SO_SNDBUF");
	show_int(fd, SOL_SOCKET, SO_RCVBUF, "SO_RCVBUF");
	app_sync();
	if (CLI)
		R(app_send_pattern(fd, 300000, 20000, 2));
	else
		R(app_recv_pattern(fd, 300000, 20000, 2));
	app_sync();
	app_close(fd);
}

CASE(ulp_tls, DIRECT, "asking for kernel TLS, wherever that leads, loses nothing")
{
	int fd = app_open(WARM);

	LOG("TCP_ULP done or refused %d",
	    setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", sizeof("tls")) <= 0);
	R(setsockopt(fd, IPPROTO_TCP, TCP_ULP, "nonesuch", sizeof("nonesuch")));
	app_sync();
	if (CLI)
		SAY(fd, "plain text");
	else
		app_hear(fd, 10);
	app_sync();
	app_close(fd);
}

CASE(busy_options, DIRECT, "options set in mid-stream leave the bytes alone")
{
	int fd = app_open(WARM);
	int on = 1, idle = 60, tos = 0x10;

	for (int i = 0; i < 4; i++) {
		if (CLI)
			R(app_send_pattern(fd, 10000, 999, (unsigned int)i));
		else
			R(app_recv_pattern(fd, 10000, 1234, (unsigned int)i));
		if (i == 0)
			R(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on)));
		else if (i == 1)
			R(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)));
		else if (i == 2)
			R(setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)));
	}
	app_sync();
	app_close(fd);
}
