/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reuse_number.c - tests what reuse.c tests, with descriptors that syscall() makes.
 */
#include "reuse.h"

#include <linux/bpf.h>
#include <linux/openat2.h>
#include <linux/perf_event.h>
#include <sys/fanotify.h>

static long number_recvmsg(struct msghdr *m)
{
	return syscall(SYS_recvmsg, helper[1], m, 0);
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

/* clang-format off */
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

NUMBERS(DEFINE)

CASE(by_number, DIRECT | LONG_RUN, "system calls by syscall()")
{
	RUN(NUMBERS);
}
