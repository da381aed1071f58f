/* SPDX-License-Identifier: BSD-2-Clause */
/* hook_io.c - hooks of read() and write() and their vector variants. */
#define RSK_EXPORT_io 1
#include "export.h"
#include "hook.h"

static rsk_noinline ssize_t rsk_tracked_read(int fd, void *buf, size_t len)
{
	struct iovec iov = { buf, len };

	/*
	 * For a length of 0 the kernel does not ask the socket, unlike recv(); a negative one is no
	 * valid range (access_ok()).
	 */
	if (__builtin_expect((ssize_t)len <= 0, 0))
		return len ? rsk_real.read(fd, buf, len) : 0;

	RSK_SCOPE(s);
	if (!rsk_scope_recv(&s, fd, &iov, 1, 0))
		s.ret = rsk_real.read(fd, buf, len);
	return s.ret;
}

ssize_t rsk_hook_read(int fd, void *buf, size_t len)
{
	return rsk_tracked(fd) ? rsk_tracked_read(fd, buf, len) : rsk_real.read(fd, buf, len);
}

ssize_t rsk_hook___read_chk(int fd, void *buf, size_t len, size_t room)
{
	rsk_chk_room(len, room);
	return rsk_hook_read(fd, buf, len);
}

static rsk_noinline ssize_t rsk_tracked_write(int fd, const void *buf, size_t len)
{
	struct iovec iov = { (void *)buf, len };

	if (__builtin_expect((ssize_t)len < 0, 0)) /* no valid range, often a result of -1 */
		return rsk_real.write(fd, buf, len);

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, &iov, 1, 0))
		s.ret = rsk_real.write(fd, buf, len);
	return s.ret;
}

ssize_t rsk_hook_write(int fd, const void *buf, size_t len)
{
	return rsk_tracked(fd) ? rsk_tracked_write(fd, buf, len) :
				 rsk_counted(rsk_real.write(fd, buf, len));
}

static rsk_noinline ssize_t rsk_tracked_readv(int fd, const struct iovec *iov, int n)
{
	if (!rsk_iov_valid(iov, (size_t)n))
		return rsk_real.readv(fd, iov, n);
	if (rsk_iov_bytes(iov, (size_t)n) == 0)
		return 0;

	RSK_SCOPE(s);
	if (!rsk_scope_recv(&s, fd, iov, n, 0))
		s.ret = rsk_real.readv(fd, iov, n);
	return s.ret;
}

ssize_t rsk_hook_readv(int fd, const struct iovec *iov, int n)
{
	return rsk_tracked(fd) ? rsk_tracked_readv(fd, iov, n) : rsk_real.readv(fd, iov, n);
}

static rsk_noinline ssize_t rsk_tracked_writev(int fd, const struct iovec *iov, int n)
{
	if (!rsk_iov_valid(iov, (size_t)n))
		return rsk_counted(rsk_real.writev(fd, iov, n));
	if (rsk_iov_bytes(iov, (size_t)n) == 0)
		return 0;

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, iov, n, 0))
		s.ret = rsk_real.writev(fd, iov, n);
	return s.ret;
}

ssize_t rsk_hook_writev(int fd, const struct iovec *iov, int n)
{
	return rsk_tracked(fd) ? rsk_tracked_writev(fd, iov, n) :
				 rsk_counted(rsk_real.writev(fd, iov, n));
}

/*
 * Kernels differ in which RWF_* flags they accept on a socket (RWF_NOWAIT since 6.5). Asks this one
 * with a read on a new socket, which can only return EOPNOTSUPP, EINVAL (the flag) or ENOTCONN
 * (accepted). Returns 0 or -errno; rarely called, so the result is not cached.
 */
static int rsk_rwf_ask(int flags)
{
	char byte;
	struct iovec iov = { &byte, 1 };
	int fd = rsk_sys_socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ssize_t ret;

	if (fd < 0)
		return fd;
	ret = rsk_sys_preadv2(fd, &iov, 1, -1, flags);
	rsk_sys_close(fd);
	return ret == -ENOTCONN ? 0 : (int)ret;
}

/* The MSG_* flags that correspond to @flags (RWF_*) on a socket, or -errno. */
static int rsk_rwf_msg(int flags)
{
	int rc = flags ? rsk_rwf_ask(flags) : 0;

	if (rc < 0)
		return rc;
	return flags & RWF_NOWAIT ? MSG_DONTWAIT : 0;
}

ssize_t rsk_hook_preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	int msg_flags;

	/* With a position: ESPIPE. */
	if (!rsk_tracked(fd) || at != -1 || !rsk_iov_valid(iov, (size_t)n))
		return rsk_real.preadv2(fd, iov, n, at, flags);
	if (rsk_iov_bytes(iov, (size_t)n) == 0)
		return 0;
	msg_flags = rsk_rwf_msg(flags);
	if (msg_flags < 0)
		return rsk_result(msg_flags);

	RSK_SCOPE(s);
	if (!rsk_scope_recv(&s, fd, iov, n, msg_flags))
		s.ret = rsk_real.preadv2(fd, iov, n, at, flags);
	return s.ret;
}

ssize_t rsk_hook_pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	int msg_flags;

	if (!rsk_tracked(fd) || at != -1 || !rsk_iov_valid(iov, (size_t)n))
		return rsk_counted(rsk_real.pwritev2(fd, iov, n, at, flags));
	if (rsk_iov_bytes(iov, (size_t)n) == 0)
		return 0;
	msg_flags = rsk_rwf_msg(flags);
	if (msg_flags < 0)
		return rsk_result(msg_flags);

	RSK_SCOPE(s);
	if (!rsk_scope_send(&s, fd, iov, n, msg_flags))
		s.ret = rsk_real.pwritev2(fd, iov, n, at, flags);
	return s.ret;
}

/* ---- libc reads and writes eight bytes, whatever the file ---- */

int rsk_hook_eventfd_read(int fd, eventfd_t *value)
{
	if (!rsk_tracked(fd))
		return rsk_real.eventfd_read(fd, value);
	return rsk_hook_read(fd, value, sizeof(*value)) == sizeof(*value) ? 0 : -1;
}

int rsk_hook_eventfd_write(int fd, eventfd_t value)
{
	if (!rsk_tracked(fd))
		return rsk_counted(rsk_real.eventfd_write(fd, value));
	return rsk_hook_write(fd, &value, sizeof(value)) == sizeof(value) ? 0 : -1;
}
