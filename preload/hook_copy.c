/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook_copy.c - hooks of sendfile() and POSIX aio: copies that the kernel or libc's helper threads
 * would make. splice() is in hook_splice.c.
 */
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define RSK_EXPORT_copy 1
#include "export.h"
#include "hook.h"
#include "iovcur.h"

/* Bytes per round, after each of which the stream's lock is released and the peer is notified. */
#define RSK_SENDFILE_ROUND_BYTES 65536
/* Data that is not in the page cache is read without the lock: to the stack, no allocation. */
#define RSK_SENDFILE_CHUNK_BYTES 16384

/*
 * Whether the library can read @in in the kernel's place. It can for regular files and block
 * devices. If the file is not open for reading, pread() fails as sendfile() does, with EBADF, and
 * as early. Files in /proc can be read, but the kernel does not send all of them.
 */
static bool rsk_sendfile_readable(int in)
{
	struct statfs fs;
	struct stat st;

	if (rsk_sys_fstat(in, &st) < 0 || (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode)))
		return false;
	return st.st_size || S_ISBLK(st.st_mode) || fstatfs(in, &fs) < 0 ||
	       fs.f_type != PROC_SUPER_MAGIC;
}

struct rsk_file {
	struct rsk_fill fill;
	int fd;
	off_t end; /* of the round */
};

/* Reads from the page cache only: otherwise it would sleep. */
static ssize_t rsk_file_read(struct rsk_fill *f, uint8_t *to, size_t len, size_t left)
{
	const struct rsk_file *file = (const struct rsk_file *)(const void *)f;
	struct iovec iov = { to, len };

	return rsk_sys_preadv2(file->fd, &iov, 1, file->end - (off_t)left, RWF_NOWAIT);
}

/* One call of sendfile(). */
struct rsk_sendfile {
	int out, in;
	off_t *at; /* advances with the bytes sent */
	size_t len, sent;
};

static void rsk_sendfile_moved(struct rsk_sendfile *c, ssize_t n)
{
	if (n <= 0)
		return;
	*c->at += n;
	c->sent += (size_t)n;
}

/*
 * The kernel carries the stream from here on: sends the rest, or all of it, by the real call. 0 or
 * -errno.
 */
static ssize_t rsk_sendfile_rest(struct rsk_sendfile *c)
{
	off_t real_at = *c->at;
	ssize_t ret = rsk_real.sendfile(c->out, c->in, &real_at, c->len - c->sent);

	rsk_sendfile_moved(c, ret);
	return ret < 0 ? -errno : 0;
}

/*
 * Reads a chunk and then sends it. True: continue; false: *ret is the reason to stop, 0: the file's
 * end, or not all of the chunk was sent.
 */
static bool rsk_sendfile_chunk(struct rsk_sendfile *c, struct rsk_op *op, ssize_t *ret)
{
	char buf[RSK_SENDFILE_CHUNK_BYTES];
	size_t want = c->len - c->sent;
	struct iovec iov;
	ssize_t got;

	got = rsk_sys_pread(c->in, buf, want < sizeof(buf) ? want : sizeof(buf), *c->at);
	*ret = got;
	if (got <= 0)
		return false;
	iov = (struct iovec){ buf, (size_t)got };
	*ret = rsk_op_send(op, &iov, 1, 0);
	if (*ret == -RSK_EKERNEL) {
		*ret = rsk_sendfile_rest(c);
		return false;
	}
	rsk_sendfile_moved(c, *ret);
	return *ret == got;
}

/*
 * Sends @len bytes of @in from *@at on. Returns what the application gets; *@at advances by the
 * same amount. Any stop after the first byte (EAGAIN, a signal, an error, the end of the file) ends
 * the call with a count.
 */
static ssize_t rsk_sendfile_ring(int out, int in, off_t *at, size_t len)
{
	struct rsk_sendfile c = { out, in, at, len, 0 };
	struct rsk_file file = { { rsk_file_read, 1 }, in, 0 };
	size_t round = 0;
	ssize_t ret = 0;

	RSK_SCOPE(s);
	if (rsk_op_begin(&s.op, out, RSK_OP_SEND) == RSK_KERNEL) {
		s.ret = rsk_real.sendfile(out, in, at, len);
		return s.ret;
	}
	while (c.sent < len) {
		/* A file that cannot be read from the page cache at all is not tried again. */
		if (file.fill.rc == 1 || file.fill.rc == -EAGAIN || file.fill.rc == -ENOSYS) {
			file.fill.rc = 1;
			round = len - c.sent;
			if (round > RSK_SENDFILE_ROUND_BYTES)
				round = RSK_SENDFILE_ROUND_BYTES;
			file.end = *at + (off_t)round;
			ret = rsk_op_fill(&s.op, &file.fill, round);
			if (ret == -RSK_EKERNEL) {
				ret = rsk_sendfile_rest(&c);
				break;
			}
			rsk_sendfile_moved(&c, ret);
			if (file.fill.rc == 1 && ret == (ssize_t)round)
				continue;
			if (file.fill.rc >= 0)
				break;
		}
		if (!rsk_sendfile_chunk(&c, &s.op, &ret))
			break;
	}
	s.ret = c.sent ? (ssize_t)c.sent : rsk_result(ret);
	return s.ret;
}

