/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reuse.h - for tests of a direct stream's number that is made anew (reuse.c): each row of a table
 * makes a descriptor with that number. The test uses the number, and records what comes of it.
 */
#ifndef APP_REUSE_H
#define APP_REUSE_H

#include "app.h"
#include "rawclose.h"

#include <mqueue.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static char path[64], name[64], template[64], buf[4096];
static int two[2], helper[4], freed;
static FILE *file;

#define MODES (O_RDWR | O_CREAT)

static inline int first(int ret)
{
	return ret < 0 ? -1 : two[0];
}

/* ---- what must exist before the number is free ---- */

static inline void with_nothing(void)
{
}

/* The lower of the two numbers must be the one that the command makes. */
static inline void with_slave(void)
{
}

/* A FILE with another number. */
static inline void with_file(void)
{
	file = fopen("/dev/null", "r");
}

static inline void with_pidfd(void)
{
	helper[0] = (int)MUST(pidfd_open(getpid(), 0));
	helper[1] = (int)MUST(memfd_create("other", 0));
}

static inline void with_pair(void)
{
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, helper));
}

/* A connection that waits to be accepted. */
static inline void with_listener(void)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(sa);

	helper[0] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(bind(helper[0], (struct sockaddr *)&sa, sizeof(sa)));
	MUST(listen(helper[0], 1));
	MUST(getsockname(helper[0], (struct sockaddr *)&sa, &len));
	helper[1] = (int)MUST(socket(AF_INET, SOCK_STREAM, 0));
	MUST(connect(helper[1], (struct sockaddr *)&sa, sizeof(sa)));
}

static inline struct msghdr *message(int *fd)
{
	static struct iovec iov = { buf, 1 };
	static union {
		struct cmsghdr c;
		char room[CMSG_SPACE(sizeof(int))];
	} u;
	static struct msghdr m;

	m = (struct msghdr){
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &u, .msg_controllen = sizeof(u)
	};
	if (fd) {
		u.c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
					.cmsg_level = SOL_SOCKET,
					.cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(&u.c), fd, sizeof(*fd));
	}
	return &m;
}

static inline int arrived(ssize_t ret, struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (ret >= 0 && c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* A descriptor under way in a message. */
static inline void with_message(void)
{
	int fd = (int)MUST(memfd_create("passed", 0));

	with_pair();
	MUST(sendmsg(helper[0], message(&fd), 0));
	app_close(fd);
}

static inline int by_recvmsg(long (*call)(struct msghdr *m))
{
	struct msghdr *m = message(NULL);

	return arrived(call(m), m);
}

static const sigset_t no_signals;

/* ---- one after the other ---- */

struct maker {
	const char *text;
	void (*prepare)(void);
	int (*make)(void);
	bool moves; /* takes the number, and moves on to another one */
};

/* The program's use of the descriptor, and the kernel's answers to it. */
static inline void use(int fd)
{
	static const char text[] = "for the new one, not for the peer";
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct iovec in = { buf, 20 }, out = IOV("vector");
	int flags = fcntl(fd, F_GETFL);
	bool terminal = isatty(fd) || (file && flags < 0);
	struct stat st;

	if (fstat(fd, &st) == 0)
		LOG("kind %o", st.st_mode & S_IFMT);
	R(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
	R(write(fd, text, sizeof(text) - 1));
	if (terminal) /* a terminal echoes at an unknown time */
		return;
	R(writev(fd, &out, 1));
	R(send(fd, text, 5, MSG_NOSIGNAL));
	R(poll(&p, 1, 0));
	LOG("revents %x", (unsigned int)p.revents);
	R(lseek(fd, 0, SEEK_SET));
	RB(buf, read(fd, buf, 40));
	RB(buf, readv(fd, &in, 1));
	RB(buf, recv(fd, buf, 10, MSG_DONTWAIT));
}

static inline void run(const struct maker *m)
{
	int fd, got, hole, holes[16], n = 0;

	two[0] = two[1] = -1;
	for (int i = 0; i < 4; i++)
		helper[i] = -1;
	if (file)
		fclose(file);
	file = NULL;
	if (SRV)
		m->prepare();
	fd = app_open(WARM);
	if (CLI) {
		app_sync();
		app_drain(fd, m->text);
		app_close(fd);
		app_sync();
		return;
	}
	/* No lower number is free: the next descriptor gets this one. */
	while ((hole = (int)MUST(dup(STDERR_FILENO))) < fd)
		holes[n++] = hole;
	app_close(hole);
	MUST(raw_close(fd));
	freed = fd;
	errno = 0;
	got = m->make();
	LOG("%s: %s", m->text, got < 0 ? app_errname(errno) : "made");
	if (got >= 0 && got != fd && two[1] != fd && !m->moves)
		app_die("of another number: %d, not %d", got, fd);
	if (got >= 0)
		use(got);
	app_sync();
	for (int i = 0; i < 4; i++)
		if (helper[i] >= 0)
			app_close(helper[i]);
	for (int i = 0; i < 2; i++)
		if (two[i] >= 0 && two[i] != got)
			app_close(two[i]);
	if (got >= 0)
		R(close(got));
	while (n)
		app_close(holes[--n]);
	app_sync();
}

static inline void run_all(const struct maker *makers, size_t n)
{
	int made;

	snprintf(path, sizeof(path), "/tmp/app_reuse.%d", (int)getpid());
	snprintf(name, sizeof(name), "/app_reuse.%d", (int)getpid());
	made = (int)MUST(open(path, MODES | O_TRUNC, 0600));
	app_close(made);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < n; i++) {
		run(&makers[i]);
		if (template[0])
			unlink(template);
		template[0] = '\0';
	}
	unlink(path);
	shm_unlink(name);
	mq_unlink(name);
}

#define DEFINE(ident, before, expr)                                                                \
	static int make_##ident(void)                                                              \
	{                                                                                          \
		return (int)(expr);                                                                \
	}
#define ROW(ident, before, expr)                                                                   \
	{ #ident, with_##before, make_##ident,                                                     \
	  with_##before == with_file || with_##before == with_slave },
#define RUN(list)                                                                                  \
	do {                                                                                       \
		static const struct maker makers[] = { list(ROW) };                                \
		run_all(makers, sizeof(makers) / sizeof(makers[0]));                               \
	} while (0)

#endif
