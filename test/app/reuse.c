/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reuse.c - tests a direct stream's number that is closed by a call that no hook sees, and made
 * anew by every function that makes a descriptor, one by one: what is written there goes there,
 * what is read there comes from there, and the stream's peer sees its end and nothing else.
 */
#include "app.h"
#include "rawclose.h"

#include <dirent.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <mntent.h>
#include <mqueue.h>
#include <netdb.h>
#include <pty.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

/* The fortified names, and those that headers do not declare. */
extern int __open(const char *path, int flags, ...);
extern int __open64(const char *path, int flags, ...);
extern int __open_2(const char *path, int flags);
extern int __open64_2(const char *path, int flags);
extern int __openat_2(int dir, const char *path, int flags);
extern int __openat64_2(int dir, const char *path, int flags);
extern int __pipe(int fds[2]);
extern mqd_t __mq_open_2(const char *name, int flags);
extern FILE *_IO_fopen(const char *path, const char *mode);
extern FILE *_IO_popen(const char *command, const char *mode);
extern FILE *__setmntent(const char *path, const char *mode);

static char path[64], name[64], template[64], buf[4096];
static int two[2], helper[4], freed;
static FILE *file;

#define MODES (O_RDWR | O_CREAT)

static int of_file(FILE *f)
{
	file = f;
	return f ? fileno(f) : -1;
}

static int of_dir(DIR *d)
{
	return d ? dirfd(d) : -1;
}

static char *temp(const char *suffix)
{
	snprintf(template, sizeof(template), "/tmp/app_reuse.XXXXXX%s", suffix);
	return template;
}

static int first(int ret)
{
	return ret < 0 ? -1 : two[0];
}

static int by_handle(void)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	} u = { .h.handle_bytes = MAX_HANDLE_SZ };
	int mount;

	if (name_to_handle_at(AT_FDCWD, path, &u.h, &mount, 0) < 0)
		return -1;
	return open_by_handle_at(helper[0], &u.h, O_RDWR);
}

static int other_mount(int fs)
{
	if (fs < 0)
		return -1;
	syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
	return fsmount(fs, 0, 0);
}

/* ---- what must exist before the number is free ---- */

static void with_nothing(void)
{
}

/* The lower of the two numbers must be the one that the command makes. */
static void with_slave(void)
{
}

/* A FILE with another number. */
static void with_file(void)
{
	file = fopen("/dev/null", "r");
}

static void with_dir(void)
{
	helper[0] = (int)MUST(open("/tmp", O_DIRECTORY | O_RDONLY));
}

static void with_fs(void)
{
	helper[0] = fsopen("tmpfs", 0);
}

static void with_pidfd(void)
{
	helper[0] = (int)MUST(pidfd_open(getpid(), 0));
	helper[1] = (int)MUST(memfd_create("other", 0));
}

static void with_pair(void)
{
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, helper));
}

/* A connection that waits to be accepted. */
static void with_listener(void)
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

static struct msghdr *message(int *fd)
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

static int arrived(ssize_t ret, struct msghdr *m)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fd = -1;

	if (ret >= 0 && c)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* A descriptor under way in a message. */
static void with_message(void)
{
	int fd = (int)MUST(memfd_create("passed", 0));

	with_pair();
	MUST(sendmsg(helper[0], message(&fd), 0));
	app_close(fd);
}

static int by_recvmsg(long (*call)(struct msghdr *m))
{
	struct msghdr *m = message(NULL);

	return arrived(call(m), m);
}

static long libc_recvmsg(struct msghdr *m)
{
	return recvmsg(helper[1], m, 0);
}

static long number_recvmsg(struct msghdr *m)
{
	return syscall(SYS_recvmsg, helper[1], m, 0);
}

