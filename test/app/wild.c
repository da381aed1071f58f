/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wild.c - tests pointers to unmapped or read-only memory: EFAULT as from the kernel, and an
 * unchanged stream.
 */
#include <limits.h>
#include <linux/aio_abi.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>

#include "app.h"

static char buf[65536];
static size_t page;

#define NOWHERE ((void *)8)
#define KERNELS ((void *)(uintptr_t)-4096) /* in the kernel's part of the address space */

/* The last @len bytes before an end of mapped memory. */
static char *at_edge(size_t len)
{
	char *p;

	page = (size_t)sysconf(_SC_PAGESIZE);
	p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		app_die("mmap");
	MUST(munmap(p + page, page));
	return p + page - len;
}

/* Read-only memory that starts with @from, @bytes before its end. */
static void *constant(const void *from, size_t bytes)
{
	char *p = at_edge(bytes);

	memcpy(p, from, bytes);
	MUST(mprotect(p + bytes - page, page, PROT_READ));
	return p;
}

CASE(receive, DIRECT, "receiving to an edge, to a constant, to no memory: EFAULT, nothing is taken")
{
	int fd = app_open(WARM);
	char *edge = at_edge(6), *fixed = constant("constant", 8), *gone = at_edge(0);
	struct iovec into[3] = { { buf, 4 }, { gone, 4 }, { buf + 8, 4 } };
	struct iovec crossing[2] = { { buf, 3 }, { edge, 7 } };
	struct msghdr msg = { .msg_iov = into, .msg_iovlen = 3 };
	struct mmsghdr many[2] = { { .msg_hdr = msg }, { .msg_hdr = msg } };

	if (CLI) {
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 10);
		R(recv(fd, edge, 10, 0));
		R(read(fd, edge, 7));
		R(recv(fd, fixed, 8, 0));
		R(recvfrom(fd, gone, 1, 0, NULL, NULL));
		R(recv(fd, gone, 10, MSG_PEEK));
		R(recv(fd, edge, 10, MSG_PEEK));
		R(recv(fd, gone, 10, MSG_DONTWAIT));
		R(readv(fd, into, 3));
		R(readv(fd, crossing, 2));
		R(recvmsg(fd, &msg, 0));
		R(recvmmsg(fd, many, 2, 0, NULL));
		R(recv(fd, KERNELS, 4, 0));
		/* No more than there is gets written. */
		RB(edge, recv(fd, edge, 6, MSG_PEEK));
		RB(edge, recv(fd, edge, 6, 0));
		RB(edge, recv(fd, edge + 2, 10, MSG_PEEK));
		RB(edge, recv(fd, edge + 2, 10, 0));
		R(recv(fd, KERNELS, 4, MSG_DONTWAIT));
		R(recv(fd, gone, 4, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(send, DIRECT,
     "sending from an edge and from no memory: EFAULT, nothing is sent; a constant will do")
{
	int fd = app_open(WARM);
	char *edge = at_edge(6), *gone = at_edge(0), *fixed = constant("constant", 8);
	struct iovec from[2] = { { fixed, 8 }, { gone, 4 } },
		     crossing[2] = { { fixed, 8 }, { edge, 7 } };
	struct msghdr msg = { .msg_iov = from, .msg_iovlen = 2 };
	struct mmsghdr many[2] = { { .msg_hdr = msg }, { .msg_hdr = msg } };

	if (CLI) {
		memcpy(edge, "at end", 6); /* NOLINT(bugprone-not-null-terminated-result) */
		R(send(fd, edge, 7, 0));
		R(write(fd, edge + 1, 6));
		R(send(fd, gone, 1, MSG_DONTWAIT));
		R(send(fd, gone, 1, MSG_MORE));
		R(sendto(fd, gone, 1, 0, NULL, 0));
		R(writev(fd, from, 2));
		R(writev(fd, crossing, 2));
		R(sendmsg(fd, &msg, 0));
		R(sendmmsg(fd, many, 2, 0));
		R(send(fd, KERNELS, 4, 0));
		R(send(fd, edge, 6, 0));
		R(send(fd, fixed, 8, 0));
	} else {
		app_hear(fd, 14);
		R(recv(fd, buf, 1, MSG_DONTWAIT));
	}
	app_sync();
	app_close(fd);
}

CASE(half, DIRECT, "half of a large buffer is there: what was taken arrives, and nothing else")
{
	int fd = app_open(WARM);
	size_t half = 300000, whole = 2 * half;
	char *p, *got;
	long n;

	at_edge(0); /* sets page */
	p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		app_die("mmap");
	half &= ~(page - 1);
	MUST(mprotect(p + half, (1 << 20) - half, PROT_NONE));
	if (CLI) {
		app_pattern(p, half, 0, 7);
		n = send(fd, p, whole, 0);
		LOG("taken, not more than there is %d", n > 0 && (size_t)n <= half);
		app_flag_set(1, (uint64_t)n);
		R(send(fd, p + half, 10, 0));
	} else {
		n = (long)app_flag_wait(1);
		got = malloc(whole);
		LOG("all of it %d", app_read_full(fd, got, (size_t)n) == (size_t)n &&
					    app_pattern_ok(got, (size_t)n, 0, 7));
		R(recv(fd, buf, 1, MSG_DONTWAIT));
		free(got);
	}
	app_sync();
	/* The other way round: a receive of more than one message that runs over the edge. */
	if (CLI) {
		LOG("sent %d", app_send_pattern(fd, 2000000, 50000, 9));
	} else {
		size_t had = 0;
		bool bad = false;

		while (had < 2000000) {
			n = recv(fd, p, whole, 0);
			if (n < 0 && errno == EFAULT) {
				bad = true;
				n = recv(fd, p, half, 0);
			}
			if (n <= 0 || (size_t)n > half || !app_pattern_ok(p, (size_t)n, had, 9))
				app_die("%ld behind %zu", n, had);
			had += (size_t)n;
		}
		LOG("all of it, and once none %d", bad || had == 2000000);
	}
	app_sync();
	app_close(fd);
}

CASE(waits, DIRECT,
     "a receive to nowhere waits for bytes like any other, then says so, and leaves them")
{
	int fd = app_open(WARM);
	char *gone = at_edge(0);

	if (SRV) {
		R(recv(fd, gone, 4, 0));
		app_hear(fd, 5);
	}
	if (CLI) {
		app_pause_ms(30);
		SAY(fd, "hello");
	}
	app_sync();
	if (SRV) {
		R(recv(fd, gone, 4, 0));
	} else {
		app_pause_ms(30);
		R(shutdown(fd, SHUT_WR));
	}
	app_sync();
	app_close(fd);
}

CASE(headers, DIRECT, "messages, names, vectors, lengths in no memory, and in constants")
{
	int fd = app_open(WARM), inq = 0;
	struct iovec iov = { buf, 4 };
	struct msghdr plain = { .msg_iov = &iov, .msg_iovlen = 1 }, named = plain, vectors = plain,
		      control = plain;
	struct msghdr *fixed = constant(&plain, sizeof(plain));
	char *gone = at_edge(0);
	struct sockaddr_storage from;
	socklen_t len = sizeof(from), *fixed_len = constant(&len, sizeof(len));

	named.msg_name = gone;
	named.msg_namelen = 16;
	vectors.msg_iov = (void *)gone;
	control.msg_control = gone;
	control.msg_controllen = 64;
	memcpy(buf, "text", 4); /* NOLINT(bugprone-not-null-terminated-result) */
	if (CLI) {
		R(sendmsg(fd, (void *)gone, 0));
		R(sendmsg(fd, (void *)(gone - 8), 0));
		R(sendmsg(fd, &named, 0));
		R(sendmsg(fd, &vectors, 0));
		R(sendmsg(fd, &control, 0));
		R(writev(fd, (void *)gone, 2));
		R(sendto(fd, buf, 4, 0, (void *)gone, 16));
		R(sendmmsg(fd, (void *)gone, 1, 0));
		R(sendmsg(fd, fixed, 0));
		SAY(fd, "0123456789");
	} else {
		app_await_inq(fd, 14);
		R(recvmsg(fd, (void *)gone, 0));
		R(recvmsg(fd, (void *)(gone - 8), 0));
		R(recvmsg(fd, &vectors, 0));
		R(readv(fd, (void *)gone, 2));
		R(recvmmsg(fd, (void *)gone, 1, 0, NULL));
		R(recvmmsg(fd, (void *)gone, 1, 0, (void *)gone));
		R(ioctl(fd, FIONREAD, gone));
		R(ioctl(fd, FIONREAD, constant(&inq, sizeof(inq))));
		R(ioctl(fd, FIONREAD, NOWHERE));
		app_await_inq(fd, 14);
		/* The bytes are consumed by then. */
		RB(buf, recvfrom(fd, buf, 4, 0, (void *)&from, (void *)gone));
		RB(buf, recvfrom(fd, buf, 4, 0, (void *)&from, fixed_len));
		R(recvmsg(fd, fixed, 0));
		app_hear(fd, 2);
	}
	app_sync();
	app_close(fd);
}

CASE(polled, DIRECT, "sets, events and times in no memory")
{
	int fd = app_open(WARM), ep = MUST(epoll_create1(0)), big = INT_MAX / 16;
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = 1 },
			   *one = (void *)at_edge(sizeof(ev));
	struct pollfd *pfd = (void *)at_edge(sizeof(*pfd));
	char *gone = at_edge(0);
	struct timeval none = { 0 };
	fd_set *set = (void *)at_edge(FD_SETSIZE / 8), *lost = (void *)gone;

	*pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	FD_ZERO(set);
	FD_SET(fd, set);
	if (SRV) {
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, (void *)gone));
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, (void *)(gone - 4)));
		R(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev));
		R(epoll_ctl(ep, EPOLL_CTL_MOD, fd, (void *)gone));
	}
	app_sync();
	if (CLI) {
		SAY(fd, "12345");
	} else {
		app_await_inq(fd, 5);
		R(poll(pfd, 1, -1));
		R(poll(pfd, 2, -1));
		R(poll((void *)gone, 1, -1));
		R(poll((void *)(gone - 4), 1, -1));
		R(poll(constant(pfd, sizeof(*pfd)), 1, -1));
		R(syscall(SYS_ppoll, pfd, 1L, gone, NULL, 8L));
		R(syscall(SYS_ppoll, pfd, 1L, NULL, gone, 8L));
		R(select(fd + 1, set, NULL, NULL, &none));
		R(select(fd + 1, lost, NULL, NULL, &none));
		R(select(fd + 1, NULL, lost, NULL, NULL));
		R(syscall(SYS_pselect6, (long)fd + 1, set, NULL, NULL, NULL, gone));
		R(epoll_wait(ep, (void *)gone, 4, 0));
		R(epoll_wait(ep, (void *)(gone - 4), 4, 0));
		R(epoll_wait(ep, one, big, 0));
		LOG("event %x of %d", one->events, one->data.fd);
		R(epoll_wait(ep, one, 4, -1));
		R(epoll_pwait(ep, one, 4, -1, (void *)gone));
		app_hear(fd, 5);
		R(select(fd + 1, set, NULL, NULL, &none));
	}
	close(ep);
	app_sync();
	app_close(fd);
}

