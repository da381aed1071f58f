// SPDX-License-Identifier: BSD-2-Clause
/*
 * over_back.c - puts the bytes of the overread file back into the kernel's receive queue;
 * fallback.c calls it. See over.h.
 *
 * They are written into a copy of the peer's socket. The peer is on TCP and may write at any
 * moment: its bytes are newer, and must not come before ours. The count of bytes written tells
 * whether it has. If so, everything is read back: the counts directly before and after our write
 * tell between which positions our bytes lie, and their content where. Then they and the peer's are
 * one block in the right order, which is written in the next attempt.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <rsock/sys.h>

#include "arena.h"
#include "return_unread.h"
#include "over.h"

#define ATTEMPTS 4
#define LOOKS 20
#define LOOK_NS 1000000
/* At most so much is compared: a peer's bytes may repeat themselves. */
#define COMPARE_BYTES (64u << 20)

struct back {
	struct rsk_stream *s;
	int fd, peer;
	/* To be read next, in this order, before all that the peer writes from @begin on. */
	uint8_t *block; /* arena memory, owned */
	size_t len;
	uint64_t begin; /* what the peer has written by TCP before that position has been read */
	bool pure;	/* the block is the rest of the file, and nothing else was read */
};

static int written(const struct back *b, uint64_t *pos)
{
	return rsk_kernel_written(b->peer, !b->s->connecting_side, pos);
}

