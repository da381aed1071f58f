// SPDX-License-Identifier: BSD-2-Clause
/*
 * relay_pair.c - makes a connection on this host that looks to a program like its own, as far as
 * the kernel allows. See relay.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>

#include <rsock/sys.h>

#include "relay.h"

#define ACCEPT_TRIES 16
#define CONNECT_MS 1000

/* Options on which a program may rely, and which accept() or socket() does not give. */
static void copy_options(int from, int to)
{
	static const struct {
		int level, name;
	} option[] = {
		{ SOL_SOCKET, SO_LINGER },    { SOL_SOCKET, SO_RCVTIMEO },
		{ SOL_SOCKET, SO_SNDTIMEO },  { SOL_SOCKET, SO_RCVLOWAT },
		{ SOL_SOCKET, SO_KEEPALIVE }, { SOL_SOCKET, SO_OOBINLINE },
		{ IPPROTO_TCP, TCP_NODELAY },
	};
	union {
		int on;
		struct linger linger;
		struct timeval time;
	} value;
	int flags = rsk_sys_fcntl(from, F_GETFL, 0);

	for (size_t i = 0; i < sizeof(option) / sizeof(option[0]); i++) {
		socklen_t len = sizeof(value);

		if (rsk_sys_getsockopt(from, option[i].level, option[i].name, &value, &len) == 0)
			rsk_sys_setsockopt(to, option[i].level, option[i].name, &value, len);
	}
	rsk_sys_fcntl(to, F_SETFL, flags < 0 ? 0 : flags & O_NONBLOCK);
}

static void no_port(struct sockaddr_storage *sa)
{
	if (sa->ss_family == AF_INET6)
		((struct sockaddr_in6 *)(void *)sa)->sin6_port = 0;
	else
		((struct sockaddr_in *)(void *)sa)->sin_port = 0;
}

static int tcp_socket(const struct sockaddr_storage *at, socklen_t len, int flags)
{
	int fd = rsk_sys_socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0), off = 0, rc;

	if (fd < 0)
		return fd;
	if (at->ss_family == AF_INET6)
		rsk_sys_setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	rc = rsk_sys_bind(fd, at, len);
	if (rc == 0)
		return fd;
	rsk_sys_close(fd);
	return rc;
}

/* Accepts our own connection: for that moment the port is open to any process. */
static int accept_own(int listener, const struct sockaddr_storage *own, socklen_t own_len)
{
	for (int i = 0; i < ACCEPT_TRIES; i++) {
		struct pollfd p = { .fd = listener, .events = POLLIN };
		struct timespec wait = { .tv_sec = CONNECT_MS / 1000 };
		struct sockaddr_storage sa = { 0 };
		socklen_t len = sizeof(sa);
		int fd;

		if (rsk_sys_ppoll(&p, 1, &wait, NULL) <= 0)
			return -EAGAIN;
		fd = rsk_sys_accept4(listener, &sa, &len, SOCK_CLOEXEC);
		if (fd >= 0 && len == own_len && !memcmp(&sa, own, len))
			return fd;
		if (fd >= 0)
			rsk_sys_close(fd);
	}
	return -EAGAIN;
}

static int connect_own(int listener, const struct sockaddr_storage *local, socklen_t len,
		       int fds[static 2])
{
	struct sockaddr_storage at = { 0 }, own = { 0 };
	socklen_t at_len = sizeof(at), own_len = sizeof(own);
	int rc;

	fds[0] = tcp_socket(local, len, SOCK_NONBLOCK);
	if (fds[0] < 0)
		return fds[0];
	rc = rsk_sys_getsockname(listener, &at, &at_len);
	if (rc == 0)
		rc = rsk_sys_connect(fds[0], &at, at_len);
	if (rc == 0 || rc == -EINPROGRESS)
		rc = rsk_sys_getsockname(fds[0], &own, &own_len);
	if (rc == 0)
		rc = fds[1] = accept_own(listener, &own, own_len);
	if (rc >= 0)
		return 0;
	rsk_sys_close(fds[0]);
	return rc;
}

/* The same addresses where they are this host's; the ports differ. */
static int tcp_pair(int tcp, int fds[static 2])
{
	struct sockaddr_storage local = { 0 }, peer = { 0 };
	socklen_t local_len = sizeof(local), peer_len = sizeof(peer);
	int listener, rc = rsk_sys_getsockname(tcp, &local, &local_len);

	if (rc < 0)
		return rc;
	no_port(&local);
	if (rsk_sys_getpeername(tcp, &peer, &peer_len) < 0 || peer.ss_family != local.ss_family) {
		peer = local;
		peer_len = local_len;
	}
	no_port(&peer);
	listener = tcp_socket(&peer, peer_len, SOCK_NONBLOCK);
	if (listener < 0)
		listener = tcp_socket(&local, local_len, SOCK_NONBLOCK);
	if (listener < 0)
		return listener;
	rc = rsk_sys_listen(listener, ACCEPT_TRIES);
	if (rc == 0)
		rc = connect_own(listener, &local, local_len, fds);
	rsk_sys_close(listener);
	return rc;
}

int rsk_relay_pair(int tcp, int fds[static 2])
{
	int on = 1, rc = tcp_pair(tcp, fds);

	if (rc < 0) /* no address of ours is up, or a seccomp filter forbids it */
		rc = rsk_sys_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
	if (rc < 0)
		return rc;
	copy_options(tcp, fds[0]);
	rsk_sys_setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return 0;
}