/*
 * A tracked stream is at one end, and the engine cannot do the call. A call that the kernel refuses
 * for any length it also refuses for 0 bytes; otherwise the kernel would send past the ring, or
 * read past it: so the streams fall back first. Kernels differ in what they accept: character
 * devices, a socket into a pipe.
 */
static ssize_t rsk_sendfile_by_kernel(int out, int in, off_t *at, size_t len)
{
	int saved = errno, rc;
	ssize_t n;

	if (!len || (rsk_tracked(out) && rsk_real.sendfile(out, in, at, 0) < 0))
		return len ? -1 : rsk_real.sendfile(out, in, at, 0);
	errno = saved;
	if (rsk_tracked(in) && rsk_fd_fall_back(in, RSK_REASON_SPLICE) < 0)
		return rsk_result(-EAGAIN);
	rc = rsk_tracked(out) ? rsk_fd_fall_back_tx(out, RSK_REASON_SPLICE) : 0;
	if (rc < 0)
		return rsk_result(rc);
	n = rsk_counted(rsk_real.sendfile(out, in, at, len));
	if (n < 0)
		rsk_fd_told(out, -errno);
	return n;
}

static ssize_t rsk_sendfile(int out, int in, off_t *at, size_t len)
{
	int saved = errno;
	off_t pos;
	ssize_t ret;

	if (len > RSK_RW_MAX_BYTES)
		len = RSK_RW_MAX_BYTES;
	pos = at ? *at : lseek(in, 0, SEEK_CUR);
	if (pos < 0 || len == 0)
		return rsk_sendfile_by_kernel(out, in, at, len);
	ret = rsk_sendfile_ring(out, in, &pos, len);
	/* For O_DIRECT, whose reads have to be aligned: the kernel uses its own pages for them. */
	if (ret < 0 && errno == EINVAL) {
		errno = saved;
		return rsk_sendfile_by_kernel(out, in, at, len);
	}
	if (ret < 0)
		return ret;
	if (at)
		*at = pos;
	else
		lseek(in, pos, SEEK_SET);
	errno = saved;
	return ret;
}

ssize_t rsk_hook_sendfile(int out, int in, off_t *at, size_t len)
{
	if (!rsk_tracked(out) && !rsk_tracked(in))
		return rsk_counted(rsk_real.sendfile(out, in, at, len));
	if (!rsk_tracked(out) || (at && !rsk_writable(at)) || !rsk_sendfile_readable(in))
		return rsk_sendfile_by_kernel(out, in, at, len);
	return rsk_sendfile(out, in, at, len);
}

/* ---- POSIX aio: libc's helper threads read and write by calls that no hook sees ---- */

/* True: the stream cannot fall back without loss, and errno is EAGAIN. */
static bool rsk_aio_stuck(int fd)
{
	return rsk_tracked(fd) && rsk_fd_fall_back(fd, RSK_REASON_AIO) < 0 &&
	       rsk_result(-EAGAIN) < 0;
}

int rsk_hook_aio_read(struct aiocb *cb)
{
	if (rsk_touch_ready && rsk_readable(cb) && rsk_aio_stuck(cb->aio_fildes))
		return -1;
	return rsk_real.aio_read(cb);
}

int rsk_hook_aio_read64(struct aiocb64 *cb)
{
	if (rsk_touch_ready && rsk_readable(cb) && rsk_aio_stuck(cb->aio_fildes))
		return -1;
	return rsk_real.aio_read64(cb);
}

int rsk_hook_aio_write(struct aiocb *cb)
{
	if (rsk_touch_ready && rsk_readable(cb) && rsk_aio_stuck(cb->aio_fildes))
		return -1;
	return rsk_real.aio_write(cb);
}

int rsk_hook_aio_write64(struct aiocb64 *cb)
{
	if (rsk_touch_ready && rsk_readable(cb) && rsk_aio_stuck(cb->aio_fildes))
		return -1;
	return rsk_real.aio_write64(cb);
}

int rsk_hook_lio_listio(int mode, struct aiocb *const *list, int n, struct sigevent *sev)
{
	for (int i = 0; list && i < n; i++)
		if (list[i] && rsk_aio_stuck(list[i]->aio_fildes))
			return -1;
	return rsk_real.lio_listio(mode, list, n, sev);
}

int rsk_hook_lio_listio64(int mode, struct aiocb64 *const *list, int n, struct sigevent *sev)
{
	for (int i = 0; list && i < n; i++)
		if (list[i] && rsk_aio_stuck(list[i]->aio_fildes))
			return -1;
	return rsk_real.lio_listio64(mode, list, n, sev);
}
