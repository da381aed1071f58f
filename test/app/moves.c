/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * moves.c - tests every function of libc that takes a descriptor and moves bytes, on a direct
 * stream: returns, errors, bytes and their order are those of kernel TCP. A call that bypasses the
 * ring shows as bytes out of their place.
 */
#include "app.h"

#include <aio.h>
#include <dirent.h>
#include <execinfo.h>
#include <mqueue.h>
#include <pty.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>

extern ssize_t __read(int fd, void *buf, size_t len);
extern ssize_t __write(int fd, const void *buf, size_t len);
extern ssize_t __send(int fd, const void *buf, size_t len, int flags);
#if defined(__aarch64__)
/* There libc has it for old programs only: the linker finds it by its version. */
__asm__(".symver __send, __send@GLIBC_2.17");
#endif
extern ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);
extern ssize_t __recv_chk(int fd, void *buf, size_t len, size_t room, int flags);
extern ssize_t __recvfrom_chk(int fd, void *buf, size_t len, size_t room, int flags,
			      struct sockaddr *addr, socklen_t *addr_len);

static char buf[65536], text[] = "[a text of some length]";
static int fd, other, two[2];
static struct iovec vector[2] = { IOV("[one"), IOV("two]") }, into[2];
static off_t at;

/* ---- the other end of a copy ---- */

static void nothing(void)
{
}

static void regular(void)
{
	other = (int)MUST(open(P_tmpdir, O_TMPFILE | O_RDWR, 0600));
	app_write_all(other, "0123456789abcdefghij", 20);
	MUST(lseek(other, 0, SEEK_SET));
}

static void memory(void)
{
	other = (int)MUST(memfd_create("memory", 0));
	app_write_all(other, "0123456789abcdefghij", 20);
	MUST(lseek(other, 0, SEEK_SET));
}

static void opened(const char *path, int flags)
{
	other = (int)MUST(open(path, flags));
}

static void zero(void)
{
	opened("/dev/zero", O_RDWR);
}

static void null(void)
{
	opened("/dev/null", O_RDWR);
}

static void proc_cpus(void)
{
	opened("/proc/version", O_RDONLY);
}

static void proc_task(void)
{
	opened("/proc/self/comm", O_RDONLY);
}

static void directory(void)
{
	opened("/tmp", O_RDONLY | O_DIRECTORY);
}

static void path_only(void)
{
	opened("/proc/self/exe", O_PATH);
}

static void write_only(void)
{
	opened("/dev/zero", O_WRONLY);
}

static void event(void)
{
	other = (int)MUST(eventfd(5, EFD_NONBLOCK));
}

/* A pipe with some bytes in it; `other` is its reading end, two[1] its writing end. */
static void piped(void)
{
	MUST(pipe(two));
	app_write_all(two[1], "through a pipe", 14);
	other = two[0];
}

static void pipe_free(void)
{
	MUST(pipe(two));
	other = two[1];
}

static void pair(void)
{
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, two));
	app_write_all(two[1], "of a pair", 9);
	other = two[0];
}

static void terminal(void)
{
	MUST(openpty(&two[0], &two[1], NULL, NULL, NULL));
	other = two[1];
}

/* ---- calls that need more than an expression ---- */

static long by_msg(ssize_t (*call)(int, struct msghdr *, int), struct iovec *iov, int n, int flags)
{
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = (size_t)n };

	return call(fd, &m, flags);
}

static ssize_t send_one(int to, struct msghdr *m, int flags)
{
	return sendmsg(to, m, flags);
}

static ssize_t send_many(int to, struct msghdr *m, int flags)
{
	struct mmsghdr mm[2] = { { .msg_hdr = *m }, { .msg_hdr = *m } };

	return sendmmsg(to, mm, 2, flags);
}

static ssize_t recv_many(int from, struct msghdr *m, int flags)
{
	struct mmsghdr mm[2] = { { .msg_hdr = *m }, { .msg_hdr = *m } };
	int n = recvmmsg(from, mm, 2, flags, NULL);

	LOG("lengths %u %u", mm[0].msg_len, mm[1].msg_len);
	return n;
}

