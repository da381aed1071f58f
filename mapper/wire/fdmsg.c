// SPDX-License-Identifier: BSD-2-Clause
/* fdmsg.c - see fdmsg.h. */
#include "fdmsg.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <rsock/clock.h>
#include <rsock/sys.h>

#include "helper.h"

union room {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int) * RSK_FDMSG_MOST)];
};

int rsk_fdmsg_send(int fd, const void *buf, size_t bytes, const int *fds, int nfds)
{
	struct iovec iov = { (void *)buf, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	union room c;
	ssize_t n;

	if (nfds) {
		memset(&c, 0, sizeof(c));
		msg.msg_control = &c;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)nfds);
		c.head.cmsg_level = SOL_SOCKET;
		c.head.cmsg_type = SCM_RIGHTS;
		c.head.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)nfds);
		memcpy(CMSG_DATA(&c.head), fds, sizeof(int) * (size_t)nfds);
	}
	n = rsk_sys_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 ? (int)n : 0;
}

/* ---- descriptors of a message ---- */

enum what {
	WHAT_MEMORY,
	/* Its close() does not wait as long as the message in the queue has a reference, too */
	WHAT_QUIET,
	WHAT_FILE /* a regular file: its close() may ask the server of its file system */
};

static bool begins(const char *text, ssize_t n, const char *with)
{
	size_t len = strlen(with);

	return n >= (ssize_t)len && !memcmp(text, with, len);
}

/* Decides by the name that the kernel gives the file, which needs no call to a file system. */
static enum what what_is(int fd)
{
	char path[32] = "/proc/self/fd/", name[32], digits[12];
	unsigned int v = (unsigned int)fd;
	size_t at = strlen(path);
	struct statx st = { 0 };
	int i = 0;
	ssize_t n;

	if (rsk_sys_fcntl(fd, F_GET_SEALS, 0) >= 0)
		return WHAT_MEMORY;
	do {
		digits[i++] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while (i)
		path[at++] = digits[--i];
	path[at] = 0;
	n = rsk_sys_readlinkat(AT_FDCWD, path, name, sizeof(name));
	if (begins(name, n, "anon_inode:[eventfd]"))
		return WHAT_MEMORY;
	if (begins(name, n, "anon_inode:") || begins(name, n, "socket:[") ||
	    begins(name, n, "pipe:["))
		return WHAT_QUIET;
	/* AT_STATX_DONT_SYNC: the cached type is enough; the file system is not asked. */
	if (rsk_sys_statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0 ||
	    S_ISREG(st.stx_mode))
		return WHAT_FILE;
	return WHAT_QUIET;
}

/* Number of files and sockets that stay open because their close() might not return. */
#define LEFT_OPEN_MOST 32
static _Atomic(unsigned int) left_open;

bool rsk_fdmsg_is_full(void)
{
	return atomic_load(&left_open) >= LEFT_OPEN_MOST;
}

/*
 * Closes copies of descriptors whose message is still in the queue, so that none is the last
 * reference.
 */
static void give_back(const int *fds, int n)
{
	for (int i = 0; i < n; i++) {
		if (what_is(fds[i]) == WHAT_FILE)
			atomic_fetch_add(&left_open, 1);
		else
			rsk_sys_close(fds[i]);
	}
}

static bool are(enum rsk_fdmsg_kind kind, const int *fds, int n)
{
	for (int i = 0; kind != RSK_FDMSG_TRUSTED && i < n; i++)
		if (what_is(fds[i]) != WHAT_MEMORY)
			return false;
	return true;
}

static int take_fds(struct msghdr *msg, int *out)
{
	int n = 0;

	for (struct cmsghdr *h = CMSG_FIRSTHDR(msg); h; h = CMSG_NXTHDR(msg, h)) {
		size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count && n < RSK_FDMSG_MOST; i++, n++)
			memcpy(&out[n], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
	}
	return n;
}

/* Takes copies of the first message's descriptors and leaves the message in the queue. */
static int look_at_fds(int fd, enum rsk_fdmsg_kind kind, int *fds, int most)
{
	char byte;
	struct iovec iov = { &byte, sizeof(byte) };
	union room c;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
	};
	int all[RSK_FDMSG_MOST], n, rc = 0;
	ssize_t got = rsk_sys_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return (int)got;
	n = take_fds(&msg, all);
	if (n > most || (n == RSK_FDMSG_MOST && (msg.msg_flags & MSG_CTRUNC)))
		rc = -EPROTO;
	else if (!are(kind, all, n))
		rc = -EBADMSG;
	else if (msg.msg_flags & MSG_CTRUNC)
		rc = -EMFILE;
	if (rc < 0) {
		give_back(all, n);
		return rc;
	}
	memcpy(fds, all, sizeof(int) * (size_t)n);
	return n;
}

/* ---- the same check, done by a helper process first ---- */

#define VETTING_MOST (RSK_HELPERS / 2) /* the other half is kept for closing sockets */

struct vet {
	int fd, to, most;
};

/* The helper's copies are released when the helper ends, however long that takes. */
static void vet(void *arg)
{
	const struct vet *v = arg;
	int fds[RSK_FDMSG_MOST], rc;

	rc = look_at_fds(v->fd, RSK_FDMSG_MEMORY, fds, v->most);
	rsk_sys_write(v->to, &rc, sizeof(rc));
}

static _Atomic(uint64_t) vetting_ns;

uint64_t rsk_fdmsg_vetting_ns(void)
{
	return atomic_load(&vetting_ns);
}

/*
 * Returns what look_at_fds() returns in the helper. The wait is for a process that makes a few
 * calls, none of which can block.
 */
