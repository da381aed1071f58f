/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rawcalls.c - tests every row of preload/syscalls.def by syscall(), on a direct stream, on a TCP
 * connection that is not direct, and on a file: returns, errors, bytes, and argument forms that
 * only the kernel has.
 */
#include "app.h"

#include <linux/aio_abi.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char buf[65536], text[] = "by number";
static struct iovec out[2] = { IOV("[one"), IOV("two]") }, in[2] = { { buf, 3 }, { buf + 3, 4 } };
static int fd, epoll, two[2];
static struct epoll_event event, events[4];
static struct timespec left;
static fd_set set;
static struct pollfd waits;
static uint64_t mask;
static struct {
	const void *set;
	size_t size;
} sized;

static struct msghdr *message(struct iovec *iov)
{
	static struct msghdr m;

	m = (struct msghdr){ .msg_iov = iov, .msg_iovlen = 2 };
	return &m;
}

static struct mmsghdr *messages(struct iovec *iov)
{
	static struct mmsghdr m[2];

	m[0].msg_hdr = m[1].msg_hdr = *message(iov);
	return m;
}

static struct pollfd *polled(short what)
{
	waits = (struct pollfd){ .fd = fd, .events = what };
	return &waits;
}

static struct timespec *time_of(long ms)
{
	left = (struct timespec){ ms / 1000, ms % 1000 * 1000000 };
	return &left;
}

static fd_set *set_of(int n)
{
	FD_ZERO(&set);
	FD_SET(n, &set);
	return &set;
}

static void *mask_of(size_t size)
{
	sized.set = &mask;
	sized.size = size;
	return &sized;
}

static int value(void)
{
	static int v;
	static socklen_t len;

	len = sizeof(v);
	return syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &v, &len) < 0 ? -1 : v;
}

/* The kernel's own asynchronous I/O. */
static long by_io_submit(void)
{
	aio_context_t ctx = 0;
	struct iocb cb = { .aio_fildes = (uint32_t)fd,
			   .aio_lio_opcode = IOCB_CMD_PWRITE,
			   .aio_buf = (uint64_t)(uintptr_t)text,
			   .aio_nbytes = 4 };
	struct iocb *list[1] = { &cb };
	struct io_event done = { 0 };

	if (syscall(SYS_io_setup, 1, &ctx) < 0)
		return -1;
	if (syscall(SYS_io_submit, ctx, 1, list) == 1)
		syscall(SYS_io_getevents, ctx, 1, 1, &done, NULL);
	syscall(SYS_io_destroy, ctx);
	return (long)done.res;
}

static long file_of(const char *content)
{
	int file = (int)MUST(memfd_create("file", 0));

	app_write_all(file, content, strlen(content));
	MUST(lseek(file, 0, SEEK_SET));
	return file;
}

/* clang-format off */
#define SENDS(X) \
	X(syscall(SYS_write, fd, text, 9)) \
	X(syscall(SYS_writev, fd, out, 2)) \
	X(syscall(SYS_writev, fd, out, 1L << 32)) \
	X(syscall(SYS_pwritev2, fd, out, 2, -1L, 0L, 0L)) \
	X(syscall(SYS_pwritev2, fd, out, 2, 0L, 77L, 0L)) \
	X(syscall(SYS_sendto, fd, text, 9, MSG_NOSIGNAL, NULL, 0L)) \
	X(syscall(SYS_sendmsg, fd, message(out), 0)) \
	X(syscall(SYS_sendmmsg, fd, messages(out), 2, 0)) \
	X(syscall(SYS_sendfile, fd, two[0], NULL, 3)) \
	X(syscall(SYS_splice, two[1], NULL, fd, NULL, 3L, (long)SPLICE_F_NONBLOCK)) \
	X(syscall(SYS_tee, two[1], fd, 3, 0)) \
	X(syscall(SYS_vmsplice, fd, out, 2, 0)) \
	X(syscall(SYS_ioctl, fd, FIONBIO, &(int){ 1 })) \
	X(syscall(SYS_fcntl, fd, F_GETFL) & O_NONBLOCK) \
	X(syscall(SYS_read, fd, buf, 1)) \
	X(syscall(SYS_fcntl, fd, F_SETFL, O_RDWR)) \
	X(syscall(SYS_listen, fd, 1)) \
	X(syscall(SYS_accept, fd, NULL, NULL)) \
	X(syscall(SYS_accept4, fd, NULL, NULL, 0)) \
	X(syscall(SYS_connect, fd, text, 1)) \
	X(syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_RCVLOWAT, &(int){ 1 }, sizeof(int))) \
	X(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, NULL, NULL)) \
	X(value()) \
	X(syscall(SYS_shutdown, fd, 9))