CASE(files, DIRECT, "sendfile() and where it begins, in no memory and in a constant")
{
	int fd = app_open(WARM), file = MUST(memfd_create("wild", 0));
	off_t at = 2;

	if (CLI) {
		MUST(pwrite(file, "0123456789", 10, 0));
		R(sendfile(fd, file, (void *)at_edge(0), 4));
		R(sendfile(fd, file, &at, 4));
		LOG("at %ld", (long)at);
	} else {
		app_hear(fd, 4);
	}
	app_sync();
	close(file);
	app_close(fd);
}

CASE(shrunk, DIRECT, "a mapped file that has become shorter: EFAULT to send and to receive")
{
	int fd = app_open(WARM), file = MUST(memfd_create("wild", 0));
	char *p;

	page = (size_t)sysconf(_SC_PAGESIZE);
	MUST(ftruncate(file, (off_t)(2 * page)));
	p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		app_die("mmap");
	MUST(ftruncate(file, (off_t)page));
	if (CLI) {
		R(send(fd, p + page, 10, 0));
		R(send(fd, p + page - 5, 10, 0));
		SAY(fd, "12345");
	} else {
		app_await_inq(fd, 5);
		R(recv(fd, p + page, 10, 0));
		R(recv(fd, p + page - 2, 10, 0));
		RB(p, recv(fd, p, page + 100, 0));
	}
	app_sync();
	close(file);
	app_close(fd);
}

