// SPDX-License-Identifier: BSD-2-Clause
/*
 * handback.c - a stream leaves the ring while bytes lie unread in it, and who uses it next sees only the
 * kernel.
 *
 * The peer could be asked to repeat them, but may make no call for a long time. A copy of its socket
 * (pidfd_getfd(2), where ptrace permissions allow it) lets us do it in its place: what we take out of the
 * ring we write into the peer's end, and the kernel delivers it into our own receive queue, behind what is
 * there already. In order only while the peer's sender is on the ring, where it writes nothing to TCP; the
 * ring then has no MOVE or FIN in it.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <rsock/sys.h>

#include "arena.h"
#include "log.h"
#include "stream.h"

#define PATIENCE_NS 200000000

/* The peer's end, a copy of ours to close; -errno. */
static int borrow(struct rsk_stream *s)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int pidfd = rsk_own_fd(rsk_sys_pidfd_open(s->link->peer_pid, 0)), fd;

	if (pidfd < 0)
		return pidfd;
	fd = rsk_own_fd(rsk_sys_pidfd_getfd(pidfd, s->peer_fd));
	rsk_own_close(pidfd);
	if (fd < 0)
		return fd;
	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 &&
	    cookie == s->peer_cookie)
		return fd;
	rsk_own_close(fd);
	return -ESTALE;
}

static bool inject(int fd, const uint8_t *p, size_t len)
{
	struct pollfd f = { .fd = fd, .events = POLLOUT };

	while (len) {
		ssize_t n = rsk_sys_sendto(fd, p, len, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);

		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else if (n != -EAGAIN ||
			   rsk_sys_ppoll(&f, 1, &(struct timespec){ .tv_nsec = PATIENCE_NS },
					 NULL) <= 0) {
			return false;
		}
	}
	return true;
}

bool rsk_handback(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_companion k;
	struct rsk_iovcur cur;
	struct iovec iov;
	uint64_t pending;
	bool done = false;
	int peer;

	rsk_companion_init(&k, s, fd);
	rsk_rx_serve(&s->rx, &k.c);
	rsk_rx_ready(&s->rx); /* takes commands at the head */
	pending = rsk_rx_pending(&s->rx);
	if (s->failed || s->rx.state != RSK_RX_ONRING || s->rx.fin || !pending)
		return true;
	peer = borrow(s);
	if (peer < 0) {
		rsk_log(RSK_LOG_INFO, "fd %d: %llu unread bytes stay with the peer: %d", fd,
			(unsigned long long)pending, peer);
		return false;
	}
	iov.iov_base = rsk_arena_alloc(pending);
	iov.iov_len = pending;
	if (iov.iov_base) {
		rsk_iovcur_init(&cur, &iov, 1);
		/* Exactly what is there: the machine does not come to a command behind it. */
		if (rsk_rx_recv(&s->rx, &k.c, &cur, false, false) == (ssize_t)pending)
			done = inject(peer, iov.iov_base, pending);
		if (!done)
			rsk_stream_fail(s, fd);
		rsk_arena_free(iov.iov_base);
	}
	rsk_own_close(peer);
	return done;
}
