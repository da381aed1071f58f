/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_splice.c - the hook of splice(): from a stream into a pipe the engine does it; into a stream
 * the kernel, after the sender has fallen back.
 *
 * It follows fs/splice.c and tcp_splice_read() of the kernel (5.0 to 6.18): first it waits while
 * the pipe is full, unless SPLICE_F_NONBLOCK, or O_NONBLOCK of the pipe's end, forbids that; then
 * while the socket is empty, unless O_NONBLOCK of the socket forbids that. Then it moves what is
 * there, as far as the pipe has room.
 */
#include <string.h>
#include <sys/mman.h>

#define RSK_EXPORT_splice 1
#include "export.h"
#include "hook.h"

#define RSK_SPLICE_BYTES 16384
#define RSK_SPLICE_FLAGS (SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT)

struct rsk_pipe_end {
	struct rsk_drain drain;
	int fd;
};

/*
 * For pipes that do not support RWF_NOWAIT (before 6.4, and named pipes): passes the bytes in new
 * pages, which the pipe keeps when they are unmapped.
 */
static ssize_t rsk_pipe_give_pages(int fd, const void *from, size_t len)
{
	struct iovec iov = { .iov_len = len };
	ssize_t n;

	iov.iov_base =
		rsk_sys_mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rsk_sys_is_err(iov.iov_base))
		return rsk_sys_ptr_err(iov.iov_base);
	memcpy(iov.iov_base, from, len);
	n = RSK_SYS4(SYS_vmsplice, fd, &iov, 1, SPLICE_F_NONBLOCK);
	rsk_sys_munmap(iov.iov_base, len);
	return n;
}

/* rsk_drain's take(): does not wait for room, in any mode of the pipe. */
static ssize_t rsk_pipe_take(struct rsk_drain *d, const void *from, size_t len)
{
	const struct rsk_pipe_end *end = (const struct rsk_pipe_end *)(const void *)d;
	struct iovec iov = { (void *)from, len };
	ssize_t n = rsk_sys_pwritev2(end->fd, &iov, 1, -1, RWF_NOWAIT);

	if (n == -EOPNOTSUPP || n == -EINVAL || n == -ENOSYS)
		n = rsk_pipe_give_pages(end->fd, from, len);
	return n;
}

/* Waits until the pipe has room. Returns 0, -EAGAIN, -EPIPE (the signal is raised) or -EINTR. */
static int rsk_pipe_wait(int out, bool nonblock)
{
	struct pollfd p = { .fd = out, .events = POLLOUT };
	int saved = errno, rc;
	uint32_t cut;

	do {
		cut = rsk_sigdefer_cut;
		rc = rsk_real.poll(&p, 1, nonblock ? 0 : -1);
		/* Handlers with SA_RESTART let the kernel's splice() continue. */
	} while (rc < 0 && errno == EINTR && rsk_sigdefer_cut == cut);
	rc = rc < 0 ? -errno : rc;
	errno = saved;
	if (rc < 0)
		return rc;
	if (p.revents & POLLERR) {
		rsk_sys_tgkill(rsk_sys_getpid(), rsk_sys_gettid(), SIGPIPE);
		return -EPIPE;
	}
	return p.revents & POLLOUT ? 0 : -EAGAIN;
}

/* False: the stream has fallen back, and the kernel has to do the call. */
static bool rsk_splice_move(int in, struct rsk_pipe_end *end, size_t len, unsigned int flags,
			    ssize_t *ret)
{
	bool nonblock = flags & SPLICE_F_NONBLOCK;
	char buf[RSK_SPLICE_BYTES];

	RSK_SCOPE(s);
	if (rsk_op_begin(&s.op, in, RSK_OP_RECV) == RSK_KERNEL) {
		s.ret = *ret = rsk_real.splice(in, NULL, end->fd, NULL, len, flags);
		return true;
	}
	for (;;) {
		*ret = rsk_pipe_wait(end->fd, nonblock);
		if (*ret < 0)
			break;
		*ret = rsk_op_drain(&s.op, &end->drain, buf, len < sizeof(buf) ? len : sizeof(buf));
		if (*ret == -RSK_EKERNEL)
			return false;
		if (*ret != -RSK_EDRAIN)
			break;
		/* Another writer was faster: waits for room once more. */
		*ret = end->drain.rc;
		if (*ret != -EAGAIN || nonblock)
			break;
	}
	s.ret = *ret = rsk_result(*ret);
	return true;
}

/* From a stream into a pipe. False: not for the engine. */
static bool rsk_splice_in(int in, int out, size_t len, unsigned int flags, ssize_t *ret)
{
	struct rsk_pipe_end end = { { rsk_pipe_take, 0 }, out };
	int mode;

	if ((flags & ~RSK_SPLICE_FLAGS) || rsk_sys_fcntl(out, F_GETPIPE_SZ, 0) <= 0)
		return false;
	mode = rsk_sys_fcntl(out, F_GETFL, 0);
	if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
		return false;
	if (mode & O_NONBLOCK)
		flags |= SPLICE_F_NONBLOCK;
	return rsk_splice_move(in, &end, len, flags, ret);
}

ssize_t rsk_hook_splice(int in, off64_t *in_at, int out, off64_t *out_at, size_t len,
			unsigned int flags)
{
	ssize_t ret;

	if (!rsk_tracked(in) && !rsk_tracked(out))
		return rsk_counted(rsk_real.splice(in, in_at, out, out_at, len, flags));
	if (!len)
		return 0;
	if (rsk_tracked(in) && !in_at && !out_at && rsk_splice_in(in, out, len, flags, &ret))
		return ret;
	if (rsk_tracked(in) && rsk_fd_fall_back(in, RSK_REASON_SPLICE) < 0)
		return rsk_result(-EAGAIN);
	ret = rsk_tracked(out) ? rsk_fd_fall_back_tx(out, RSK_REASON_SPLICE) : 0;
	if (ret < 0)
		return rsk_result(ret);
	ret = rsk_counted(rsk_real.splice(in, in_at, out, out_at, len, flags));
	if (ret < 0)
		rsk_fd_told(out, -errno);
	return ret;
}
