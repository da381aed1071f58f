// SPDX-License-Identifier: BSD-2-Clause
/* echo.c - see echo.h. */
#include "echo.h"

#include "rsock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rsock/clock.h>

#define MESSAGE_BYTES 64
#define CLIENTS 64
#define BUFFER_BYTES 65536

/* --- the client -------------------------------------------------------------------------- */

/* Milliseconds left, for poll(2); not below 0. */
static int left_ms(uint64_t deadline_ns)
{
	uint64_t now = rsk_monotonic_ns();

	return now < deadline_ns ? (int)((deadline_ns - now) / 1000000 + 1) : 0;
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n;

	do {
		n = poll(&p, 1, left_ms(deadline_ns));
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n ? 0 : -ETIMEDOUT;
}

static int connect_one(const struct addrinfo *ai, uint64_t deadline_ns)
{
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1, err = 0;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -errno;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, ai->ai_addr, ai->ai_addrlen)) {
		err = -errno;
		if (err == -EINPROGRESS) {
			err = wait_for(fd, POLLOUT, deadline_ns);
			if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0)
				err = -err;
		}
	}
	if (!err)
		return fd;
	close(fd);
	return err;
}

int echo_connect(const char *host, const char *port, uint64_t timeout_ns)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list;
	uint64_t deadline_ns = rsk_monotonic_ns() + timeout_ns;
	int fd = -EHOSTUNREACH;

	if (getaddrinfo(host, port, &hints, &list))
		return -EHOSTUNREACH;
	for (struct addrinfo *ai = list; ai && fd < 0; ai = ai->ai_next)
		fd = connect_one(ai, deadline_ns);
	freeaddrinfo(list);
	return fd;
}

int echo_round(int fd, uint32_t number, uint64_t timeout_ns)
{
	uint64_t deadline_ns = rsk_monotonic_ns() + timeout_ns;
	char out[MESSAGE_BYTES] = "rsock check", in[MESSAGE_BYTES];
	size_t sent = 0, got = 0;
	ssize_t n;
	int err;

	memcpy(out + 16, &number, sizeof(number));
	while (got < sizeof(in)) {
		if (sent < sizeof(out)) {
			n = send(fd, out + sent, sizeof(out) - sent, MSG_NOSIGNAL);
			if (n < 0 && errno != EAGAIN && errno != EINTR)
				return -errno;
			sent += n > 0 ? (size_t)n : 0;
		}
		n = recv(fd, in + got, sizeof(in) - got, 0);
		if (n == 0)
			return -ECONNRESET;
		if (n > 0) {
			got += (size_t)n;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		err = wait_for(fd, sent < sizeof(out) ? POLLIN | POLLOUT : POLLIN, deadline_ns);
		if (err)
			return err;
	}
	return memcmp(in, out, sizeof(in)) == 0 ? 0 : -EBADMSG;
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int echo_measure(int fd, uint64_t timeout_ns, uint64_t *p50_ns, uint64_t *p99_ns)
{
	static uint64_t took_ns[ECHO_ROUNDS];

	for (uint32_t i = 0; i < ECHO_ROUNDS; i++) {
		uint64_t from = rsk_monotonic_ns();
		int err = echo_round(fd, i, timeout_ns);

		if (err)
			return err;
		took_ns[i] = rsk_monotonic_ns() - from;
	}
	qsort(took_ns, ECHO_ROUNDS, sizeof(took_ns[0]), compare_ns);
	*p50_ns = took_ns[ECHO_ROUNDS / 2];
	*p99_ns = took_ns[ECHO_ROUNDS - ECHO_ROUNDS / 100];
	return 0;
}

/* --- the server -------------------------------------------------------------------------- */

static int listen_one(const struct addrinfo *ai, uint16_t port)
{
	struct sockaddr_in6 name; /* the port has the same offset in both families */
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;

	if (fd < 0)
		return -errno;
	memset(&name, 0, sizeof(name));
	memcpy(&name, ai->ai_addr, ai->ai_addrlen < sizeof(name) ? ai->ai_addrlen : sizeof(name));
	if (port)
		name.sin6_port = htons(port);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (ai->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)&name, ai->ai_addrlen) || listen(fd, CLIENTS)) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

int echo_listen(const char *host, const char *port, int fds[static 4])
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list;
	struct sockaddr_in6 name = { 0 };
	socklen_t len = sizeof(name);
	int n = 0, first = -1, fd = -EADDRNOTAVAIL;

	/* Without a name the resolver returns the loopback addresses. */
	if (getaddrinfo(host, port, &hints, &list))
		return -EHOSTUNREACH;
	for (struct addrinfo *ai = list; ai && n < 4; ai = ai->ai_next) {
		/* With port 0, the other sockets get the port of the first one. */
		uint16_t same = 0;

		if (first >= 0 && getsockname(first, (struct sockaddr *)&name, &len) == 0)
			same = ntohs(name.sin6_port);
		fd = listen_one(ai, same);
		if (fd == -EADDRINUSE)
			break;
		if (fd < 0)
			continue;
		fds[n++] = fd;
		first = first < 0 ? fd : first;
	}
	freeaddrinfo(list);
	if (fd == -EADDRINUSE) {
		while (n)
			close(fds[--n]);
		return fd;
	}
	return n ? n : fd;
}