/* Calls that need no stream, with sockets, sets and times in unmapped memory. */
static void ask_without_stream(int tcp, char *gone)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct iovec iov = { buf, 1 };
	struct msghdr control = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = gone, .msg_controllen = 64
	};
	struct mmsghdr many = { .msg_hdr = control };
	int ep = MUST(epoll_create1(0)), pair[2];
	struct timeval none = { 0 };
	struct pollfd pfd = { 0 };
	aio_context_t aio = 0;
	fd_set set;

	FD_ZERO(&set);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pfd.fd = pair[0];
	R(sendmsg(pair[0], (void *)gone, 0));
	R(sendmsg(pair[0], (void *)(gone - 8), 0));
	R(sendmsg(pair[0], KERNELS, 0));
	R(sendmsg(pair[0], &control, 0));
	R(sendmmsg(pair[0], (void *)gone, 1, 0));
	R(sendmmsg(pair[0], &many, 1, 0));
	R(recvmsg(pair[0], (void *)gone, MSG_DONTWAIT));
	R(recvmmsg(pair[0], (void *)gone, 1, MSG_DONTWAIT, NULL));
	R(recvmmsg(pair[0], &many, 1, MSG_DONTWAIT, (void *)gone));
	R(ppoll(&pfd, 1, NULL, (void *)gone));
	R(pselect(0, NULL, NULL, NULL, NULL, (void *)gone));
	R(select(1, (void *)gone, NULL, NULL, &none));
	/* libc itself reads the times. */
	R(syscall(SYS_ppoll, &pfd, 1L, gone, NULL, 8L));
	R(syscall(SYS_ppoll, &pfd, 1L, NULL, gone, 8L));
	R(syscall(SYS_pselect6, 1L, &set, NULL, NULL, gone, NULL));
	R(syscall(SYS_pselect6, 1L, &set, NULL, NULL, NULL, gone));
	R(epoll_ctl(ep, EPOLL_CTL_ADD, tcp, (void *)gone));
	R(epoll_pwait(ep, &ev, 1, 0, (void *)gone));
	R(syscall(SYS_epoll_pwait, (long)ep, &ev, 1L, 0L, gone, 8L));
	R(syscall(SYS_io_setup, 1L, &aio));
	R(syscall(SYS_io_submit, aio, 1L, gone));
	R(syscall(SYS_clone3, gone, 64L));
	R(setsockopt(tcp, SOL_SOCKET, SO_TIMESTAMP, gone, sizeof(int)));
	R(ioctl(tcp, FIOASYNC, gone));
	R(ioctl(tcp, FIONBIO, gone));
	R(connect(tcp, (void *)gone, 16));
	MUST(syscall(SYS_io_destroy, aio));
	close(pair[0]);
	close(pair[1]);
	close(ep);
}

CASE(no_stream, DIRECT,
     "calls in a process that has no stream yet: EFAULT; what may be read is applied")
{
	int listener = SRV ? app_listen(COLD) : -1, off = 0,
	    fd = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	char *gone = at_edge(0);
	struct app_addr addr;

	/* Keeps another mapping from being placed there meanwhile. */
	if (mmap(gone, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != gone)
		app_die("mmap");
	ask_without_stream(fd, gone);
	/* None of these keeps the stream from being accelerated. */
	R(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &off, sizeof(off)));
	R(ioctl(fd, FIOASYNC, &off));
	R(connect(fd, &nobody, sizeof(nobody)));
	app_sync();
	if (SRV) {
		app_close(fd);
		fd = app_accept(listener);
	} else {
		app_addr_make(&addr, COLD, false, app_port());
		R(connect(fd, &addr.sa, addr.len));
	}
	app_warm(fd);
	app_expect_rings(1);
	app_sync();
	app_close(fd);
}