static long libc_recvmmsg(struct msghdr *m)
{
	struct mmsghdr mm = { .msg_hdr = *m };
	int ret = recvmmsg(helper[1], &mm, 1, 0, NULL);

	*m = mm.msg_hdr;
	return ret;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

static int peer_pidfd(void)
{
	int fd = -1;
	socklen_t len = sizeof(fd);

	return getsockopt(helper[0], SOL_SOCKET, SO_PEERPIDFD, &fd, &len) < 0 ? -1 : fd;
}

static int by_openat2(void)
{
	struct open_how how = { .flags = O_RDWR };

	return (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

static int by_perf(void)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_SW_DUMMY };

	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static int by_bpf(void)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static int by_landlock(void)
{
	uint64_t attr[1] = { 1 };

	return (int)syscall(SYS_landlock_create_ruleset, attr, sizeof(attr), 0);
}

/* Makes the descriptor of a child that ends at once. */
static int by_clone(void)
{
	int fd = -1;
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, &fd, NULL, NULL);

	if (pid == 0)
		_exit(0);
	MUST(waitpid(pid, NULL, 0));
	return fd;
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
static void use(int fd)
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

static void run(const struct maker *m)
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

static void run_all(const struct maker *makers, size_t n)
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

/* clang-format off */
#define FILES(X) \
	X(open, nothing, open(path, O_RDWR)) \
	X(open_created, nothing, open(path, MODES, 0600)) \
	X(open64, nothing, open64(path, O_RDWR)) \
	X(__open, nothing, __open(path, O_RDWR)) \
	X(__open64, nothing, __open64(path, O_RDWR)) \
	X(openat, dir, openat(helper[0], path + 5, O_RDWR)) \
	X(openat64, dir, openat64(helper[0], path + 5, O_RDWR)) \
	X(__open_2, nothing, __open_2(path, O_RDWR)) \
	X(__open64_2, nothing, __open64_2(path, O_RDWR)) \
	X(__openat_2, dir, __openat_2(helper[0], path + 5, O_RDWR)) \
	X(__openat64_2, dir, __openat64_2(helper[0], path + 5, O_RDWR)) \
	X(creat, nothing, creat(path, 0600)) \
	X(creat64, nothing, creat64(path, 0600)) \
	X(open_by_handle_at, dir, by_handle()) \
	X(mkstemp, nothing, mkstemp(temp(""))) \
	X(mkstemp64, nothing, mkstemp64(temp(""))) \
	X(mkostemp, nothing, mkostemp(temp(""), O_APPEND)) \
	X(mkostemp64, nothing, mkostemp64(temp(""), 0)) \
	X(mkstemps, nothing, mkstemps(temp(".x"), 2)) \
	X(mkstemps64, nothing, mkstemps64(temp(".x"), 2)) \
	X(mkostemps, nothing, mkostemps(temp(".x"), 2, 0)) \
	X(mkostemps64, nothing, mkostemps64(temp(".x"), 2, 0))

#define STDIO(X) \
	X(fopen, nothing, of_file(fopen(path, "r+"))) \
	X(fopen64, nothing, of_file(fopen64(path, "r+"))) \
	X(_IO_fopen, nothing, of_file(_IO_fopen(path, "r+"))) \
	X(freopen, file, of_file(freopen(path, "r+", file))) \
	X(freopen64, file, of_file(freopen64(path, "r+", file))) \
	X(tmpfile, nothing, of_file(tmpfile())) \
	X(tmpfile64, nothing, of_file(tmpfile64())) \
	X(setmntent, nothing, of_file(setmntent(path, "r+"))) \
	X(__setmntent, nothing, of_file(__setmntent(path, "r+"))) \
	X(popen, slave, of_file(popen("cat >/dev/null", "w"))) \
	X(popen_read, nothing, of_file(popen("exec sleep 0", "r"))) \
	X(_IO_popen, slave, of_file(_IO_popen("cat >/dev/null", "w"))) \
	X(opendir, nothing, of_dir(opendir("/tmp")))

#define KERNEL(X) \
	X(memfd_create, nothing, memfd_create("new", 0)) \
	X(shm_open, nothing, shm_open(name, MODES, 0600)) \
	X(mq_open, nothing, mq_open(name, MODES, 0600, NULL)) \
	X(__mq_open_2, nothing, __mq_open_2(name, O_RDWR)) \
	X(eventfd, nothing, eventfd(7, 0)) \
	X(timerfd_create, nothing, timerfd_create(CLOCK_MONOTONIC, 0)) \
	X(signalfd, nothing, signalfd(-1, &no_signals, 0)) \
	X(inotify_init, nothing, inotify_init()) \
	X(inotify_init1, nothing, inotify_init1(IN_CLOEXEC)) \
	X(fanotify_init, nothing, fanotify_init(FAN_CLASS_NOTIF | FAN_REPORT_FID, O_RDONLY)) \
	X(pidfd_open, nothing, pidfd_open(getpid(), 0)) \
	X(pidfd_getfd, pidfd, pidfd_getfd(helper[0], helper[1], 0)) \
	X(fsopen, nothing, fsopen("tmpfs", 0)) \
	X(fsmount, fs, other_mount(helper[0])) \
	X(fspick, nothing, fspick(AT_FDCWD, "/", 0)) \
	X(open_tree, nothing, open_tree(AT_FDCWD, path, 0)) \
	X(posix_openpt, nothing, posix_openpt(O_RDWR | O_NOCTTY)) \
	X(getpt, nothing, getpt()) \
	X(openpty, nothing, first(openpty(&two[0], &two[1], NULL, NULL, NULL))) \
	X(pipe, nothing, first(pipe(two))) \
	X(pipe2, nothing, first(pipe2(two, O_CLOEXEC))) \
	X(__pipe, nothing, first(__pipe(two))) \
	X(epoll_create, nothing, epoll_create(1)) \
	X(epoll_create1, nothing, epoll_create1(0)) \
	X(peer_pidfd, pair, peer_pidfd())

#define SOCKETS(X) \
	X(socket, nothing, socket(AF_INET, SOCK_STREAM, 0)) \
	X(socket_udp, nothing, socket(AF_INET, SOCK_DGRAM, 0)) \
	X(socketpair, nothing, first(socketpair(AF_UNIX, SOCK_STREAM, 0, two))) \
	X(rresvport, nothing, rresvport(&(int){ 1000 })) \
	X(rresvport_af, nothing, rresvport_af(&(int){ 1000 }, AF_INET)) \
	X(accept, listener, accept(helper[0], NULL, NULL)) \
	X(accept4, listener, accept4(helper[0], NULL, NULL, SOCK_NONBLOCK)) \
	X(dup, pidfd, dup(helper[1])) \
	X(dup2, pidfd, dup2(helper[1], freed)) \
	X(dup3, pidfd, dup3(helper[1], freed, O_CLOEXEC)) \
	X(fcntl, pidfd, fcntl(helper[1], F_DUPFD, 0)) \
	X(fcntl_cloexec, pidfd, fcntl(helper[1], F_DUPFD_CLOEXEC, 0)) \
	X(recvmsg, message, by_recvmsg(libc_recvmsg)) \
	X(recvmmsg, message, by_recvmsg(libc_recvmmsg))

#define NUMBERS(X) \
	X(nr_openat, nothing, syscall(SYS_openat, AT_FDCWD, path, O_RDWR, 0)) \
	X(nr_openat2, nothing, by_openat2()) \
	X(nr_memfd_create, nothing, syscall(SYS_memfd_create, "new", 0)) \
	X(nr_memfd_secret, nothing, syscall(SYS_memfd_secret, 0)) \
	X(nr_eventfd2, nothing, syscall(SYS_eventfd2, 3, 0)) \
	X(nr_timerfd, nothing, syscall(SYS_timerfd_create, CLOCK_MONOTONIC, 0)) \
	X(nr_signalfd4, nothing, syscall(SYS_signalfd4, -1, &no_signals, 8, 0)) \
	X(nr_inotify, nothing, syscall(SYS_inotify_init1, 0)) \
	X(nr_fanotify, nothing, syscall(SYS_fanotify_init, FAN_REPORT_FID, O_RDONLY)) \
	X(nr_userfaultfd, nothing, syscall(SYS_userfaultfd, O_NONBLOCK)) \
	X(nr_perf, nothing, by_perf()) \
	X(nr_bpf, nothing, by_bpf()) \
	X(nr_landlock, nothing, by_landlock()) \
	X(nr_pidfd_open, nothing, syscall(SYS_pidfd_open, getpid(), 0)) \
	X(nr_pidfd_getfd, pidfd, syscall(SYS_pidfd_getfd, helper[0], helper[1], 0)) \
	X(nr_fsopen, nothing, syscall(SYS_fsopen, "tmpfs", 0)) \
	X(nr_open_tree, nothing, syscall(SYS_open_tree, AT_FDCWD, path, 0)) \
	X(nr_mq_open, nothing, syscall(SYS_mq_open, name + 1, MODES, 0600, NULL)) \
	X(nr_pipe2, nothing, first((int)syscall(SYS_pipe2, two, 0))) \
	X(nr_socketpair, nothing, \
	  first((int)syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, two))) \
	X(nr_socket, nothing, syscall(SYS_socket, AF_INET, SOCK_STREAM, 0)) \
	X(nr_accept4, listener, syscall(SYS_accept4, helper[0], NULL, NULL, 0)) \
	X(nr_epoll_create1, nothing, syscall(SYS_epoll_create1, 0)) \
	X(nr_dup, pidfd, syscall(SYS_dup, helper[1])) \
	X(nr_dup3, pidfd, syscall(SYS_dup3, helper[1], freed, 0)) \
	X(nr_fcntl, pidfd, syscall(SYS_fcntl, helper[1], F_DUPFD, 0)) \
	X(nr_recvmsg, message, by_recvmsg(number_recvmsg)) \
	X(nr_clone_pidfd, nothing, by_clone())
/* clang-format on */

FILES(DEFINE)
STDIO(DEFINE)
KERNEL(DEFINE)
SOCKETS(DEFINE)
NUMBERS(DEFINE)

CASE(files, DIRECT | LONG_RUN, "open in all its forms, and temporary files")
{
	RUN(FILES);
}

CASE(stdio, DIRECT | LONG_RUN, "streams of stdio, directories, commands")
{
	RUN(STDIO);
}

CASE(kernel, DIRECT | LONG_RUN, "memory, events, timers, terminals, pipes and other objects")
{
	RUN(KERNEL);
}

CASE(sockets, DIRECT | LONG_RUN, "sockets, copies, descriptors in messages")
{
	RUN(SOCKETS);
}

CASE(by_number, DIRECT | LONG_RUN, "system calls by syscall()")
{
	RUN(NUMBERS);
}