static int vetted(int fd, int most)
{
	struct vet v = { .fd = fd, .most = most };
	uint64_t began_ns = rsk_monotonic_ns();
	int pipe[2], rc, said;
	ssize_t n;

	if (!rsk_helper_few(VETTING_MOST))
		return -EBUSY;
	rc = rsk_sys_pipe2(pipe, O_CLOEXEC);
	if (rc < 0)
		return rc;
	v.to = pipe[1];
	rc = rsk_helper_start(vet, &v, "rsock-look", fd, pipe[1]);
	rsk_sys_close(pipe[1]);
	while (rc == 0) {
		n = rsk_sys_read(pipe[0], &said, sizeof(said));
		if (n == -EINTR)
			continue;
		rc = n == sizeof(said) ? said : -EBUSY;
		break;
	}
	rsk_sys_close(pipe[0]);
	atomic_fetch_add(&vetting_ns, rsk_monotonic_ns() - began_ns);
	return rc == -EAGAIN ? -EBUSY : rc;
}

ssize_t rsk_fdmsg_recv(int fd, void *buf, size_t bytes, enum rsk_fdmsg_kind kind, int *fds,
		       int most, int *nfds)
{
	struct iovec iov = { buf, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	/*
	 * MSG_TRUNC returns the true length, so that a longer message is not taken for one of ours.
	 */
	ssize_t n = rsk_sys_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
	int with;

	*nfds = 0;
	/* An empty message looks like the end of the connection. */
	if (n <= 0)
		return n;
	/*
	 * Without a control buffer MSG_CTRUNC means that there are descriptors, which the kernel
	 * has left in the queue.
	 */
	if (msg.msg_flags & MSG_CTRUNC) {
		if ((size_t)n != bytes)
			return -EPROTO;
		if (rsk_fdmsg_is_full())
			return -EBUSY;
		with = kind == RSK_FDMSG_VETTED ? vetted(fd, most) : 0;
		if (with >= 0)
			with = look_at_fds(fd, kind, fds, most);
		if (with < 0)
			return with;
		*nfds = with;
	}
	/* This drops the queue's references; the checked copies are ours. */
	msg = (struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 };
	return rsk_sys_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_TRUNC);
}

ssize_t rsk_fdmsg_peek(int fd, void *buf, size_t bytes)
{
	struct iovec iov = { buf, bytes };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	return rsk_sys_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
}

int rsk_fdmsg_drop(int fd, enum rsk_fdmsg_kind kind)
{
	char byte;
	struct iovec iov = { &byte, sizeof(byte) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[RSK_FDMSG_MOST], n = look_at_fds(fd, kind, fds, RSK_FDMSG_MOST);
	ssize_t got;

	if (n < 0)
		return n;
	/* Our copies are closed after the queue's references: none of those is the last one. */
	got = rsk_sys_recvmsg(fd, &msg, MSG_DONTWAIT);
	for (int i = 0; i < n; i++)
		rsk_sys_close(fds[i]);
	return got < 0 ? (int)got : 0;
}

/* ---- closing ---- */

/* More messages than a queue can have: the sender's buffer holds some hundred. */
#define DRAIN_MOST 4096

/*
 * True if the queue has, or may have, a message with descriptors. Messages before it are taken out.
 * With SO_PASSCRED a message has a sender, which tells an empty message from the end. No message is
 * added meanwhile because the socket is shut down.
 */
static bool has_fds(int fd)
{
	const int on = 1;
	char byte;

	rsk_sys_setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	for (int i = 0; i < DRAIN_MOST; i++) {
		struct iovec iov = { &byte, sizeof(byte) };
		union {
			struct cmsghdr head;
			char space[CMSG_SPACE(sizeof(struct ucred))];
		} c;
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = &c,
				      .msg_controllen = sizeof(c) };
		ssize_t n = rsk_sys_recvmsg(fd, &msg, MSG_PEEK | MSG_DONTWAIT);

		if (msg.msg_flags & MSG_CTRUNC && n >= 0)
			return true;
		if (n == -EINTR || n == -ECONNRESET) /* reported once */
			continue;
		if (n < 0 || !msg.msg_controllen)
			return false;
		rsk_sys_recvfrom(fd, &byte, sizeof(byte), MSG_DONTWAIT, NULL, NULL);
	}
	return true;
}

struct last {
	int fd, until;
};

/*
 * In the helper: keeps a reference until the parent has closed its own. The kernel does not linger
 * on sockets that it closes for an ending process.
 */
static void outlive(void *arg)
{
	const struct last *l = arg;
	char byte;

	while (rsk_sys_read(l->until, &byte, 1) == -EINTR)
		;
}

static void close_by(int fd, void (*close)(int fd))
{
	if (close)
		close(fd);
	else
		rsk_sys_close(fd);
}

/* Returns false if no helper can be started. */
static bool close_in_helper(int fd, void (*close)(int fd))
{
	struct last last = { .fd = fd };
	int end[2], rc;

	if (!rsk_helper_few(RSK_HELPERS) || rsk_sys_pipe2(end, O_CLOEXEC) < 0)
		return false;
	last.until = end[0];
	rc = rsk_helper_start(outlive, &last, "rsock-close", fd, end[0]);
	if (rc == 0)
		close_by(fd, close);
	rsk_sys_close(end[1]);
	rsk_sys_close(end[0]);
	return rc == 0;
}

void rsk_fdmsg_close(int fd, void (*close)(int fd))
{
	if (fd < 0)
		return;
	rsk_sys_shutdown(fd, SHUT_RDWR);
	if (!has_fds(fd))
		close_by(fd, close);
	else if (!close_in_helper(fd, close))
		atomic_fetch_add(&left_open, 1);
}