#define RECEIVES(X) \
	X(syscall(SYS_ioctl, fd, FIONREAD, buf)) \
	X(syscall(SYS_read, fd, buf, 5)) \
	X(syscall(SYS_readv, fd, in, 2)) \
	X(syscall(SYS_readv, fd, in, 2000)) \
	X(syscall(SYS_preadv2, fd, in, 2, -1L, 0L, 0L)) \
	X(syscall(SYS_preadv2, fd, in, 2, -2L, 0L, 0L)) \
	X(syscall(SYS_recvfrom, fd, buf, 5, MSG_PEEK, NULL, NULL)) \
	X(syscall(SYS_recvfrom, fd, buf, 5, 0, NULL, NULL)) \
	X(syscall(SYS_recvmsg, fd, message(in), 0)) \
	X(syscall(SYS_recvmmsg, fd, messages(in), 2, 0, NULL)) \
	X(syscall(SYS_splice, fd, NULL, two[1], NULL, 5L, 0L))

#define WAITS(X) \
	X(syscall(SYS_ppoll, polled(POLLIN | POLLOUT), 1, time_of(5000), NULL, 0)) \
	X(syscall(SYS_ppoll, polled(POLLIN), 1, time_of(0), &mask, 8L)) \
	X(syscall(SYS_ppoll, polled(POLLIN), 1, time_of(0), &mask, 128L)) \
	X(syscall(SYS_ppoll, polled(POLLIN), 1, time_of(0), NULL, 128L)) \
	X(syscall(SYS_ppoll, polled(POLLPRI), 1, time_of(20), &mask, 8L)) \
	X(left.tv_sec || left.tv_nsec) \
	X(syscall(SYS_pselect6, fd + 1, set_of(fd), NULL, NULL, time_of(5000), NULL)) \
	X(left.tv_sec >= 3 && left.tv_sec < 5) \
	X(syscall(SYS_pselect6, fd + 1, set_of(fd), NULL, NULL, time_of(0), mask_of(8))) \
	X(syscall(SYS_pselect6, fd + 1, set_of(fd), NULL, NULL, time_of(0), mask_of(128))) \
	X(syscall(SYS_pselect6, fd + 1, NULL, NULL, set_of(fd), time_of(20), mask_of(8))) \
	X(left.tv_sec || left.tv_nsec) \
	X(syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_ADD, fd, &event)) \
	X(syscall(SYS_epoll_pwait, epoll, events, 4, 1000, NULL, 0L)) \
	X(syscall(SYS_epoll_pwait, epoll, events, 4, 0, &mask, 8L)) \
	X(syscall(SYS_epoll_pwait, epoll, events, 4, 0, &mask, 128L)) \
	X(syscall(SYS_epoll_pwait2, epoll, events, 4, time_of(1000), &mask, 8L)) \
	X(syscall(SYS_epoll_pwait2, epoll, events, 4, time_of(0), &mask, 7L)) \
	X(syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_MOD, fd, &event)) \
	X(syscall(SYS_epoll_ctl, epoll, EPOLL_CTL_DEL, fd, NULL))

#ifdef SYS_poll
#define OLD_WAITS(X) \
	X(syscall(SYS_poll, polled(POLLIN | POLLOUT), 1, 1000)) \
	X(syscall(SYS_poll, polled(POLLPRI), 1, 10)) \
	X(syscall(SYS_select, fd + 1, set_of(fd), NULL, NULL, &(struct timeval){ 1, 0 })) \
	X(syscall(SYS_epoll_wait, epoll, events, 4, 0))
#else
#define OLD_WAITS(X)
#endif

#define NUMBERS(X) \
	X(syscall(SYS_dup, fd) == 40) \
	X(syscall(SYS_dup3, fd, 41, O_CLOEXEC)) \
	X(syscall(SYS_fcntl, 41, F_GETFD)) \
	X(syscall(SYS_dup3, fd, fd, 0)) \
	X(syscall(SYS_fcntl, fd, F_DUPFD, 42)) \
	X(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 42)) \
	X(syscall(SYS_write, 41, text, 2)) \
	X(syscall(SYS_write, 42, text, 3)) \
	X(syscall(SYS_close, 41)) \
	X(syscall(SYS_close, 41)) \
	X(syscall(SYS_write, 41, text, 2)) \
	X(syscall(SYS_close_range, 42, 43, 0)) \
	X(syscall(SYS_write, 43, text, 2)) \
	X(syscall(SYS_execve, "/nowhere", NULL, NULL)) \
	X(syscall(SYS_execveat, -1, "nowhere", NULL, NULL, 0)) \
	X(syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0)) \
	X(syscall(SYS_close, -1)) \
	X(syscall(1L << 40)) \
	X(syscall(-1L)) \
	X(syscall(SYS_write, fd, text, 1))