struct client {
	char *buf; /* owned */
	/* The bytes in buf that are to be sent. */
	size_t from;
	size_t to;
};

/* Receives and sends once for a client. False: the connection has ended. */
static bool client_step(int fd, struct client *c)
{
	ssize_t n;

	if (c->from == c->to) {
		n = recv(fd, c->buf, BUFFER_BYTES, 0);
		if (n <= 0)
			return n < 0 && (errno == EAGAIN || errno == EINTR);
		c->from = 0;
		c->to = (size_t)n;
	}
	n = send(fd, c->buf + c->from, c->to - c->from, MSG_NOSIGNAL);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	c->from += (size_t)n;
	return true;
}

static void client_add(struct pollfd *p, struct client *c, int *n, int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;

	if (fd < 0)
		return;
	c[*n] = (struct client){ .buf = malloc(BUFFER_BYTES) };
	if (!c[*n].buf) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	p[(*n)++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* Serves all clients and removes those that have ended. False: one has. */
static bool clients_step(struct pollfd *p, struct client *c, int listeners, int *n)
{
	int before = *n;

	for (int i = *n - 1; i >= listeners; i--) {
		if (p[i].revents && !client_step(p[i].fd, &c[i])) {
			close(p[i].fd);
			free(c[i].buf);
			p[i] = p[--*n];
			c[i] = c[*n];
			continue;
		}
		p[i].events = c[i].from < c[i].to ? POLLOUT : POLLIN;
	}
	return *n == before;
}

int echo_serve(const int *listeners, int count, bool once)
{
	struct pollfd p[4 + CLIENTS];
	struct client c[4 + CLIENTS];
	int n = count, err = 0;

	memset(c, 0, sizeof(c));
	for (int i = 0; i < count; i++)
		p[i] = (struct pollfd){ .fd = listeners[i], .events = POLLIN };
	for (;;) {
		if (poll(p, (nfds_t)n, -1) < 0) {
			if (errno == EINTR)
				continue;
			err = -errno;
			break;
		}
		if (!clients_step(p, c, count, &n) && once)
			break;
		for (int i = 0; i < count; i++) {
			if ((p[i].revents & POLLIN) && n < 4 + CLIENTS)
				client_add(p, c, &n, p[i].fd);
			/* While all places are taken, new clients wait in the backlog. */
			p[i].events = n < 4 + CLIENTS ? POLLIN : 0;
		}
	}
	while (n > count) {
		close(p[--n].fd);
		free(c[n].buf);
	}
	return err;
}
