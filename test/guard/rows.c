/*
 * rows.c - the calls that guard_calls counts, with their preparation before and their cleaning up
 * after.
 */
#include "calls.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static void nop(int n)
{
	(void)n;
}

static long call_nothing(void)
{
	__asm__ volatile("");
	return 0;
}

static void before_recv(int n)
{
	far_send(n);
	there(n);
}

static long call_send(void)
{
	return send(t.near, t.buf, BYTES, 0);
}

static long call_recv(void)
{
	return recv(t.near, t.buf, BYTES, 0);
}

static long call_write(void)
{
	return write(t.near, t.buf, BYTES);
}

static long call_read(void)
{
	return read(t.near, t.buf, BYTES);
}

static long call_recv_none(void)
{
	return recv(t.near, t.buf, BYTES, MSG_DONTWAIT);
}

static void before_ready(int n)
{
	(void)n;
	before_recv(1);
}

static void after_ready(int n)
{
	(void)n;
	if (recv(t.near, t.buf, BYTES, 0) != BYTES)
		die("recv");
}

static long call_poll(void)
{
	struct pollfd p = { .fd = t.near, .events = POLLIN };

	return poll(&p, 1, -1);
}

static void before_epoll_none(int n)
{
	struct epoll_event ev = { .events = EPOLLIN };

	(void)n;
	if (!t.watched)
		must(epoll_ctl(t.ep, EPOLL_CTL_ADD, t.near, &ev), "epoll_ctl");
	t.watched = true;
}

static void before_epoll(int n)
{
	before_epoll_none(n);
	before_ready(n);
}

static long call_epoll(void)
{
	struct epoll_event ev[8];

	return epoll_wait(t.ep, ev, 8, -1);
}

static long call_epoll_none(void)
{
	struct epoll_event ev[8];

	return epoll_wait(t.ep, ev, 8, 0);
}

/* A server's calls for one message. */
static long call_turn(void)
{
	return call_epoll() == 1 && call_recv() == BYTES ? call_send() : -1;
}

/* An event loop's calls when it wants to write now, and to read later. */
static long call_out_and_in(void)
{
	struct epoll_event ev = { .events = EPOLLOUT };
	long rc = epoll_ctl(t.ep, EPOLL_CTL_DEL, t.near, NULL);

	rc |= epoll_ctl(t.ep, EPOLL_CTL_ADD, t.near, &ev);
	ev.events = EPOLLIN;
	return rc | epoll_ctl(t.ep, EPOLL_CTL_MOD, t.near, &ev);
}

static void near_recv(int n)
{
	for (int i = 0; i < n; i++)
		if (call_recv() != BYTES)
			die("recv");
}

static void watch_near(int n)
{
	struct epoll_event ev = { .events = EPOLLIN | (t.edge ? EPOLLET : 0) };

	(void)n;
	must(epoll_ctl(t.ep, t.edge ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, t.near, &ev), "epoll_ctl");
}

static long call_epoll_many(void)
{
	struct epoll_event ev[MANY + 1];

	return epoll_wait(t.ep, ev, MANY + 1, -1);
}

static void before_many(int n)
{
	(void)n;
	if (!t.watched)
		with_each(watch_near);
	t.watched = true;
	with_each(before_recv);
}

static void after_many(int n)
{
	(void)n;
	with_each(near_recv);
}

static void before_many_edge(int n)
{
	if (!t.edge) {
		t.edge = true;
		with_each(watch_near);
	}
	before_many(n);
}

/* A busy server: all connections have a message, and get an answer. */
static long call_turn_many(void)
{
	struct epoll_event ev[MANY];
	int n = epoll_wait(t.ep, ev, MANY, -1);

	for (int i = 0; i < n; i++) {
		t.near = t.fd[i];
		if (call_recv() != BYTES || call_send() != BYTES)
			return -1;
	}
	return n;
}

static void after_turn_many(int n)
{
	(void)n;
	with_each(far_recv);
}

static long call_sendto(void)
{
	return sendto(t.near, t.buf, BYTES, 0, (struct sockaddr *)&t.udp, sizeof(t.udp));
}

static long call_recvfrom(void)
{
	return recvfrom(t.near, t.buf, BYTES, 0, NULL, NULL);
}

static void udp_recv(int n)
{
	for (int i = 0; i < n; i++)
		if (recv(t.far, t.buf, BYTES, 0) != BYTES)
			die("datagram");
}

static void udp_send(int n)
{
	struct sockaddr_in to;
	socklen_t len = sizeof(to);

	must(getsockname(t.near, (struct sockaddr *)&to, &len), "getsockname");
	for (int i = 0; i < n; i++)
		if (sendto(t.far, t.buf, BYTES, 0, (struct sockaddr *)&to, len) != BYTES)
			die("datagram");
}

static void rewind_near(int n)
{
	(void)n;
	must((int)lseek(t.near, 0, SEEK_SET), "lseek");
}

static void make_sockets(int n)
{
	for (int i = 0; i < n; i++)
		t.fd[i] = must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	t.i = 0;
}

static void make_clients(int n)
{
	for (int i = 0; i < n; i++)
		t.fd[i] = plain_connect();
	t.i = 0;
}

static void make_connections(int n)
{
	make_clients(n);
	for (int i = 0; i < n; i++)
		t.other[i] = must(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), "accept");
}

static void make_watched(int n)
{
	struct epoll_event ev = { .events = EPOLLIN };

	make_connections(n);
	for (int i = 0; i < n; i++)
		must(epoll_ctl(t.ep, EPOLL_CTL_ADD, t.fd[i], &ev), "epoll_ctl");
}

