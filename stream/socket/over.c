// SPDX-License-Identifier: BSD-2-Clause
/* over.c - see over.h. */
#include "over.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rsock/sys.h>

#include "arena.h"
#include "resets.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

bool rsk_over_fits(const struct rsk_stream *s, uint64_t n)
{
	return rsk_sys_file_fits((rsk_over_is(s) ? s->over.bytes : 0) + n);
}

int rsk_over_open(struct rsk_stream *s)
{
	int fd;

	if (rsk_over_is(s))
		return 0;
	fd = rsk_own_fd(rsk_sys_memfd_create("rsock-unread", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (fd < 0)
		return fd;
	s->over.bytes = s->over.seen = 0;
	atomic_store_explicit(&s->over.fd, fd, memory_order_relaxed);
	return 0;
}

int rsk_over_add(struct rsk_stream *s, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n) {
		/* The shared read position stays at the first byte. */
		ssize_t done = rsk_sys_pwrite(s->over.fd, p, n, (off_t)s->over.bytes);

		if (done == -EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? (int)done : -ENOSPC;
		p += done;
		n -= (size_t)done;
		s->over.bytes += (uint64_t)done;
	}
	return 0;
}

void rsk_over_seal(struct rsk_stream *s, int fd)
{
	if (!rsk_over_is(s))
		return;
	if (!s->over.bytes) {
		rsk_over_close(s, fd);
		return;
	}
	rsk_sys_fcntl(s->over.fd, F_ADD_SEALS, SEALS);
	rsk_resets(s, fd, RSK_RESETS_UNREAD, true);
}

void rsk_over_close(struct rsk_stream *s, int fd)
{
	int over = atomic_exchange_explicit(&s->over.fd, 0, memory_order_relaxed);

	rsk_resets(s, fd, RSK_RESETS_UNREAD, false);
	if (over > 0)
		rsk_own_close(over);
}

/* Where the next read begins. Does not move the position. */
static uint64_t position(struct rsk_stream *s)
{
	int fd = atomic_load_explicit(&s->over.fd, memory_order_relaxed);
	off_t at = fd > 0 ? rsk_sys_lseek(fd, 0, SEEK_CUR) : -1;

	if (at < 0 || (uint64_t)at > s->over.bytes)
		return s->over.bytes;
	return (uint64_t)at < s->over.seen ? s->over.seen : (uint64_t)at;
}

/*
 * All processes that hold the file share its position: a position that went back was set by a
 * process that wants us to read bytes twice. Only the holder of the lock can tell: without it the
 * compared value may be old already, and correcting it would take back what another process has
 * read meanwhile.
 */
static uint64_t put_right(struct rsk_stream *s)
{
	off_t at = rsk_sys_lseek(s->over.fd, 0, SEEK_CUR);

	if (at >= 0 && (uint64_t)at < s->over.seen)
		rsk_sys_lseek(s->over.fd, (off_t)s->over.seen, SEEK_SET);
	return position(s);
}

uint64_t rsk_over_unread(struct rsk_stream *s)
{
	return rsk_over_is(s) ? s->over.bytes - position(s) : 0;
}

static ssize_t take(struct rsk_stream *s, uint8_t *to, size_t n, uint64_t at, bool peek)
{
	return peek ? rsk_sys_pread(s->over.fd, to, n, (off_t)at) : rsk_sys_read(s->over.fd, to, n);
}

ssize_t rsk_over_recv(struct rsk_stream *s, int fd, const struct iovec *iov, int n, size_t cap,
		      bool peek)
{
	uint64_t at = put_right(s);
	size_t total = 0;

	for (int i = 0; i < n && total < cap; i++) {
		size_t len = iov[i].iov_len < cap - total ? iov[i].iov_len : cap - total;
		ssize_t done = len ? take(s, iov[i].iov_base, len, at + total, peek) : 0;

		if (done < 0 && !total)
			return done;
		if (done > 0)
			total += (size_t)done;
		if (done < (ssize_t)len)
			break;
	}
	if (!peek && total)
		s->over.seen = position(s);
	if (s->over.seen == s->over.bytes)
		rsk_resets(s, fd, RSK_RESETS_UNREAD, false);
	if (!total && cap && position(s) == s->over.bytes)
		rsk_over_close(s, fd);
	return (ssize_t)total;
}

void rsk_over_put_back(struct rsk_stream *s, size_t n)
{
	s->over.seen = s->over.bytes - n;
	rsk_sys_lseek(s->over.fd, (off_t)s->over.seen, SEEK_SET);
}