static __attribute__((format(printf, 1, 2))) int by_vdprintf(const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = vdprintf(fd, fmt, ap);
	va_end(ap);
	return ret;
}

static long by_aio(int (*call)(struct aiocb *cb), void *data, size_t len)
{
	struct aiocb cb = { .aio_fildes = fd, .aio_buf = data, .aio_nbytes = len };
	const struct aiocb *list[1] = { &cb };

	if (call(&cb) < 0)
		return -1;
	while (aio_error(&cb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	errno = aio_error(&cb);
	return aio_return(&cb);
}

static int list_write(struct aiocb *cb)
{
	cb->aio_lio_opcode = LIO_WRITE;
	return lio_listio(LIO_WAIT, &cb, 1, NULL);
}

static int list_read(struct aiocb *cb)
{
	cb->aio_lio_opcode = LIO_READ;
	return lio_listio(LIO_WAIT, &cb, 1, NULL);
}

static long by_stdio(void)
{
	FILE *f = fdopen(dup(fd), "w");
	int ret = fprintf(f, "%s by stdio", text);

	return fclose(f) ? -1 : ret;
}

static long by_getline(void)
{
	FILE *f = fdopen(dup(fd), "r");
	char *line = NULL;
	size_t room = 0;
	ssize_t n = getdelim(&line, &room, '9', f);

	if (n > 0)
		app_bytes("line", line, (size_t)n);
	free(line);
	/* It has read all that there was. */
	fclose(f);
	return n;
}

static long by_backtrace(void)
{
	void *frames[1] = { (void *)16 };

	backtrace_symbols_fd(frames, 1, fd);
	return 0;
}

static long by_eventfd_read(void)
{
	eventfd_t value = 0;
	int ret = eventfd_read(fd, &value);

	LOG("value %llx", (unsigned long long)value);
	return ret;
}

static long by_ioctl(void)
{
	int n = -1, ret = ioctl(fd, FIONREAD, &n);

	LOG("FIONREAD %d", n);
	return ret;
}

static long at_start(long ret)
{
	LOG("offset %lld", (long long)at);
	return ret;
}

/* ---- one after the other ---- */

struct move {
	const char *text;
	void (*prepare)(void);
	long (*call)(void);
};

static void begin(const struct move *m)
{
	other = two[0] = two[1] = -1;
	at = 0;
	memset(buf, 0, sizeof(buf));
	into[0] = (struct iovec){ buf, 7 };
	into[1] = (struct iovec){ buf + 7, 9 };
	m->prepare();
	fd = app_open(WARM);
}

static void end(void)
{
	app_sync();
	app_close(fd);
	for (int i = 0; i < 2; i++)
		if (two[i] >= 0)
			app_close(two[i]);
	if (other >= 0 && other != two[0] && other != two[1])
		app_close(other);
}

static void send_by(const struct move *m)
{
	long ret;

	begin(m);
	if (CLI) {
		SAY(fd, "before-");
		errno = 0;
		ret = m->call();
		app_ret(m->text, ret, errno);
		SAY(fd, "-behind");
		MUST(shutdown(fd, SHUT_WR));
	} else {
		LOG("%s", m->text);
		app_drain(fd, "all");
	}
	end();
}

static void recv_by(const struct move *m)
{
	long ret;

	begin(m);
	if (SRV) {
		app_pattern(buf, 100, 0, 3);
		for (int i = 0; i < 100; i++)
			buf[i] = (char)('0' + i % 10);
		app_write_all(fd, buf, 100);
		app_sync();
		SAY(fd, "-behind");
		MUST(shutdown(fd, SHUT_WR));
	} else {
		int inq = 0;

		app_await_inq(fd, 100);
		errno = 0;
		ret = m->call();
		app_ret(m->text, ret, errno);
		app_bytes("memory", buf, 40);
		app_sync();
		if (two[0] >= 0 && ioctl(two[0], FIONREAD, &inq) == 0 && inq > 0)
			app_hear(two[0], (size_t)inq);
		app_drain(fd, "the rest");
	}
	end();
}

#define DEFINE(ident, before, expr)                                                                \
	static long call_##ident(void)                                                             \
	{                                                                                          \
		return (long)(expr);                                                               \
	}
#define RUN(one, list)                                                                             \
	do {                                                                                       \
		static const struct move moves[] = { list(ROW) };                                  \
		for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)                      \
			one(&moves[i]);                                                            \
	} while (0)

/* clang-format off */
#define SENDS(X) \
	X(write, nothing, write(fd, text, sizeof(text))) \
	X(write_none, nothing, write(fd, text, 0)) \
	X(__write, nothing, __write(fd, text, sizeof(text))) \
	X(writev, nothing, writev(fd, vector, 2)) \
	X(pwrite, nothing, pwrite(fd, text, 5, 0)) \
	X(pwritev, nothing, pwritev(fd, vector, 2, 0)) \
	X(pwritev2, nothing, pwritev2(fd, vector, 2, -1, 0)) \
	X(pwritev2_at, nothing, pwritev2(fd, vector, 2, 0, 0)) \
	X(pwritev2_nowait, nothing, pwritev2(fd, vector, 2, -1, RWF_NOWAIT)) \
	X(pwritev2_append, nothing, pwritev2(fd, vector, 2, -1, RWF_APPEND)) \
	X(send, nothing, send(fd, text, sizeof(text), MSG_NOSIGNAL)) \
	X(__send, nothing, __send(fd, text, sizeof(text), 0)) \
	X(sendto, nothing, sendto(fd, text, sizeof(text), MSG_MORE, NULL, 0)) \
	X(sendmsg, nothing, by_msg(send_one, vector, 2, 0)) \
	X(sendmmsg, nothing, by_msg(send_many, vector, 2, 0)) \
	X(dprintf, nothing, dprintf(fd, "%s %d", text, 7)) \
	X(vdprintf, nothing, by_vdprintf("%s %d", text, 7)) \
	X(fdopen, nothing, by_stdio()) \
	X(aio_write, nothing, by_aio(aio_write, text, 10)) \
	X(lio_listio, nothing, by_aio(list_write, text, 10)) \
	X(eventfd_write, nothing, eventfd_write(fd, 0x4142434445464748)) \
	X(backtrace_symbols_fd, nothing, by_backtrace()) \
	X(mq_send, nothing, mq_send(fd, text, 5, 0)) \
	X(vmsplice, nothing, vmsplice(fd, vector, 2, 0)) \
	X(tee, piped, tee(other, fd, 5, 0)) \
	X(splice, piped, splice(other, NULL, fd, NULL, 10, 0)) \
	X(splice_more, piped, \
	  splice(other, NULL, fd, NULL, 100, SPLICE_F_MORE | SPLICE_F_NONBLOCK)) \
	X(splice_file, regular, splice(other, NULL, fd, NULL, 10, 0)) \
	X(copy_file_range, regular, copy_file_range(other, NULL, fd, NULL, 10, 0))

#define SENDFILE(X, kind) \
	X(sendfile_##kind, kind, sendfile(fd, other, NULL, 10)) \
	X(sendfile_at_##kind, kind, at_start(sendfile64(fd, other, &at, 10)))
#define SENDFILES(X) \
	SENDFILE(X, regular) SENDFILE(X, memory) SENDFILE(X, zero) SENDFILE(X, null) \
	SENDFILE(X, proc_cpus) SENDFILE(X, proc_task) SENDFILE(X, directory) \
	SENDFILE(X, path_only) SENDFILE(X, write_only) SENDFILE(X, event) SENDFILE(X, piped) \
	SENDFILE(X, pair) SENDFILE(X, terminal)

#define RECEIVES(X) \
	X(read, nothing, read(fd, buf, 20)) \
	X(read_none, nothing, read(fd, buf, 0)) \
	X(__read, nothing, __read(fd, buf, 20)) \
	X(__read_chk, nothing, __read_chk(fd, buf, 20, 30)) \
	X(readv, nothing, readv(fd, into, 2)) \
	X(pread, nothing, pread(fd, buf, 20, 0)) \
	X(preadv, nothing, preadv(fd, into, 2, 0)) \
	X(preadv2, nothing, preadv2(fd, into, 2, -1, 0)) \
	X(preadv2_at, nothing, preadv2(fd, into, 2, 3, 0)) \
	X(preadv2_nowait, nothing, preadv2(fd, into, 2, -1, RWF_NOWAIT)) \
	X(recv, nothing, recv(fd, buf, 20, 0)) \
	X(recv_all, nothing, recv(fd, buf, 40, MSG_WAITALL)) \
	X(recv_peek, nothing, recv(fd, buf, 20, MSG_PEEK)) \
	X(recv_trunc, nothing, recv(fd, buf, 20, MSG_TRUNC)) \
	X(__recv_chk, nothing, __recv_chk(fd, buf, 20, 30, 0)) \
	X(recvfrom, nothing, recvfrom(fd, buf, 20, 0, NULL, NULL)) \
	X(__recvfrom_chk, nothing, __recvfrom_chk(fd, buf, 20, 30, 0, NULL, NULL)) \
	X(recvmsg, nothing, by_msg(recvmsg, into, 2, 0)) \
	X(recvmmsg, nothing, by_msg(recv_many, into, 2, 0)) \
	X(fdopen, nothing, by_getline()) \
	X(aio_read, nothing, by_aio(aio_read, buf, 20)) \
	X(lio_listio, nothing, by_aio(list_read, buf, 20)) \
	X(eventfd_read, nothing, by_eventfd_read()) \
	X(ioctl, nothing, by_ioctl()) \
	X(mq_receive, nothing, mq_receive(fd, buf, 100, NULL)) \
	X(getdents64, nothing, getdents64(fd, buf, 100)) \
	X(vmsplice, nothing, vmsplice(fd, into, 2, 0)) \
	X(tee, pipe_free, tee(fd, other, 20, 0)) \
	X(splice, pipe_free, splice(fd, NULL, other, NULL, 20, 0)) \
	X(splice_file, regular, splice(fd, NULL, other, NULL, 20, 0)) \
	X(sendfile_pipe, pipe_free, sendfile(other, fd, NULL, 20)) \
	X(sendfile_file, regular, sendfile(other, fd, NULL, 20)) \
	X(sendfile_pair, pair, sendfile(other, fd, NULL, 20)) \
	X(sendfile_itself, nothing, sendfile(fd, fd, NULL, 20)) \
	X(copy_file_range, regular, copy_file_range(fd, NULL, other, NULL, 20, 0))
/* clang-format on */

#define send_DEFINE(ident, before, expr) DEFINE(send_##ident, before, expr)
#define recv_DEFINE(ident, before, expr) DEFINE(recv_##ident, before, expr)

SENDS(send_DEFINE)
SENDFILES(DEFINE)
RECEIVES(recv_DEFINE)

#define ROW(ident, before, expr) { #ident, before, call_send_##ident },
CASE(sends, DIRECT | LONG_RUN, "all that send, bytes around them")
{
	RUN(send_by, SENDS);
}

#undef ROW
#define ROW(ident, before, expr) { #ident, before, call_##ident },
CASE(sendfiles, DIRECT | LONG_RUN, "sendfile from each kind of file")
{
	RUN(send_by, SENDFILES);
}

#undef ROW
#define ROW(ident, before, expr) { #ident, before, call_recv_##ident },
CASE(receives, DIRECT | LONG_RUN, "all that receive, and what is left")
{
	RUN(recv_by, RECEIVES);
}