static void no_sockets(int n)
{
	(void)n;
	t.i = 0;
}

static void drop_sockets(int n)
{
	for (int i = 0; i < n; i++)
		must(close(t.fd[i]), "close");
}

static long call_socket(void)
{
	t.fd[t.i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return t.fd[t.i++] < 0 ? -1 : 0;
}

static long call_watch(void)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(t.ep, EPOLL_CTL_ADD, t.fd[t.i++], &ev);
}

static long call_unwatch(void)
{
	return epoll_ctl(t.ep, EPOLL_CTL_DEL, t.fd[t.i++], NULL);
}

static long call_nodelay(void)
{
	int one = 1;

	return setsockopt(t.fd[t.i++], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static long call_connect(void)
{
	return connect(t.fd[t.i++], (struct sockaddr *)&t.address, sizeof(t.address));
}

static long call_accept(void)
{
	t.other[t.i] = accept4(t.listener, NULL, NULL, SOCK_CLOEXEC);
	return t.other[t.i++] < 0 ? -1 : 0;
}

static long call_close(void)
{
	return close(t.fd[t.i++]);
}

/* By a reset, which leaves nothing in TIME_WAIT. */
static void drop_others(int n)
{
	struct linger now = { .l_onoff = 1 };

	for (int i = 0; i < n; i++) {
		must(setsockopt(t.other[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), "linger");
		must(close(t.other[i]), "close");
	}
}

static void drop_connections(int n)
{
	drop_others(n);
	for (int i = 0; i < n; i++)
		must(close(t.fd[i]), "close");
}

static void drop_unaccepted(int n)
{
	for (int i = 0; i < n; i++)
		t.other[i] = must(accept4(t.listener, NULL, NULL, SOCK_CLOEXEC), "accept");
	drop_connections(n);
}

/* If a row registers with epoll, the rows behind it find it registered. */
const struct row tcp_rows[] = {
	{ "nothing", nop, call_nothing, nop, 0, BURST, 64 },
	{ "send", nop, call_send, far_recv, BYTES, BURST, 64 },
	{ "write", nop, call_write, far_recv, BYTES, BURST, 64 },
	{ "recv", before_recv, call_recv, nop, BYTES, BURST, 64 },
	{ "read", before_recv, call_read, nop, BYTES, BURST, 64 },
	{ "recv, nothing there", nop, call_recv_none, nop, -1, BURST, 64 },
	{ "poll", before_ready, call_poll, after_ready, 1, BURST, 64 },
	{ "epoll_wait", before_epoll, call_epoll, after_ready, 1, BURST, 64 },
	{ "epoll_wait, nothing there", before_epoll_none, call_epoll_none, nop, 0, BURST, 64 },
	{ "epoll_wait, recv, send", before_epoll, call_turn, far_recv, BYTES, 1, 1024 },
	{ "epoll_ctl, del, add, mod", before_epoll_none, call_out_and_in, nop, 0, BURST, 64 },
	{ 0 },
};

/* Each call serves all of the connections. */
const struct row many_rows[] = {
	{ "nothing", nop, call_nothing, nop, 0, BURST, 64 },
	{ "epoll_wait, 50 ready", before_many, call_epoll_many, after_many, MANY, 1, 64 },
	{ "epoll_wait, 50 recv, send", before_many, call_turn_many, after_turn_many, MANY, 1, 64 },
	{ "edge, 50 ready", before_many_edge, call_epoll_many, after_many, MANY, 1, 64 },
	{ "edge, 50 recv, send", before_many_edge, call_turn_many, after_turn_many, MANY, 1, 64 },
	{ 0 },
};

const struct row nothing_rows[] = {
	{ "nothing", nop, call_nothing, nop, 0, BURST, 64 },
	{ 0 },
};

const struct row udp_rows[] = {
	{ "UDP sendto", nop, call_sendto, udp_recv, BYTES, BURST, 64 },
	{ "UDP recvfrom", udp_send, call_recvfrom, nop, BYTES, BURST, 64 },
	{ 0 },
};

const struct row unix_rows[] = {
	{ "Unix write", nop, call_write, far_recv, BYTES, BURST, 64 },
	{ "Unix read", before_recv, call_read, nop, BYTES, BURST, 64 },
	{ "Unix poll", before_ready, call_poll, after_ready, 1, BURST, 64 },
	{ "Unix epoll_wait", before_epoll, call_epoll, after_ready, 1, BURST, 64 },
	{ 0 },
};

const struct row file_rows[] = {
	{ "file write", rewind_near, call_write, nop, BYTES, BURST, 64 },
	{ "file read", rewind_near, call_read, nop, BYTES, BURST, 64 },
	{ 0 },
};

const struct row connection_rows[] = {
	{ "socket", no_sockets, call_socket, drop_sockets, 0, BURST, 8 },
	{ "connect", make_sockets, call_connect, drop_unaccepted, 0, BURST, 8 },
	{ "accept", make_clients, call_accept, drop_connections, 0, BURST, 8 },
	{ "setsockopt, new", make_connections, call_nodelay, drop_connections, 0, BURST, 8 },
	{ "epoll_ctl, add", make_connections, call_watch, drop_connections, 0, BURST, 8 },
	{ "epoll_ctl, del", make_watched, call_unwatch, drop_connections, 0, BURST, 8 },
	{ "close", make_connections, call_close, drop_others, 0, BURST, 8 },
	{ "close, watched", make_watched, call_close, drop_others, 0, BURST, 8 },
	{ 0 },
};
