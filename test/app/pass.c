/* SPDX-License-Identifier: BSD-2-Clause */
/* pass.c - tests SCM_RIGHTS, to programs that are preloaded and to others; and seccomp filters. */
#include "hand_over.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void pass(int via, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = IOV("f");
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cm), &fd, sizeof(fd));
	MUST(sendmsg(via, &msg, 0));
}

static int take(int via)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	int fd = -1;

	MUST(recvmsg(via, &msg, 0));
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

	if (cm)
		memcpy(&fd, CMSG_DATA(cm), sizeof(fd));
	return fd;
}

HELPER(take_and_serve)
{
	int via = atoi(argv[1]);
	int fd = take(via);
	char *args[] = { argv[0], number(fd), NULL };

	(void)argc;
	return helper_serve(2, args);
}

static int give_by(int fd, const char *helper, bool plain)
{
	int sv[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	pid_t pid = fork();

	if (!pid) {
		if (plain)
			unsetenv("LD_PRELOAD");
		close(sv[0]);
		execv(app_self(), app_self_argv(helper, number(sv[1]), NULL));
		_exit(127);
	}
	close(sv[1]);
	pass(sv[0], fd);
	close(fd);
	return reap_status(pid);
}

static int give_scm(int fd)
{
	return give_by(fd, "take_and_serve", false);
}

static int give_scm_plain(int fd)
{
	return give_by(fd, "take_and_serve", true);
}

CASE(scm_rights, DIRECT, "SCM_RIGHTS to another program, bytes queued")
{
	hand_over(give_scm);
}

CASE(scm_rights_not_preloaded, DIRECT,
     "SCM_RIGHTS to a program that is not preloaded, bytes queued")
{
	hand_over(give_scm_plain);
}

/* Hears "queued", then numbers that count up, to the end. */
HELPER(take_and_count)
{
	int fd = take(atoi(argv[1]));
	uint32_t is, n = 0;

	(void)argc;
	app_hear(fd, 6);
	while (app_read_full(fd, &is, sizeof(is)) == sizeof(is) && is == n)
		n++;
	LOG("helper: counted %u", n);
	return 0;
}

CASE(scm_rights_meanwhile, DIRECT,
     "SCM_RIGHTS to another program, bytes queued, while the peer sends")
{
	int fd = app_open(WARM | NODELAY);

	if (CLI) {
		SAY(fd, "queued");
		app_sync();
		for (uint32_t i = 0; i < 20000; i++)
			app_write_all(fd, &i, sizeof(i));
		app_close(fd);
		return;
	}
	app_await_inq(fd, 6);
	app_sync();
	LOG("given: %d", give_by(fd, "take_and_count", false));
	close(fd);
}

CASE(scm_rights_self, DIRECT, "a descriptor passed to oneself is one more copy")
{
	int fd = app_open(WARM);
	int sv[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	if (SRV) {
		app_await_inq(fd, 6);
		pass(sv[0], fd);
		int copy = take(sv[1]);

		LOG("number %d", copy);
		app_hear(copy, 3);
		app_hear(fd, 3);
		SAY(copy, "copy ");
		R(close(fd));
		SAY(copy, "alone");
		R(close(copy));
	} else {
		SAY(fd, "abcdef");
		app_drain(fd, "drained");
		app_close(fd);
	}
}

CASE(scm_rights_in_flight, DIRECT,
     "passed, closed, only then received: the stream lives in the message")
{
	int fd = app_open(WARM);
	int sv[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	if (SRV) {
		pass(sv[0], fd);
		R(close(fd));
		app_sync();
		app_sync();
		int copy = take(sv[1]);

		app_hear(copy, 9);
		SAY(copy, "found");
		R(close(copy));
	} else {
		app_sync();
		SAY(fd, "to nobody");
		app_sync();
		app_drain(fd, "drained");
		app_close(fd);
	}
}

/*
 * --- programs that bypass libc -------------------------------------------------------------------
 */

CASE(seccomp_prctl, DIRECT, "a seccomp filter by prctl: the data go on")
{
	int fd = app_open(WARM);
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, allow };

	if (SRV) {
		app_await_inq(fd, 4);
		R(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
		R(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog));
		app_hear(fd, 4);
		R(app_send_pattern(fd, 300000, 10000, 1));
		R(app_recv_pattern(fd, 300000, 10000, 2));
	} else {
		SAY(fd, "data");
		R(app_recv_pattern(fd, 300000, 10000, 1));
		R(app_send_pattern(fd, 300000, 10000, 2));
	}
	app_sync();
	app_close(fd);
}

CASE(seccomp_syscall, DIRECT, "a seccomp filter by syscall(): the data go on")
{
	int fd = app_open(WARM);
	struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { 1, allow };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	R(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
	R(syscall(SYS_getppid) > 0);
	R(syscall(SYS_close, -1));
	if (CLI)
		R(app_send_pattern(fd, 300000, 10000, 2));
	else
		R(app_recv_pattern(fd, 300000, 10000, 2));
	app_sync();
	app_close(fd);
}
