// SPDX-License-Identifier: BSD-2-Clause
/*
 * return_unread.c - return of unread bytes: a stream leaves the ring while bytes lie unread in it,
 * and the next user of the socket sees only the kernel. See return_unread.h.
 *
 * The peer could be asked to repeat them, but may make no call for a long time. A copy of its
 * socket (pidfd_getfd(2), where ptrace permissions allow it) lets us do it in its place: what we
 * take out of the ring we write into the peer's end, and the kernel delivers it into our own
 * receive queue, behind what is there already. The order is right only if we have ended the
 * promotion first (rsk_rx_end_it()): the peer writes nothing by TCP until it has our FALLBACK_RX,
 * the ring has no FALLBACK_TX or FIN in it, and the count of bytes written to the peer's socket is
 * unchanged. Bytes that find no room stay in the ring; the peer repeats them after FALLBACK_RX.
 */
#include "return_unread.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <rsock/sys.h>

#include "arena.h"
#include "filter_trial.h"
#include "log.h"
#include "rx_parts.h"
#include "stream.h"

#define BLOCK_BYTES 65536

int rsk_return_unread_borrow(struct rsk_stream *s)
{
	uint64_t cookie = 0;
	socklen_t len = sizeof(cookie);
	int pidfd, fd;

	if (s->apart || !rsk_filter_borrows())
		return -EPERM;
	pidfd = rsk_own_fd(
		rsk_sys_pidfd_open(s->link->hollow ? s->peer.pid : s->link->peer_pid, 0));
	if (pidfd < 0)
		return pidfd;
	fd = rsk_own_fd(rsk_sys_pidfd_getfd(pidfd, s->peer.fd));
	rsk_own_close(pidfd);
	if (fd < 0)
		return fd;
	if (rsk_sys_getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &len) == 0 &&
	    cookie == s->peer.cookie)
		return fd;
	rsk_own_close(fd);
	return -ESTALE;
}

/*
 * True if @written bytes were ever written to the peer's TCP socket: as long as its sender is on
 * the ring, the count does not change.
 */
static bool rests(struct rsk_stream *s, int peer, uint64_t written)
{
	uint64_t now;

	return rsk_kernel_written(peer, !s->connecting_side, &now) == 0 && now == written;
}

/* Takes all that @cur asks for out of the ring, where it lies. */
static ssize_t take(struct rsk_rx *rx, struct rsk_iovcur *cur)
{
	ssize_t total = 0, n;

	while (cur->left && (n = rsk_rx_recv_ring(rx, cur)) > 0)
		total += n;
	return total;
}

/*
 * Writes as much as there is room for, and adds it to *injected. False: the peer wrote in between,
 * and the order cannot be known.
 */
static bool inject(struct rsk_stream *s, int peer, uint8_t *block, uint64_t *injected)
{
	struct iovec iov = { block, BLOCK_BYTES };
	struct rsk_iovcur cur;
	uint64_t written = s->rx.pos - s->rx.ring_bytes;
	bool command;
	ssize_t n, went;

	while (s->rx.state == RSK_RX_ONRING && !s->rx.fin && rsk_rx_pending(&s->rx, NULL) &&
	       !rsk_rx_moved_on(&s->rx) && rests(s, peer, written)) {
		/* Only what is in the ring, before any command. */
		rsk_iovcur_init(&cur, &iov, 1);
		n = rsk_rx_peek_ring(&s->rx, &cur, &command);
		if (n <= 0)
			break;
		went = rsk_sys_sendto(peer, block, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
		if (went <= 0)
			break;
		iov.iov_len = (size_t)went;
		rsk_iovcur_init(&cur, &iov, 1);
		n = take(&s->rx, &cur);
		written += (uint64_t)went;
		*injected += (uint64_t)went;
		if (n != went || !rests(s, peer, written))
			return false;
		iov.iov_len = BLOCK_BYTES;
	}
	return true;
}

uint64_t rsk_return_unread(struct rsk_stream *s, int fd)
{
	struct rsk_kernel_tcp k;
	uint64_t injected = 0;
	uint8_t *block;
	int peer;

	rsk_kernel_tcp_init(&k, s, fd);
	rsk_rx_serve(&s->rx, &k.c);
	if (rsk_stream_failed(s) || s->rx.state != RSK_RX_ONRING || s->rx.fin ||
	    !rsk_rx_pending(&s->rx, NULL) || rsk_rx_moved_on(&s->rx))
		return 0;
	peer = rsk_return_unread_borrow(s);
	if (peer < 0) {
		rsk_log(RSK_LOG_INFO, "fd %d: unread bytes stay with the peer: %d", fd, peer);
		return 0;
	}
	block = rsk_arena_alloc_raw(BLOCK_BYTES);
	if (block && !inject(s, peer, block, &injected))
		rsk_stream_fail(s, fd);
	rsk_arena_free(block);
	rsk_own_close(peer);
	return injected;
}