static void look_again(void)
{
	rsk_sys_ppoll(NULL, 0, &(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
}

/*
 * True if all that the peer has written by TCP is in our queue; b->begin: that number of bytes;
 * *queued: how many of them are unread. These are counted between the two others: if the peer
 * writes meanwhile, those differ.
 */
static bool has_come(struct back *b, int *queued)
{
	uint64_t received;

	for (int i = 0; i < LOOKS; i++) {
		if (written(b, &b->begin) < 0 || rsk_sys_ioctl(b->fd, SIOCINQ, queued) < 0 ||
		    *queued < 0 || rsk_kernel_received(b->fd, &received) < 0)
			return false;
		if (received == b->begin)
			return true;
		look_again();
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

/* True if urgent data are in the queue: reads and counts of bytes end there. */
static bool is_urgent(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };

	return rsk_sys_ppoll(&p, 1, &(struct timespec){ 0 }, NULL) > 0 && (p.revents & POLLPRI);
}

/* What is written to a socket with TCP_CORK may not come for 200 ms. */
static bool is_corked(int peer)
{
	socklen_t len = sizeof(int);
	int cork = 0;

	return rsk_sys_getsockopt(peer, IPPROTO_TCP, TCP_CORK, &cork, &len) < 0 || cork;
}

/* Reads the file and the queue to the block. -EIO: one of them has an error. */
static int gather(struct back *b, size_t over, size_t queued)
{
	struct iovec iov = { b->block, over };
	ssize_t n = 0, q = 0;

	/*
	 * The queue first: another process that has read of it has found the file at its end
	 * before.
	 */
	if (queued)
		q = rsk_sys_recvfrom(b->fd, b->block + over, queued, MSG_DONTWAIT, NULL, NULL);
	if (q < 0 && q != -EAGAIN)
		return -EIO;
	if (q < 0)
		q = 0; /* another process has read it */
	while (b->len < over &&
	       (n = rsk_over_recv(b->s, b->fd, &iov, 1, over - b->len, false)) > 0) {
		b->len += (size_t)n;
		iov = (struct iovec){ b->block + b->len, over - b->len };
	}
	if (n < 0)
		return -EIO;
	memmove(b->block + b->len, b->block + over, (size_t)q);
	b->len += (size_t)q;
	b->pure = !q;
	return 0;
}

/* How much has been written by TCP by now; also of a peer that has ended. */
static int count_all(const struct back *b, uint64_t *pos)
{
	for (int i = 0; i < LOOKS; i++) {
		if (written(b, pos) == 0 || rsk_kernel_received(b->fd, pos) > 0)
			return 0;
		look_again();
	}
	return -EIO;
}

static int read_all(const struct back *b, uint8_t *to, size_t n)
{
	static const int on = 1;

	for (int looks = 0; n && looks < LOOKS;) {
		ssize_t done = rsk_sys_recvfrom(b->fd, to, n, MSG_DONTWAIT, NULL, NULL);

		if (done > 0) {
			to += done;
			n -= (size_t)done;
		} else if (done == -EAGAIN) {
			/* Ours may wait for the acknowledgement of the peer's (Nagle). */
			rsk_sys_setsockopt(b->fd, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof(on));
			looks++;
			look_again();
		} else if (done != -EINTR) {
			return -EIO;
		}
	}
	return n ? -EIO : 0;
}

/*
 * The offset in @all, from @low to @high, at which the @n bytes @ours lie. Any of several, if what
 * is left without ours is the same. -1: there is none, or what is left differs.
 */
static ssize_t find(const uint8_t *all, size_t low, size_t high, const uint8_t *ours, size_t n)
{
	size_t budget = COMPARE_BYTES;
	ssize_t at = -1;

	for (size_t k = low; k <= high; k++) {
		if (all[k] != ours[0])
			continue;
		if (budget < n)
			return -1;
		budget -= n;
		if (memcmp(all + k, ours, n) != 0)
			continue;
		if (at < 0)
			at = (ssize_t)k;
		else if (budget < k - (size_t)at ||
			 memcmp(all + at, all + at + n, k - (size_t)at) != 0)
			return -1;
		else
			budget -= k - (size_t)at;
	}
	return at;
}

/*
 * The peer wrote in between: @sent bytes of the block lie between the positions @low and @end.
 * Returns -EAGAIN: the block has all that was written, in order. -EIO: it cannot be known.
 */
static int put_in_order(struct back *b, size_t sent, uint64_t low, uint64_t end)
{
	size_t all = (size_t)(end - b->begin);
	uint8_t *block, *theirs;
	ssize_t at = -1;

	if (end < low + sent)
		return -EIO;
	block = rsk_arena_alloc_raw(b->len + all);
	if (!block)
		return -EIO;
	theirs = block + b->len;
	if (read_all(b, theirs, all) == 0)
		at = find(theirs, (size_t)(low - b->begin), all - sent, b->block, sent);
	if (at < 0) {
		rsk_arena_free(block);
		return -EIO;
	}
	memcpy(block, b->block, b->len);
	memmove(theirs + at, theirs + at + sent, all - (size_t)at - sent);
	rsk_arena_free(b->block);
	b->block = block;
	b->len += all - sent;
	b->begin = end;
	b->pure = false;
	return -EAGAIN;
}

/*
 * Returns 0: the block is in the queue, before all else. -EAGAIN: it is not, and the next attempt
 * may succeed. -EBUSY: none will. -EIO: the order of the bytes is unknown.
 */
static int attempt(struct back *b)
{
	uint64_t low = b->begin, end;
	ssize_t sent;

	if (!has_room(b->peer, b->len))
		return -EBUSY;
	if (written(b, &low) < 0 || low < b->begin)
		low = b->begin;
	sent = rsk_sys_sendto(b->peer, b->block, b->len, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
	if (sent <= 0)
		return -EBUSY;
	if (count_all(b, &end) < 0)
		return -EIO;
	if ((size_t)sent == b->len && end == b->begin + b->len)
		return 0;
	return put_in_order(b, (size_t)sent, low, end);
}

/* The block becomes a file of this process alone. */
static int keep(struct back *b)
{
	int rc;

	rsk_over_close(b->s, b->fd);
	if (!rsk_over_fits(b->s, b->len))
		return -EIO;
	rc = rsk_over_open(b->s);
	if (rc == 0)
		rc = rsk_over_add(b->s, b->block, b->len);
	rsk_over_seal(b->s, b->fd);
	return rc < 0 ? -EIO : -EBUSY;
}

int rsk_over_back(struct rsk_stream *s, int fd, bool may_keep)
{
	struct back b = { .s = s, .fd = fd };
	uint64_t over = rsk_over_unread(s);
	int queued = 0, rc = -EBUSY;

	if (!over) {
		rsk_over_close(s, fd);
		return 0;
	}
	b.peer = rsk_return_unread_borrow(s);
	if (b.peer < 0)
		return -EBUSY;
	if (!has_come(&b, &queued) || !has_room(b.peer, over + (uint64_t)queued) || is_urgent(fd) ||
	    is_corked(b.peer))
		goto out;
	b.block = rsk_arena_alloc_raw(over + (size_t)queued);
	if (!b.block)
		goto out;
	rc = gather(&b, over, (size_t)queued);
	if (rc == 0)
		rc = b.len ? -EAGAIN : 0; /* 0: other processes have read it meanwhile */
	for (int i = 0; rc == -EAGAIN && i < ATTEMPTS; i++)
		rc = attempt(&b);
	if (rc == -EBUSY && b.pure)
		rsk_over_put_back(s, b.len);
	else if (rc == -EAGAIN || rc == -EBUSY)
		rc = may_keep ? keep(&b) : -EIO;
	else
		rsk_over_close(s, fd);
out:
	rsk_arena_free(b.block);
	rsk_own_close(b.peer);
	return rc;
}
