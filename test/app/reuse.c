/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reuse.c - tests a direct stream's number that is closed by a call that no hook sees, and made
 * anew by every function that makes a descriptor, one by one: what is written there goes there,
 * what is read there comes from there, and the stream's peer sees its end and nothing else. reuse.h
 * runs the rows of a table; reuse_number.c has those that make system calls by number.
 */
#include "reuse.h"

#include <dirent.h>
#include <mntent.h>
#include <mqueue.h>
#include <netdb.h>
#include <pty.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mount.h>
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

static int of_file(FILE *f)
{
	file = f;
	return f ? fileno(f) : -1;
}

static int of_dir(DIR *d)
{
	return d ? dirfd(d) : -1;
}

static void with_sign(void)
{
	MUST(pipe(helper));
}

/* A command whose output has ended when it gives a sign. */
static const char *shuts_and_signs(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "exec >&-; echo >/proc/self/fd/%d", helper[1]);
	return text;
}

static FILE *after_sign(FILE *f)
{
	char sign;

	MUST(read(helper[0], &sign, 1));
	return f;
}

static char *temp(const char *suffix)
{
	snprintf(template, sizeof(template), "/tmp/app_reuse.XXXXXX%s", suffix);
	return template;
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

static void with_dir(void)
{
	helper[0] = (int)MUST(open("/tmp", O_DIRECTORY | O_RDONLY));
}

static void with_fs(void)
{
	helper[0] = fsopen("tmpfs", 0);
}

static long libc_recvmsg(struct msghdr *m)
{
	return recvmsg(helper[1], m, 0);
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

/* clang-format off */
#if __GLIBC_PREREQ(2, 43)
#define OF_NEWER_LIBC(X) \
	X(openat2, dir, openat2(helper[0], path + 5, &(struct open_how){ .flags = O_RDWR }, \
				sizeof(struct open_how)))
#else
#define OF_NEWER_LIBC(X)
#endif

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
	X(popen_read, sign, of_file(after_sign(popen(shuts_and_signs(), "r")))) \
	X(_IO_popen, slave, of_file(_IO_popen("cat >/dev/null", "w"))) \
	X(opendir, nothing, of_dir(opendir("/tmp"))) \
	OF_NEWER_LIBC(X)

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
/* clang-format on */

FILES(DEFINE)
STDIO(DEFINE)
KERNEL(DEFINE)
SOCKETS(DEFINE)

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
