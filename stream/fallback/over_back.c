// SPDX-License-Identifier: BSD-2-Clause
/*
 * over_back.c - puts the bytes of the overread file back into the kernel's receive queue;
 * fallback.c calls it. See over.h.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "arena.h"
#include "return_unread.h"
#include "over.h"

#define LOOKS 20
#define LOOK_NS 1000000

/* True if all that the peer has written by TCP is in our queue. *@written: the number of bytes. */
static bool has_come(const struct rsk_stream *s, int fd, int peer, uint64_t *written)
{
	uint64_t received;

	for (int i = 0; i < LOOKS; i++) {
		if (rsk_kernel_written(peer, !s->connecting_side, written) < 0 ||
		    rsk_kernel_received(fd, &received) < 0)
			return false;
		if (received == *written)
			return true;
		rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return false;
}

/* True if the kernel has room for @n more bytes from @peer: it counts its own overhead as well. */
static bool has_room(int peer, uint64_t n)
{
	socklen_t len = sizeof(int);
	int room = 0, queued = 0;

	return rsk_sys_getsockopt(peer, SOL_SOCKET, SO_SNDBUF, &room, &len) == 0 &&
	       rsk_sys_ioctl(peer, SIOCOUTQ, &queued) == 0 && queued >= 0 &&
	       n + (uint64_t)queued <= (uint64_t)room / 4;
}

/* Reads the bytes to @block; -EIO: not all of them were there. */
static ssize_t gather(struct rsk_stream *s, int fd, uint8_t *block, size_t over, size_t queued)
{
	struct iovec iov = { block, over };
	size_t at = 0;
	ssize_t n;

	while (at < over && (n = rsk_over_recv(s, fd, &iov, 1, over - at, false)) > 0) {
		at += (size_t)n;
		iov = (struct iovec){ block + at, over - at };
	}
	n = queued ? rsk_sys_recvfrom(fd, block + at, queued, MSG_DONTWAIT, NULL, NULL) : 0;
	return n == (ssize_t)queued ? (ssize_t)at + n : -EIO;
}

int rsk_over_back(struct rsk_stream *s, int fd)
{
	uint64_t over = rsk_over_unread(s), before = 0, after = 0;
	uint8_t *block = NULL;
	int peer, queued = 0, rc = -EBUSY;
	ssize_t n;

	if (!over) {
		rsk_over_close(s, fd);
		return 0;
	}
	peer = rsk_return_unread_borrow(s);
	if (peer < 0)
		return -EBUSY;
	if (!has_come(s, fd, peer, &before) || rsk_sys_ioctl(fd, SIOCINQ, &queued) < 0 ||
	    queued < 0 || !has_room(peer, over + (uint64_t)queued))
		goto out;
	block = rsk_arena_alloc_raw(over + (size_t)queued);
	if (!block)
		goto out;
	rc = -EIO;
	n = gather(s, fd, block, over, (size_t)queued);
	if (n < 0 ||
	    rsk_sys_sendto(peer, block, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) != n)
		goto out;
	if (rsk_kernel_written(peer, !s->connecting_side, &after) == 0 &&
	    after == before + (uint64_t)n)
		rc = 0;
	rsk_over_close(s, fd);
out:
	rsk_arena_free(block);
	rsk_own_close(peer);
	return rc;
}