/* clang-format on */
#define DO(expr) R(expr);
#define DO_IN(expr)                                                                                \
	memset(buf, 0, 16);                                                                        \
	R(expr);                                                                                   \
	app_bytes("  memory", buf, 16);

/* Both ends, in turn: what one sends by system call numbers the other reads to the end. */
static void sends(void)
{
	SENDS(DO)
}

static void receives(void)
{
	RECEIVES(DO_IN)
}

static void waits_for(void)
{
	event = (struct epoll_event){ .events = EPOLLIN, .data.u32 = 7 };
	WAITS(DO)
	LOG("event %x of %u", events[0].events, events[0].data.u32);
	MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
	OLD_WAITS(DO)
	MUST(epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL));
}

/* The other end of a copy: a file in two[0], a pipe's writing end in two[1]. */
static int make_others(void)
{
	int p[2];

	two[0] = (int)file_of("from a file");
	MUST(pipe(p));
	MUST(fcntl(p[0], F_SETFL, O_NONBLOCK));
	two[1] = p[1];
	epoll = (int)MUST(epoll_create1(0));
	return p[0];
}

/* Records the kernel's answers to all rows on a socket that both ends have. */
static void on_stream(unsigned int how)
{
	int reader = make_others();

	fd = app_open(how);
	if (CLI) {
		two[1] = reader;
		sends();
		MUST(shutdown(fd, SHUT_WR));
	} else {
		app_drain(fd, "sent");
	}
	app_sync();
	app_close(fd);

	fd = app_open(how);
	if (CLI) {
		app_write_all(fd, "0123456789abcdefghijklmnopqrstuvwxyz0123456789", 46);
		app_sync();
	} else {
		app_await_inq(fd, 46);
		waits_for();
		receives();
		app_sync();
		app_hear(reader, 5);
	}
	app_sync();
	app_close(fd);

	fd = app_open(how);
	if (CLI) {
		/* The copies get numbers that are not used otherwise. */
		while (MUST(dup(STDERR_FILENO)) < 39)
			;
		NUMBERS(DO)
		R(syscall(SYS_shutdown, fd, SHUT_WR));
		R(syscall(SYS_close, fd));
		app_sync();
	} else {
		app_drain(fd, "copies");
		app_sync();
	}
}

CASE(direct, DIRECT | LONG_RUN, "all rows on a direct stream")
{
	on_stream(WARM);
}

CASE(tcp, LONG_RUN, "all rows on a connection that has just been made")
{
	on_stream(COLD);
}

CASE(file, 0, "all rows on a file")
{
	make_others();
	fd = (int)file_of("0123456789abcdefghijklmnopqrstuvwxyz");
	if (SRV) {
		sends();
		MUST(lseek(fd, 0, SEEK_SET));
		receives();
	} else {
		while (MUST(dup(STDERR_FILENO)) < 39)
			;
		NUMBERS(DO)
	}
	app_sync();
}

CASE(io_submit, DIRECT, "the kernel's own asynchronous I/O comes in its place")
{
	fd = app_open(WARM);
	if (CLI) {
		SAY(fd, "before-");
		R(by_io_submit());
		SAY(fd, "-behind");
		MUST(shutdown(fd, SHUT_WR));
	} else {
		app_drain(fd, "all");
	}
	app_sync();
	app_close(fd);
}

static void *read_for_ever(void *arg)
{
	long *ret = arg;

	*ret = syscall(SYS_read, fd, buf, 1);
	pthread_testcancel();
	*ret = -7;
	return NULL;
}

CASE(no_cancellation, DIRECT,
     "a thread in syscall(SYS_read) is cancelled when the call is over, not in it")
{
	pthread_t thread;
	void *end;
	long ret = 0;

	fd = app_open(WARM);
	if (SRV) {
		if (pthread_create(&thread, NULL, read_for_ever, &ret))
			app_die("no thread");
		pthread_cancel(thread);
		app_sync();
		pthread_join(thread, &end);
		LOG("read %ld, cancelled %d", ret, end == PTHREAD_CANCELED);
	} else {
		app_sync();
		SAY(fd, "x");
	}
	app_sync();
	app_close(fd);
}

CASE(exit_group, DIRECT, "a process that ends by SYS_exit_group: the peer reads to the end")
{
	fd = app_open(WARM);
	if (CLI) {
		SAY(fd, "last words");
		app_log("end");
		syscall(SYS_exit_group, 0);
	}
	app_drain(fd, "peer");
	app_close(fd);
}
